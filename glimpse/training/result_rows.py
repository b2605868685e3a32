"""Rows of results.csv from finished run folders.

Nothing is scored again, but for section lazy, which is about stopping early: its runs look at the validation and the
test images once more. A row's command reproduces the run: a config file as it is now, the seed, and every other setting
in which the run differs from that file; but for technical settings, and for where on some disk things were.
"""

import json
import math
import shlex
from pathlib import Path
from typing import Any, TypeVar

from glimpse.config.schema import diff
from glimpse.errors import ConfigError, RunError
from glimpse.evaluation.result_rows import LAZY, SECTIONS, Row
from glimpse.tasks.base import task_of
from glimpse.tasks.settings import Config, load_config
from glimpse.training.run import Run

C = TypeVar("C", bound=Config)
REPOSITORY = Path(__file__).parents[2]


def rows_of(run: Run, *, section: str, name: str | None = None, task: str | None = None) -> list[Row]:
    """The rows of a finished run, one per metric.

    Args:
        run: The run.
        section: The part of the results that it belongs to, one of SECTIONS.
        name: What to call it; by default as its config.
        task: What it was trained for; by default what its data is called.

    Raises:
        ConfigError: If there is no such section, or the task has no name of its own.
        RunError: If the run is not finished, or broken.
    """
    if section not in SECTIONS:
        raise ConfigError(f"--section must be one of {', '.join(SECTIONS)}, got {section}")
    if not run.finished:
        raise RunError(f"{run} is not finished; finish it with: python train.py --resume {run}")
    config, metadata = run.config, run.read_json("meta.json")
    file, settings = origin(run)
    task_class = task_of(config)
    row = Row(
        section=section,
        name=name or run.name,
        task=task or config.data.title(),
        config=file,
        settings=settings,
        seed=config.seed,
        read=config.scored_read or config.no_read,
        glimpses=getattr(config, "num_glimpses", None),
        metric="",
        value=math.nan,
        low=None,
        high=None,
        valid=None,
        parameters=sum(parameter.numel() for parameter in task_class.load(run).model.parameters()),
        epochs=config.train.epochs,
        minutes=round(run.seconds / 60, 1),
        threads=metadata.get("threads"),
        commit=metadata.get("commit") or "",
        command=" ".join(filter(None, ["python train.py", file, f"--seed {config.seed}", settings])),
    )
    result = run.read_json("result.json")
    try:
        values = task_class.result_rows(run, result)
    except (KeyError, TypeError, IndexError) as error:
        raise RunError(f"{run.folder / 'result.json'} is broken: {error!r}") from error
    if section == LAZY:
        values += task_class.early_exit_rows(run)
    return [row._replace(**its) for its in values]


def origin(run: Run) -> tuple[str, str]:
    """Where the settings of a run come from.

    Returns:
        The path of its config file from the repository, empty if there is none of its name; and the settings in which
        the run differs from that file, or else from the defaults, as on a command line.
    """
    path = f"configs/{run.name}.yaml" if (REPOSITORY / f"configs/{run.name}.yaml").is_file() else ""
    file = REPOSITORY / path if path else None
    reached = base = load_config(file=file)
    wanted = portable(run.config, base)
    own, default = dict(wanted.items()), dict(base.items())
    settings: dict[str, list[str]] = {}
    # Again, as a setting that does not exist for the file's kind of model may exist for the run's.
    while missing := [key for key, _, _ in diff(dict(wanted.identity()), dict(reached.identity()))]:
        values = {key: own[key] for key in missing if key in own and key not in settings}
        values = {key: value for key, value in values.items() if key not in default or value != default[key]}
        if not values:
            raise RunError(f"no command line has the settings of {run}: {', '.join(missing)}")
        kinds = {key: value for key, value in values.items() if key == "model" or key.endswith(".kind")}
        for key, value in (kinds or values).items():  # what kinds there are decides which settings exist
            settings[key] = [f"--{key}", value if isinstance(value, str) else json.dumps(value)]
        reached = load_config(["=".join(setting) for setting in settings.values()], file=file)
    return path, shlex.join(word for pair in settings.values() for word in pair)


def portable(config: C, base: Config) -> C:
    """A config with files and folders as another has them, which was written for any machine."""
    changes: dict[str, dict[str, Any]] = {"train": {"runs_dir": base.train.runs_dir}}
    for group in config.groups():
        own, other = getattr(config, group), getattr(base, group, None)
        for name in own.paths:
            if own.is_path(name, getattr(own, name)):
                default = type(own).model_fields[name].default
                changes.setdefault(group, {})[name] = getattr(other, name) if isinstance(other, type(own)) else default
    return config.replace(**changes)
