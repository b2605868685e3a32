"""From answers to what each choice led to: rewards, returns, advantages.

Shapes: B batch, T glimpses, N choices (the last N of the T glimpses were chosen).
"""

from collections.abc import Callable

import torch
from torch import Tensor

from glimpse.losses.classification import Steps, check_choice
from glimpse.losses.reward import REWARDS


def rewards(logits: Tensor, targets: Tensor, reward: str = "accuracy") -> Tensor:
    """What each answer earns, (B, T), by a registered reward. No gradient."""
    return REWARDS[reward].of(logits.detach(), targets)


def returns(
    rewards: Tensor, num_choices: int, at: Steps = "last_step", discount: float = 1.0, mask: Tensor | None = None
) -> Tensor:
    """What each choice led to.

    Args:
        rewards: (B, T), after each glimpse.
        num_choices: N; choice i is of glimpse T - N + i, and earns nothing from the glimpses before that.
        at: "last_step": the reward after the last glimpse, for every choice. "every_step": the discounted sum of
            rewards from the chosen glimpse on.
        discount: Weight of the next reward; 0 counts only the glimpse that was chosen.
        mask: (B, T), true up to the last step that counts, of words for example; the others earn nothing.

    Returns:
        (B, N).
    """
    check_choice("at", at, Steps)
    if mask is not None:
        rewards = rewards.where(mask, 0)
    if at == "last_step":
        last = rewards[:, -1:] if mask is None else rewards.gather(1, mask.sum(1, keepdim=True) - 1)
        return last.expand(-1, num_choices)
    total = torch.zeros_like(rewards[:, 0])
    columns = []
    for reward_t in reversed(rewards.unbind(1)):
        total = reward_t + discount * total
        columns.append(total)
    return torch.stack(columns[::-1], 1)[:, rewards.shape[1] - num_choices :]


def normalize(advantages: Tensor, mean: Callable[[Tensor], Tensor] = lambda x: x.mean(0)) -> Tensor:
    """Give the advantages (B, N) mean 0 and variance 1 at each choice.

    Args:
        advantages: (B, N).
        mean: The mean over the batch; with several processes, over all of them.
    """
    centered = advantages - mean(advantages)
    return centered / (mean(centered.square()).sqrt() + 1e-6)


def advantages(returns: Tensor, baselines: Tensor | None) -> Tensor:
    """How much better each choice did than expected, (B, N). Has no gradient: it weighs the policy's, nothing else."""
    return (returns if baselines is None else returns - baselines).detach()


normalise = normalize  # the name in version 0.1
