"""The optimizer of a run, and its learning rate as a function of progress.

The schedule is a pure function and no scheduler object of torch's: there is no state to save and to resume.
"""

import math

import torch
from torch import nn

from glimpse.tasks.train_settings import TrainSettings


def learning_rate(schedule: str, progress: float, warmup: float) -> float:
    """The learning rate after a part of the training, as a part of the highest."""
    if schedule == "one_cycle":
        if progress < warmup:
            return 0.04 + 0.96 * 0.5 * (1 - math.cos(math.pi * progress / warmup))
        return 0.5 * (1 + math.cos(math.pi * (progress - warmup) / (1 - warmup)))
    if schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * progress))
    if schedule == "linear":
        return 1 - progress
    return 1.0


def make_optimizer(model: nn.Module, settings: TrainSettings) -> torch.optim.Optimizer:
    """Make the optimizer of the config; each group has its multiplier `lr_mult` of the learning rate."""
    attention = set(model.attention_parameters())
    groups = [
        {"params": [p for p in model.parameters() if (p in attention) == attends], "lr_mult": lr_mult}
        for attends, lr_mult in ((False, 1.0), (True, settings.attention_lr_mult))
    ]
    groups = [group for group in groups if group["params"]]
    options = {"lr": settings.lr, "weight_decay": settings.weight_decay}
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, momentum=settings.momentum, **options)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[settings.optimizer]
    return kind(groups, fused=True, **options)
