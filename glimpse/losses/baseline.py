"""Baselines of REINFORCE: what the return of each choice was expected to be.

A baseline is a function that is registered under a name; the name is then a value of `estimator.baseline`. What it
returns must not depend on the place that was sampled, so that the gradient stays unbiased. This module is imported with
the settings, so it does not import torch.

Shapes: B batch, M rollouts of each example, N choices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from glimpse import losses
from glimpse.config.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

    from glimpse.losses.estimators.base import Context, Episode
    from glimpse.losses.estimators.reinforce import Reinforce

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
    """Register a function as a baseline, with what it needs; see `Baseline`."""

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
def leave_one_out(returns: Tensor, episode: Episode, context: Context, estimator: Reinforce) -> Tensor:
    """The mean return of the other rollouts of the same example, at the same choice."""
    return losses.leave_one_out(returns, episode.samples)


@baseline("moving_average", needs_running_mean=True)
def moving_average(returns: Tensor, episode: Episode, context: Context, estimator: Reinforce) -> Tensor:
    """The running mean of the reward over the batches before this one (Show, Attend and Tell, arXiv:1502.03044)."""
    return context.running_mean(context.batch_mean(returns).mean())
