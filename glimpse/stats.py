"""How sure one may be of a comparison: intervals over seeds, and paired tests on the same images.

Shapes: S seeds (runs that differ in nothing else), I images.
"""

import math
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
    p_seeds: float | None  # of the same, if seeds were all that differs; None with fewer than two of either


def over_seeds(values: Sequence[float]) -> Estimate:
    """The mean of at least two runs, with Student's interval: where the mean of ever more seeds may lie."""
    if len(values) < 2:
        raise ValueError(f"an interval over seeds needs at least 2 values, got {len(values)}")
    mean = float(np.mean(values))
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(values) - 1)) * error
    return Estimate(mean, mean - half, mean + half)


def paired(wrong: np.ndarray, other_wrong: np.ndarray) -> Paired:
    """Compare two models on the same images.

    The interval and `p_images` hold these very runs fixed and ask about other images of the kind. With one run of each
    model the test is McNemar's, exact: of the images that only one of them gets wrong, each is as likely to be a
    mistake of the one as of the other. With several it is Student's, of the differences of the mean error image by
    image. `p_seeds` asks about other seeds instead, with Welch's test of the errors of the runs.

    Args:
        wrong: (S, I), bool: which images each run of the one model gets wrong.
        other_wrong: (S', I), bool: the same for the other model; S' may differ from S.
    """
    if wrong.ndim != 2 or other_wrong.ndim != 2 or wrong.shape[1] != other_wrong.shape[1]:
        raise ValueError(
            f"both must have shape (seeds, images), of the same images, got {wrong.shape} and {other_wrong.shape}"
        )
    difference = wrong.mean(0) - other_wrong.mean(0)  # (I,)
    images = len(difference)
    mean = float(difference.mean())
    error = float(difference.std(ddof=1)) / math.sqrt(images) if images > 1 else math.inf
    half = float(stats.norm.ppf((1 + LEVEL) / 2)) * error
    if len(wrong) == len(other_wrong) == 1:
        only, other_only = int((difference > 0).sum()), int((difference < 0).sum())
        p_images = float(stats.binomtest(only, only + other_only).pvalue) if only + other_only else 1.0
    else:
        p_images = _two_sided(mean, error, images - 1)
    return Paired(mean, mean - half, mean + half, p_images, _welch(wrong.mean(1), other_wrong.mean(1)))


def _welch(values: np.ndarray, others: np.ndarray) -> float | None:
    if min(len(values), len(others)) < 2:
        return None
    parts = [sample.var(ddof=1) / len(sample) for sample in (values, others)]
    error = math.sqrt(sum(parts))
    if error == 0:
        return _two_sided(float(values.mean() - others.mean()), 0.0, 1)
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(sample) - 1) for part, sample in zip(parts, (values, others), strict=True)
    )
    return _two_sided(float(values.mean() - others.mean()), error, freedom)


def _two_sided(difference: float, error: float, freedom: float) -> float:
    """The probability, by Student's distribution, of a difference this far from zero."""
    if error == 0:
        return 1.0 if difference == 0 else 0.0
    return float(2 * stats.t.sf(abs(difference) / error, freedom))
