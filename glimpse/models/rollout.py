"""Records of a rollout: the prepared images, the state after each glimpse, each step, and all T steps stacked.

Shapes: B batch, T glimpses, N choices (the glimpses that attention places, which are the last ones), P numbers of a
location (2 on the plane), D state, E glimpse vector, L cells of the grid.
"""

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from glimpse.attention.annotation import Annotations
from glimpse.attention.distributions import Noise
from glimpse.attention.placement import PlacementRule
from glimpse.attention.reading import LocationAttention, Reading
from glimpse.attention.settings import ReadMode

CoreState = tuple[Tensor, ...]  # the hidden state h (B, D), and the cell state c (B, D) of an LSTM


class Glimpse(NamedTuple):
    """An encoded glimpse."""

    vector: Tensor  # (B, E), the input of the core
    location: Tensor  # (B, P), where it was read; soft: the mean of the attention
    std: Tensor  # (B, P), of the attention
    attention_weights: Tensor | None = None  # (B, L), over the cells of a grid; None on the plane


class State(NamedTuple):
    """The state of a model after t glimpses, with its prediction."""

    core: CoreState  # its first tensor (B, D) is the hidden state
    memory: Annotations | None = None  # all hidden states so far; None without a state memory, and before a glimpse
    logits: Tensor | None = None  # (B, classes); None before the first glimpse
    halt_logits: Tensor | None = None  # (B,), of the probability of stopping here; None without a halting unit
    memory_weights: Tensor | None = None  # (B, t), attention over the states so far; None without a state memory

    def rows(self, index: Tensor) -> "State":
        """The state of a subset of the batch."""
        memory = None if self.memory is None else self.memory.rows(index)
        rest = (None if field is None else field[index] for field in self[2:])
        return State(tuple(part[index] for part in self.core), memory, *rest)


class Scene(NamedTuple):
    """The prepared images of a rollout, and the options of its reads (see `RecurrentAttention.forward`)."""

    images: Tensor  # (B, C, H, W)
    memory: Any  # what is read, an `attention.reading.Memory` made from the images
    num_glimpses: int  # T
    dtype: torch.dtype  # of the model and of locations
    mode: ReadMode
    sample: bool
    straight_through: bool
    noise: Noise
    boxes: Tensor | None = None  # (B, boxes, 4), of the digits in pixels
    locations: Tensor | None = None  # (B, T, P), of the glimpses that are not choices; None: placed by their rule
    location_dim: int = LocationAttention.location_dim  # P

    def rows(self, index: Tensor) -> "Scene":
        """The scene of a subset of the batch."""
        return self._replace(
            images=self.images[index],
            memory=self.memory.rows(index),
            noise=self.noise.rows(index, len(self.images)),
            boxes=None if self.boxes is None else self.boxes[index],
            locations=None if self.locations is None else self.locations[index],
        )


class GlimpseStep(NamedTuple):
    """One step of a rollout."""

    before: State  # the state before the glimpse, from which its location was chosen
    reading: Reading[Any]  # where the glimpse was read, and what was read there
    glimpse: Glimpse  # the input of the core
    state: State  # the state after the glimpse


class Rollout(NamedTuple):
    """The T steps of a rollout, stacked."""

    logits: Tensor  # (B, T, classes), the prediction after each glimpse
    locations: Tensor  # (B, T, P), where each glimpse was read; soft: the mean of the attention
    stds: Tensor  # (B, T, P), of the attention
    log_probs: Tensor | None  # (B, N), of the locations chosen; None when soft
    entropies: Tensor  # (B, N), of the attention at each choice
    baselines: Tensor | None  # (B, N), predicted return before each choice; None without a baseline
    attention_weights: Tensor | None  # (B, T, L), over the cells of a grid; None on the plane
    glimpse_vectors: Tensor  # (B, T, E), the inputs of the core
    halt_logits: Tensor | None = None  # (B, T), of stopping after each glimpse; None without a halting unit
    memory_weights: Tensor | None = None  # (B, T, T), attention over the states so far; None without a state memory

    @classmethod
    def without_glimpses(cls, logits: Tensor) -> "Rollout":
        """The rollout of a model that takes no glimpses, with its logits (B, T, classes)."""
        empty = logits.new_zeros(len(logits), 0)
        no_locations = logits.new_zeros(len(logits), 0, LocationAttention.location_dim)
        return cls(
            logits=logits,
            locations=no_locations,
            stds=no_locations,
            log_probs=empty,
            entropies=empty,
            baselines=None,
            attention_weights=None,
            glimpse_vectors=empty.unsqueeze(-1),
        )

    def glimpse(self, t: int) -> Glimpse:
        """Glimpse t, counted from 0."""
        weights = None if self.attention_weights is None else self.attention_weights[:, t]
        return Glimpse(self.glimpse_vectors[:, t], self.locations[:, t], self.stds[:, t], weights)

    # Deprecated names of version 0.1

    @property
    def weights(self) -> Tensor | None:
        """Old name of `attention_weights`."""
        return self.attention_weights

    @property
    def glimpses(self) -> Tensor:
        """Old name of `glimpse_vectors`."""
        return self.glimpse_vectors

    @property
    def halting(self) -> Tensor | None:
        """Old name of `halt_logits`."""
        return self.halt_logits

    @property
    def recalled(self) -> Tensor | None:
        """Old name of `memory_weights`."""
        return self.memory_weights


class Policy(Protocol):
    """Places the glimpses of a rollout, and reads them."""

    @property
    def name(self) -> str:
        """The name of a rule, or "learned"."""

    @property
    def detach_state(self) -> bool:
        """Whether the gradient of hard choices stops at the attention instead of reaching the core."""

    @property
    def first_rule(self) -> PlacementRule | None:
        """The rule that places the first glimpse; None if attention places it."""

    def num_choices(self, num_glimpses: int) -> int:
        """How many of T glimpses attention places; they are the last ones."""

    def __call__(self, t: int, state: State, scene: Scene) -> Reading[Any]:
        """Read glimpse t, counted from 0."""
