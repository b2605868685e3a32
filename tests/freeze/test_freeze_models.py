"""Frozen: the weights that each config file begins with, by its default seed.

Pretrained encoders are random here. The sizes of images and vocabularies are made up where the data are not there; they
are in the file of expectations.
"""

import pytest
from freeze import adapter
from freeze.frozen import assert_same_weights, read

EXPECTED = read("models")
MODELS = EXPECTED["models"]
LARGE = ("coco", "flickr8k_hard", "flickr8k_soft")  # VGG-19


def test_all_are_there():
    assert sorted(MODELS) == adapter.config_names()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name.startswith(LARGE) else []) for name in MODELS]
)
def test_initial_weights(name):
    expected = MODELS[name]
    weights = adapter.initial_model(name, expected["about"]).state_dict()
    assert_same_weights(weights, expected, EXPECTED["machine"])


def test_another_seed_is_another_model():
    """Else the comparisons above would compare nothing."""
    expected = MODELS["cluttered60_hard"]
    weights = adapter.initial_model("cluttered60_hard", expected["about"], {"seed": 1}).state_dict()
    with pytest.raises(AssertionError):
        assert_same_weights(weights, expected, {})
