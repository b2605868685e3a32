"""What a model has made of its glimpses so far, and the memory of it.

A recurrent core keeps what it has seen in one state, which the next glimpse overwrites. `Recall` keeps every state and
looks them up: the very attention that reads annotations, with the states so far as the annotations and the present one
as the query. There is nothing ahead to be looked at: a state is added after its glimpse.

It reads softly, whichever way the model looks: this is a look into the model's own memory, where all is at hand, so
there is nothing to save by picking one state, and no noise to pay for it.

Shapes: B batch, t glimpses so far, D state.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from glimpse.attention import Annotations, Attention
from glimpse.networks import State


class Recall(Attention):
    """Attention to the model's own states so far."""

    looks = False

    def __init__(self, *, state_dim: int, scorer: str = "additive", dim: int = 128):
        """Create the memory; the arguments are those of `Attention`."""
        super().__init__(state_dim=state_dim, annotation_dim=state_dim, how="soft", scorer=scorer, dim=dim)

    def add(self, memory: Annotations | None, output: Tensor) -> Annotations:
        """The memory with one more state (B, D); what the scorer needs of those before is not computed again."""
        new = self.annotate(output.unsqueeze(1))
        if memory is None:
            return new
        # The annotations are counted along the last dimension but one.
        values, keys = (torch.cat(pair, -2) for pair in zip(memory[:2], new[:2], strict=True))
        return Annotations(values, keys, None)


class Thought(NamedTuple):
    """What a model has made of the glimpses so far."""

    state: State  # of the core; its first tensor (B, D) is the output
    memory: Annotations | None = None  # all outputs so far; None if only the last is needed, and before the first
    logits: Tensor | None = None  # (B, classes): the answer by now; None before the first glimpse
    halting: Tensor | None = None  # (B,): logit of the probability that it will do; None without a halting unit
    recalled: Tensor | None = None  # (B, t): weights of the states that the answer was made with; None without memory

    def rows(self, index: Tensor) -> "Thought":
        """That of some of the examples only."""
        memory = None if self.memory is None else self.memory.rows(index)
        rest = (None if field is None else field[index] for field in self[2:])
        return Thought(tuple(part[index] for part in self.state), memory, *rest)
