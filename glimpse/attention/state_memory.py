"""Attention to the past states of a recurrent core.

A recurrent core has one state, which the next glimpse overwrites. `StateMemory` keeps all states and attends to them:
the states so far are the annotations, and the current state is the query. A state is appended after its glimpse, so
attention is causal.

The memory is read softly in both read modes: all states are available at no cost, so sampling one would only add
variance.

Shapes: B batch, t glimpses so far, D state.
"""

import torch
from torch import Tensor

from glimpse.attention.annotation import Annotations, Attention


class StateMemory(Attention):
    """Soft attention to the states of the model so far."""

    def __init__(self, *, state_dim: int, scorer: str = "additive", dim: int = 128):
        """Create the memory; for the arguments see `Attention`."""
        super().__init__(state_dim=state_dim, annotation_dim=state_dim, mode="soft", scorer=scorer, dim=dim)

    def append(self, memory: Annotations | None, output: Tensor) -> Annotations:
        """Return the memory with the state (B, D) appended; the keys of earlier states are reused.

        Args:
            memory: The states so far; None if there are none yet.
            output: (B, D), the new state.
        """
        new = self.annotate(output.unsqueeze(1))
        if memory is None:
            return new
        # Dimension -2 is that of the places.
        values, keys = (torch.cat(pair, -2) for pair in zip(memory[:2], new[:2], strict=True))
        return Annotations(values, keys, None)
