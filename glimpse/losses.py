"""Losses and estimators: pure functions of tensors, unweighted; the weights live in the config.

REINFORCE (Williams, 1992) with a baseline, as in Recurrent Models of Visual Attention (arXiv:1406.6247), section 3.2.
Every stop-gradient is an explicit `detach`.

Shapes: B batch, T glimpses, N choices (the last N of the T glimpses were chosen), M rollouts of each image. Of
captions: B batch, N words, L places, V vocabulary.
"""

from collections.abc import Callable
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

RewardKind = Literal["accuracy", "log_likelihood"]
When = Literal["last", "each"]


def log_likelihood(logits: Tensor, targets: Tensor) -> Tensor:
    """Log-probability of the right answer after each glimpse.

    Args:
        logits: (B, T, classes).
        targets: (B,) class indices; or (B, classes) multi-hot floats, each class an independent yes or no.

    Returns:
        (B, T).
    """
    if targets.is_floating_point():
        each = F.binary_cross_entropy_with_logits(logits, targets.unsqueeze(1).expand_as(logits), reduction="none")
        return -each.sum(-1)
    index = targets.view(-1, 1, 1).expand(-1, logits.shape[1], 1)
    return logits.log_softmax(-1).gather(-1, index).squeeze(-1)


def correct(logits: Tensor, targets: Tensor) -> Tensor:
    """Whether the answer after each glimpse is right: (B, T) of 0.0 and 1.0. Multi-hot: all classes must be."""
    if targets.is_floating_point():
        return ((logits > 0) == targets.unsqueeze(1).bool()).all(-1).to(logits.dtype)
    return (logits.argmax(-1) == targets.unsqueeze(1)).to(logits.dtype)


def cross_entropy(logits: Tensor, targets: Tensor, when: When = "each") -> Tensor:
    """Mean cross-entropy of the answers after each glimpse, or after the last."""
    _check("when", when, When)
    each = -log_likelihood(logits, targets)
    return each.mean() if when == "each" else each[:, -1].mean()


def rewards(logits: Tensor, targets: Tensor, kind: RewardKind = "accuracy") -> Tensor:
    """What each answer earns, (B, T): 1 if right ("accuracy", the paper's), or its log-likelihood. No gradient."""
    _check("kind", kind, RewardKind)
    return (correct if kind == "accuracy" else log_likelihood)(logits.detach(), targets)


def returns(rewards: Tensor, num_choices: int, when: When = "last", discount: float = 1.0) -> Tensor:
    """What each choice led to.

    Args:
        rewards: (B, T), after each glimpse.
        num_choices: N; choice i is of glimpse T - N + i, and earns nothing from the glimpses before that.
        when: "last": the reward after the last glimpse, for every choice. "each": the discounted sum of rewards from
            the chosen glimpse on.
        discount: Weight of the next reward; 0 counts only the glimpse that was chosen.

    Returns:
        (B, N).
    """
    _check("when", when, When)
    if when == "last":
        return rewards[:, -1:].expand(-1, num_choices)
    total = torch.zeros_like(rewards[:, 0])
    columns = []
    for reward_t in reversed(rewards.unbind(1)):
        total = reward_t + discount * total
        columns.append(total)
    return torch.stack(columns[::-1], 1)[:, rewards.shape[1] - num_choices :]


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


def normalise(advantages: Tensor, mean: Callable[[Tensor], Tensor] = lambda x: x.mean(0)) -> Tensor:
    """Give the advantages (B, N) mean 0 and variance 1 at each choice.

    Args:
        advantages: (B, N).
        mean: The mean over the batch; with several processes, over all of them.
    """
    centred = advantages - mean(advantages)
    return centred / (mean(centred.square()).sqrt() + 1e-6)


def advantages(returns: Tensor, baselines: Tensor | None) -> Tensor:
    """How much better each choice did than expected, (B, N). Has no gradient: it weighs the policy's, nothing else."""
    return (returns if baselines is None else returns - baselines).detach()


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
    cost = each.detach() + glimpse_cost * glimpse_numbers(each)
    return (halting_distribution(halting) * cost).sum(1).mean()


def glimpse_numbers(like: Tensor) -> Tensor:
    """The numbers 1 ... T, of the type and device of a tensor (B, T)."""
    return torch.arange(1, like.shape[1] + 1, device=like.device, dtype=like.dtype)


def caption_cross_entropy(logits: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
    """Mean cross-entropy of the words of captions, each word counted once, padding not at all.

    Args:
        logits: (B, N, V), the predictions.
        words: (B, N), what should have been predicted: the caption without START, with END, padded.
        lengths: (B,), the number of words of each, END counted, at least 1.
    """
    _check_captions(logits, lengths)
    if words.shape != logits.shape[:2]:
        raise ValueError(f"words must have shape {tuple(logits.shape[:2])}, got {tuple(words.shape)}")
    return -_of_words(logits, words).where(said(logits, lengths), 0).sum() / lengths.sum()


def caption_rewards(logits: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
    """What the words of captions earn, (B, N): each its log-likelihood, padding nothing. No gradient."""
    return _of_words(logits.detach(), words).where(said(logits, lengths), 0)


def doubly_stochastic(weights: Tensor, lengths: Tensor) -> Tensor:
    """How unevenly the places were looked at: sum over places of (1 - attention summed over the words) squared.

    Show, Attend and Tell (arXiv:1502.03044), 4.2.1; the mean over the batch.

    Args:
        weights: (B, N, L), the attention.
        lengths: (B,), the number of words of each caption, END counted; steps after the last are left out.
    """
    _check_captions(weights, lengths)
    attended = weights.where(said(weights, lengths).unsqueeze(-1), 0).sum(1)
    return (1 - attended).square().sum(1).mean()


def _of_words(logits: Tensor, words: Tensor) -> Tensor:
    """Log-probabilities (B, N) of given words."""
    return logits.log_softmax(-1).gather(-1, words.unsqueeze(-1)).squeeze(-1)


def said(steps: Tensor, lengths: Tensor) -> Tensor:
    """Which of the steps (B, N, ...) are of words and not of padding: (B, N)."""
    return torch.arange(steps.shape[1], device=steps.device) < lengths.unsqueeze(1)


def _check_captions(steps: Tensor, lengths: Tensor) -> None:
    if lengths.shape != steps.shape[:1]:
        raise ValueError(f"lengths must have shape ({len(steps)},), got {tuple(lengths.shape)}")


def _check(name: str, value: str, valid: Any) -> None:
    if value not in get_args(valid):
        raise ValueError(f"{name} must be one of {', '.join(get_args(valid))}, got {value!r}")
