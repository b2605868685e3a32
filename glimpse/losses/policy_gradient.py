"""The parts of REINFORCE: rewards, returns, baselines, advantages and the loss.

Williams, 1992; as in Recurrent Models of Visual Attention (arXiv:1406.6247), 3.2. Every stop-gradient is an explicit
`detach`.

A reward and a baseline are functions that are registered under a name, which is then a value of `estimator.reward` or
`estimator.baseline`. This module is imported with the settings, so it does not import torch.

Shapes: B examples, M rollouts of each, T glimpses or words, N choices (the last N of the T).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from glimpse import losses
from glimpse.config.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

    from glimpse.losses.classification import Steps
    from glimpse.losses.estimators.base import Context, Episode
    from glimpse.losses.estimators.reinforce import Reinforce

# Rewards


class Reward(NamedTuple):
    """A registered reward."""

    of: Callable[[Tensor, Tensor], Tensor]  # of logits (B, T, classes) and targets: (B, T)
    same_target: bool  # whether it compares answers with each other, so that all must have the same target


REWARDS: Registry[Reward] = Registry("estimator.reward")


def reward(
    name: str, *, same_target: bool = False
) -> Callable[[Callable[[Tensor, Tensor], Tensor]], Callable[[Tensor, Tensor], Tensor]]:
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
    """The log-likelihood after the glimpse less that before it, as in AdaptiveNN.

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


def rewards(logits: Tensor, targets: Tensor, reward: str = "accuracy") -> Tensor:
    """What each answer earns, (B, T), by a registered reward. No gradient."""
    return REWARDS[reward].of(logits.detach(), targets)


# Returns


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
    import torch

    if at not in ("last_step", "every_step"):
        raise ValueError(f"at must be one of last_step, every_step, got {at!r}")
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


# Baselines: what the return of each choice was expected to be.

Expected: TypeAlias = "Callable[[Tensor, Episode, Context, Reinforce], Tensor | None]"


class Baseline(NamedTuple):
    """A registered baseline."""

    expected: Expected  # of returns (B*M, N), episode, context and estimator: (B*M, N) or what broadcasts to it
    min_samples: int  # rollouts of each example that it needs
    needs_values: bool  # whether the model must have a baseline head
    needs_running_mean: bool  # whether the model must keep the running mean of the reward
    needs_greedy: bool  # whether it asks the context for a greedy rollout


BASELINES: Registry[Baseline] = Registry("estimator.baseline")


def baseline(
    name: str,
    *,
    min_samples: int = 1,
    needs_values: bool = False,
    needs_running_mean: bool = False,
    needs_greedy: bool = False,
) -> Callable[[Expected], Expected]:
    """Register a function as a baseline, with what it needs; see `Baseline`.

    What it returns must not depend on the place that was sampled, so that the gradient stays unbiased.
    """

    def register(function: Expected) -> Expected:
        BASELINES.register(name)(Baseline(function, min_samples, needs_values, needs_running_mean, needs_greedy))
        return function

    return register


@baseline("none")
def none(returns: Tensor, episode: Episode, context: Context, estimator: Reinforce) -> None:
    """No baseline."""


@baseline("learned", needs_values=True)
def learned(returns: Tensor, episode: Episode, context: Context, estimator: Reinforce) -> Tensor | None:
    """A linear layer of the state before each choice, trained on the squared error to the return."""
    return episode.values


@baseline("self_critical", needs_greedy=True)
def self_critical(returns: Tensor, episode: Episode, context: Context, estimator: Reinforce) -> Tensor:
    """The return of a greedy rollout (self-critical sequence training, arXiv:1612.00563)."""
    return estimator.returns(context.greedy_logits(), episode)


@baseline("leave_one_out", min_samples=2)
def other_rollouts(returns: Tensor, episode: Episode, context: Context, estimator: Reinforce) -> Tensor:
    """The mean return of the other rollouts of the same example, at the same choice."""
    return leave_one_out(returns, episode.samples)


@baseline("moving_average", needs_running_mean=True)
def moving_average(returns: Tensor, episode: Episode, context: Context, estimator: Reinforce) -> Tensor:
    """The running mean of the reward over the batches before this one (Show, Attend and Tell, arXiv:1502.03044)."""
    return context.running_mean(context.batch_mean(returns).mean())


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


# The loss


def advantages(returns: Tensor, baselines: Tensor | None) -> Tensor:
    """How much better each choice did than expected, (B, N). Has no gradient: it weighs the policy's, nothing else."""
    return (returns if baselines is None else returns - baselines).detach()


def normalize(advantages: Tensor, mean: Callable[[Tensor], Tensor] = lambda x: x.mean(0)) -> Tensor:
    """Give the advantages (B, N) mean 0 and variance 1 at each choice.

    Args:
        advantages: (B, N).
        mean: The mean over the batch; with several processes, over all of them.
    """
    centered = advantages - mean(advantages)
    return centered / (mean(centered.square()).sqrt() + 1e-6)


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
    return (baselines - returns.detach()).square().mean()
