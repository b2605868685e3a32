"""The package is typed throughout: mypy finds nothing, no module is left out, and each exception says why."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
CONFIGURATION = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["mypy"]


@pytest.mark.slow
def test_mypy_finds_nothing():
    found = subprocess.run([sys.executable, "-m", "mypy"], cwd=REPOSITORY, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


def test_no_module_of_the_package_is_left_out():
    assert CONFIGURATION["packages"] == ["glimpse"] and CONFIGURATION["disallow_untyped_defs"]
    assert not {"exclude", "ignore_errors", "disable_error_code"} & CONFIGURATION.keys()
    for override in CONFIGURATION["overrides"]:
        assert override.keys() == {"module", "ignore_missing_imports"}
        assert not any(module.startswith("glimpse") for module in override["module"])


def test_every_ignored_error_has_a_code_and_a_reason():
    for path in sorted((REPOSITORY / "glimpse").rglob("*.py")):
        for line in path.read_text().splitlines():
            if "type: ignore" in line:
                assert re.search(r"# type: ignore\[[a-z-]+(, [a-z-]+)*\]  # \S", line), f"{path}: {line.strip()}"
