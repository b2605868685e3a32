"""Intervals and tests against hand-worked numbers, other formulas, and simulated repetitions."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from glimpse.metrics.statistics import over_seeds, paired, wilson_interval


def test_interval_over_seeds_by_hand():
    # Mean 4, standard deviation 1, so standard error 1/sqrt(3); Student's 97.5% quantile of 2 degrees is 4.302653.
    estimate = over_seeds([3.0, 4.0, 5.0])
    assert estimate == pytest.approx((4.0, 4.0 - 4.302653 / math.sqrt(3), 4.0 + 4.302653 / math.sqrt(3)), abs=1e-6)
    assert over_seeds([2.0, 2.0]) == (2.0, 2.0, 2.0)


@pytest.mark.parametrize("seeds", [2, 3, 10])
def test_interval_over_seeds_covers_as_often_as_it_says(seeds):
    runs = np.random.default_rng(0).normal(5.0, 2.0, (4000, seeds))
    covered = np.mean([low <= 5.0 <= high for _, low, high in map(over_seeds, runs)])
    assert covered == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 4000))


def test_one_seed_has_no_interval():
    with pytest.raises(ValueError, match="an interval over seeds needs at least 2 values, got 1"):
        over_seeds([1.0])


def wrongs(*rows):
    return np.array(rows, dtype=bool)


def test_single_runs_by_hand():
    # Of 10 images the one alone gets 4 wrong, the other alone 1, both 1, neither 4.
    one = wrongs([1, 1, 1, 1, 0, 1, 0, 0, 0, 0])
    other = wrongs([0, 0, 0, 0, 1, 1, 0, 0, 0, 0])
    result = paired(one, other)
    # Of 5 tosses of a coin 0, 1, 4 or 5 heads: (1 + 5 + 5 + 1) / 32.
    assert result.p_images == pytest.approx(12 / 32)
    # The exact interval of 4 of 5 is 0.283582 to 0.994949 (tables of Clopper and Pearson); difference 5 (2 p - 1) / 10.
    ends = 0.283582 - 0.5, 0.994949 - 0.5
    assert result[:3] == pytest.approx((0.3, *ends), abs=1e-6)
    assert result.p_seeds is None
    back = paired(other, one)
    assert back[:3] == pytest.approx((-0.3, -ends[1], -ends[0]), abs=1e-6)
    assert back.p_images == result.p_images


@pytest.mark.parametrize("only, other_only", [(5, 0), (6, 0), (9, 2), (10, 2), (0, 6), (40, 22), (41, 22), (42, 22)])
def test_interval_and_p_of_single_runs_agree(only, other_only):
    one, other = np.zeros((2, 1, 1000), bool)
    one[0, :only] = other[0, only : only + other_only] = True
    result = paired(one, other)
    assert (result.low <= 0 <= result.high) == (result.p_images >= 0.05)


def test_several_runs_interval_and_p_agree():
    generator = np.random.default_rng(5)
    for shift in np.linspace(0, 0.05, 12):
        one, other = generator.random((2, 300)) < 0.1 + shift, generator.random((3, 300)) < 0.1
        result = paired(one, other)
        assert (result.low <= 0 <= result.high) == (result.p_images >= 0.05)


def test_mcnemar_is_the_enumeration_of_all_swaps():
    generator = np.random.default_rng(1)
    one, other = generator.random((2, 9)) < np.array([[0.6], [0.3]])
    observed = abs(int(one.sum()) - int(other.sum()))
    swaps = np.array(list(product([1, -1], repeat=9)))
    totals = np.abs(swaps @ (one.astype(int) - other.astype(int)))
    assert paired(one[None], other[None]).p_images == pytest.approx((totals >= observed).mean())


def test_several_seeds_against_scipy():
    generator = np.random.default_rng(2)
    hard = generator.random(500) ** 3  # how hard each image is
    one, other = (generator.random((seeds, 500)) < hard + shift for seeds, shift in ((3, 0.05), (4, 0.0)))
    result = paired(one, other)
    assert result.difference == pytest.approx(one.mean() - other.mean())
    assert result.p_images == pytest.approx(stats.ttest_rel(one.mean(0), other.mean(0)).pvalue)
    assert result.p_seeds == pytest.approx(stats.ttest_ind(one.mean(1), other.mean(1), equal_var=False).pvalue)
    assert result.low < result.difference < result.high


def test_pairing_makes_the_interval_narrow():
    """Two models that fail on nearly the same images are distinguished, which unpaired intervals could not do."""
    hard = np.random.default_rng(3).random(10000) < 0.05
    one, other = hard.copy(), hard.copy()
    one[np.flatnonzero(~hard)[:20]] = True
    result = paired(one[None], other[None])
    assert result.difference == pytest.approx(0.002)
    assert result.low > 0 and result.high <= 0.002 and result.p_images == pytest.approx(2 * 0.5**20)


def test_paired_interval_covers_as_often_as_it_says():
    generator = np.random.default_rng(4)
    covered = 0
    for _ in range(1000):
        easy = generator.random(400)
        result = paired((easy < 0.15)[None], ((easy < 0.05) | (easy > 0.95))[None])  # errors 0.15 and 0.1
        covered += result.low <= 0.05 <= result.high
    assert 0.94 < covered / 1000 < 0.99  # exact intervals cover a little more than they say


def test_no_difference_at_all():
    same = wrongs([1, 0, 0])
    # With no image to tell them apart, of 3: such images are at most so frequent that all 3 are others in 2.5%.
    most = 1 - 0.025 ** (1 / 3)
    assert paired(same, same) == pytest.approx((0.0, -most, most, 1.0, None))
    twice = np.repeat(same, 2, 0)
    assert paired(twice, twice) == (0.0, 0.0, 0.0, 1.0, None)
    assert paired(twice, ~twice).p_seeds is None  # without any spread the runs tell nothing of other seeds
    assert paired(twice[:, :1], ~twice[:, :1]) == (1.0, -1.0, 1.0, 1.0, None)


def test_shapes_are_checked():
    with pytest.raises(ValueError, match=r"for the same images, got \(1, 3\) and \(1, 4\)"):
        paired(np.zeros((1, 3), bool), np.zeros((1, 4), bool))
    with pytest.raises(ValueError, match=r"\(seeds, images\)"):
        paired(np.zeros(3, bool), np.zeros((1, 3), bool))


def test_counts_may_be_whole_floats():
    assert wilson_interval(3.0, 10) == wilson_interval(3, 10)
    with pytest.raises(ValueError, match=r"successes must be a whole number, got 2\.5"):
        wilson_interval(2.5, 10)
