"""Frozen: every term of the loss in the first steps of a training, for each kind of model and estimator."""

import pytest
from freeze import adapter
from freeze.frozen import assert_same, read

EXPECTED = read("curves")
CURVES = EXPECTED["curves"]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if curve["world_size"] > 1 else []) for name, curve in CURVES.items()],
)
def test_curve(name):
    expected = CURVES[name]
    rows = adapter.curve(expected["settings"], len(expected["steps"]), world_size=expected["world_size"])
    assert_same(rows, expected["steps"], EXPECTED["machine"])


def test_another_seed_is_another_curve():
    """Else the comparisons above would compare nothing."""
    expected = CURVES["hard"]
    rows = adapter.curve({**expected["settings"], "seed": 1}, len(expected["steps"]))
    with pytest.raises(AssertionError):
        assert_same(rows, expected["steps"], {})
