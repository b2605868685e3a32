"""Frozen: what the command lines of the documentation mean."""

import pytest
from freeze import adapter
from freeze.frozen import assert_same_settings, read

EXPECTED = read("commands")


def test_defaults():
    defaults = EXPECTED["defaults"]
    assert_same_settings(adapter.parse_command([]), defaults, [], {})


@pytest.mark.parametrize("line", EXPECTED["train"])
def test_train(line):
    different = EXPECTED["train"][line]["settings"]
    expected = {**EXPECTED["defaults"], **different}
    found = adapter.parse_command(EXPECTED["train"][line]["arguments"])
    assert_same_settings(found, expected, list(different), adapter.idle_settings(expected))


@pytest.mark.parametrize("line", EXPECTED["evaluate"])
def test_evaluate(line):
    """It is accepted, and every option means what it meant; there may be new ones."""
    expected = EXPECTED["evaluate"][line]["options"]
    found = adapter.parse_evaluate(EXPECTED["evaluate"][line]["arguments"])
    assert {key: found.get(key) for key in expected} == expected


def test_another_value_is_noticed():
    """Else the comparisons above would compare nothing."""
    different = EXPECTED["train"]["python train.py configs/cluttered60_soft.yaml"]["settings"]
    expected = {**EXPECTED["defaults"], **different}
    with pytest.raises(AssertionError):
        assert_same_settings(adapter.parse_command([]), expected, [], {})
    with pytest.raises(AssertionError):
        assert_same_settings({}, expected, list(different), {})
