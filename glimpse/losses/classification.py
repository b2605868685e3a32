"""Losses and estimators: pure functions of tensors, unweighted; the weights live in the config.

REINFORCE (Williams, 1992) with a baseline, as in Recurrent Models of Visual Attention (arXiv:1406.6247), section 3.2.
Every stop-gradient is an explicit `detach`.

Shapes: B batch, T glimpses, N choices (the last N of the T glimpses were chosen), M rollouts of each image. Of
captions: B batch, N words, L places, V vocabulary.
"""

from typing import Any, Literal, get_args

import torch.nn.functional as F
from torch import Tensor

Steps = Literal["last_step", "every_step"]


def log_likelihood(logits: Tensor, targets: Tensor) -> Tensor:
    """Log-probability of the right answer after each glimpse.

    Args:
        logits: (B, T, classes).
        targets: (B,) class indices; or (B, T) class indices, a target for each step; or (B, classes) multi-hot floats,
            each class an independent yes or no.

    Returns:
        (B, T).
    """
    if targets.is_floating_point():
        each = F.binary_cross_entropy_with_logits(logits, targets.unsqueeze(1).expand_as(logits), reduction="none")
        return -each.sum(-1)
    index = _of_each_step(targets).unsqueeze(-1).expand(-1, logits.shape[1], 1)
    return logits.log_softmax(-1).gather(-1, index).squeeze(-1)


def correct(logits: Tensor, targets: Tensor) -> Tensor:
    """Whether the answer after each glimpse is right: (B, T) of 0.0 and 1.0. Multi-hot: all classes must be."""
    if targets.is_floating_point():
        return ((logits > 0) == targets.unsqueeze(1).bool()).all(-1).to(logits.dtype)
    return (logits.argmax(-1) == _of_each_step(targets)).to(logits.dtype)


def cross_entropy(logits: Tensor, targets: Tensor, at: Steps = "every_step") -> Tensor:
    """Mean cross-entropy of the answers after each glimpse, or after the last."""
    check_choice("at", at, Steps)
    each = -log_likelihood(logits, targets)
    return each.mean() if at == "every_step" else each[:, -1].mean()


def _of_each_step(targets: Tensor) -> Tensor:
    """Class indices (B,) or (B, T) as (B, 1) or (B, T)."""
    return targets.unsqueeze(1) if targets.dim() == 1 else targets


def check_choice(name: str, value: str, valid: Any) -> None:
    """Raise a ValueError unless a value is one of a Literal's."""
    if value not in get_args(valid):
        raise ValueError(f"{name} must be one of {', '.join(get_args(valid))}, got {value!r}")
