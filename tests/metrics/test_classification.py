"""Wilson intervals and glimpses on target, against literal numbers."""

import pytest
import torch
from support.tensors import assert_close

from glimpse.metrics.classification import on_target
from glimpse.metrics.statistics import wilson_interval

Z = 1.959963984540054


@pytest.mark.parametrize(
    "successes, total, expected",
    [
        (5, 100, (0.021543, 0.111750)),
        (50, 100, (0.403832, 0.596168)),
        (1, 10, (0.017876, 0.404150)),
        (263, 10_000, (0.023340, 0.029624)),
        (0, 10, (0.0, 0.277533)),
        (10, 10, (0.722467, 1.0)),
        (1, 1, (0.206549, 1.0)),
    ],
)
def test_wilson_interval(successes, total, expected):
    assert wilson_interval(successes, total) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("successes, total", [(5, 100), (263, 10_000), (1, 3), (0, 7), (7, 7), (2, 8)])
def test_wilson_interval_holds_what_is_z_standard_errors_away(successes, total):
    """Its ends are the shares p with |share - p| = z sqrt(p (1 - p) / n)."""
    for p in wilson_interval(successes, total):
        assert abs(successes / total - p) == pytest.approx(Z * (p * (1 - p) / total) ** 0.5, abs=1e-9)


@pytest.mark.parametrize("total", [1, 3, 10, 49, 1000, 10_000, 123_457])
def test_wilson_interval_stays_within_zero_and_one(total):
    low, high = wilson_interval(0, total)
    assert low == pytest.approx(0, abs=1e-12) and low >= 0 and high == pytest.approx(Z**2 / (total + Z**2))
    low, high = wilson_interval(total, total)
    assert high == pytest.approx(1, abs=1e-12) and high <= 1 and low == pytest.approx(total / (total + Z**2))


def test_wilson_interval_of_nothing():
    with pytest.raises(ValueError, match="total must be at least 1, got 0"):
        wilson_interval(0, 0)


@pytest.mark.parametrize(
    "pixel, inside",
    [
        ((4, 2), True),
        ((3.75, 2), False),
        ((4, 1.75), False),
        ((11.75, 5.75), True),
        ((12, 5), False),
        ((11, 6), False),
        ((8, 4), True),
        ((31, 15), False),
    ],
)
def test_boxes_are_half_open(pixel, inside):
    """The box holds 4 <= x < 12 and 2 <= y < 6 of an image 32 wide and 16 high."""
    location = torch.tensor([[[pixel[0] / 16 - 1, pixel[1] / 8 - 1]]])
    assert on_target(location, torch.tensor([[[4.0, 2, 12, 6]]]), 16, 32).tolist() == [[inside]]


def test_on_target_in_any_of_the_boxes():
    locations = torch.tensor([[[-0.5, -0.5], [0.5, 0.5], [0.5, -0.5]], [[0.0, 0.0], [5.0, 0.0], [0.0, -3.0]]])
    boxes = torch.tensor([[[0.0, 0, 8, 8], [8, 8, 16, 16]], [[4.0, 4, 12, 12], [4, 4, 12, 12]]])
    assert on_target(locations, boxes, 16, 16).tolist() == [[True, True, False], [True, False, False]]


def test_never_on_target_without_boxes():
    assert on_target(torch.zeros(2, 3, 2), torch.zeros(2, 0, 4), 16, 16).tolist() == [[False] * 3] * 2


def test_boxes_and_locations_have_the_same_convention():
    """The center of an image is in its right half, not in its left half."""
    halves = torch.tensor([[[0.0, 0, 8, 16]], [[8.0, 0, 16, 16]]])
    found = on_target(torch.zeros(2, 1, 2), halves, 16, 16)
    assert_close(found.double(), [[0.0], [1.0]])
