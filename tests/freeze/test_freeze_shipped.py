"""Frozen: the models that ship with the package, their weights, settings, scores and answers."""

import pytest
from freeze import adapter
from freeze.frozen import (
    TOLERANCE,
    assert_same,
    assert_same_settings,
    assert_same_weights,
    different_answers,
    read,
)

EXPECTED = read("shipped")
MODELS = EXPECTED["models"]
PRINTED = EXPECTED["printed"]


def test_all_are_there():
    assert sorted(MODELS) == sorted(adapter.shipped_names())


@pytest.mark.parametrize("name", MODELS)
def test_weights(name):
    """The keys, types, shapes and values of what is loaded; the same on any machine, as nothing is computed."""
    weights = adapter.load_weights(name)
    assert {key: str(value.dtype) for key, value in weights.items()} == MODELS[name]["dtypes"]
    assert_same_weights(weights, MODELS[name]["weights"], EXPECTED["machine"], rounding=False)


@pytest.mark.parametrize("name", MODELS)
def test_settings(name):
    different = MODELS[name]["settings"]
    expected = {**EXPECTED["defaults"], **different}
    found, later = adapter.load_settings(name), adapter.later_settings(name)
    for key, (value, reason) in later.items():
        assert reason and found.pop(key) == value
    assert_same_settings(found, expected, list(different), {**adapter.idle_settings(expected), **dict(later)})


@pytest.mark.parametrize("name", MODELS)
def test_scores(name):
    """What it answers to the first test examples, and the scores of that."""
    expected = MODELS[name]
    found = adapter.score(name, expected["examples"])
    different = different_answers(found["answers"], expected["answers"], EXPECTED["machine"])
    assert_same(found["scores"], expected["scores"], EXPECTED["machine"], tolerance=TOLERANCE + 2 * different)


@pytest.mark.parametrize("name", PRINTED["models"])
def test_printed_scores(name):
    """What evaluate.py score prints."""
    found = adapter.score_as_user(name, PRINTED["examples"])
    assert_same(found, PRINTED["models"][name], EXPECTED["machine"])
