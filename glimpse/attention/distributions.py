"""Distributions over places to look: normal over points of the plane, categorical over annotations.

Attention is a distribution over places. A place is a point of the plane (`Gaussian`) or one of L annotations
(`Categorical`). Both can be sampled, asked for their most likely place, and asked for the log-probability of a
place; what can be read under them (`sensor.View`, `attention.Annotations`) can be read at one place or averaged
over all.

Shapes: B batch, L places, P numbers of a location (2 on the plane).
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from glimpse.attention.noise import Noise


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
