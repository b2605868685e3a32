"""The optimizer of a run, and its learning rate as a function of progress.

The schedule is a pure function rather than a scheduler of torch, so that there is no state to save and resume.
"""

import math
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import nn

from glimpse.tasks.train_settings import TrainSettings


def learning_rate(schedule: str, progress: float, warmup: float) -> float:
    """Return the learning rate as a fraction of the highest.

    Args:
        schedule: Name of the schedule, as in `TrainSettings`.
        progress: Fraction of the training that is done.
        warmup: one_cycle: fraction of the training in which the rate rises.
    """
    if schedule == "one_cycle":
        if progress < warmup:
            return 0.04 + 0.96 * 0.5 * (1 - math.cos(math.pi * progress / warmup))
        return 0.5 * (1 + math.cos(math.pi * (progress - warmup) / (1 - warmup)))
    if schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * progress))
    if schedule == "linear":
        return 1 - progress
    return 1.0


class HasAttentionParameters(Protocol):
    """A model whose attention can have a learning rate of its own."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """All parameters."""

    def attention_parameters(self) -> list[nn.Parameter]:
        """The parameters that decide where to look."""


def make_optimizer(model: HasAttentionParameters, settings: TrainSettings) -> torch.optim.Optimizer:
    """Make the optimizer of a config; the groups have a learning-rate multiplier `lr_mult`."""
    attention = set(model.attention_parameters())
    groups: list[dict[str, Any]] = [
        {"params": [p for p in model.parameters() if (p in attention) == in_attention], "lr_mult": lr_mult}
        for in_attention, lr_mult in ((False, 1.0), (True, settings.attention_lr_mult))
    ]
    groups = [group for group in groups if group["params"]]
    lr, weight_decay = settings.lr, settings.weight_decay
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, lr, momentum=settings.momentum, weight_decay=weight_decay)
    adam = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    return adam(groups, lr, weight_decay=weight_decay, fused=True)
