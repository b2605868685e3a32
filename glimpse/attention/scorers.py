"""Scorers: the relevance of each annotation to a state, as unnormalized logits.

A scorer has `key` and `value`, which are applied to annotations once, and computes the scores of keys for a state when
called. `annotation.Attention` turns the scores into a distribution.

Papers: additive, arXiv:1409.0473; dot and bilinear, arXiv:1508.04025, 3.1 ("dot", "general"); scaled dot product,
arXiv:1706.03762, 3.2.1.

Shapes: B batch, L places, Q queries, A annotation size, D state size, E key size.
"""

import math

from torch import Tensor, nn


def dot(queries: Tensor, keys: Tensor) -> Tensor:
    """Return the scores (..., Q, L) of keys (..., L, E) for queries (..., Q, E): q . k."""
    return queries @ keys.transpose(-2, -1)


def scaled_dot(queries: Tensor, keys: Tensor) -> Tensor:
    """Return the scores (..., Q, L) of keys (..., L, E) for queries (..., Q, E): q . k / sqrt(E)."""
    return dot(queries, keys) / math.sqrt(keys.shape[-1])


class AdditiveScorer(nn.Module):
    """v . tanh(W q + U k), Bahdanau's alignment model."""

    def __init__(self, *, state_dim: int, annotation_dim: int, dim: int):
        super().__init__()
        self.query = nn.Linear(state_dim, dim)
        self.key = nn.Linear(annotation_dim, dim, bias=False)
        self.value = nn.Identity()
        self.score = nn.Linear(dim, 1, bias=False)

    def forward(self, state: Tensor, keys: Tensor) -> Tensor:
        """Return the scores (B, L) of keys (B, L, E) for the state (B, D)."""
        # In place: the sum (B, L, E) is large and not used again.
        return self.score((self.query(state).unsqueeze(1) + keys).tanh_()).squeeze(-1)


class DotScorer(nn.Module):
    """q . k, Luong's "dot" score; it has no parameters, so state and annotations must be in the same space."""

    def __init__(self, *, state_dim: int, annotation_dim: int, dim: int | None = None):
        """Create the scorer; `dim` is ignored, for the common signature of all scorers."""
        super().__init__()
        if state_dim != annotation_dim:
            raise ValueError(
                f"state_dim must be equal to annotation_dim with scorer dot, got {state_dim} and {annotation_dim}; "
                "scorer bilinear takes any sizes"
            )
        self.key = nn.Identity()
        self.value = nn.Identity()

    def forward(self, state: Tensor, keys: Tensor) -> Tensor:
        """Return the scores (B, L) of keys (B, L, A) for the state (B, A)."""
        return dot(state.unsqueeze(1), keys).squeeze(1)


class BilinearScorer(nn.Module):
    """q . W k, Luong's "general" score."""

    def __init__(self, *, state_dim: int, annotation_dim: int, dim: int | None = None):
        """Create the scorer; `dim` is ignored, for the common signature of all scorers."""
        super().__init__()
        self.query = nn.Linear(state_dim, annotation_dim, bias=False)
        self.key = nn.Identity()
        self.value = nn.Identity()

    def forward(self, state: Tensor, keys: Tensor) -> Tensor:
        """Return the scores (B, L) of keys (B, L, A) for the state (B, D)."""
        return dot(self.query(state).unsqueeze(1), keys).squeeze(1)


class ScaledDotScorer(nn.Module):
    """(W q) . (U k) / sqrt(E), with linear projections of query, keys and values."""

    def __init__(self, *, state_dim: int, annotation_dim: int, dim: int):
        super().__init__()
        self.query = nn.Linear(state_dim, dim, bias=False)
        self.key = nn.Linear(annotation_dim, dim, bias=False)
        self.value = nn.Linear(annotation_dim, annotation_dim, bias=False)

    def forward(self, state: Tensor, keys: Tensor) -> Tensor:
        """Return the scores (B, L) of keys (B, L, E) for the state (B, D)."""
        return scaled_dot(self.query(state).unsqueeze(1), keys).squeeze(1)


SCORERS = {"additive": AdditiveScorer, "dot": DotScorer, "bilinear": BilinearScorer, "scaled_dot": ScaledDotScorer}
