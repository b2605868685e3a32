"""How many files and functions of the package a training step runs through: the budget of a reader who follows it."""

import sys
from collections import Counter
from pathlib import Path

import pytest

import glimpse
from glimpse.distributed import processes
from glimpse.tasks.base import build_task
from glimpse.tasks.settings import load_config

PACKAGE = str(Path(glimpse.__file__).parent)

# Of the default model: at most so many files and functions between `loss_terms` and its return.
MOST_FILES, MOST_FUNCTIONS = 11, 75


def trace(call):
    """The functions of the package that a call runs through, each with how often."""
    found: Counter[tuple[str, str]] = Counter()

    def profile(frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            found[code.co_filename.removeprefix(PACKAGE), code.co_qualname] += 1

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def step_of(*options):
    """The functions of one training step, after one that imports and caches what it needs."""
    with processes("cpu", 1) as workers:
        task = build_task(load_config([*options, "--train.batch_size=4", "--train.limit=8"]), workers)
        batches = list(task.batches(0))
        task.loss_terms(task.model, batches[0], task.noise(0, 0))
        noise = task.noise(0, 1)
        return trace(lambda: task.loss_terms(task.model, batches[1], noise))


@pytest.mark.parametrize("read", ["hard", "soft"])
def test_a_step_of_the_default_model(read):
    found = step_of(f"--read={read}")
    files = {file for file, _ in found}
    assert len(files) <= MOST_FILES, sorted(files)
    assert len(found) <= MOST_FUNCTIONS, sorted(found)


def test_a_caption_step():
    found = step_of("--model=captioner")
    files = {file for file, _ in found}
    assert len(files) <= 19, sorted(files)
    assert len(found) <= MOST_FUNCTIONS, sorted(found)
