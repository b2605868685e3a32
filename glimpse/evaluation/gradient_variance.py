"""How noisy the REINFORCE gradient is with each baseline of the menu, measured on one model.

What is measured is the estimate of the gradient with respect to the parameters of the attention (the location head, or
the scorer of a grid), with weights and images fixed. An estimate is the mean over the images and M sampled rollouts of
each; it is repeated R times with independent noise, and its variance is the sum of those of its P components. In each
repetition all baselines judge the very same rollouts, so that the baseline is all they differ in, and their comparison
is a paired one. A learned baseline is that of the model, as it was trained.

The advantages are not normalised, as training may do it: that divides by a number that depends on the rollouts, which
changes the scale and the mean of the estimate, and variances could no longer be compared. Nothing in the model behaves
differently in training (there is no dropout), so the rollouts are those of a training step.

Shapes: B batch, M rollouts of each image, N choices, R repetitions, P parameters of the attention.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from glimpse import losses
from glimpse.attention.distributions import Noise
from glimpse.data import Batch, Dataset
from glimpse.errors import ConfigError, require
from glimpse.losses.estimators import Context, Episode
from glimpse.losses.estimators.reinforce import Reinforce
from glimpse.losses.policy_gradient import BASELINES, Baseline
from glimpse.models.recurrent_attention import RecurrentAttention
from glimpse.models.rollout import Rollout
from glimpse.seeding import Stream, noise_seed

IMAGES_AT_A_TIME = 64  # keeps the memory of a repetition in bounds
NORMAL_QUANTILE = 1.959964  # 95%, two-sided


class BaselineVariance(NamedTuple):
    """What one baseline makes of the gradient."""

    baseline: str
    rollouts: int  # of each image, in one estimate, with the greedy ones
    variance: float  # of an estimate, summed over the parameters
    interval: tuple[float, float]  # its 95% interval
    ratio: float  # variance as a multiple of that without a baseline
    ratio_interval: tuple[float, float]
    signal: float  # squared norm of the mean gradient; unbiased, so it may fall below 0 when it is small
    mean_shift: float  # of the mean gradient with that without a baseline, see `mean_shift`
    per_choice: tuple[float, ...]  # N: variance of the term of each choice alone

    @property
    def signal_to_noise(self) -> float:
        """Squared norm of the mean gradient over the variance of an estimate."""
        return self.signal / self.variance if self.variance else math.nan


class GradientVariance(NamedTuple):
    """The estimators of one model, that without a baseline first."""

    estimators: tuple[BaselineVariance, ...]
    images: int
    rollouts: int  # M
    repeats: int  # R
    parameters: int  # P
    first_choice: int  # number, from 1, of the first glimpse that was chosen
    notes: tuple[str, ...]  # what is left out, and why


class GradientSamples(NamedTuple):
    """R estimates of one gradient."""

    totals: Tensor  # (R, P), float64
    per_choice: tuple[float, ...]  # N: variance of the term of each choice alone


def measure(
    model: nn.Module,
    data: Dataset,
    estimator: Reinforce,
    *,
    images: int = 64,
    rollouts: int = 4,
    repeats: int = 100,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> GradientVariance:
    """Measure the variance of the REINFORCE gradient with each baseline.

    Args:
        model: A recurrent attention model that reads hard and chooses where; on the device.
        data: Where the images come from: the first of its fixed order.
        estimator: What an answer earns, and which choices earn it (`reward`, `reward_at`, `discount`).
        images: Number of images; all of the data set if it has fewer.
        rollouts: Number M of sampled rollouts of each image, at least 2.
        repeats: Number R of repetitions, at least 10. So many gradients of each baseline are held in memory.
        seed: Decides what is sampled.
        device: Where to compute.

    Raises:
        ConfigError: If the model makes no choices that REINFORCE could learn, or there are too few repetitions.
    """
    if not model.attends:
        raise ConfigError("the variance of REINFORCE needs a hard run with choices, got a whole-image network")
    if model.mode != "hard":
        raise ConfigError(f"the variance of REINFORCE needs a hard run with choices, got one that reads {model.mode}")
    if model.num_choices == 0:
        raise ConfigError(
            f"the variance of REINFORCE needs a hard run with choices, got none: policy {model.policy.name}, "
            f"{model.num_glimpses} glimpses, the first {model.first}"
        )
    if not hasattr(estimator, "returns"):
        raise ConfigError(f"the variance of REINFORCE needs estimator.kind reinforce, got {estimator.kind}")
    if not model.attention_parameters():
        raise ConfigError("the variance of REINFORCE is that of the attention's parameters, got a scorer, dot, of none")
    require(images >= 1, "images", "at least 1", images)
    require(rollouts >= 2, "rollouts", "at least 2, to leave one out", rollouts)
    require(repeats >= 10, "repeats", "at least 10, for intervals to mean something", repeats)
    batches = [
        Batch(*(field.to(device) for field in batch))
        for batch in data.in_order(batch_size=IMAGES_AT_A_TIME, limit=images)
    ]
    estimates = _repeat(model, batches, estimator, rollouts, repeats, seed)
    greedy = rollouts if model.is_random else 1
    return GradientVariance(
        estimators=tuple(
            _summarise(name, rollouts + (greedy if BASELINES[name].needs_greedy else 0), each, estimates["none"])
            for name, each in estimates.items()
        ),
        images=sum(len(batch.targets) for batch in batches),
        rollouts=rollouts,
        repeats=repeats,
        parameters=estimates["none"].totals.shape[1],
        first_choice=model.num_glimpses - model.num_choices + 1,
        notes=() if model.baseline is not None else ("The learned baseline is left out: the model has none.",),
    )


def _repeat(
    model: RecurrentAttention,
    batches: list[Batch],
    estimator: Reinforce,
    rollouts: int,
    repeats: int,
    seed: int,
) -> dict[str, GradientSamples]:
    """Estimate the gradient R times with each baseline."""
    images = sum(len(batch.targets) for batch in batches)
    totals: dict[str, list[Tensor]] = {}
    sums: dict[str, Tensor] = {}  # (N, P)
    squares: dict[str, Tensor] = {}  # (N,)
    for repeat in range(repeats):
        estimate: dict[str, Tensor] = {}
        for index, batch in enumerate(batches):
            noise = Noise(noise_seed(Stream.VARIANCE_NOISE, seed, repeat, index))
            for name, terms in _estimate(model, batch, estimator, rollouts, noise).items():
                estimate[name] = estimate.get(name, 0) + terms * (len(batch.targets) / images)
        for name, terms in estimate.items():
            totals.setdefault(name, []).append(terms.sum(0))
            sums[name] = sums.get(name, 0) + terms
            squares[name] = squares.get(name, 0) + terms.square().sum(1)
    return {
        name: GradientSamples(
            torch.stack(totals[name]),
            # Not from all R terms of all choices: those of a large scorer would fill the memory.
            tuple(((squares[name] - sums[name].square().sum(1) / repeats) / (repeats - 1)).clamp(min=0).tolist()),
        )
        for name in totals
    }


def _estimate(
    model: RecurrentAttention, batch: Batch, estimator: Reinforce, rollouts: int, noise: Noise
) -> dict[str, Tensor]:
    """One estimate with each baseline, from the same rollouts: the gradient (N, P) of the term of each choice."""
    attention = model.attention_parameters()
    # To the attention, all other weights are constants: so autograd need not remember what they were used for.
    constants = {
        name: weight.detach()
        for name, weight in model.named_parameters()
        if not any(weight is parameter for parameter in attention)
    }
    images, targets = (field.repeat_interleave(rollouts, 0) for field in (batch.images, batch.targets))
    again = noise.fork()
    rollout: Rollout = functional_call(model, constants, (images,), {"noise": noise})
    episode = Episode(rollout.log_probs, rollout.entropies, rollout.logits, targets, rollout.baselines, None, rollouts)
    context = _GreedyContext(model, batch.images, rollouts, again)
    returns = estimator.returns(rollout.logits, episode)
    baselines = {name: its.expected(returns, episode, context, estimator) for name, its in _measurable(model).items()}
    estimates = {}
    for name, expected in baselines.items():
        advantages = losses.advantages(returns, expected)
        terms = []
        for choice in range(model.num_choices):
            term = losses.reinforce(rollout.log_probs[:, [choice]], advantages[:, [choice]])
            gradients = torch.autograd.grad(term, attention, retain_graph=True, materialize_grads=True)
            terms.append(torch.cat([gradient.flatten() for gradient in gradients]).cpu().double())
        estimates[name] = torch.stack(terms)
    return estimates


class _GreedyContext(Context):
    """Greedy rollouts for a baseline; without gradient, as everything that is expected."""

    def __init__(self, model: RecurrentAttention, images: Tensor, rollouts: int, noise: Noise):
        self.model = model
        self.images = images
        self.rollouts = rollouts
        self.noise = noise

    @torch.no_grad()
    def greedy_logits(self) -> Tensor:
        """See `Context`."""
        if self.model.is_random:  # each greedy rollout begins where the sampled one did
            images = self.images.repeat_interleave(self.rollouts, 0)
            return self.model(images, sample=False, noise=self.noise).logits
        return self.model(self.images, sample=False).logits.repeat_interleave(self.rollouts, 0)


def _measurable(model: RecurrentAttention) -> dict[str, Baseline]:
    """The baselines that a model can be measured with as it is: a running mean belongs to a training."""
    return {
        name: its
        for name, its in BASELINES.items()
        if not its.needs_running_mean and (model.baseline is not None or not its.needs_values)
    }


def _summarise(name: str, rollouts: int, estimates: GradientSamples, without: GradientSamples) -> BaselineVariance:
    variance, left_out = total_variance(estimates.totals)
    reference, reference_left_out = total_variance(without.totals)
    ratio = variance / reference if reference else math.nan
    return BaselineVariance(
        baseline=name,
        rollouts=rollouts,
        variance=variance,
        interval=jackknife_interval(variance, left_out),
        ratio=ratio,
        # The two vary together, since the rollouts are the same: that narrows the interval of their ratio.
        ratio_interval=jackknife_interval(ratio, left_out / reference_left_out),
        signal=float(estimates.totals.mean(0).square().sum()) - variance / len(estimates.totals),
        mean_shift=mean_shift(estimates.totals, without.totals),
        per_choice=estimates.per_choice,
    )


def total_variance(estimates: Tensor) -> tuple[float, Tensor]:
    """The unbiased variance of estimates (R, P), summed over P; and (R,) the same with each left out in turn."""
    repeats = len(estimates)
    distances = (estimates - estimates.mean(0)).square().sum(1)  # (R,)
    total = distances.sum()
    left_out = (total - distances * repeats / (repeats - 1)) / (repeats - 2)
    return float(total / (repeats - 1)), left_out


def jackknife_interval(value: float, left_out: Tensor) -> tuple[float, float]:
    """The 95% interval of a positive statistic, from its values (R,) with each repetition left out in turn.

    The jackknife, because it assumes no distribution of the gradients, has a closed form for a variance, and draws no
    numbers of its own; of the logarithm, because a variance is positive and its estimate skewed. Where the statistic
    rests on a single repetition, or is 0 in all, nothing can be said of its spread: then it is (0, infinity).
    """
    if not bool((left_out > 1e-9 * value).all()) or not bool(left_out.isfinite().all()):
        return 0.0, math.inf
    logs = left_out.log()
    error = math.sqrt((len(logs) - 1) * float((logs - logs.mean()).square().mean()))
    return value * math.exp(-NORMAL_QUANTILE * error), value * math.exp(NORMAL_QUANTILE * error)


def mean_shift(estimates: Tensor, others: Tensor) -> float:
    """How far apart the means of two estimators are, in standard errors.

    Args:
        estimates: (R, P).
        others: (R, P), of the same rollouts.

    Returns:
        The norm of the mean difference over the root of its expected square if there is none, from the differences
        within the repetitions. Around 1 if the means are the same, and growing with the root of R if not. Chance brings
        it above 2 in about one case of twenty, if all parameters move as one and R is not small; more rarely otherwise.
    """
    differences = estimates - others
    square = float(differences.mean(0).square().sum())
    expected = total_variance(differences)[0] / len(differences)
    if expected == 0:
        return 0.0 if square == 0 else math.inf
    return math.sqrt(square / expected)
