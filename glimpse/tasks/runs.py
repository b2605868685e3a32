"""Checks of several runs before they are scored or drawn together."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from glimpse.config.schema import diff
from glimpse.errors import ConfigError, RunError
from glimpse.tasks.base import Task, task_of
from glimpse.tasks.settings import Config

if TYPE_CHECKING:
    from glimpse.training.run import Run

MAX_RUNS = 4  # side by side in pictures
TaskType: TypeAlias = type[Task[Any, Any, Any]]


def common_task(configs: Mapping[str, Config]) -> TaskType:
    """The task of runs, given by name; raises RunError unless all have the same."""
    (first, task), *others = ((name, task_of(config)) for name, config in configs.items())
    for name, other in others:
        if other is not task:
            raise RunError(f"{first} {task.verb} and {name} {other.verb}: they cannot be shown or compared together")
    return task


def task_of_runs(runs: "Sequence[Run]") -> TaskType:
    """The task of some runs; raises RunError unless all have the same."""
    return common_task({str(run): run.config for run in runs})


def check_run_count(runs: Sequence[object]) -> None:
    """Raise ConfigError if there are more runs than pictures can show."""
    if len(runs) > MAX_RUNS:
        raise ConfigError(f"at most {MAX_RUNS} runs can be shown side by side, got {len(runs)}")


def check_given_once(runs: "Sequence[Run]") -> None:
    """Raise RunError if a run is given twice."""
    if twice := [run for run in runs if sum(run.folder.samefile(other.folder) for other in runs) > 1]:
        raise RunError(f"each run must be given once, got {twice[0]} twice")


def check_same_data(configs: Mapping[str, Config]) -> None:
    """Raise RunError if configs, given by name, do not have the same data."""
    (first, reference), *others = configs.items()
    own = dict(reference.data.identity())
    for name, config in others:
        data = dict(config.data.identity())
        # Settings that only one of them has or uses follow from others.
        differ = [f"{key} {one} and {other}" for key, one, other in diff(own, data) if key in own and key in data]
        if differ:
            raise RunError(
                f"{first} and {name} cannot be compared: they do not have the same {task_of(reference).noun}s "
                f"({'; '.join(differ)})"
            )


def check_same_data_of_runs(runs: "Sequence[Run]") -> None:
    """Raise RunError if runs do not have the same data."""
    check_same_data({str(run): run.config for run in runs})


def unique_names(runs: "Sequence[Run]") -> list[str]:
    """A unique short name for each run: that of its config, with the seed and the folder where names coincide."""
    names = [run.name for run in runs]
    for more in ([f"seed {run.config.seed}" for run in runs], [str(run) for run in runs]):
        if len(set(names)) < len(names):
            names = [f"{name}, {detail}" for name, detail in zip(names, more, strict=True)]
    return names
