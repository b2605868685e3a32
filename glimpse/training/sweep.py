"""Train what is missing: several configs with several seeds each, one after the other, as often as it takes.

A run that is there and finished is used; one that was stopped goes on; the others are trained. So the same command,
given again after whatever happened, picks up where it was.
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
    """A run that is wanted."""

    name: str  # of its config
    config: Config  # with its seed


def train_missing(
    jobs: Sequence[PlannedRun], *, given: Sequence[Run] = (), log: Callable[[str], None] = print
) -> list[Run]:
    """Train those of the wanted runs that are not there yet; returns all, in order.

    Args:
        jobs: The runs that are wanted.
        given: Runs that may be among them; the others are looked for where `train.py` puts them.
        log: Told of the progress.

    Raises:
        ConfigError, DataError, RunError: As `training.train`; what is trained by then is kept.
    """
    check_distinct(jobs)
    opened: dict[Path, Run] = {}
    found = [find(job, given, opened) for job in jobs]
    # What the whole training of a job takes, as far as known.
    seconds = {index: run.seconds for index, run in enumerate(found) if run is not None and run.finished}
    missing = [index for index in range(len(jobs)) if index not in seconds]
    if missing:
        left = f", {duration(sum(expected(jobs, seconds, index) for index in missing))} if as before" if seconds else ""
        log(f"{len(jobs) - len(missing)} of {len(jobs)} runs are there; training the others{left}")
    for count, index in enumerate(missing, 1):
        job = jobs[index]
        log(f"\n{count} of {len(missing)}: {job.name}, seed {job.config.seed}")

        def suffix(engine: Engine, index: int = index, later: Sequence[int] = missing[count:]) -> str:
            """How long all will take."""
            seconds[index] = engine.seconds + engine.seconds_left
            left = engine.seconds_left + sum(expected(jobs, seconds, other) for other in later)
            return f"; {duration(left)} left in all" if later else ""

        try:
            train(job.config, run=found[index], name=job.name, suffix=suffix)
        except KeyboardInterrupt:
            log("Or give the same command again: it goes on from here.")
            raise
        found[index] = find(job, given, opened)
        seconds[index] = found[index].seconds
    return found


def check_distinct(jobs: Sequence[PlannedRun]) -> None:
    """Refuse to do the same twice."""
    seen: dict[object, PlannedRun] = {}
    for job in jobs:
        training = (job.config.identity(), job.config.seed)
        if (other := seen.setdefault(training, job)) is not job:
            raise ConfigError(
                f"{other.name} and {job.name} are the same training, seed {job.config.seed}: name it once"
            )


def find(job: PlannedRun, given: Sequence[Run] = (), opened: dict[Path, Run] | None = None) -> Run | None:
    """The run of a job, finished if there is such a one; None if it was never begun.

    Args:
        job: The run that is wanted.
        given: Runs that it may be.
        opened: Runs that were opened before, by their folders; those that are opened are added.
    """
    opened = {} if opened is None else opened
    candidates = [*given]
    for file in sorted(Path(job.config.train.runs_dir, job.name).glob("*/config.yaml")):
        try:
            if file.parent not in opened:
                opened[file.parent] = Run.open(file.parent)
            candidates.append(opened[file.parent])
        except RunError:
            continue  # of another version, or broken: not the one wanted
    begun = None
    for run in candidates:
        if run.config.seed == job.config.seed and run.config.identity() == job.config.identity():
            if run.finished:
                return run
            begun = run
    return begun


def expected(jobs: Sequence[PlannedRun], seconds: dict[int, float], index: int) -> float:
    """How long a job may take: as long as others of its config did, else as long as any."""
    alike = [
        taken for other, taken in seconds.items() if jobs[other].config.identity() == jobs[index].config.identity()
    ]
    known = alike or list(seconds.values())
    return sum(known) / len(known)
