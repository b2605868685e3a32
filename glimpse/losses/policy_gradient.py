"""The REINFORCE loss, the error of a learned baseline, and the leave-one-out baseline.

Williams, 1992; as in Recurrent Models of Visual Attention (arXiv:1406.6247), section 3.2. Every stop-gradient is an
explicit `detach`.

Shapes: B batch, N choices, M rollouts of each image.
"""

import torch.nn.functional as F
from torch import Tensor


def leave_one_out(returns: Tensor, num_rollouts: int) -> Tensor:
    """Baselines from the other rollouts of the same image: their mean return at the same choice.

    Args:
        returns: (B*M, N), the M rollouts of an image next to each other.
        num_rollouts: M, at least 2.

    Returns:
        (B*M, N).
    """
    if num_rollouts < 2:
        raise ValueError(f"num_rollouts must be at least 2 to leave one out, got {num_rollouts}")
    grouped = returns.view(-1, num_rollouts, returns.shape[1])
    others = grouped.sum(1, keepdim=True) - grouped
    return (others / (num_rollouts - 1)).view_as(returns)


def reinforce(log_probs: Tensor, advantages: Tensor) -> Tensor:
    """The loss whose gradient is the REINFORCE estimate of minus the gradient of the expected return.

    Args:
        log_probs: (B, N), of the choices made.
        advantages: (B, N), what each led to, less a baseline that does not depend on it.
    """
    if log_probs.shape != advantages.shape:
        raise ValueError(
            f"log_probs and advantages must have the same shape, got {tuple(log_probs.shape)} and "
            f"{tuple(advantages.shape)}"
        )
    if advantages.requires_grad:
        raise ValueError("advantages must not require a gradient: detach them")
    return -(log_probs * advantages).sum(1).mean()


def baseline_error(baselines: Tensor, returns: Tensor) -> Tensor:
    """Mean squared error of a learned baseline (B, N); its gradient ends at the baseline's own weights."""
    return F.mse_loss(baselines, returns.detach())
