"""The benchmarks as scripts; their measurements are not tested."""

import pytest
from support.runs import REPOSITORY, python

# All scripts in one process, as each imports torch.
CODE = """
import runpy, sys
for script in sys.argv[1:]:
    print(script)
    sys.argv = [script, "--help"]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as exit:
        assert not exit.code, script
"""


@pytest.mark.slow
def test_help_is_printed_and_nothing_is_measured():
    scripts = sorted(str(path) for path in (REPOSITORY / "benchmarks").glob("*.py") if path.name != "timing.py")
    result = python("-c", CODE, *scripts)
    assert result.returncode == 0 and not result.stderr, result.stderr
    lines = result.stdout.splitlines()
    for script in scripts:
        assert lines[lines.index(script) + 1].startswith("usage:"), script
