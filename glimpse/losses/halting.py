"""The loss of a halting unit, which learns after which glimpse to stop.

PonderNet, arXiv:2107.05407, truncated at T steps.

Shapes: B batch, T glimpses.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def halting_distribution(halt_logits: Tensor) -> Tensor:
    """Return the probability (B, T) of stopping after each glimpse; they sum to 1.

    p_t is the conditional probability of stopping after glimpse t times the probability of not having stopped before.
    The model always stops after the last glimpse.

    Args:
        halt_logits: (B, T), logits of stopping after each glimpse, given that it was reached; the last is ignored.
    """
    reach = F.logsigmoid(-halt_logits[:, :-1]).cumsum(1)  # log-probability of reaching glimpses 2 ... T
    stop = F.pad(F.logsigmoid(halt_logits[:, :-1]), (0, 1))
    return (F.pad(reach, (1, 0)) + stop).exp()


def halting_cost(halt_logits: Tensor, step_losses: Tensor, glimpse_cost: float) -> Tensor:
    """Return the expected loss of the final prediction plus the expected cost of the glimpses, averaged over the batch.

    The expectation over the stopping step is exact. Its gradient reaches the halting unit only: losses are detached
    here, and the unit's input is a detached state. So the rest of the model learns as it would without the unit, and
    late predictions are trained even if the unit rarely reaches them.
    Departure from PonderNet: there the predictions learn from this loss too, and a prior prevents stopping too early.

    Args:
        halt_logits: (B, T), see `halting_distribution`.
        step_losses: (B, T), the loss of the prediction after each glimpse.
        glimpse_cost: Cost of a glimpse, in the unit of the losses.
    """
    if halt_logits.shape != step_losses.shape:
        raise ValueError(
            f"halt_logits and step_losses must have the same shape, got {tuple(halt_logits.shape)} and "
            f"{tuple(step_losses.shape)}"
        )
    cost = step_losses.detach() + glimpse_cost * step_numbers(step_losses)
    return (halting_distribution(halt_logits) * cost).sum(1).mean()


def step_numbers(like: Tensor) -> Tensor:
    """Return the numbers 1 ... T with the dtype and device of a tensor (B, T)."""
    return torch.arange(1, like.shape[1] + 1, device=like.device, dtype=like.dtype)
