"""The examples run at a small scale."""

import re

import pytest
from support.runs import python


def percentages(text):
    return [float(number) for number in re.findall(r"([\d.]+)% (?:of the last|correct after the last)", text)]


@pytest.mark.slow
def test_reinforce_in_the_environment():
    done = python("-W", "error", "examples/reinforce_in_env.py", "--updates=3", "--envs=4", "--episodes=20")
    assert done.returncode == 0, done.stderr
    assert len(percentages(done.stdout)) == 2


@pytest.mark.slow
def test_ppo(tmp_path):
    pytest.importorskip("stable_baselines3")
    picture = tmp_path / "curve.png"
    done = python("examples/ppo.py", "--steps=20000", "--envs=64", "--episodes=200", f"--out={picture}")
    assert done.returncode == 0, done.stderr
    random, before, after = percentages(done.stdout)
    assert after > max(random, before) + 5  # it learns within twenty thousand steps
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_benchmark():
    done = python("benchmarks/env.py", "--envs=2", "--seconds=0.01", "--most_processes=0")
    assert done.returncode == 0, done.stderr
    native, sync, *_ = done.stdout.splitlines()[1:]
    assert re.fullmatch(r" +2  native +[\d,]+ +1\.0", native) and "SyncVectorEnv" in sync
