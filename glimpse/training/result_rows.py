"""Rows of results.csv from finished run folders.

Only section early_exit evaluates its runs again, on the validation and the test images; all other metrics are
read from the run folder. The command of a row reproduces the run: the config file in its present state, the seed, and
every other setting in which the run differs from that file, except technical settings and paths.
"""

import json
import math
import shlex
from pathlib import Path
from typing import Any, TypeVar

from glimpse.config.schema import diff
from glimpse.errors import ConfigError, RunError
from glimpse.evaluation.result_rows import EARLY_EXIT, RENAMED, SECTIONS, Row
from glimpse.tasks.base import task_of
from glimpse.tasks.settings import Config, load_config
from glimpse.training.run import Run

C = TypeVar("C", bound=Config)
REPOSITORY = Path(__file__).parents[2]


def rows_of(run: Run, *, section: str, name: str | None = None, task: str | None = None) -> list[Row]:
    """Return the rows of a finished run, one per metric.

    Args:
        run: The run.
        section: Section of the results, one of SECTIONS.
        name: Name of the model; None: that of the config.
        task: Name of the task; None: that of the data.

    Raises:
        ConfigError: If there is no such section, or the data has no name.
        RunError: If the run is not finished, or broken.
    """
    section = RENAMED["section"].get(section, section)
    if section not in SECTIONS:
        raise ConfigError(f"--section must be one of {', '.join(SECTIONS)}, got {section}")
    if not run.finished:
        raise RunError(f"{run} is not finished; finish it with: python train.py --resume {run}")
    config, metadata = run.config, run.read_json("meta.json")
    file, settings = config_and_overrides(run)
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
    if section == EARLY_EXIT:
        values += task_class.early_exit_rows(run)
    return [row._replace(**metric) for metric in values]


def config_and_overrides(run: Run, *, repository: Path = REPOSITORY) -> tuple[str, str]:
    """Return a command line that reproduces the settings of a run, as a config file and overrides.

    Args:
        run: The run.
        repository: Folder with the config files, in `configs/`.

    Returns:
        The path of the config file in the repository, empty if no file has the name of the run; and the settings in
        which the run differs from that file, or else from the defaults, as options.

    Raises:
        RunError: If no options lead to the settings of the run.
    """
    path = f"configs/{run.name}.yaml" if (repository / f"configs/{run.name}.yaml").is_file() else ""
    file = repository / path if path else None
    reached = base = load_config(file=file)
    wanted = with_paths_of(run.config, base)
    own, default = dict(wanted.items()), dict(base.items())
    settings: dict[str, list[str]] = {}
    # Repeated, as the kinds that are chosen first decide which other settings exist.
    while missing := [key for key, _, _ in diff(dict(wanted.identity()), dict(reached.identity()))]:
        values = {key: own[key] for key in missing if key in own and key not in settings}
        values = {key: value for key, value in values.items() if key not in default or value != default[key]}
        if not values:
            raise RunError(f"cannot write a command line with the settings of {run}: {', '.join(missing)}")
        kinds = {key: value for key, value in values.items() if key == "model" or key.endswith(".kind")}
        for key, value in (kinds or values).items():
            settings[key] = [f"--{key}", value if isinstance(value, str) else json.dumps(value)]
        reached = load_config(["=".join(setting) for setting in settings.values()], file=file)
    return path, shlex.join(word for pair in settings.values() for word in pair)


def with_paths_of(config: C, base: Config) -> C:
    """Return a config whose paths are replaced by those of another, or by the defaults where that has none."""
    changes: dict[str, dict[str, Any]] = {"train": {"runs_dir": base.train.runs_dir}}
    for group in config.groups():
        own, other = getattr(config, group), getattr(base, group, None)
        for name in own.paths:
            if own.is_path(name, getattr(own, name)):
                default = type(own).model_fields[name].default
                changes.setdefault(group, {})[name] = getattr(other, name) if isinstance(other, type(own)) else default
    return config.replace(**changes)
