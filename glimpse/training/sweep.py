"""Train what is missing: several configs with several seeds each, one after the other, as often as it takes.

A run that is there and finished is used; one that was stopped goes on; the others are trained. So the same command,
given again after whatever happened, picks up where it was.
"""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from glimpse.comparison import essence
from glimpse.config import Config
from glimpse.engine import Engine
from glimpse.runs import Run, RunError
from glimpse.settings import ConfigError
from glimpse.training import train


class Job(NamedTuple):
    """A run that is wanted."""

    name: str  # of its config
    config: Config  # with its seed


def train_missing(jobs: Sequence[Job], *, given: Sequence[Run] = (), say: Callable[[str], None] = print) -> list[Path]:
    """Train those of the wanted runs that are not there yet; returns the folders of all, in order.

    Args:
        jobs: The runs that are wanted.
        given: Runs that may be among them; the others are looked for where `train.py` puts them.
        say: Told of the progress.

    Raises:
        ConfigError, DataError, RunError: As `training.train`; what is trained by then is kept.
    """
    check_distinct(jobs)
    found = [find(job, given) for job in jobs]
    # What the whole training of a job takes, as far as known.
    seconds = {index: run.seconds for index, run in enumerate(found) if run is not None and run.finished}
    missing = [index for index in range(len(jobs)) if index not in seconds]
    if missing:
        left = f", {duration(sum(expected(jobs, seconds, index) for index in missing))} if as before" if seconds else ""
        say(f"{len(jobs) - len(missing)} of {len(jobs)} runs are there; training the others{left}")
    for count, index in enumerate(missing, 1):
        job = jobs[index]
        say(f"\n{count} of {len(missing)}: {job.name}, seed {job.config.seed}")

        def remark(engine: Engine, index: int = index, later: Sequence[int] = missing[count:]) -> str:
            """How long all will take."""
            seconds[index] = engine.seconds + engine.seconds_left
            left = engine.seconds_left + sum(expected(jobs, seconds, other) for other in later)
            return f"; {duration(left)} left in all" if later else ""

        try:
            train(job.config, run=found[index], name=job.name, remark=remark)
        except KeyboardInterrupt:
            say("Or give the same command again: it goes on from here.")
            raise
        found[index] = find(job, given)
        seconds[index] = found[index].seconds
    return [run.folder for run in found]


def check_distinct(jobs: Sequence[Job]) -> None:
    """Refuse to do the same twice."""
    seen: dict[Config, Job] = {}
    for job in jobs:
        training = dataclasses.replace(essence(job.config), seed=job.config.seed)
        if (other := seen.setdefault(training, job)) is not job:
            raise ConfigError(
                f"{other.name} and {job.name} are the same training, seed {job.config.seed}: name it once"
            )


def find(job: Job, given: Sequence[Run] = ()) -> Run | None:
    """The run of a job, finished if there is such a one; None if it was never begun."""
    candidates = [*given]
    for file in sorted(Path(job.config.train.folder, job.name).glob("*/config.yaml")):
        try:
            candidates.append(Run.open(file.parent))
        except RunError:
            continue  # of another version, or broken: not the one wanted
    begun = None
    for run in candidates:
        if run.config.seed == job.config.seed and essence(run.config) == essence(job.config):
            if run.finished:
                return run
            begun = run
    return begun


def expected(jobs: Sequence[Job], seconds: dict[int, float], index: int) -> float:
    """How long a job may take: as long as others of its config did, else as long as any."""
    alike = [taken for other, taken in seconds.items() if essence(jobs[other].config) == essence(jobs[index].config)]
    known = alike or list(seconds.values())
    return sum(known) / len(known)


def duration(seconds: float) -> str:
    """A time in words."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
