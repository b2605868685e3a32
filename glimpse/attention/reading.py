"""Attention: a distribution over places, and two ways to read from it.

Everything that attends in this package goes through `read`. The hard read samples a place and is trained by
REINFORCE, with the log-probability it returns; the soft read is the expectation over all places and is trained by
back-propagation. What a place is makes the difference between the two modules:

* `LocationAttention`: a point of the plane. Reads patches from a `sensor.View`.
* `Attention`: one of L annotation vectors. Reads a context vector from `Annotations`.

In other words for the same things: the state is the query (the "scratchpad"), the annotations are keys and values
(the "notes"), the scorer gives the relevance of each, a window may keep to those near a point ("local" attention), and
what is read is the context vector.

Papers: Recurrent Models of Visual Attention (arXiv:1406.6247), 3.1 and 3.2; Show, Attend and Tell
(arXiv:1502.03044), 4.1 stochastic "hard" and 4.2 deterministic "soft" attention. Those of the scorers and of the window
are named in `scorers.py` and `window.py`.

Shapes: B batch, L places, N axes along which they lie, A annotation size, D state size, E size of the space where
scores are computed.
"""

import math
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from glimpse.places import Categorical, Gaussian, Noise
from glimpse.scorers import SCORERS
from glimpse.window import Window, in_a_row, on_a_grid

Read = Literal["hard", "soft"]


def check_how(how: str) -> None:
    """Refuse an unknown way to read."""
    if how not in ("hard", "soft"):
        raise ValueError(f"how must be 'hard' or 'soft', got {how!r}")


class Reading(NamedTuple):
    """What one look gave."""

    context: Tensor  # (B, ...): what was read: patches, or a context vector
    place: Tensor  # (B, 2) or (B,): where: the place read (hard), or the most likely one (soft)
    log_prob: Tensor | None  # (B,): of the place chosen; None when soft
    attention: Gaussian | Categorical  # the distribution it was read from


class Memory(Protocol):
    """What can be read: at one place, or averaged over a distribution of places."""

    def at(self, place: Tensor) -> Tensor:
        """Return what is there (B, ...)."""

    def expect(self, attention: Gaussian | Categorical) -> Tensor:
        """Return the expectation of `at` (B, ...)."""


def read(
    attention: Gaussian | Categorical, memory: Memory, how: Read, *, sample: bool = True, noise: Noise | None = None
) -> Reading:
    """Read from memory where attention is: the one idea of this package.

    Which gradient goes where. Soft: back-propagation reaches the distribution through the expectation. Hard: the place
    is a number like any other, cut off from the graph, so what is read tells the distribution nothing; only the
    log-probability leads back to it.

    Args:
        attention: Where to look.
        memory: What to look at.
        how: "soft" averages over all places, "hard" picks one.
        sample: Whether a hard read samples its place, or takes the most likely one (greedy).
        noise: The chance to sample with.
    """
    check_how(how)
    if how == "soft":
        return Reading(memory.expect(attention), attention.mode(), None, attention)
    place = attention.sample(noise or Noise()) if sample else attention.mode().detach()
    return Reading(memory.at(place), place, attention.log_prob(place), attention)


class Attends(nn.Module):
    """What the two attentions share: `where` says where to look, `forward` looks there."""

    looks = True  # at the world, so that it learns at the rate of what decides where to look; else at own states

    def __init__(self, how: Read):
        super().__init__()
        check_how(how)
        self.how: Read = how

    def where(self, state: Tensor, memory: Memory) -> Gaussian | Categorical:
        """Return the distribution over places, given the state (B, D)."""
        raise NotImplementedError

    def forward(
        self,
        state: Tensor,
        memory: Memory,
        *,
        how: Read | None = None,
        sample: bool = True,
        noise: Noise | None = None,
    ) -> Reading:
        """Decide by the state (B, D) where to look, and read there (see `read`; `how` overrides the module's own)."""
        attention, how = self.where(state, memory), how or self.how
        if how == "soft":
            self.bound(attention)
        return read(attention, memory, how, sample=sample, noise=noise)

    def bound(self, attention: Gaussian | Categorical) -> None:
        """Bound the gradient that a soft read will send back to its distribution; here, not at all."""


class LocationAttention(Attends):
    """Attention to points of the plane: a state gives a Gaussian over locations.

    Departures from RAM: the mean may be squashed by tanh, which keeps it (not the samples) on the image; the std may be
    learned; and the read may be soft.
    """

    std: Tensor

    def __init__(
        self,
        *,
        state_dim: int,
        how: Read = "hard",
        std: float = 0.1,
        learn_std: bool = False,
        squash: bool = True,
        clip: float | None = None,
        min_std: float = 0.01,
    ):
        """Create the location head.

        Args:
            state_dim: Size of the state that decides where to look.
            how: Whether places are sampled ("hard") or averaged over ("soft").
            std: Standard deviation of the location, where the half side of the image is 1; a schedule may change it
                later (`set_std`). With `learn_std`, where learning starts.
            learn_std: Whether the state decides the std as well.
            squash: Whether the mean goes through tanh.
            clip: Largest norm of the gradient that a soft read sends back to the mean, of one example; None for no
                limit. Where one looks depends on what was seen, which depends on where one looked: the gradient may
                grow several times over through every glimpse that it passes on its way back.
            min_std: The least std that can be learned.
        """
        super().__init__(how)
        if not std > 0:
            raise ValueError(f"std must be positive, got {std}")
        if clip is not None and not clip > 0:
            raise ValueError(f"clip must be None or positive, got {clip}")
        self.squash = squash
        self.clip = clip
        self.min_std = min_std
        self.head = nn.Linear(state_dim, 2)
        self.std_head = nn.Linear(state_dim, 2) if learn_std else None
        self.register_buffer("std", torch.tensor(float(std)))
        if self.std_head is not None:
            nn.init.zeros_(self.std_head.weight)
            nn.init.constant_(self.std_head.bias, math.log(math.expm1(max(std - min_std, 1e-3))))

    def set_std(self, std: float) -> None:
        """Set the fixed std, as a schedule does; it is saved with the weights."""
        self.std.fill_(std)

    def where(self, state: Tensor, memory: Memory | None = None) -> Gaussian:
        """Return a Gaussian over the plane, given the state (B, D); what is there to see has no say in it."""
        mean = self.head(state)
        if self.squash:
            mean = mean.tanh()
        if self.std_head is not None:
            return Gaussian(mean, self.min_std + nn.functional.softplus(self.std_head(state)))
        return self.around(mean)

    def bound(self, attention: Gaussian) -> None:
        """Clip the gradient of each mean by itself.

        Losses are means over the batch, so of an example's own gradient one part in B arrives here.
        """
        if self.clip is None or not attention.mean.requires_grad:
            return
        largest = self.clip / len(attention.mean)
        attention.mean.register_hook(lambda g: g * (largest / g.norm(dim=1, keepdim=True).clamp(min=largest)))

    def around(self, mean: Tensor) -> Gaussian:
        """A Gaussian of the fixed std around given points (B, 2)."""
        return Gaussian(mean, self.std.expand_as(mean))


class Annotations(NamedTuple):
    """L annotation vectors of each example, with what scorer and window need of them computed once."""

    values: Tensor  # (B, L, A)
    keys: Tensor  # (B, L, E)
    mask: Tensor | None  # (B, L), true where there is an annotation
    positions: Tensor | None = None  # (B, L, N), where they are; None without a window
    extent: Tensor | None = None  # (B, N), how far they reach; None without a window

    def at(self, place: Tensor) -> Tensor:
        """The annotations (B, A) at the indices (B,)."""
        return self.values[torch.arange(len(place), device=place.device), place]

    def expect(self, attention: Categorical) -> Tensor:
        """The weighted sum of all annotations (B, A)."""
        return (attention.weights.unsqueeze(1) @ self.values).squeeze(1)

    def rows(self, index: Tensor) -> "Annotations":
        """Those of some of the examples only."""
        return Annotations(*(None if field is None else field[index] for field in self))


def check_mask(mask: Tensor | None, annotations: Tensor) -> None:
    """Refuse a mask that is not (B, L) for annotations (B, L, A), or leaves an example with none of them."""
    if mask is None:
        return
    if mask.shape != annotations.shape[:2] or mask.dtype != torch.bool:
        raise ValueError(
            f"mask must be bool of shape {tuple(annotations.shape[:2])}, got {mask.dtype} {tuple(mask.shape)}"
        )
    if not bool(mask.any(1).all()):
        raise ValueError("mask leaves an example with no annotation to look at")


class Attention(Attends):
    """Attention to annotations: a state gives a distribution over the L annotations of its example."""

    def __init__(
        self,
        *,
        state_dim: int,
        annotation_dim: int,
        how: Read = "soft",
        scorer: str = "additive",
        dim: int = 128,
        window: int | None = None,
        axes: int = 1,
    ):
        """Create the attention.

        Args:
            state_dim: Size D of the state that asks.
            annotation_dim: Size A of an annotation.
            how: Whether one annotation is picked ("hard") or all are averaged ("soft").
            scorer: A key of `SCORERS`.
            dim: Size E of the space where additive and scaled dot-product scores are computed, and of the hidden layer
                that places the window.
            window: How many places to look to either side of a point that the state predicts; None for all there are.
            axes: With a window, the number N of axes along which annotations lie: 1 in a row, 2 on a grid.
        """
        super().__init__(how)
        if scorer not in SCORERS:
            raise ValueError(f"scorer must be one of {', '.join(SCORERS)}, got {scorer!r}")
        self.scorer = SCORERS[scorer](state_dim=state_dim, annotation_dim=annotation_dim, dim=dim)
        self.window = None if window is None else Window(state_dim=state_dim, dim=dim, reach=window, axes=axes)

    def annotate(
        self,
        annotations: Tensor,
        mask: Tensor | None = None,
        *,
        grid: tuple[int, int] | None = None,
        detach_keys: bool = False,
    ) -> Annotations:
        """Prepare annotations for any number of looks.

        Args:
            annotations: (B, L, A).
            mask: (B, L), true where there is an annotation; all of them if not given.
            grid: The rows and columns that make up L, of which only a window along two axes takes note; it needs them.
            detach_keys: Keep the gradient of where to look from what made the annotations; that of what is seen passes.
        """
        if annotations.dim() != 3:
            raise ValueError(f"annotations must have shape (B, L, A), got {tuple(annotations.shape)}")
        check_mask(mask, annotations)
        keys = self.scorer.key(annotations.detach() if detach_keys else annotations)
        values = self.scorer.value(annotations)
        if self.window is None:
            return Annotations(values, keys, mask)
        if self.window.axes == 1:
            return Annotations(values, keys, mask, *in_a_row(annotations, mask))
        if grid is None or mask is not None:
            raise ValueError(
                "a window along 2 axes needs the grid of the annotations and no mask, "
                f"got {'no grid' if grid is None else 'a mask'}"
            )
        return Annotations(values, keys, mask, *on_a_grid(annotations, grid))

    def where(self, state: Tensor, memory: Annotations) -> Categorical:
        """Return a distribution over the annotations, given the state (B, D)."""
        logits = self.scorer(state, memory.keys)
        if self.window is not None:
            if memory.positions is None:
                raise ValueError("memory must have positions for a window, as `annotate` of this attention gives them")
            logits = logits + self.window(state, memory.positions, memory.extent)
        if memory.mask is not None:
            logits = logits.masked_fill(~memory.mask, -math.inf)
        return Categorical(logits)
