"""Tiny runs, and the scripts in this process or in one of their own."""

import functools
import importlib.util
import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.tensors import ALONE, applicable
from torch import Tensor

from glimpse.tasks.base import build_task
from glimpse.tasks.settings import Config, load_config
from glimpse.training.engine import Engine
from glimpse.training.run import BEST, LAST, Run

Terms = dict[str, tuple[float, Tensor]]
REPOSITORY = Path(__file__).parents[2]

# Every setting that influences a loss is given, so that no test depends on a default.
TINY = {
    "seed": 0,
    "read": "hard",
    "num_glimpses": 3,
    "data.kind": "cluttered",
    "data.canvas": 60,
    "data.num_digits": 1,
    "data.num_distractors": 4,
    "data.distractor_size": 8,
    "data.target": "label",
    "sensor.patch_size": 8,
    "sensor.num_scales": 2,
    "sensor.scale_factor": 2,
    "sensor.background": 0.0,
    "network.what": "fc",
    "network.what_dim": 16,
    "network.where_dim": 16,
    "network.glimpse_dim": 32,
    "network.conv_channels": 4,
    "network.conv_layers": 2,
    "network.core": "gru",
    "network.state_dim": 32,
    "network.pixel_mean": 0.0,
    "network.pixel_std": 1.0,
    "attention.places": "plane",
    "attention.first": "centre",
    "attention.std": 0.2,
    "attention.std_end": "null",
    "attention.std_until": 0.8,
    "attention.learn_std": "false",
    "attention.squash": "true",
    "attention.clip": "null",
    "attention.grid": [3, 3],
    "attention.scorer": "additive",
    "attention.scorer_dim": 16,
    "attention.window": "null",
    "loss.classify": "each",
    "loss.reinforce": 0.1,
    "loss.reward": "accuracy",
    "loss.reward_when": "each",
    "loss.discount": 1.0,
    "loss.baseline": "learned",
    "loss.rollouts": 1,
    "loss.normalise": "true",
    "loss.baseline_weight": 1.0,
    "loss.entropy": 0.0,
    "loss.reward_reaches_core": "true",
    "train.epochs": 3,
    "train.batch_size": 64,
    "train.optimizer": "adamw",
    "train.lr": 0.003,
    "train.places_lr": 1.0,
    "train.schedule": "one_cycle",
    "train.warmup": 0.1,
    "train.momentum": 0.9,
    "train.weight_decay": 0.01,
    "train.clip": 5.0,
    "train.limit": 256,
    "train.device": "cpu",
    "train.threads": 1,
    "train.log_every": 3,
    "train.tensorboard": "false",
    "score.read": "null",
    "score.batch_size": 100,
    "score.limit": 200,
}


def tiny(settings: dict[str, Any] | None = None) -> list[str]:
    """The command line of a tiny run with some settings changed."""
    given = {**TINY, **(settings or {})}
    return [f"--{key}={value}" for key, value in applicable(given, given).items()]


def tiny_config(settings: dict[str, Any] | None = None) -> Config:
    return _parse(tuple(tiny(settings)))


_parse = functools.cache(load_config)


def make_engine(run: Run) -> Engine:
    """The engine that train.py makes for a run, in one process."""
    return Engine(build_task(run.config, ALONE, open_run=Run.open), run, ALONE)


def new_engine(folder: Path, settings: dict[str, Any] | None = None) -> Engine:
    run = Run.create(tiny_config(settings), name="tiny", metadata={"image_shape": [1, 60, 60]}, folder=folder)
    return make_engine(run)


def silent(text: str) -> None:
    """Discard the lines that an engine logs."""


def train_tiny(folder: Path, settings: dict[str, Any] | None = None) -> Engine:
    engine = new_engine(folder, settings)
    engine.train(silent)
    return engine


def resumed(run: Run) -> Engine:
    """A new engine, restored from the last checkpoint of a run."""
    engine = make_engine(run)
    engine.resume()
    return engine


def at_step(engine: Engine, step: int, act: Callable[[Terms], Terms]) -> None:
    """Apply `act` to the loss terms of one step, counted from 0 from now on."""
    loss_terms, steps = engine.task.loss_terms, itertools.count()

    def wrapped(*arguments: Any) -> Terms:
        terms = loss_terms(*arguments)
        return act(terms) if next(steps) == step else terms

    engine.task.loss_terms = wrapped


def rows_without_time(run: Run) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in run.rows()]


def assert_same_run(run: Run, other: Run) -> None:
    """Assert that two run folders are equal, bit for bit, except for durations."""
    for name in (LAST, BEST):
        (tensors, state), (other_tensors, other_state) = run.load(name), other.load(name)
        assert tensors.keys() == other_tensors.keys()
        different = [key for key, value in tensors.items() if not torch.equal(value, other_tensors[key])]
        assert not different, f"{name}: {different}"
        assert {**state, "seconds": 0} == {**other_state, "seconds": 0}
    assert rows_without_time(run) == rows_without_time(other)


def load_script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"{name}_script", REPOSITORY / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


train_main: Callable[[list[str]], int] = load_script("train").main


def python(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess:
    """Run Python in the repository until it exits."""
    process = start_python(*arguments, **options)
    out, err = process.communicate(timeout=100)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def train_by_two(arguments: list[str]) -> None:
    """Run train.py as two processes that share every batch, until they exit."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    address = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    both = [start_python("train.py", *arguments, environment={**address, "RANK": rank}) for rank in "01"]
    try:
        errors = [process.communicate(timeout=100)[1] for process in both]
    finally:
        for process in both:
            process.kill()
    assert [process.returncode for process in both] == [0, 0], errors


def assert_nearly_same_losses(run: Run, other: Run) -> None:
    """Assert that two runs have the same rows up to rounding, except the scores, where rounding may change a count."""
    for row, expected in zip(rows_without_time(run), rows_without_time(other), strict=True):
        assert row.keys() == expected.keys()
        for key in row:
            if not key.startswith("valid/"):
                assert row[key] == pytest.approx(expected[key], rel=1e-3, abs=1e-5), key


def start_python(*arguments: str | Path, environment: dict[str, str] | None = None) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=REPOSITORY,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
