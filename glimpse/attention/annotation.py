"""Attention to annotations: a distribution over the L annotation vectors of an example, read as a context vector.

The state is the query, the annotations are keys and values, the scorer computes the logits, and a window can restrict
them to a neighborhood of a predicted point ("local" attention). For the papers see `scorers.py` and `window.py`.

Shapes: B batch, L places, N axes of the places (1 sequence, 2 grid), A annotation size, D state size, E key size.
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
    """L annotation vectors per example, with keys and positions computed once."""

    values: Tensor  # (B, L, A)
    keys: Tensor  # (B, L, E)
    mask: Tensor | None  # (B, L) bool, false where padded; None: no padding
    positions: Tensor | None = None  # (B, L, N); None without a window
    extent: Tensor | None = None  # (B, N), length of each axis; None without a window

    def at(self, place: Tensor) -> Tensor:
        """Return the annotations (B, A) at the indices (B,)."""
        return self.values[torch.arange(len(place), device=place.device), place]

    def expect(self, attention: Categorical) -> Tensor:
        """Return the weighted sum (B, A) of all annotations."""
        return (attention.weights.unsqueeze(1) @ self.values).squeeze(1)

    def rows(self, index: Tensor) -> "Annotations":
        """Return the annotations of a subset of the examples."""
        return Annotations._make(None if field is None else field[index] for field in self)


def check_mask(mask: Tensor | None, annotations: Tensor) -> None:
    """Raise a ValueError unless a mask is bool (B, L) for annotations (B, L, A), with one true per example at least."""
    if mask is None:
        return
    if mask.shape != annotations.shape[:2] or mask.dtype != torch.bool:
        raise ValueError(
            f"mask must be bool of shape {tuple(annotations.shape[:2])}, got {mask.dtype} {tuple(mask.shape)}"
        )
    if not bool(mask.any(1).all()):
        raise ValueError("mask must be true for at least one annotation of each example, got an example without any")


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
            state_dim: Size D of the state, the query.
            annotation_dim: Size A of an annotation.
            mode: Read mode, "hard" (one annotation is sampled) or "soft" (weighted sum of all).
            scorer: A key of `SCORERS`.
            dim: Key size E of the additive and scaled dot-product scorers, and hidden size of the window's prediction.
            window: Radius, in places, of the window around a predicted point; None: no window.
            axes: Number N of axes of a window, 1 for a sequence or 2 for a grid.
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
        """Compute keys, values and positions of annotations, once for any number of reads.

        Args:
            annotations: (B, L, A).
            mask: (B, L) bool, false where padded; None: no padding.
            grid: Number of rows and columns, whose product is L; needed by a window along two axes.
            detach_keys: Whether to detach the annotations from the keys, so that the attention weights have no
                gradient with respect to the encoder; the values keep theirs.
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
                "grid must be given, and mask must be None, for a window along 2 axes, "
                f"got {'no grid' if grid is None else 'a mask'}"
            )
        return Annotations(values, keys, mask, *grid_positions(annotations, grid))

    def where(self, state: Tensor, memory: Annotations) -> Categorical:
        """Return a distribution over the annotations, given the state (B, D)."""
        logits = self.scorer(state, memory.keys)
        if self.window is not None:
            if memory.positions is None:
                raise ValueError("memory must have positions for a window, got none: use `annotate` of this attention")
            logits = logits + self.window(state, memory.positions, memory.extent)
        if memory.mask is not None:
            logits = logits.masked_fill(~memory.mask, -math.inf)
        return Categorical(logits)
