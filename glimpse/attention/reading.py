"""Attention: a distribution over places, and two ways to read from it.

Every attention of this package reads through `read`. A hard read samples a place and is trained by REINFORCE, with the
log-probability it returns; a soft read is the expectation over all places and is trained by back-propagation. There are
two modules, which differ in what a place is:

* `LocationAttention`: a point of the plane. Reads patches from a `sensor.View`.
* `Attention`: one of L annotation vectors. Reads a context vector from `Annotations`.

Terms: the state is the query, the annotations are keys and values, the scorer computes the logits, a window restricts
them to a neighborhood of a predicted point ("local" attention), and the result of a read is the context vector.

A straight-through read is hard in the forward pass and soft in the backward pass. The estimator chooses it; it is not
a third read mode.

Papers: Recurrent Models of Visual Attention (arXiv:1406.6247), 3.1 and 3.2; Show, Attend and Tell
(arXiv:1502.03044), 4.1 stochastic "hard" and 4.2 deterministic "soft" attention; straight-through: arXiv:1308.3432,
section 4. For scorers and windows see `scorers.py` and `window.py`.

Shapes: B batch, L places, P numbers of a location (2 on the plane), N axes along which annotations lie, A annotation
size, D state size, E size of the space where scores are computed.
"""

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, NamedTuple, ParamSpec, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn

from glimpse.attention.distributions import Categorical, Gaussian, Noise
from glimpse.attention.settings import ReadMode

Distribution = TypeVar("Distribution", bound=Gaussian | Categorical)
_Given = TypeVar("_Given", bound=Gaussian | Categorical, contravariant=True)


class Reading(NamedTuple, Generic[Distribution]):
    """The result of one read."""

    context: Tensor  # (B, ...): patches, or a context vector
    place: Tensor  # (B, P) or (B,): the place read (hard), or the most likely one (soft)
    log_prob: Tensor | None  # (B,): log-probability of the place; None of a soft read
    attention: Distribution  # the distribution over places


class Memory(Protocol[_Given]):
    """Values at places, which can be read at one place or averaged over a distribution of places."""

    def at(self, place: Tensor, /) -> Tensor:
        """Return the values (B, ...) at one place per example."""

    def expect(self, attention: _Given, /) -> Tensor:
        """Return the expectation of `at` (B, ...)."""

    def rows(self, index: Tensor, /) -> Self:
        """Return the memory of a subset of the examples."""


def read(
    attention: Distribution,
    memory: Memory[Distribution],
    mode: ReadMode,
    *,
    sample: bool = True,
    noise: Noise | None = None,
    straight_through: bool = False,
) -> Reading[Distribution]:
    """Read from a memory under a distribution over places.

    Gradients. Soft: back-propagation reaches the distribution through the expectation. Hard: the place is detached, so
    only the log-probability has a gradient to the distribution. Hard and straight-through: context and place are those
    of the hard read, and their gradient, to the distribution and to the memory, is that of the soft read. It has no
    variance besides that of the forward pass, and is biased unless the loss is linear in the context.

    Args:
        attention: Distribution over places.
        memory: Values to read.
        mode: "soft" averages over all places, "hard" picks one.
        sample: Whether a hard read samples its place; otherwise it takes the most likely one (greedy).
        noise: Random numbers to sample with; None: torch's global generator.
        straight_through: Whether a hard read has the gradient of the soft read; no effect on a soft read.

    Returns:
        The reading, with a context of the same shape in both modes.
    """
    if mode not in ("hard", "soft"):
        raise ValueError(f"mode must be 'hard' or 'soft', got {mode!r}")
    if mode == "soft":
        return Reading(memory.expect(attention), attention.mode(), None, attention)
    place = attention.sample(noise or Noise()) if sample else attention.mode().detach()
    reading = Reading(memory.at(place), place, attention.log_prob(place), attention)
    return _with_soft_gradient(reading, memory) if straight_through else reading


def _with_soft_gradient(reading: Reading[Distribution], memory: Memory[Distribution]) -> Reading[Distribution]:
    """Give context and place of a hard reading the gradient of the soft read; the log-probability keeps its own."""
    context = _with_gradient_of(memory.expect(reading.attention), reading.context)
    if not reading.place.is_floating_point():  # the index of an annotation has no gradient
        return reading._replace(context=context)
    return reading._replace(context=context, place=_with_gradient_of(reading.attention.mode(), reading.place))


def _with_gradient_of(expectation: Tensor, value: Tensor) -> Tensor:
    """Return the value with the gradient of the expectation; the term that is added is exactly zero."""
    return value.detach() + (expectation - expectation.detach())


class AttentionBase(nn.Module, Generic[Distribution]):
    """Base class of attention modules: `where` computes the distribution over places, `forward` reads under it."""

    def __init__(self, mode: ReadMode):
        super().__init__()
        if mode not in ("hard", "soft"):
            raise ValueError(f"mode must be 'hard' or 'soft', got {mode!r}")
        self.mode: ReadMode = mode

    def where(self, state: Tensor, memory: Any) -> Distribution:
        """Return the distribution over places, given the state (B, D)."""
        raise NotImplementedError

    def forward(
        self,
        state: Tensor,
        memory: Memory[Distribution],
        *,
        mode: ReadMode | None = None,
        sample: bool = True,
        noise: Noise | None = None,
        straight_through: bool = False,
    ) -> Reading[Distribution]:
        """Compute the attention of the state (B, D), and read from the memory.

        Args:
            state: (B, D).
            memory: Values to read.
            mode: Read mode, "hard" or "soft"; None: the module's own mode.
            sample: See `read`.
            noise: See `read`.
            straight_through: See `read`.
        """
        attention, mode = self.where(state, memory), mode or self.mode
        if mode == "soft" or straight_through:
            self.clip_gradient(attention)
        return read(attention, memory, mode, sample=sample, noise=noise, straight_through=straight_through)

    def clip_gradient(self, attention: Distribution) -> None:
        """Clip the gradient of an expectation with respect to its distribution; the base class does not clip."""

    def set_std(self, std: float) -> None:
        """Set the fixed std of the location; no effect on attention to annotations."""


class LocationAttention(AttentionBase[Gaussian]):
    """Attention to points of the plane: a state gives a Gaussian over locations.

    Departures from RAM: the mean can go through tanh, which keeps it (not the samples) on the image; the std can be
    learned; the read can be soft.
    """

    location_dim = 2  # x and y
    std: Tensor

    def __init__(
        self,
        *,
        state_dim: int,
        mode: ReadMode = "hard",
        std: float = 0.1,
        learn_std: bool = False,
        tanh_mean: bool = True,
        max_grad_norm: float | None = None,
        min_std: float = 0.01,
    ):
        """Create the location head.

        Args:
            state_dim: Size D of the state.
            mode: Read mode, "hard" (sampled places) or "soft" (averaged over places).
            std: Standard deviation of the location, in units of half the image side; `set_std` changes it later. With
                `learn_std`, the initial value.
            learn_std: Whether the std is a function of the state.
            tanh_mean: Whether the mean goes through tanh.
            max_grad_norm: Maximum norm, per example, of the gradient of a soft or straight-through read with respect
                to the mean; None for no limit. A location depends on earlier readings, which depend on earlier
                locations, so the gradient can grow by a factor at every glimpse that it passes.
            min_std: Lower bound of a learned std.
        """
        super().__init__(mode)
        if not std > 0:
            raise ValueError(f"std must be positive, got {std}")
        if max_grad_norm is not None and not max_grad_norm > 0:
            raise ValueError(f"max_grad_norm must be None or positive, got {max_grad_norm}")
        self.tanh_mean = tanh_mean
        self.max_grad_norm = max_grad_norm
        self.min_std = min_std
        self.head = nn.Linear(state_dim, self.location_dim)
        self.std_head = nn.Linear(state_dim, self.location_dim) if learn_std else None
        self.register_buffer("std", torch.tensor(float(std)))
        if self.std_head is not None:
            nn.init.zeros_(self.std_head.weight)
            nn.init.constant_(self.std_head.bias, math.log(math.expm1(max(std - min_std, 1e-3))))

    def set_std(self, std: float) -> None:
        """Set the fixed std, for a schedule; it is saved with the weights."""
        self.std.fill_(std)

    def where(self, state: Tensor, memory: Any = None) -> Gaussian:
        """Return a Gaussian over the plane, given the state (B, D); it does not depend on the memory."""
        mean = self.head(state)
        if self.tanh_mean:
            mean = mean.tanh()
        if self.std_head is not None:
            return Gaussian(mean, self.min_std + nn.functional.softplus(self.std_head(state)))
        return self.at_fixed_std(mean)

    def clip_gradient(self, attention: Gaussian) -> None:
        """Clip the norm of the gradient of each example's mean.

        Losses are means over the batch, so the gradient here is 1 / B of the gradient of an example's own loss.
        """
        if self.max_grad_norm is None or not attention.mean.requires_grad:
            return
        largest = self.max_grad_norm / len(attention.mean)
        attention.mean.register_hook(lambda g: g * (largest / g.norm(dim=1, keepdim=True).clamp(min=largest)))

    def at_fixed_std(self, mean: Tensor) -> Gaussian:
        """Return a Gaussian of the fixed std around the points (B, P)."""
        return Gaussian(mean, self.std.expand_as(mean))


P = ParamSpec("P")
R = TypeVar("R")


def renamed_keywords(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function whose arguments were renamed: an old name raises a TypeError that gives the new one."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def checked(*args: P.args, **options: P.kwargs) -> R:
            for old, new in names.items():
                if old in options:
                    raise TypeError(f"the argument {old} has been renamed to {new}")
            return function(*args, **options)

        return checked

    return decorate
