"""Distributions over places to look: normal over points of the plane, categorical over annotations.

Attention is a distribution over places. A place is a point of the plane (`Gaussian`) or one of L annotations
(`Categorical`). Both can be sampled, asked for their most likely place, and asked for the log-probability of a
place; what can be read under them (`sensor.View`, `attention.Annotations`) can be read at one place or averaged
over all.

Shapes: B batch, L places, P numbers of a location (2 on the plane).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Noise:
    """The only source of random numbers in a rollout: draws for a whole batch, hands out this process's rows.

    When a batch is shared between processes each draws the noise of the whole batch from the same seed and keeps its
    own rows, so that N processes look where one would have looked.
    """

    def __init__(self, seed: int | None = None, *, rank: int = 0, world_size: int = 1):
        """Create a stream; without a seed it follows torch's global generator."""
        self._generator = None if seed is None else torch.Generator().manual_seed(seed)
        self._rank = rank
        self._world_size = world_size
        self._rows: Tensor | None = None  # rows that are handed out, of so many
        self._size = 0

    def fork(self) -> "Noise":
        """A second stream that will give what this one is about to give."""
        twin = Noise(rank=self._rank, world_size=self._world_size)
        twin._generator = torch.Generator()
        twin._generator.set_state(torch.get_rng_state() if self._generator is None else self._generator.get_state())
        twin._rows, twin._size = self._rows, self._size
        return twin

    def same_for_all(self) -> "Noise":
        """The same stream, of which every process is handed the same rows, as many as it asks for."""
        whole = Noise()
        whole._generator = self._generator
        return whole

    def rows(self, index: Tensor, size: int) -> "Noise":
        """The same stream for some of the rows: each is handed what it would get among all.

        Args:
            index: (R,), which rows.
            size: Of how many; of those that this stream hands out, if it is for some already.
        """
        some = Noise(rank=self._rank, world_size=self._world_size)
        some._generator = self._generator
        some._rows, some._size = (index, size) if self._rows is None else (self._rows[index], self._size)
        return some

    def normal(self, like: Tensor) -> Tensor:
        """Standard normal numbers of the shape, type and device of `like` (B, ...)."""
        return self._draw(torch.randn, like)

    def uniform(self, like: Tensor) -> Tensor:
        """Uniform numbers in [0, 1) of the shape, type and device of `like` (B, ...)."""
        return self._draw(torch.rand, like)

    def dropout(self, x: Tensor, part: float) -> Tensor:
        """Dropout of x (B, ...): a part of it becomes zero, and the rest grows so that the mean stays the same."""
        return x if part == 0 else x * (self.uniform(x) >= part) / (1 - part)

    def _draw(self, draw: Callable[..., Tensor], like: Tensor) -> Tensor:
        rows = like.shape[0] if self._rows is None else self._size
        whole = draw(rows * self._world_size, *like.shape[1:], generator=self._generator)
        own = whole[self._rank * rows : (self._rank + 1) * rows]
        return (own if self._rows is None else own[self._rows.to(own.device)]).to(like)


class Gaussian(NamedTuple):
    """Independent normal distributions of the numbers of a location, x and y on the plane."""

    mean: Tensor  # (B, P)
    std: Tensor  # (B, P)

    def sample(self, noise: Noise) -> Tensor:
        """A point (B, P), cut off from the graph: how it was found is the business of its log-probability."""
        return (self.mean + self.std * noise.normal(self.mean)).detach()

    def mode(self) -> Tensor:
        """The most likely point (B, P), which is the mean."""
        return self.mean

    def log_prob(self, place: Tensor) -> Tensor:
        """The log-density (B,) of the points (B, P)."""
        z = (place - self.mean) / self.std
        return (-0.5 * z.square() - self.std.log() - 0.5 * math.log(2 * math.pi)).sum(-1)

    def entropy(self) -> Tensor:
        """The differential entropy (B,)."""
        return (self.std.log() + 0.5 * math.log(2 * math.pi * math.e)).sum(-1)


class Categorical(NamedTuple):
    """A choice of one of L places."""

    logits: Tensor  # (B, L); minus infinity where there is nothing to look at

    @property
    def weights(self) -> Tensor:
        """The probabilities (B, L)."""
        return self.logits.softmax(-1)

    def sample(self, noise: Noise) -> Tensor:
        """An index (B,), by the Gumbel trick: the largest of logits plus Gumbel noise."""
        uniform = noise.uniform(self.logits).clamp(min=torch.finfo(self.logits.dtype).tiny)
        return (self.logits.detach() - (-uniform.log()).log()).argmax(-1)

    def mode(self) -> Tensor:
        """The most likely index (B,)."""
        return self.logits.argmax(-1)

    def log_prob(self, place: Tensor) -> Tensor:
        """The log-probability (B,) of the indices (B,)."""
        return self.logits.log_softmax(-1).gather(-1, place.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """The entropy (B,), in nats."""
        log_weights = self.logits.log_softmax(-1)
        # Finite, so that a place of probability 0 adds 0 and not NaN, to the gradient too.
        return -(log_weights.exp() * log_weights.clamp(min=torch.finfo(log_weights.dtype).min)).sum(-1)

    @classmethod
    def one_hot(cls, place: Tensor, num_places: int, dtype: torch.dtype) -> "Categorical":
        """All probability on the indices (B,)."""
        return cls(F.one_hot(place, num_places).to(dtype).log())
