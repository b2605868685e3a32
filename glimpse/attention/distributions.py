"""Distributions over places, and the random numbers to sample them with.

Attention is a distribution over places: a place is a point of the plane (`Gaussian`) or one of L annotations
(`Categorical`). Both have `sample`, `mode` (the most likely place), `log_prob` and `entropy`.

Shapes: B batch, L places, P coordinates of a location (2 on the plane).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Noise:
    """The source of all random numbers of a rollout.

    When several processes share a batch, each draws the numbers of the whole batch from the same seed and keeps its
    own rows, so that N processes sample the same places as one process would.
    """

    def __init__(self, seed: int | None = None, *, rank: int = 0, world_size: int = 1):
        """Create a stream of random numbers.

        Args:
            seed: Seed of the stream; None: draw from torch's global generator.
            rank: Index of this process.
            world_size: Number of processes that share the batch.
        """
        self._generator = None if seed is None else torch.Generator().manual_seed(seed)
        self._rank = rank
        self._world_size = world_size
        self._rows: Tensor | None = None  # rows to return, out of `_size`; None: all
        self._size = 0

    def fork(self) -> "Noise":
        """Return a copy of the stream, which will draw the same numbers as this one."""
        twin = Noise(rank=self._rank, world_size=self._world_size)
        twin._generator = torch.Generator()
        twin._generator.set_state(torch.get_rng_state() if self._generator is None else self._generator.get_state())
        twin._rows, twin._size = self._rows, self._size
        return twin

    def same_for_all(self) -> "Noise":
        """Return a view of the stream whose numbers are the same in every process."""
        whole = Noise()
        whole._generator = self._generator
        return whole

    def rows(self, index: Tensor, size: int) -> "Noise":
        """Return a view of the stream for a subset of the batch: each row gets the numbers it has in the whole batch.

        Args:
            index: (R,), the rows.
            size: Number of rows of this stream, from which `index` selects.
        """
        subset = Noise(rank=self._rank, world_size=self._world_size)
        subset._generator = self._generator
        subset._rows, subset._size = (index, size) if self._rows is None else (self._rows[index], self._size)
        return subset

    def normal(self, like: Tensor) -> Tensor:
        """Draw standard normal numbers with the shape, dtype and device of `like` (B, ...)."""
        return self._draw(torch.randn, like)

    def uniform(self, like: Tensor) -> Tensor:
        """Draw uniform numbers in [0, 1) with the shape, dtype and device of `like` (B, ...)."""
        return self._draw(torch.rand, like)

    def dropout(self, x: Tensor, p: float) -> Tensor:
        """Set each element of x (B, ...) to zero with probability p, and scale the others by 1 / (1 - p)."""
        return x if p == 0 else x * (self.uniform(x) >= p) / (1 - p)

    def _draw(self, draw: Callable[..., Tensor], like: Tensor) -> Tensor:
        rows = like.shape[0] if self._rows is None else self._size
        whole = draw(rows * self._world_size, *like.shape[1:], generator=self._generator)
        own = whole[self._rank * rows : (self._rank + 1) * rows]
        return (own if self._rows is None else own[self._rows.to(own.device)]).to(like)


class Gaussian(NamedTuple):
    """Independent normal distributions of the coordinates of a location, x and y on the plane."""

    mean: Tensor  # (B, P)
    std: Tensor  # (B, P)

    def sample(self, noise: Noise) -> Tensor:
        """Sample a point (B, P), detached; only its log-probability has a gradient."""
        return (self.mean + self.std * noise.normal(self.mean)).detach()

    def mode(self) -> Tensor:
        """Return the most likely point (B, P), the mean."""
        return self.mean

    def log_prob(self, place: Tensor) -> Tensor:
        """Return the log-density (B,) of the points (B, P)."""
        z = (place - self.mean) / self.std
        return (-0.5 * z.square() - self.std.log() - 0.5 * math.log(2 * math.pi)).sum(-1)

    def entropy(self) -> Tensor:
        """Return the differential entropy (B,)."""
        return (self.std.log() + 0.5 * math.log(2 * math.pi * math.e)).sum(-1)


class Categorical(NamedTuple):
    """A categorical distribution over L places."""

    logits: Tensor  # (B, L); minus infinity at masked places

    @property
    def weights(self) -> Tensor:
        """The probabilities (B, L)."""
        return self.logits.softmax(-1)

    def sample(self, noise: Noise) -> Tensor:
        """Sample an index (B,) by the Gumbel-max trick: the argmax of logits plus Gumbel noise."""
        uniform = noise.uniform(self.logits).clamp(min=torch.finfo(self.logits.dtype).tiny)
        return (self.logits.detach() - (-uniform.log()).log()).argmax(-1)

    def mode(self) -> Tensor:
        """Return the most likely index (B,)."""
        return self.logits.argmax(-1)

    def log_prob(self, place: Tensor) -> Tensor:
        """Return the log-probability (B,) of the indices (B,)."""
        return self.logits.log_softmax(-1).gather(-1, place.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return the entropy (B,), in nats."""
        log_weights = self.logits.log_softmax(-1)
        # Clamped, so that a place of probability 0 contributes 0 and not NaN to the value and the gradient.
        return -(log_weights.exp() * log_weights.clamp(min=torch.finfo(log_weights.dtype).min)).sum(-1)

    @classmethod
    def one_hot(cls, place: Tensor, num_places: int, dtype: torch.dtype) -> "Categorical":
        """Return the distribution with probability 1 at the indices (B,)."""
        return cls(F.one_hot(place, num_places).to(dtype).log())
