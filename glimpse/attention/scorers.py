"""Scorers: how relevant each annotation is to the state that asks.

A scorer has `key` and `value`, which make of annotations, once, what is compared and what is read; calling it compares
the keys with a state. Scores are any numbers: `attention.Attention` makes a distribution of them.

Papers: additive, arXiv:1409.0473; dot and bilinear, arXiv:1508.04025, 3.1 ("dot", "general"); scaled dot product,
arXiv:1706.03762, 3.2.1.

Shapes: B batch, L places, Q queries, A annotation size, D state size, E size of the space where scores are computed.
"""

import math

from torch import Tensor, nn


def dot(queries: Tensor, keys: Tensor) -> Tensor:
    """Relevance (..., Q, L) of keys (..., L, E) to queries (..., Q, E): q . k."""
    return queries @ keys.transpose(-2, -1)


def scaled_dot(queries: Tensor, keys: Tensor) -> Tensor:
    """Relevance (..., Q, L) of keys (..., L, E) to queries (..., Q, E): q . k / sqrt(E)."""
    return dot(queries, keys) / math.sqrt(keys.shape[-1])


class AdditiveScorer(nn.Module):
    """v . tanh(W q + U k), Bahdanau's relevance net."""

    def __init__(self, *, state_dim: int, annotation_dim: int, dim: int):
        super().__init__()
        self.query = nn.Linear(state_dim, dim)
        self.key = nn.Linear(annotation_dim, dim, bias=False)
        self.value = nn.Identity()
        self.score = nn.Linear(dim, 1, bias=False)

    def forward(self, state: Tensor, keys: Tensor) -> Tensor:
        """Relevance (B, L) of keys (B, L, E) to the state (B, D)."""
        # In place, as the sum is large and of no other use.
        return self.score((self.query(state).unsqueeze(1) + keys).tanh_()).squeeze(-1)


class DotScorer(nn.Module):
    """q . k, Luong's "dot" score: nothing is learned here, so the state itself must come to resemble what it seeks."""

    def __init__(self, *, state_dim: int, annotation_dim: int, dim: int | None = None):
        """Create the scorer; `dim` is taken for the sake of a common signature, scores need no space of their own."""
        super().__init__()
        if state_dim != annotation_dim:
            raise ValueError(
                f"state_dim must be equal to annotation_dim for the scorer dot, got {state_dim} and {annotation_dim}: "
                "set one to the other, or take the scorer bilinear"
            )
        self.key = nn.Identity()
        self.value = nn.Identity()

    def forward(self, state: Tensor, keys: Tensor) -> Tensor:
        """Relevance (B, L) of keys (B, L, A) to the state (B, A)."""
        return dot(state.unsqueeze(1), keys).squeeze(1)


class BilinearScorer(nn.Module):
    """q . W k, Luong's "general" score."""

    def __init__(self, *, state_dim: int, annotation_dim: int, dim: int | None = None):
        """Create the scorer; `dim` is taken for the sake of a common signature, scores need no space of their own."""
        super().__init__()
        self.query = nn.Linear(state_dim, annotation_dim, bias=False)
        self.key = nn.Identity()
        self.value = nn.Identity()

    def forward(self, state: Tensor, keys: Tensor) -> Tensor:
        """Relevance (B, L) of keys (B, L, A) to the state (B, D)."""
        return dot(self.query(state).unsqueeze(1), keys).squeeze(1)


class ScaledDotScorer(nn.Module):
    """(W q) . (U k) / sqrt(E): queries, keys and values, each with its projection."""

    def __init__(self, *, state_dim: int, annotation_dim: int, dim: int):
        super().__init__()
        self.query = nn.Linear(state_dim, dim, bias=False)
        self.key = nn.Linear(annotation_dim, dim, bias=False)
        self.value = nn.Linear(annotation_dim, annotation_dim, bias=False)

    def forward(self, state: Tensor, keys: Tensor) -> Tensor:
        """Relevance (B, L) of keys (B, L, E) to the state (B, D)."""
        return scaled_dot(self.query(state).unsqueeze(1), keys).squeeze(1)


SCORERS = {"additive": AdditiveScorer, "dot": DotScorer, "bilinear": BilinearScorer, "scaled_dot": ScaledDotScorer}
