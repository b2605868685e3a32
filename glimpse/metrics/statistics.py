"""How sure one may be of a comparison: intervals over seeds, and paired tests on the same images.

Shapes: S seeds (runs that differ in nothing else), I images.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

LEVEL = 0.95


class Estimate(NamedTuple):
    """A mean with its 95% interval."""

    mean: float
    low: float
    high: float


class Paired(NamedTuple):
    """How two models differ in error, on the same images."""

    difference: float  # error of the one less error of the other
    low: float  # 95% interval of it, of other images
    high: float
    p_images: float  # of a difference at least as large, if both were equally good at such images
    p_seeds: float | None  # of the same, if seeds were all that differs; None if the runs do not tell


def over_seeds(values: Sequence[float]) -> Estimate:
    """The mean of at least two runs, with Student's interval: where the mean of ever more seeds may lie."""
    if len(values) < 2:
        raise ValueError(f"an interval over seeds needs at least 2 values, got {len(values)}")
    return _student(np.asarray(values))


def _student(values: np.ndarray) -> Estimate:
    """The mean of at least two values, with Student's interval."""
    mean, error = float(values.mean()), float(stats.sem(values))
    if error == 0:  # scipy has no interval without spread
        return Estimate(mean, mean, mean)
    low, high = stats.t.interval(LEVEL, len(values) - 1, loc=mean, scale=error)
    return Estimate(mean, float(low), float(high))


def paired(wrong: np.ndarray, other_wrong: np.ndarray) -> Paired:
    """Compare two models on the same images.

    The interval and `p_images` hold these very runs fixed and ask about other images of the kind. With one run of each
    model the test is McNemar's, exact: of the images that only one of them gets wrong, each is as likely to be a
    mistake of the one as of the other; and the interval is that of the binomial, exact as well, for the share of those
    images that are the mistakes of the one. With several runs both are Student's, of the differences of the mean error
    image by image. `p_seeds` asks about other seeds instead, with Welch's test of the errors of the runs, which needs
    two runs of each and some spread among them.

    Args:
        wrong: (S, I), bool: which images each run of the one model gets wrong.
        other_wrong: (S', I), bool: the same for the other model; S' may differ from S.
    """
    if wrong.ndim != 2 or other_wrong.ndim != 2 or wrong.shape[1] != other_wrong.shape[1]:
        raise ValueError(
            f"both must have shape (seeds, images), of the same images, got {wrong.shape} and {other_wrong.shape}"
        )
    p_seeds = _welch(wrong.mean(1), other_wrong.mean(1))
    if len(wrong) == len(other_wrong) == 1:
        return Paired(*_single_runs(wrong[0], other_wrong[0]), p_seeds)
    difference = wrong.mean(0) - other_wrong.mean(0)  # (I,)
    if len(difference) == 1:  # a single image tells nothing of others
        return Paired(float(difference[0]), -1.0, 1.0, 1.0, p_seeds)
    if difference.std() == 0:  # scipy has no test without spread
        mean = float(difference.mean())
        return Paired(mean, mean, mean, float(mean == 0), p_seeds)
    p_images = float(stats.ttest_1samp(difference, 0.0).pvalue)
    return Paired(*_student(difference), p_images, p_seeds)


def _single_runs(wrong: np.ndarray, other_wrong: np.ndarray) -> tuple[float, float, float, float]:
    """Difference, interval and p of two runs, exact; they tell only by the images that one of them alone gets wrong."""
    images = len(wrong)
    only, other_only = int((wrong & ~other_wrong).sum()), int((other_wrong & ~wrong).sum())
    told = only + other_only
    difference = (only - other_only) / images
    if told == 0:  # then such images are rare: in 95% of cases there would be one if they were more than this
        most = 1 - ((1 - LEVEL) / 2) ** (1 / images)
        return difference, -most, most, 1.0
    test = stats.binomtest(only, told)
    share = test.proportion_ci(LEVEL, "exact")
    low, high = (told * (2 * end - 1) / images for end in (share.low, share.high))
    return difference, low, high, float(test.pvalue)


def _welch(values: np.ndarray, others: np.ndarray) -> float | None:
    if min(len(values), len(others)) < 2:
        return None
    means, stds = zip(*((sample.mean(), sample.std(ddof=1)) for sample in (values, others)), strict=True)
    if max(stds) == 0:
        return None
    # From moments, which does not warn where one of the two has no spread.
    test = stats.ttest_ind_from_stats(means[0], stds[0], len(values), means[1], stds[1], len(others), equal_var=False)
    return float(test.pvalue)


def wilson_interval(successes: int, total: int) -> tuple[float, float]:
    """The 95% Wilson score interval of a proportion."""
    if total < 1:
        raise ValueError(f"total must be at least 1, got {total}")
    interval = stats.binomtest(successes, total).proportion_ci(LEVEL, "wilson")
    return float(interval.low), float(interval.high)
