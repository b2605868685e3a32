"""Log-likelihood, cross-entropy and accuracy of class probabilities after each glimpse or word.

Shapes: B batch, T glimpses or words.
"""

from typing import Any, Literal, get_args

import torch.nn.functional as F
from torch import Tensor

Steps = Literal["last_step", "every_step"]


def log_likelihood(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the log-probability (B, T) of the target after each glimpse.

    Args:
        logits: (B, T, classes).
        targets: (B,) class indices; or (B, T) class indices, one per step; or (B, classes) multi-hot floats, for
            independent binary classes.
    """
    if targets.is_floating_point():
        losses = F.binary_cross_entropy_with_logits(logits, targets.unsqueeze(1).expand_as(logits), reduction="none")
        return -losses.sum(-1)
    index = _targets_per_step(targets).unsqueeze(-1).expand(-1, logits.shape[1], 1)
    return logits.log_softmax(-1).gather(-1, index).squeeze(-1)


def correct(logits: Tensor, targets: Tensor) -> Tensor:
    """Return whether the prediction after each glimpse is correct, as 0.0 or 1.0 (B, T); multi-hot: in all classes."""
    if targets.is_floating_point():
        return ((logits > 0) == targets.unsqueeze(1).bool()).all(-1).to(logits.dtype)
    return (logits.argmax(-1) == _targets_per_step(targets)).to(logits.dtype)


def cross_entropy(logits: Tensor, targets: Tensor, at: Steps = "every_step") -> Tensor:
    """Return the mean cross-entropy after every glimpse, or after the last; for the shapes see `log_likelihood`."""
    check_choice("at", at, Steps)
    losses = -log_likelihood(logits, targets)
    return losses.mean() if at == "every_step" else losses[:, -1].mean()


def _targets_per_step(targets: Tensor) -> Tensor:
    """Return class indices (B,) or (B, T) as (B, 1) or (B, T)."""
    return targets.unsqueeze(1) if targets.dim() == 1 else targets


def check_choice(name: str, value: str, valid: Any) -> None:
    """Raise a ValueError unless an argument has one of the values of a Literal."""
    if value not in get_args(valid):
        raise ValueError(f"{name} must be one of {', '.join(get_args(valid))}, got {value!r}")
