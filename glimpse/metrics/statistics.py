"""Confidence intervals over seeds, and paired comparisons of two models on the same images.

Shapes: S seeds (runs that differ only in the seed), I images.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

LEVEL = 0.95  # confidence level of all intervals


class Estimate(NamedTuple):
    """A mean with its 95% confidence interval."""

    mean: float
    low: float
    high: float


class Paired(NamedTuple):
    """The difference in error of two models on the same images."""

    difference: float  # error of the first model minus error of the second
    low: float  # 95% confidence interval of the difference over the population of images
    high: float
    p_images: float  # p-value of the null hypothesis of no difference, over images
    p_seeds: float | None  # the same over seeds; None with less than two runs of a model or zero variance


def over_seeds(values: Sequence[float]) -> Estimate:
    """The mean of at least two runs with Student's t interval of the mean over all seeds."""
    if len(values) < 2:
        raise ValueError(f"an interval over seeds needs at least 2 values, got {len(values)}")
    return _student(np.asarray(values))


def _student(values: np.ndarray) -> Estimate:
    """The mean of at least two values, with Student's t interval."""
    mean, error = float(values.mean()), float(stats.sem(values))
    if error == 0:  # scipy has no interval for zero variance
        return Estimate(mean, mean, mean)
    low, high = stats.t.interval(LEVEL, len(values) - 1, loc=mean, scale=error)
    return Estimate(mean, float(low), float(high))


def paired(wrong: np.ndarray, other_wrong: np.ndarray) -> Paired:
    """Compare the errors of two models on the same images.

    The interval and `p_images` treat the runs as fixed and the images as a random sample. With one run of each model,
    the test is McNemar's exact test: under the null hypothesis, an image that only one model gets wrong is equally
    likely to be an error of either. The interval comes from the exact binomial interval of the share of those images
    that are errors of the first model. With several runs, interval and p-value are Student's, of the differences of the
    mean error per image. `p_seeds` treats the seeds as a random sample: it is Welch's t-test of the errors of the runs,
    which needs at least two runs of each model and a non-zero variance.

    Args:
        wrong: (S, I), bool: which images each run of the first model gets wrong.
        other_wrong: (S', I), bool: the same for the second model; S' may differ from S.
    """
    if wrong.ndim != 2 or other_wrong.ndim != 2 or wrong.shape[1] != other_wrong.shape[1]:
        raise ValueError(
            f"both must have shape (seeds, images) for the same images, got {wrong.shape} and {other_wrong.shape}"
        )
    p_seeds = _welch(wrong.mean(1), other_wrong.mean(1))
    if len(wrong) == len(other_wrong) == 1:
        return Paired(*_single_runs(wrong[0], other_wrong[0]), p_seeds)
    difference = wrong.mean(0) - other_wrong.mean(0)  # (I,)
    if len(difference) == 1:  # no inference from a single image
        return Paired(float(difference[0]), -1.0, 1.0, 1.0, p_seeds)
    if difference.std() == 0:  # scipy has no test for zero variance
        mean = float(difference.mean())
        return Paired(mean, mean, mean, float(mean == 0), p_seeds)
    p_images = float(stats.ttest_1samp(difference, 0.0).pvalue)
    return Paired(*_student(difference), p_images, p_seeds)


def _single_runs(wrong: np.ndarray, other_wrong: np.ndarray) -> tuple[float, float, float, float]:
    """Difference, interval and p-value of two runs, exact; based on the images that exactly one of them gets wrong."""
    images = len(wrong)
    only, other_only = int((wrong & ~other_wrong).sum()), int((other_wrong & ~wrong).sum())
    discordant = only + other_only
    difference = (only - other_only) / images
    if discordant == 0:  # upper confidence bound of the proportion of discordant images, of which there were none
        bound = 1 - ((1 - LEVEL) / 2) ** (1 / images)
        return difference, -bound, bound, 1.0
    test = stats.binomtest(only, discordant)
    share = test.proportion_ci(LEVEL, "exact")
    low, high = (discordant * (2 * end - 1) / images for end in (share.low, share.high))
    return difference, low, high, float(test.pvalue)


def _welch(values: np.ndarray, others: np.ndarray) -> float | None:
    """The p-value of Welch's t-test; None for less than two values or zero variance in both samples."""
    if min(len(values), len(others)) < 2:
        return None
    means, stds = zip(*((sample.mean(), sample.std(ddof=1)) for sample in (values, others)), strict=True)
    if max(stds) == 0:
        return None
    # From moments, because the test from samples warns if one of them has zero variance.
    test = stats.ttest_ind_from_stats(means[0], stds[0], len(values), means[1], stds[1], len(others), equal_var=False)
    return float(test.pvalue)


def wilson_interval(successes: float, total: int) -> tuple[float, float]:
    """The 95% Wilson score interval of a proportion (successes, a whole number, out of total)."""
    if total < 1:
        raise ValueError(f"total must be at least 1, got {total}")
    if successes != int(successes):
        raise ValueError(f"successes must be a whole number, got {successes}")
    interval = stats.binomtest(int(successes), total).proportion_ci(LEVEL, "wilson")
    return float(interval.low), float(interval.high)
