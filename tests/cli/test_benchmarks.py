"""The benchmarks as scripts; what they measure is not for tests."""

import pytest
from support.runs import REPOSITORY, python

SCRIPTS = sorted(path.name for path in (REPOSITORY / "benchmarks").glob("*.py") if path.name != "timing.py")


@pytest.mark.parametrize("script", SCRIPTS)
def test_help_is_printed_and_nothing_is_measured(script):
    done = python(f"benchmarks/{script}", "--help")
    assert done.returncode == 0 and not done.stderr
    assert done.stdout.startswith("usage:")
