"""From a config to a trained run folder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from glimpse.distributed import processes as join_processes
from glimpse.errors import RunError
from glimpse.evaluation.scores import Scores
from glimpse.seeding import seed_everything
from glimpse.tasks.base import Task, task_of
from glimpse.tasks.settings import Config
from glimpse.training.engine import Engine
from glimpse.training.run import LAST, Run


def train(
    config: Config,
    *,
    run: Run | None = None,
    name: str = "",
    folder: str | Path | None = None,
    suffix: Callable[[Engine], str] = lambda engine: "",
) -> dict[str, Any] | None:
    """Train a new run, or go on with one, and score it on the test set.

    Args:
        config: The settings.
        run: The run to go on with; a new one if not given.
        name: Name of the config, for a new run.
        folder: Where to train a new run, if it is not to be named automatically.
        suffix: What to add to the line that is printed after each epoch.

    Returns:
        The test scores; None in a process that is not the main one.
    """
    resumed = run is not None
    if resumed and run.shipped:
        raise RunError(
            f"{run} ships with the package and cannot be resumed; train from its weights with --init_from {run}"
        )
    seed_everything(config.seed)
    with join_processes(config.train.device, config.train.threads) as processes:
        resumed_from = run if resumed and (run.folder / LAST).exists() else None
        task = task_of(config).build(config, processes, resumed_from=resumed_from, open_run=Run.open)
        if resumed:
            _check_data(run, task)
        if not resumed:
            # Only the main process writes; the others need the settings alone.
            metadata = {"name": name, **task.metadata(), **processes.metadata()}
            run = (
                Run.create(config, name=name, metadata=metadata, folder=folder) if processes.main else Run(".", config)
            )
        engine = Engine(task, run, processes)
        if resumed:
            engine.resume()
        if processes.main:
            _begin(run, task, engine)
            before = run.read_json("meta.json")
            if changed := [
                f"{key} {value}" for key, value in processes.metadata().items() if before.get(key, value) != value
            ]:
                print(
                    f"Different from the first part of this run: {', '.join(changed)}. "
                    "Results will match up to rounding, not bit for bit"
                )
        try:
            engine.train(lambda line: print(line + suffix(engine)))
            if not processes.main:
                return None
            run.load_weights(task.model)
            scores = task.test()
        except KeyboardInterrupt:
            if processes.main:
                print(f"\nStopped. Go on with:\n    python train.py --resume {run.folder}")
            raise
        result = {"seconds": engine.seconds, "valid": engine.best, "test": scores.as_dict()}
        run.write_json("result.json", result)
        _finish(run, task, scores, engine.best["epoch"])
    return result["test"]


def _check_data(run: Run, task: Task) -> None:
    """Refuse to go on with other data: with as many, but other, words or classes nothing else would fail."""
    before = run.read_json("meta.json")
    for key, value in task.metadata().items():
        now, then = list(value), list(before.get(key, value))
        if now != then:
            differ = [f"{one} then, {other} now" for one, other in zip(then, now, strict=False) if one != other]
            count = [f"{len(then)} then, {len(now)} now"] if len(then) != len(now) else []
            raise RunError(
                f"the data of {run} has changed since training began: "
                f"other {key.replace('_', ' ')} ({'; '.join([*count, *differ[:3]])})"
            )


def _begin(run: Run, task: Task, engine: Engine) -> None:
    """Say what is about to happen."""
    processes = task.processes
    print(f"{task.headline()}; seed {run.config.seed}; {processes.world_size} x {processes.device}")
    print(f"Run folder: {run.folder}")
    if engine.epoch:
        print(f"Going on after epoch {engine.epoch}")


def _finish(run: Run, task: Task, scores: Scores, epoch: int) -> None:
    """Say how it went, and what to do next."""
    table, note = task.test_table(scores)
    count = scores.as_dict()[f"{task.noun}s"]
    print(f"\nTest, {count:,} {task.noun}s, weights of epoch {epoch} (the best in validation){note}:\n")
    print(table.text())
    print(f"\nRun folder: {run.folder}\n\nNext:")
    for command in task.next_commands(run):
        print(f"    {command}")
