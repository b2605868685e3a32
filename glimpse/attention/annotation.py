"""Attention to annotations: a distribution over L vectors of each example, and a context vector read from them.

The state is the query, the annotations are keys and values, the scorer gives the relevance of each, a window may keep
to those near a point ("local" attention), and what is read is the context vector. The papers of scorers and window are
named in `scorers.py` and `window.py`.

Shapes: B batch, L places, N axes along which they lie, A annotation size, D state size, E size of the space where
scores are computed.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glimpse.attention.distributions import Categorical
from glimpse.attention.reading import AttentionBase
from glimpse.attention.scorers import SCORERS
from glimpse.attention.settings import ReadMode
from glimpse.attention.window import Window, grid_positions, sequence_positions


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
        return Annotations._make(None if field is None else field[index] for field in self)


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


class Attention(AttentionBase[Categorical]):
    """Attention to annotations: a state gives a distribution over the L annotations of its example."""

    def __init__(
        self,
        *,
        state_dim: int,
        annotation_dim: int,
        mode: ReadMode = "soft",
        scorer: str = "additive",
        dim: int = 128,
        window: int | None = None,
        axes: int = 1,
    ):
        """Create the attention.

        Args:
            state_dim: Size D of the state that asks.
            annotation_dim: Size A of an annotation.
            mode: Whether one annotation is picked ("hard") or all are averaged ("soft").
            scorer: A key of `SCORERS`.
            dim: Size E of the space where additive and scaled dot-product scores are computed, and of the hidden layer
                that places the window.
            window: How many places to look to either side of a point that the state predicts; None for all there are.
            axes: With a window, the number N of axes along which annotations lie: 1 in a row, 2 on a grid.
        """
        super().__init__(mode)
        if scorer not in SCORERS:
            raise ValueError(f"scorer must be one of {', '.join(SCORERS)}, got {scorer!r}")
        self.scorer: Any = SCORERS[scorer](state_dim=state_dim, annotation_dim=annotation_dim, dim=dim)
        self.window = None if window is None else Window(state_dim=state_dim, dim=dim, radius=window, axes=axes)

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
            return Annotations(values, keys, mask, *sequence_positions(annotations, mask))
        if grid is None or mask is not None:
            raise ValueError(
                "a window along 2 axes needs the grid of the annotations and no mask, "
                f"got {'no grid' if grid is None else 'a mask'}"
            )
        return Annotations(values, keys, mask, *grid_positions(annotations, grid))

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
