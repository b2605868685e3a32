"""Records of a rollout: the images, the state after each glimpse, each step, and all T of them stacked.

Shapes: B batch, T glimpses, N of them chosen, P numbers of a location (2 on the plane), D state, E glimpse vector,
L cells of the grid.
"""

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from glimpse.attention.annotation import Annotations
from glimpse.attention.distributions import Noise
from glimpse.attention.placement import PlacementRule
from glimpse.attention.reading import LocationAttention, Reading
from glimpse.attention.settings import ReadMode

CoreState = tuple[Tensor, ...]  # the first is the output h (B, D); an LSTM has a cell beside it


class Glimpse(NamedTuple):
    """One glimpse, encoded."""

    vector: Tensor  # (B, E), for the core
    location: Tensor  # (B, P): where it was; soft: the mean
    std: Tensor  # (B, P): how wide the attention was
    attention_weights: Tensor | None = None  # (B, L), over the cells of a grid; None on the plane


class State(NamedTuple):
    """The state of a model after some glimpses, with the answer by then."""

    core: CoreState  # its first tensor (B, D) is the output
    memory: Annotations | None = None  # all outputs so far; None if only the last is needed, and before the first
    logits: Tensor | None = None  # (B, classes): the answer by now; None before the first glimpse
    halt_logits: Tensor | None = None  # (B,), of the probability that it will do; None without a halting unit
    memory_weights: Tensor | None = None  # (B, t), of the states that the answer was made with; None without memory

    def rows(self, index: Tensor) -> "State":
        """That of some of the examples only."""
        memory = None if self.memory is None else self.memory.rows(index)
        rest = (None if field is None else field[index] for field in self[2:])
        return State(tuple(part[index] for part in self.core), memory, *rest)


class Scene(NamedTuple):
    """The images of a rollout made ready, and how they are to be read."""

    images: Tensor  # (B, C, H, W)
    memory: Any  # the `attention.reading.Memory` that they were made into
    num_glimpses: int  # T, how many are to be taken
    dtype: torch.dtype  # of the model, and of locations
    mode: ReadMode
    sample: bool
    straight_through: bool
    noise: Noise
    boxes: Tensor | None = None  # (B, boxes, 4), of the digits, in pixels
    locations: Tensor | None = None  # (B, T, P), of glimpses that are not chosen, in place of the rule

    def rows(self, index: Tensor) -> "Scene":
        """That of some of the images only."""
        return self._replace(
            images=self.images[index],
            memory=self.memory.rows(index),
            noise=self.noise.rows(index, len(self.images)),
            boxes=None if self.boxes is None else self.boxes[index],
            locations=None if self.locations is None else self.locations[index],
        )


class GlimpseStep(NamedTuple):
    """What happened at one glimpse."""

    before: State  # the state that decided where to look
    reading: Reading[Any]  # where that was, and what was there
    glimpse: Glimpse  # as the core was given it
    state: State  # after it


class Rollout(NamedTuple):
    """All that happened in T glimpses."""

    logits: Tensor  # (B, T, classes): the answer after each glimpse
    locations: Tensor  # (B, T, P): where each glimpse was; soft: the mean
    stds: Tensor  # (B, T, P): how wide the attention was
    log_probs: Tensor | None  # (B, N): of the places chosen; None when soft
    entropies: Tensor  # (B, N): of the distributions they were chosen from
    baselines: Tensor | None  # (B, N): expected return before each choice; None without a baseline
    attention_weights: Tensor | None  # (B, T, L): attention over the cells of a grid; None on the plane
    glimpse_vectors: Tensor  # (B, T, E): what the core was given
    halt_logits: Tensor | None = None  # (B, T): logits of stopping after each glimpse; None without a halting unit
    memory_weights: Tensor | None = None  # (B, T, T): of the states behind each answer; None without memory

    @classmethod
    def without_glimpses(cls, logits: Tensor) -> "Rollout":
        """The rollout of a model that takes no glimpse, of its answers (B, T, classes)."""
        nothing = logits.new_zeros(len(logits), 0)
        nowhere = logits.new_zeros(len(logits), 0, LocationAttention.location_dim)
        return cls(
            logits=logits,
            locations=nowhere,
            stds=nowhere,
            log_probs=nothing,
            entropies=nothing,
            baselines=None,
            attention_weights=None,
            glimpse_vectors=nothing.unsqueeze(-1),
        )

    def glimpse(self, t: int) -> Glimpse:
        """Glimpse t, from 0."""
        weights = None if self.attention_weights is None else self.attention_weights[:, t]
        return Glimpse(self.glimpse_vectors[:, t], self.locations[:, t], self.stds[:, t], weights)

    # Names of version 0.1.

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
    """Decides where each glimpse is, and reads there."""

    @property
    def name(self) -> str:
        """The name of a rule, or "learned"."""

    @property
    def detach_state(self) -> bool:
        """Whether the gradient of a hard read's choices ends at the attention."""

    @property
    def first_rule(self) -> PlacementRule | None:
        """The rule that places the first glimpse; None if that is chosen too."""

    def num_choices(self, num_glimpses: int) -> int:
        """How many of so many glimpses are chosen, the last ones."""

    def __call__(self, t: int, state: State, scene: Scene) -> Reading[Any]:
        """Take glimpse t, from 0."""


class Classifier(Protocol):
    """What recurrent attention and the networks of the whole image have in common."""

    attends: bool  # whether it takes glimpses; else it sees the whole image

    @property
    def mode(self) -> ReadMode | None:
        """How it reads unless told otherwise; None if it does not attend."""

    @property
    def needs_boxes(self) -> bool:
        """Whether it must be given the boxes of the digits."""

    @property
    def is_random(self) -> bool:
        """Whether glimpses are placed at random even where nothing is sampled."""

    @property
    def num_choices(self) -> int:
        """How many of its glimpses it chooses."""

    def attention_parameters(self) -> list[nn.Parameter]:
        """The parameters that decide where to look."""

    def forward(
        self,
        images: Tensor,
        *,
        mode: ReadMode | None = None,
        sample: bool = True,
        noise: Noise | None = None,
        boxes: Tensor | None = None,
        locations: Tensor | None = None,
        straight_through: bool = False,
    ) -> Rollout:
        """Answer, after each glimpse if there are any."""
