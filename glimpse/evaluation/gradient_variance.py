"""The variance of the REINFORCE gradient of a trained model, with each baseline.

The gradient is with respect to the parameters of the attention (the location head, or the scorer of a grid); weights
and images are fixed. An estimate of it is the mean over the images and M sampled rollouts of each. R estimates are made
with independent random numbers; the variance of an estimate is the sum over its P components. All baselines are applied
to the same rollouts, so that the comparison is paired. The learned baseline has the weights it was trained to.

Advantages are not normalized, as they may be in training: division by their standard deviation changes the scale and
the mean of an estimate, so that variances could not be compared. The model has no dropout, so the rollouts are
distributed as in training.

Shapes: B batch, M rollouts of each image, N choices, R repetitions, P parameters of the attention.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call

from glimpse import losses
from glimpse.attention.distributions import Noise
from glimpse.data import Batch, Dataset
from glimpse.errors import ConfigError, require
from glimpse.evaluation.classify import Classifier, takes_glimpses
from glimpse.losses.estimators import Context, Episode
from glimpse.losses.estimators.reinforce import Reinforce
from glimpse.losses.policy_gradient import BASELINES, Baseline
from glimpse.models.recurrent_attention import RecurrentAttention
from glimpse.models.rollout import Rollout
from glimpse.seeding import Stream, noise_seed

BATCH_SIZE = 64  # images; bounds the memory of an estimate
NORMAL_QUANTILE = 1.959964  # 95%, two-sided


class BaselineVariance(NamedTuple):
    """The gradient with one baseline."""

    baseline: str
    rollouts: int  # of each image in one estimate, including greedy ones
    variance: float  # of an estimate, summed over the parameters
    interval: tuple[float, float]  # 95% interval of the variance
    ratio: float  # variance over the variance without a baseline
    ratio_interval: tuple[float, float]  # 95% interval of the ratio
    signal: float  # squared norm of the mean gradient; the estimate is unbiased, so it may be negative
    mean_shift: float  # difference from the mean gradient without a baseline, in standard errors; see `mean_shift`
    per_choice: tuple[float, ...]  # N: variance of the term of each choice alone

    @property
    def signal_to_noise(self) -> float:
        """The squared norm of the mean gradient over the variance of an estimate."""
        return self.signal / self.variance if self.variance else math.nan


class GradientVariance(NamedTuple):
    """The variance of the gradient of one model with each baseline."""

    estimators: tuple[BaselineVariance, ...]  # the first is without a baseline
    images: int
    rollouts: int  # M
    repeats: int  # R
    parameters: int  # P
    first_choice: int  # number, from 1, of the first glimpse that the model chose
    notes: tuple[str, ...]  # baselines that are left out, with the reason


class GradientSamples(NamedTuple):
    """R estimates of one gradient."""

    totals: Tensor  # (R, P), float64
    per_choice: tuple[float, ...]  # N: variance of the term of each choice alone


def measure(
    model: Classifier,
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
        model: A hard recurrent attention model that chooses glimpses, on the device.
        data: The dataset; its first images are used.
        estimator: The reward and its assignment to choices (`reward`, `reward_at`, `discount`).
        images: Number of images; the whole dataset if it has fewer.
        rollouts: Number M of sampled rollouts of each image, at least 2.
        repeats: Number R of repetitions, at least 10. R gradients of each baseline are held in memory.
        seed: Seed of the random numbers.
        device: Device to compute on.

    Raises:
        ConfigError: If the model samples no locations that REINFORCE could train, or a number is too small.
    """
    needed = "the variance of REINFORCE needs a hard model that samples locations"
    if not takes_glimpses(model):
        raise ConfigError(f"{needed}, got a whole-image network")
    if model.mode != "hard":
        raise ConfigError(f"{needed}, got read {model.mode}")
    if model.num_choices == 0:
        raise ConfigError(
            f"{needed}, got policy {model.policy.name}, num_glimpses {model.num_glimpses}, first {model.first}"
        )
    if not hasattr(estimator, "returns"):
        raise ConfigError(f"the variance of REINFORCE needs estimator.kind reinforce, got {estimator.kind}")
    if not model.attention_parameters():
        raise ConfigError("the variance of REINFORCE needs an attention with parameters, got scorer dot, without any")
    require(images >= 1, "images", "at least 1", images)
    require(rollouts >= 2, "rollouts", "at least 2, for the leave-one-out baseline", rollouts)
    require(repeats >= 10, "repeats", "at least 10, for meaningful intervals", repeats)
    batches = [
        Batch(*(field.to(device) for field in batch)) for batch in data.in_order(batch_size=BATCH_SIZE, limit=images)
    ]
    samples = _repeat(model, batches, estimator, rollouts, repeats, seed)
    greedy = rollouts if model.is_random else 1
    return GradientVariance(
        estimators=tuple(
            _summarize(name, rollouts + (greedy if BASELINES[name].needs_greedy else 0), gradients, samples["none"])
            for name, gradients in samples.items()
        ),
        images=sum(len(batch.targets) for batch in batches),
        rollouts=rollouts,
        repeats=repeats,
        parameters=samples["none"].totals.shape[1],
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
            # From running sums, as all R terms of all choices of a large scorer would not fit into memory.
            tuple(((squares[name] - sums[name].square().sum(1) / repeats) / (repeats - 1)).clamp(min=0).tolist()),
        )
        for name in totals
    }


def _estimate(
    model: RecurrentAttention, batch: Batch, estimator: Reinforce, rollouts: int, noise: Noise
) -> dict[str, Tensor]:
    """One estimate with each baseline, from the same rollouts: the gradient (N, P) of the term of each choice."""
    attention = model.attention_parameters()
    # All other weights are constants here; detached, they do not make autograd keep activations.
    constants = {
        name: weight.detach()
        for name, weight in model.named_parameters()
        if not any(weight is parameter for parameter in attention)
    }
    images, targets = (field.repeat_interleave(rollouts, 0) for field in (batch.images, batch.targets))
    greedy_noise = noise.fork()
    rollout: Rollout = functional_call(model, constants, (images,), {"noise": noise})
    log_probs = rollout.log_probs
    assert log_probs is not None  # `measure` refuses soft models
    episode = Episode(log_probs, rollout.entropies, rollout.logits, targets, rollout.baselines, None, rollouts)
    context = _GreedyContext(model, batch.images, rollouts, greedy_noise)
    returns = estimator.returns(rollout.logits, episode)
    baselines = {
        name: baseline.expected(returns, episode, context, estimator) for name, baseline in _measurable(model).items()
    }
    estimates = {}
    for name, expected in baselines.items():
        advantages = losses.advantages(returns, expected)
        terms = []
        for choice in range(model.num_choices):
            term = losses.reinforce(log_probs[:, [choice]], advantages[:, [choice]])
            gradients = torch.autograd.grad(term, attention, retain_graph=True, materialize_grads=True)
            terms.append(torch.cat([gradient.flatten() for gradient in gradients]).cpu().double())
        estimates[name] = torch.stack(terms)
    return estimates


class _GreedyContext(Context):
    """Greedy rollouts for a baseline; without gradient, as for all baselines."""

    def __init__(self, model: RecurrentAttention, images: Tensor, rollouts: int, noise: Noise):
        self.model = model
        self.images = images
        self.rollouts = rollouts
        self.noise = noise

    @torch.no_grad()
    def greedy_logits(self) -> Tensor:
        """See `Context`."""
        if self.model.is_random:  # each greedy rollout has the random first glimpse of its sampled rollout
            images = self.images.repeat_interleave(self.rollouts, 0)
            return self.model(images, sample=False, noise=self.noise).logits
        return self.model(self.images, sample=False).logits.repeat_interleave(self.rollouts, 0)


def _measurable(model: RecurrentAttention) -> dict[str, Baseline]:
    """The baselines that a trained model can be measured with; a running mean exists during training only."""
    return {
        name: baseline
        for name, baseline in BASELINES.items()
        if not baseline.needs_running_mean and (model.baseline is not None or not baseline.needs_values)
    }


def _summarize(name: str, rollouts: int, estimates: GradientSamples, without: GradientSamples) -> BaselineVariance:
    variance, left_out = total_variance(estimates.totals)
    reference, reference_left_out = total_variance(without.totals)
    ratio = variance / reference if reference else math.nan
    return BaselineVariance(
        baseline=name,
        rollouts=rollouts,
        variance=variance,
        interval=jackknife_interval(variance, left_out),
        ratio=ratio,
        # The two variances are correlated, as the rollouts are the same; the interval of their ratio is narrower.
        ratio_interval=jackknife_interval(ratio, left_out / reference_left_out),
        signal=float(estimates.totals.mean(0).square().sum()) - variance / len(estimates.totals),
        mean_shift=mean_shift(estimates.totals, without.totals),
        per_choice=estimates.per_choice,
    )


def total_variance(estimates: Tensor) -> tuple[float, Tensor]:
    """The unbiased variance of estimates (R, P), summed over P; and its leave-one-out values (R,)."""
    repeats = len(estimates)
    distances = (estimates - estimates.mean(0)).square().sum(1)  # (R,)
    total = distances.sum()
    left_out = (total - distances * repeats / (repeats - 1)) / (repeats - 2)
    return float(total / (repeats - 1)), left_out


def jackknife_interval(value: float, left_out: Tensor) -> tuple[float, float]:
    """The 95% jackknife interval of a positive statistic, from its leave-one-out values (R,).

    The jackknife assumes no distribution of the gradients, has a closed form for a variance and needs no random
    numbers. It is applied to the logarithm, because the estimate of a variance is positive and skewed. If the statistic
    depends on a single repetition, or is 0 in all, the interval is (0, infinity).
    """
    if not bool((left_out > 1e-9 * value).all()) or not bool(left_out.isfinite().all()):
        return 0.0, math.inf
    logs = left_out.log()
    error = math.sqrt((len(logs) - 1) * float((logs - logs.mean()).square().mean()))
    return value * math.exp(-NORMAL_QUANTILE * error), value * math.exp(NORMAL_QUANTILE * error)


def mean_shift(estimates: Tensor, others: Tensor) -> float:
    """The difference between the means of two estimators, in standard errors.

    Args:
        estimates: (R, P).
        others: (R, P), from the same rollouts.

    Returns:
        The norm of the mean difference, over the root of the expected square of that norm if both estimators have the
        same mean. About 1 if they have; otherwise it grows with the square root of R. For equal means and large R, it
        exceeds 2 with a probability of about 5% if the parameters are perfectly correlated, and less otherwise.
    """
    differences = estimates - others
    square = float(differences.mean(0).square().sum())
    expected = total_variance(differences)[0] / len(differences)
    if expected == 0:
        return 0.0 if square == 0 else math.inf
    return math.sqrt(square / expected)
