"""Train several configs with several seeds each, one after the other, without repeating what is done.

Finished runs are used as they are, stopped runs are resumed, and missing ones are trained. The same command therefore
continues after any interruption.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from glimpse.errors import ConfigError, RunError
from glimpse.tasks.settings import Config
from glimpse.training.engine import Engine
from glimpse.training.run import Run
from glimpse.training.train import train
from glimpse.view.tables import duration


class PlannedRun(NamedTuple):
    """The config of a run, which may exist already."""

    name: str  # of its config
    config: Config  # with its seed


def train_missing(
    jobs: Sequence[PlannedRun], *, given: Sequence[Run] = (), log: Callable[[str], None] = print
) -> list[Run]:
    """Train those of the planned runs that are missing or unfinished; returns all, in order.

    Args:
        jobs: The planned runs.
        given: Existing runs to use; further ones are searched in `train.runs_dir`.
        log: Called with lines of text about the progress.

    Raises:
        ConfigError, DataError, RunError: As `training.train`; the runs trained until then are kept.
    """
    check_distinct(jobs)
    opened: dict[Path, Run] = {}
    found = [find_run(job, given, opened) for job in jobs]
    finished = {index: run for index, run in enumerate(found) if run is not None and run.finished}
    seconds = {index: run.seconds for index, run in finished.items()}  # duration of the training, as far as known
    missing = [index for index in range(len(jobs)) if index not in finished]
    if missing:
        total = sum(expected_seconds(jobs, seconds, index) for index in missing) if seconds else 0.0
        log(
            f"{len(finished)} of {len(jobs)} runs are finished; training the others"
            + (f", about {duration(total)}" if seconds else "")
        )
    for count, index in enumerate(missing, 1):
        job = jobs[index]
        log(f"\n{count} of {len(missing)}: {job.name}, seed {job.config.seed}")

        def suffix(engine: Engine, index: int = index, later: Sequence[int] = missing[count:]) -> str:
            """Estimate the time left for all runs."""
            seconds[index] = engine.seconds + engine.seconds_left
            left = engine.seconds_left + sum(expected_seconds(jobs, seconds, other) for other in later)
            return f"; {duration(left)} left in total" if later else ""

        try:
            train(job.config, run=found[index], name=job.name, suffix=suffix)
        except KeyboardInterrupt:
            log("Or run the same command again, which continues from here.")
            raise
        run = find_run(job, given, opened)
        if run is None:
            raise RunError(f"the run of {job.name}, seed {job.config.seed}, was moved or deleted after its training")
        finished[index], seconds[index] = run, run.seconds
    return [finished[index] for index in range(len(jobs))]


def check_distinct(jobs: Sequence[PlannedRun]) -> None:
    """Raise ConfigError if two planned runs have the same settings and seed."""
    seen: dict[object, PlannedRun] = {}
    for job in jobs:
        training = (job.config.identity(), job.config.seed)
        if (other := seen.setdefault(training, job)) is not job:
            raise ConfigError(
                f"{other.name} and {job.name} are the same training, seed {job.config.seed}: list it once"
            )


def find_run(job: PlannedRun, given: Sequence[Run] = (), opened: dict[Path, Run] | None = None) -> Run | None:
    """Find the run with the settings and seed of a planned run, a finished one if possible; None if there is none.

    Args:
        job: The planned run.
        given: Existing runs to search first, before `train.runs_dir`.
        opened: Cache of opened runs by folder, extended by this function; None: no cache.
    """
    opened = {} if opened is None else opened
    candidates = [*given]
    for file in sorted(Path(job.config.train.runs_dir, job.name).glob("*/config.yaml")):
        try:
            if file.parent not in opened:
                opened[file.parent] = Run.open(file.parent)
            candidates.append(opened[file.parent])
        except RunError:
            continue  # broken, or of an incompatible version
    unfinished = None
    for run in candidates:
        if run.config.seed == job.config.seed and run.config.identity() == job.config.identity():
            if run.finished:
                return run
            unfinished = run
    return unfinished


def expected_seconds(jobs: Sequence[PlannedRun], seconds: dict[int, float], index: int) -> float:
    """Estimate the duration of a planned run: the mean over runs of the same config, or else over all known runs.

    Args:
        jobs: All planned runs.
        seconds: Known durations, by the index of the run.
        index: Index of the run.
    """
    identity = jobs[index].config.identity()
    same_config = [taken for other, taken in seconds.items() if jobs[other].config.identity() == identity]
    known = same_config or list(seconds.values())
    return sum(known) / len(known)
