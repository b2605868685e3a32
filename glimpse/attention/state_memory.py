"""A memory of the states of a recurrent core, and attention to it.

A recurrent core keeps what it has seen in one state, which the next glimpse overwrites. `StateMemory` keeps every state
and reads from them: the very attention that reads annotations, with the states so far as the annotations and the
present one as the query. There is nothing ahead to be looked at: a state is added after its glimpse.

It reads softly, whichever way the model looks: this is a look into the model's own memory, where all is at hand, so
there is nothing to save by picking one state, and no noise to pay for it.

Shapes: B batch, t glimpses so far, D state.
"""

import torch
from torch import Tensor

from glimpse.attention.annotation import Annotations, Attention


class StateMemory(Attention):
    """Attention to the model's own states so far."""

    def __init__(self, *, state_dim: int, scorer: str = "additive", dim: int = 128):
        """Create the memory; the arguments are those of `Attention`."""
        super().__init__(state_dim=state_dim, annotation_dim=state_dim, mode="soft", scorer=scorer, dim=dim)

    def append(self, memory: Annotations | None, output: Tensor) -> Annotations:
        """The memory with one more state (B, D); what the scorer needs of those before is not computed again."""
        new = self.annotate(output.unsqueeze(1))
        if memory is None:
            return new
        # The annotations are counted along the last dimension but one.
        values, keys = (torch.cat(pair, -2) for pair in zip(memory[:2], new[:2], strict=True))
        return Annotations(values, keys, None)
