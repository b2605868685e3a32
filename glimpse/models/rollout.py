"""Records of a rollout: the images, the state after each glimpse, each step, and all T of them stacked.

Shapes: B batch, T glimpses, N of them chosen, P numbers of a location (2 on the plane), D state, E glimpse vector,
L cells of the grid.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glimpse.attention.annotation import Annotations
from glimpse.attention.noise import Noise
from glimpse.attention.reading import Reading
from glimpse.attention.settings import ReadMode
from glimpse.models.glimpse_network import CoreState


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
    def of(
        cls,
        steps: Sequence[GlimpseStep],
        *,
        num_choices: int,
        baseline: Callable[[Tensor], Tensor] | None = None,
    ) -> "Rollout":
        """Stack the steps of a rollout.

        Args:
            steps: T of them, at least one.
            num_choices: How many of the places were chosen, the last N.
            baseline: From the state (B, D) before a choice to the return (B, 1) that is expected of it.
        """
        chosen = steps[len(steps) - num_choices :]
        states, glimpses = [step.state for step in steps], [step.glimpse for step in steps]
        batch, empty = len(glimpses[0].vector), glimpses[0].vector.new_zeros(0)

        def of_choices(columns: list[Tensor | None]) -> Tensor:
            return stack_steps(columns) if columns else empty.view(batch, 0)

        is_soft = steps[0].reading.log_prob is None
        on_grid, has_unit, has_memory = (
            its is not None for its in (glimpses[0].attention_weights, states[0].halt_logits, states[0].memory_weights)
        )
        return cls(
            logits=stack_steps(state.logits for state in states),
            locations=torch.stack([glimpse.location for glimpse in glimpses], 1),
            stds=torch.stack([glimpse.std for glimpse in glimpses], 1),
            log_probs=None if is_soft else of_choices([step.reading.log_prob for step in chosen]),
            entropies=of_choices([step.reading.attention.entropy() for step in chosen]),
            # Step by step, as one product of all steps would round otherwise; and of a state that is cut off from the
            # graph: the baseline must judge the state, not shape it.
            baselines=None
            if baseline is None
            else of_choices([baseline(step.before.core[0].detach()).squeeze(-1) for step in chosen]),
            attention_weights=stack_steps(its.attention_weights for its in glimpses) if on_grid else None,
            glimpse_vectors=torch.stack([glimpse.vector for glimpse in glimpses], 1),
            halt_logits=stack_steps(state.halt_logits for state in states) if has_unit else None,
            memory_weights=stack_steps(
                its if its is None else F.pad(its, (0, len(steps) - t))
                for t, its in enumerate((state.memory_weights for state in states), 1)
            )
            if has_memory
            else None,
        )

    @classmethod
    def without_glimpses(cls, logits: Tensor) -> "Rollout":
        """The rollout of a model that takes no glimpse, of its answers (B, T, classes)."""
        nothing, nowhere = logits.new_zeros(len(logits), 0), logits.new_zeros(len(logits), 0, 0)
        return cls(
            logits=logits,
            locations=nowhere,
            stds=nowhere,
            log_probs=nothing,
            entropies=nothing,
            baselines=None,
            attention_weights=None,
            glimpse_vectors=nowhere,
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


def stack_steps(columns: Iterable[Tensor | None]) -> Tensor:
    """What T steps gave (B, ...) as one tensor (B, T, ...); of each step there is something."""
    return torch.stack([column for column in columns if column is not None], 1)
