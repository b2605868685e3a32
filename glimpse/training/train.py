"""Train a model from its config, and score it on the test set."""

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
    """Train a new run, or resume one, and score it on the test set.

    Args:
        config: The settings.
        run: The run to resume; None: a new one.
        name: Name of the config, for a new run.
        folder: Folder of a new run; None: named automatically, see `Run.create`.
        suffix: Text to append to the line that is printed after each epoch.

    Returns:
        The test scores; None in all processes but the main one.

    Raises:
        ConfigError, DataError: If the settings or the data cannot be used.
        RunError: If the run cannot be created, resumed or written to, or ships with the package.
        NonFiniteError: If a loss or gradient is NaN or infinite.
    """
    if run is not None and run.shipped:
        raise RunError(
            f"{run} ships with the package and cannot be resumed; train from its weights with --init_from {run}"
        )
    seed_everything(config.seed)
    with join_processes(config.train.device, config.train.threads) as processes:
        resumed = run is not None
        resumed_from = run if run is not None and (run.folder / LAST).exists() else None
        task = task_of(config).build(config, processes, resumed_from=resumed_from, open_run=Run.open)
        if run is not None:
            _check_data(run, task)
        elif processes.main:
            metadata = {"name": name, **task.metadata(), **processes.metadata()}
            run = Run.create(config, name=name, metadata=metadata, folder=folder)
        else:
            run = Run(".", config)  # never written to
        engine = Engine(task, run, processes)
        if resumed:
            engine.resume()
        if processes.main:
            _print_start(run, task, engine)
        try:
            engine.train(lambda line: print(line + suffix(engine)))
            if not processes.main:
                return None
            best = run.load_weights(task.model)
            scores = task.test()
        except KeyboardInterrupt:
            if processes.main:
                print(f"\nStopped. Resume with:\n    python train.py --resume {run.folder}")
            raise
        test = scores.as_dict()
        run.write_json("result.json", {"seconds": engine.seconds, "valid": best, "test": test})
        _print_result(run, task, scores, best["epoch"])
    return test


def _check_data(run: Run, task: Task) -> None:
    """Raise RunError if the words or classes of the data changed, which nothing else detects if their number agrees."""
    before = run.read_json("meta.json")
    for key, value in task.metadata().items():
        now, then = list(value), list(before.get(key, value))
        if now != then:
            pairs = zip(then, now, strict=False)
            changes = [f"{old} then, {new} now" for old, new in pairs if old != new]
            count = [f"{len(then)} then, {len(now)} now"] if len(then) != len(now) else []
            raise RunError(
                f"the data of {run} has changed since training began: "
                f"different {key.replace('_', ' ')} ({'; '.join([*count, *changes[:3]])})"
            )


def _print_start(run: Run, task: Task, engine: Engine) -> None:
    """Print the model, the data and the run folder, and how the machine differs from that of a resumed run."""
    processes = task.processes
    print(f"{task.headline()}; seed {run.config.seed}; {processes.world_size} x {processes.device}")
    print(f"Run folder: {run.folder}")
    if engine.epoch:
        print(f"Resuming after epoch {engine.epoch}")
    before = run.read_json("meta.json")
    now = processes.metadata()
    if changed := [f"{key} {value}" for key, value in now.items() if before.get(key, value) != value]:
        print(
            f"Different from the first part of this run: {', '.join(changed)}. "
            "Results will match up to rounding, not bit for bit"
        )


def _print_result(run: Run, task: Task, scores: Scores, epoch: int) -> None:
    """Print the test scores, and the commands that usually come next."""
    table, note = task.test_table(scores)
    count = scores.as_dict()[f"{task.noun}s"]
    print(f"\nTest, {count:,} {task.noun}s, weights of epoch {epoch} (the best on the validation set){note}:\n")
    print(table.text())
    print(f"\nRun folder: {run.folder}\n\nNext:")
    for command in task.next_commands(run):
        print(f"    {command}")
