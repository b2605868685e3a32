"""The parts of REINFORCE: rewards, returns, baselines, advantages and the loss.

Williams, 1992; as in Recurrent Models of Visual Attention (arXiv:1406.6247), 3.2. Every stop-gradient is an explicit
`detach`.

Rewards and baselines are functions registered under the name that `estimator.reward` or `estimator.baseline` gives.
The settings import this module, so it does not import torch.

Shapes: B examples, M rollouts per example, T glimpses or words, N choices (the last N of the T).
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

    compute: Callable[[Tensor, Tensor], Tensor]  # logits (B, T, classes) and targets to rewards (B, T)
    same_target: bool  # whether it compares successive steps, which must have the same target


REWARDS: Registry[Reward] = Registry("estimator.reward")


def reward(
    name: str, *, same_target: bool = False
) -> Callable[[Callable[[Tensor, Tensor], Tensor]], Callable[[Tensor, Tensor], Tensor]]:
    """Register a function of logits (B, T, classes) and targets that returns rewards (B, T).

    Args:
        name: Value of `estimator.reward` that selects the function.
        same_target: Whether it compares the predictions of successive steps, which must then have the same target:
            true for classification only, not for words.
    """

    def register(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
        REWARDS.register(name)(Reward(function, same_target))
        return function

    return register


@reward("accuracy")
def accuracy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return 1 if the prediction is correct, else 0, as in Recurrent Models of Visual Attention (arXiv:1406.6247)."""
    return losses.correct(logits, targets)


@reward("log_likelihood")
def target_log_likelihood(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the log-likelihood of the target."""
    return losses.log_likelihood(logits, targets)


@reward("gain", same_target=True)
def gain(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the log-likelihood of the target after the glimpse minus that before it, as in AdaptiveNN.

    Before the first glimpse the prediction is uniform. With `estimator.discount: 1` the return of a choice is the last
    log-likelihood minus the one before the choice.
    """
    after = losses.log_likelihood(logits, targets)
    before = after.roll(1, 1)
    before[:, 0] = _uniform_log_likelihood(logits, targets)
    return after - before


@reward("above_chance")
def above_chance(logits: Tensor, targets: Tensor) -> Tensor:
    """Return max(0, p - u), for the probability p of the target and its probability u in a uniform prediction."""
    return (losses.log_likelihood(logits, targets).exp() - math.exp(_uniform_log_likelihood(logits, targets))).clamp(0)


def _uniform_log_likelihood(logits: Tensor, targets: Tensor) -> float:
    """Return the log-likelihood of any target under a uniform prediction."""
    classes = logits.shape[-1]
    return -classes * math.log(2) if targets.is_floating_point() else -math.log(classes)


def rewards(logits: Tensor, targets: Tensor, reward: str = "accuracy") -> Tensor:
    """Return the rewards (B, T) by a registered reward, without a gradient.

    Args:
        logits: (B, T, classes).
        targets: See `classification.target_log_likelihood`.
        reward: A key of `REWARDS`.
    """
    return REWARDS[reward].compute(logits.detach(), targets)


# Returns


def returns(
    rewards: Tensor, num_choices: int, at: Steps = "last_step", discount: float = 1.0, mask: Tensor | None = None
) -> Tensor:
    """Return the return (B, N) of each choice.

    Args:
        rewards: (B, T), after each glimpse.
        num_choices: N; choice i places glimpse T - N + i and gets no reward from earlier glimpses.
        at: "last_step": the reward after the last glimpse, for every choice. "every_step": the discounted sum of the
            rewards from the chosen glimpse on.
        discount: Weight of the next reward; with 0 the return is the reward of the chosen glimpse.
        mask: (B, T) bool, false where padded, after the last word for example; None: no padding. Padded steps have no
            reward.
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


# Baselines: the expected return of each choice

Expected: TypeAlias = "Callable[[Tensor, Episode, Context, Reinforce], Tensor | None]"


class Baseline(NamedTuple):
    """A registered baseline."""

    expected: Expected  # expected returns, broadcastable to (B*M, N); None for no baseline
    min_samples: int  # least number of rollouts per example
    needs_values: bool  # whether it needs a baseline head of the model
    needs_running_mean: bool  # whether it needs the model's running mean of the reward
    needs_greedy: bool  # whether it needs a greedy rollout


BASELINES: Registry[Baseline] = Registry("estimator.baseline")


def baseline(
    name: str,
    *,
    min_samples: int = 1,
    needs_values: bool = False,
    needs_running_mean: bool = False,
    needs_greedy: bool = False,
) -> Callable[[Expected], Expected]:
    """Register a baseline with its requirements; see `Baseline`.

    The value must be independent of the place sampled by the choice, given the state, to keep the gradient unbiased.
    """

    def register(function: Expected) -> Expected:
        BASELINES.register(name)(Baseline(function, min_samples, needs_values, needs_running_mean, needs_greedy))
        return function

    return register


@baseline("none")
def none(returns: Tensor, episode: Episode, context: Context, estimator: Reinforce) -> None:
    """Return None: no baseline."""


@baseline("learned", needs_values=True)
def learned(returns: Tensor, episode: Episode, context: Context, estimator: Reinforce) -> Tensor | None:
    """Return the output of the baseline head: a linear function of the state before each choice, fit to the return."""
    return episode.values


@baseline("self_critical", needs_greedy=True)
def self_critical(returns: Tensor, episode: Episode, context: Context, estimator: Reinforce) -> Tensor:
    """Return the returns of a greedy rollout (self-critical sequence training, arXiv:1612.00563)."""
    return estimator.returns(context.greedy_logits(), episode)


@baseline("leave_one_out", min_samples=2)
def other_rollouts(returns: Tensor, episode: Episode, context: Context, estimator: Reinforce) -> Tensor:
    """Return the mean return of the other rollouts of the same example, at the same choice."""
    return leave_one_out(returns, episode.samples)


@baseline("moving_average", needs_running_mean=True)
def moving_average(returns: Tensor, episode: Episode, context: Context, estimator: Reinforce) -> Tensor:
    """Return the running mean of the returns of earlier batches (Show, Attend and Tell, arXiv:1502.03044)."""
    return context.running_mean(context.batch_mean(returns).mean())


def leave_one_out(returns: Tensor, num_rollouts: int) -> Tensor:
    """Return the leave-one-out baseline (B*M, N): the mean return of the other rollouts of an example, per choice.

    Args:
        returns: (B*M, N), the M rollouts of an example in adjacent rows.
        num_rollouts: M, at least 2.
    """
    if num_rollouts < 2:
        raise ValueError(f"num_rollouts must be at least 2 for a leave-one-out baseline, got {num_rollouts}")
    grouped = returns.view(-1, num_rollouts, returns.shape[1])
    others = grouped.sum(1, keepdim=True) - grouped
    return (others / (num_rollouts - 1)).view_as(returns)


# The loss


def advantages(returns: Tensor, baselines: Tensor | None) -> Tensor:
    """Return the returns (B, N) minus the baselines, if any; detached, as they only weight the policy gradient."""
    return (returns if baselines is None else returns - baselines).detach()


def normalize(advantages: Tensor, mean: Callable[[Tensor], Tensor] = lambda x: x.mean(0)) -> Tensor:
    """Standardize the advantages (B, N) to mean 0 and variance 1, at each choice by default.

    Args:
        advantages: (B, N).
        mean: Mean over the batch, of all processes, that broadcasts to (B, N).
    """
    centered = advantages - mean(advantages)
    return centered / (mean(centered.square()).sqrt() + 1e-6)


def reinforce(log_probs: Tensor, advantages: Tensor) -> Tensor:
    """Return the REINFORCE loss, whose gradient estimates minus the gradient of the expected return.

    Args:
        log_probs: (B, N), log-probabilities of the sampled places.
        advantages: (B, N), returns minus baselines, detached.
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
    """Return the mean squared error of a learned baseline (B, N); returns are detached."""
    return (baselines - returns.detach()).square().mean()
