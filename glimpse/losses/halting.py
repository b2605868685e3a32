"""The loss of a halting unit, which learns after which glimpse to stop.

Shapes: B batch, T glimpses.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def halting_distribution(halting: Tensor) -> Tensor:
    """The probability of stopping after each glimpse and not before, which sum to one.

    As in PonderNet (arXiv:2107.05407), cut off at T: p_t is the probability of stopping after glimpse t if it was
    not done before, times those of going on after each glimpse before; after the last one stops in any case.

    Args:
        halting: (B, T), logits of stopping after each glimpse, if not done before; the last has no say.

    Returns:
        (B, T).
    """
    going = F.logsigmoid(-halting[:, :-1]).cumsum(1)  # log-probability of looking at glimpse 2 ... T
    reached = F.pad(going, (1, 0))
    stop = F.pad(F.logsigmoid(halting[:, :-1]), (0, 1))
    return (reached + stop).exp()


def halting_cost(halting: Tensor, each: Tensor, glimpse_cost: float) -> Tensor:
    """What stopping is expected to cost: the loss of the answer it ends with, and so much for each glimpse.

    The expectation is over when to stop, and exact: with T glimpses there are T ways. Its gradient ends at the halting
    unit: how bad the answers are is a number to it, as the state it judges by is. So the model learns to look and to
    answer as it would without, and later answers are learned even if they are seldom waited for.
    Departure from PonderNet: there the answers learn from this too, and a prior keeps it from stopping too early.

    Args:
        halting: (B, T), see `halting_distribution`.
        each: (B, T), the loss of the answer after each glimpse.
        glimpse_cost: The cost of a glimpse.
    """
    if halting.shape != each.shape:
        raise ValueError(
            f"halting and each must have the same shape, got {tuple(halting.shape)} and {tuple(each.shape)}"
        )
    cost = each.detach() + glimpse_cost * step_numbers(each)
    return (halting_distribution(halting) * cost).sum(1).mean()


def step_numbers(like: Tensor) -> Tensor:
    """The numbers 1 ... T, of the type and device of a tensor (B, T)."""
    return torch.arange(1, like.shape[1] + 1, device=like.device, dtype=like.dtype)
