"""Rewards: what the answer after each glimpse, or each word, earns.

A reward is a function that is registered under a name; the name is then a value of `estimator.reward`. This module is
imported with the settings, so it does not import torch.

Shapes: B batch, T glimpses or words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from glimpse import losses
from glimpse.config.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor


class Reward(NamedTuple):
    """A registered reward."""

    of: Callable[[Tensor, Tensor], Tensor]  # of logits (B, T, classes) and targets: (B, T)
    same_target: bool  # whether it compares answers with each other, so that all must have the same target


REWARDS: Registry[Reward] = Registry("estimator.reward")


def reward(name: str, *, same_target: bool = False) -> Callable[[Callable[[Tensor, Tensor], Tensor]], Callable]:
    """Register a function of logits (B, T, classes) and targets (see `log_likelihood`) that returns rewards (B, T).

    Args:
        name: The value of `estimator.reward` that selects it.
        same_target: Whether it compares the answers of an example, which must then all have the same target: so it is
            for classification and not for words.
    """

    def register(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
        REWARDS.register(name)(Reward(function, same_target))
        return function

    return register


@reward("accuracy")
def accuracy(logits: Tensor, targets: Tensor) -> Tensor:
    """1 if the answer is right, else 0, as in Recurrent Models of Visual Attention (arXiv:1406.6247)."""
    return losses.correct(logits, targets)


@reward("log_likelihood")
def log_likelihood(logits: Tensor, targets: Tensor) -> Tensor:
    """The log-likelihood of the right answer."""
    return losses.log_likelihood(logits, targets)


@reward("gain", same_target=True)
def gain(logits: Tensor, targets: Tensor) -> Tensor:
    """The log-likelihood after the glimpse less that before it, as in AdaptiveNN (arXiv:2509.15333).

    Before the first glimpse all classes are equally likely. With `estimator.discount: 1` the gains of a choice add up
    to the last log-likelihood less the one before the choice.
    """
    after = losses.log_likelihood(logits, targets)
    before = after.roll(1, 1)
    before[:, 0] = _uniform_log_likelihood(logits, targets)
    return after - before


@reward("above_chance")
def above_chance(logits: Tensor, targets: Tensor) -> Tensor:
    """max(0, p - c), with p the probability of the right answer and c that of an answer drawn at random."""
    return (losses.log_likelihood(logits, targets).exp() - math.exp(_uniform_log_likelihood(logits, targets))).clamp(0)


def _uniform_log_likelihood(logits: Tensor, targets: Tensor) -> float:
    """The log-likelihood of any answer under the uniform distribution over answers."""
    classes = logits.shape[-1]
    return -classes * math.log(2) if targets.is_floating_point() else -math.log(classes)
