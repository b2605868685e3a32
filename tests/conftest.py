"""Fixtures for all tests.

Runs that several files need are trained once per session, and shared by the workers of pytest-xdist; tests must not
modify them.
"""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

# One thread per process: the tests run in parallel, and bit-for-bit comparisons need a fixed number of threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

FEW = 100  # test images, or sentences, that are scored with `few_test_examples`


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    """The browser."""
    from support.browser import start_browser  # here, as only these tests need selenium

    browser = start_browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.quit()


def make_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder that `make` fills once per session, in the first worker that needs it."""
    base = factory.getbasetemp()
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, done = root / name, root / f"{name}.done"
    with FileLock(root / f"{name}.lock"):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # if another worker failed halfway
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


@pytest.fixture(scope="session")
def classifiers(tmp_path_factory):
    """Folders of tiny classifiers, trained for one epoch: two seeds of a hard model, a soft one, controls."""
    from support.runs import tiny, train_main  # here, as these import torch

    settings = {
        "hard": {},
        "hard1": {"seed": 1},
        "soft": {"read": "soft"},
        "random": {"attention.policy": "random", "network.halt": "true", "num_glimpses": 4},
        "cnn": {"model": "cnn"},
    }

    def make(folder: Path) -> None:
        for name, changes in settings.items():
            (folder / f"{name.rstrip('1')}.yaml").touch()  # the name of the config
            options = tiny({"train.epochs": 1, "score.limit": 100, **changes})
            assert train_main([str(folder / f"{name.rstrip('1')}.yaml"), *options, f"--run_dir={folder / name}"]) == 0

    return make_once(tmp_path_factory, "classifiers", make)


@pytest.fixture(scope="module")
def few_test_examples():
    """Make trainings end with the scores of a few test examples instead of all; returns their number."""
    from glimpse.tasks.captioning import CaptioningTask
    from glimpse.tasks.classification import ClassificationTask
    from glimpse.tasks.translation import TranslationTask

    tests = {
        ClassificationTask: lambda task: task._greedy(task.data.test, FEW),
        CaptioningTask: lambda task: task.evaluate(task.data.test, search=task.config.search(), limit=FEW),
        TranslationTask: lambda task: task.evaluate(task.data.test, search=task.config.search(), limit=FEW),
    }
    with pytest.MonkeyPatch.context() as patch:
        for task, test in tests.items():
            patch.setattr(task, "test", test)
        yield FEW


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    """Hide Java, and so METEOR, which takes seconds."""
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def fake_meteor(monkeypatch, tmp_path):
    """Replace Java by a program that answers as METEOR does; returns the score of every corpus."""
    score = 0.125
    program = f"""
import sys
for line in sys.stdin:
    command, *parts = line.split(" ||| ")
    for number in [1] if command == "SCORE" else [1] * len(parts) + [{score}]:
        print(number, flush=True)
"""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!{sys.executable} -SE\n{program}")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", str(java.parent), prepend=os.pathsep)
    return score
