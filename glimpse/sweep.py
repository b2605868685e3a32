"""Train what is missing: several configs with several seeds each, one after the other, as often as it takes.

A run that is there and finished is used; one that was stopped goes on; the others are trained. So the same command,
given again after whatever happened, picks up where it was.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from glimpse.comparison import essence
from glimpse.config import Config
from glimpse.engine import Engine
from glimpse.runs import Run, RunError
from glimpse.training import train


class Job(NamedTuple):
    """A run that is wanted."""

    name: str  # of its config
    config: Config  # with its seed


def train_missing(jobs: Sequence[Job], *, say: Callable[[str], None] = print) -> list[Path]:
    """Train those of the wanted runs that are not there yet; returns the folders of all, in order.

    Raises:
        ConfigError, DataError, RunError: As `training.train`; what is trained by then is kept.
    """
    found = [find(job) for job in jobs]
    seconds: dict[int, float] = {}  # that the whole training of a job takes, as far as known
    for index, run in enumerate(found):
        if run is not None and finished(run):
            seconds[index] = float(run.read_json("result.json")["seconds"])
    missing = [index for index in range(len(jobs)) if index not in seconds]
    if missing:
        say(f"{len(jobs) - len(missing)} of {len(jobs)} runs are there; training the others")
    for count, index in enumerate(missing, 1):
        job, run = jobs[index], found[index]
        say(f"\n{count} of {len(missing)}: {job.name}, seed {job.config.seed}")

        def remark(engine: Engine, index: int = index, later: Sequence[int] = missing[count:]) -> str:
            """How long all will take, by the runs of the same config, else by the mean of those known."""
            seconds[index] = engine.seconds + engine.seconds_left
            left = engine.seconds_left + sum(expected(jobs, seconds, other) for other in later)
            return f"; {duration(left)} left in all" if later else ""

        train(job.config, run=run, name=job.name, remark=remark)
        found[index] = find(job)
        seconds[index] = float(found[index].read_json("result.json")["seconds"])
    return [run.folder for run in found]


def find(job: Job) -> Run | None:
    """The run of a job, finished if there is such a one; None if it was never begun."""
    begun = None
    for folder in sorted(Path(job.config.train.folder, job.name).glob("*/config.yaml")):
        try:
            run = Run.open(folder.parent)
        except RunError:
            continue  # of another version, or broken: not the one wanted
        if run.config.seed == job.config.seed and essence(run.config) == essence(job.config):
            if finished(run):
                return run
            begun = run
    return begun


def finished(run: Run) -> bool:
    """Whether a run was trained to the end and scored."""
    return (run.folder / "result.json").exists()


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
