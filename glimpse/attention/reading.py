"""Attention: a distribution over places, and two ways to read from it.

Everything that attends in this package goes through `read`. The hard read samples a place and is trained by
REINFORCE, with the log-probability it returns; the soft read is the expectation over all places and is trained by
back-propagation. What a place is makes the difference between the two modules:

* `LocationAttention`: a point of the plane. Reads patches from a `sensor.View`.
* `Attention`: one of L annotation vectors. Reads a context vector from `Annotations`.

In other words for the same things: the state is the query (the "scratchpad"), the annotations are keys and values
(the "notes"), the scorer gives the relevance of each, a window may keep to those near a point ("local" attention), and
what is read is the context vector.

What is read forward and which gradient flows back are two things: a straight-through read is hard forward and soft
backward. It is an estimator's choice, and no third mode.

Papers: Recurrent Models of Visual Attention (arXiv:1406.6247), 3.1 and 3.2; Show, Attend and Tell
(arXiv:1502.03044), 4.1 stochastic "hard" and 4.2 deterministic "soft" attention. Those of the scorers and of the window
are named in `scorers.py` and `window.py`. Straight-through: arXiv:1308.3432, section 4.

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

    context: Tensor  # (B, ...): what was read: patches, or a context vector
    place: Tensor  # (B, P) or (B,): where: the place read (hard), or the most likely one (soft)
    log_prob: Tensor | None  # (B,): of that place; None when all places were averaged (soft)
    attention: Distribution  # the distribution it was read from


class Memory(Protocol[_Given]):
    """What can be read: at one place, or averaged over a distribution of places."""

    def at(self, place: Tensor, /) -> Tensor:
        """Return what is there (B, ...)."""

    def expect(self, attention: _Given, /) -> Tensor:
        """Return the expectation of `at` (B, ...)."""

    def rows(self, index: Tensor, /) -> Self:
        """Return the memory of some of the examples only."""


def read(
    attention: Distribution,
    memory: Memory[Distribution],
    mode: ReadMode,
    *,
    sample: bool = True,
    noise: Noise | None = None,
    straight_through: bool = False,
) -> Reading[Distribution]:
    """Read from memory where attention is: the one idea of this package.

    Which gradient goes where. Soft: back-propagation reaches the distribution through the expectation. Hard: the place
    is a number like any other, cut off from the graph, so what is read tells the distribution nothing; only the
    log-probability leads back to it. Hard and straight-through: the place and what is read there are those of the hard
    read, and their gradient is that of the soft read, to the distribution and to the memory. It has no variance beside
    that of the forward pass, and a bias wherever the loss is not linear in what is read.

    Args:
        attention: Where to look.
        memory: What to look at.
        mode: "soft" averages over all places, "hard" picks one.
        sample: Whether a hard read samples its place, or takes the most likely one (greedy).
        noise: The random numbers to sample with.
        straight_through: Whether the gradient of a hard read is that of the soft one; of no effect on a soft read.
    """
    if mode not in ("hard", "soft"):
        raise ValueError(f"mode must be 'hard' or 'soft', got {mode!r}")
    if mode == "soft":
        return Reading(memory.expect(attention), attention.mode(), None, attention)
    place = attention.sample(noise or Noise()) if sample else attention.mode().detach()
    reading = Reading(memory.at(place), place, attention.log_prob(place), attention)
    return _with_soft_gradient(reading, memory) if straight_through else reading


def _with_soft_gradient(reading: Reading[Distribution], memory: Memory[Distribution]) -> Reading[Distribution]:
    """A hard reading whose context and place have the gradient of the soft one; the log-probability keeps its own."""
    context = _with_gradient_of(memory.expect(reading.attention), reading.context)
    if not reading.place.is_floating_point():  # the index of an annotation has no gradient
        return reading._replace(context=context)
    return reading._replace(context=context, place=_with_gradient_of(reading.attention.mode(), reading.place))


def _with_gradient_of(expectation: Tensor, value: Tensor) -> Tensor:
    """The value, with the gradient of the expectation: what is added to it is exactly zero."""
    return value.detach() + (expectation - expectation.detach())


class AttentionBase(nn.Module, Generic[Distribution]):
    """What the two attentions share: `where` says where to look, `forward` looks there."""

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
        """Decide by the state (B, D) where to look, and read there (see `read`; `mode` overrides the module's own)."""
        attention, mode = self.where(state, memory), mode or self.mode
        if mode == "soft" or straight_through:
            self.clip_gradient(attention)
        return read(attention, memory, mode, sample=sample, noise=noise, straight_through=straight_through)

    def clip_gradient(self, attention: Distribution) -> None:
        """Clip the gradient that an expectation will send back to its distribution; here, not at all."""


class LocationAttention(AttentionBase[Gaussian]):
    """Attention to points of the plane: a state gives a Gaussian over locations.

    Departures from RAM: the mean may go through tanh, which keeps it (not the samples) on the image; the std may be
    learned; and the read may be soft.
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
            state_dim: Size of the state that decides where to look.
            mode: Whether places are sampled ("hard") or averaged over ("soft").
            std: Standard deviation of the location, where the half side of the image is 1; a schedule may change it
                later (`set_std`). With `learn_std`, where learning starts.
            learn_std: Whether the state decides the std as well.
            tanh_mean: Whether the mean goes through tanh.
            max_grad_norm: Largest norm of the gradient that a soft or straight-through read sends back to the mean, of
                one example; None for no limit. Where one looks depends on what was seen, which depends on where one
                looked: the gradient may grow several times over through every glimpse that it passes on its way back.
            min_std: The least std that can be learned.
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
        """Set the fixed std, as a schedule does; it is saved with the weights."""
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
        """Clip the gradient of each mean by itself.

        Losses are means over the batch, so of an example's own gradient one part in B arrives here.
        """
        if self.max_grad_norm is None or not attention.mean.requires_grad:
            return
        largest = self.max_grad_norm / len(attention.mean)
        attention.mean.register_hook(lambda g: g * (largest / g.norm(dim=1, keepdim=True).clamp(min=largest)))

    def at_fixed_std(self, mean: Tensor) -> Gaussian:
        """A Gaussian of the fixed std around given points (B, P)."""
        return Gaussian(mean, self.std.expand_as(mean))


P = ParamSpec("P")
R = TypeVar("R")


def renamed_keywords(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function whose keywords have changed: one of version 0.1 is a TypeError that names the new one."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def checked(*args: P.args, **options: P.kwargs) -> R:
            if old := next((name for name in names if name in options), None):
                raise TypeError(f"the keyword {old} is now {names[old]}")
            return function(*args, **options)

        return checked

    return decorate
