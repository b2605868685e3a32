"""Results as rows of a file, a row per run and metric; `view/results.py` makes tables of them.

A row is read off a finished run folder: nothing is scored again, but for section lazy, which is about stopping early:
its runs look at the validation and the test images once more. A row's command reproduces the run: a config file as it
is now, the seed, and every other setting in which the run differs from that file; but for technical settings, and for
where on some disk things were.
"""

import csv
import dataclasses
import io
import json
import math
import operator
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from glimpse.classification import observe
from glimpse.comparison import essence
from glimpse.config import Config, different, images_of
from glimpse.loading import load, load_runs
from glimpse.metrics import wilson_interval
from glimpse.parsing import parse
from glimpse.runs import Run, RunError
from glimpse.settings import ConfigError
from glimpse.stopping import stop_early

REPOSITORY = Path(__file__).parents[1]
LAZY = "lazy"
SECTIONS = ("main", "control", "paper", "ablation", LAZY, "captions", "translation", "other")
ERROR = "test error %"
# Of stopping early: the error and the mean number of glimpses, by how one knows when to stop.
EARLY = {
    "confidence": ("test error stopping early %", "mean glimpses"),
    "halting": ("test error halting %", "mean glimpses halting"),
}
TRUE = "true and complete %"
ON_DIGIT = "attention on the digit named %"
EXACT = "exact %"
NAMES = {
    "true_and_complete": TRUE,
    "grammatical": "grammatical %",
    "on_digit": ON_DIGIT,
    "exact": EXACT,
    "on_span": "attention on the words meant %",
}
SHARES = ("true_and_complete", "grammatical", "exact")  # scores that are shares of the images or sentences


_NO_READ = {"translator": "one annotation"}
_TASKS = {"digit_captions": "digit captions", "dates": "dates"}


class Row(NamedTuple):
    """What one run has by one metric."""

    section: str
    name: str
    task: str
    config: str  # the file, from the repository; empty for the defaults
    settings: str  # in which the run differs from it, as on a command line
    seed: int
    read: str  # how it was scored
    glimpses: int | None
    metric: str
    value: float
    low: float | None  # 95% interval over images, of a share of them
    high: float | None
    valid: float | None  # of the epoch that was selected
    parameters: int
    epochs: int
    minutes: float
    threads: int | None
    commit: str
    command: str

    @property
    def group(self) -> tuple[str, str, str]:
        """What the runs of the same training with other seeds share."""
        return self.section, self.task, self.name


def rows_of(run: Run, *, section: str, name: str | None = None, task: str | None = None) -> list[Row]:
    """The rows of a finished run, one per metric.

    Args:
        run: The run.
        section: The part of the results that it belongs to, one of SECTIONS.
        name: What to call it; by default as its config.
        task: What it was trained for; by default as `task_of` its config.

    Raises:
        ConfigError: If there is no such section, or the task has no name of its own.
        RunError: If the run is not finished, or broken.
    """
    if section not in SECTIONS:
        raise ConfigError(f"--section must be one of {', '.join(SECTIONS)}, got {section}")
    if not run.finished:
        raise RunError(f"{run} is not finished; finish it with: python train.py --resume {run}")
    config, about = run.config, run.read_json("meta.json")
    file, settings = origin(run)
    model = load(run.folder)
    model = getattr(model, "model", model)  # a captioner or translator comes with its words
    attends = config.model in ("attention", "captioner", "translator") and config.attention.places != "none"
    row = Row(
        section=section,
        name=name or run.name,
        task=task or task_of(config),
        config=file,
        settings=settings,
        seed=config.seed,
        read=(config.score.read or config.read) if attends else _NO_READ.get(config.model, "whole image"),
        glimpses=config.num_glimpses if config.model == "attention" else None,
        metric="",
        value=math.nan,
        low=None,
        high=None,
        valid=None,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        epochs=config.train.epochs,
        minutes=round(run.seconds / 60, 1),
        threads=about.get("threads"),
        commit=about.get("commit") or "",
        command=" ".join(filter(None, ["python train.py", file, f"--seed {config.seed}", settings])),
    )
    result = run.read_json("result.json")
    try:
        scores = _telling_scores if config.model in ("captioner", "translator") else _error
        values = scores(result["test"], result["valid"])
    except (KeyError, TypeError, IndexError) as error:
        raise RunError(f"{run.folder / 'result.json'} is broken: {error!r}") from error
    if section == LAZY:
        values += _early(run)
    return [row._replace(**its) for its in values]


def _early(run: Run) -> list[dict[str, Any]]:
    """What stopping early gives, with thresholds picked on the validation images."""
    if run.config.model != "attention" or run.config.num_glimpses == 1:
        raise RunError(f"{run} cannot stop early: it has one answer")
    [loaded], splits = load_runs([run.folder])
    look = partial(observe, loaded.model, how=loaded.how, batch_size=run.config.score.batch_size)
    found = []
    for early in stop_early(look(splits.valid), look(splits.test)):
        its = early.summary()
        error, glimpses = EARLY[early.by]
        low, high = map(_percent, its["interval"])
        errors = {"value": _percent(its["error"]), "valid": _percent(its["valid_error"]), "low": low, "high": high}
        means = {"value": round(its["glimpses"], 4), "valid": round(its["valid_glimpses"], 4)}
        found += [{"metric": error, **errors}, {"metric": glimpses, **means}]
    return found


def _error(test: dict[str, Any], valid: dict[str, Any]) -> list[dict[str, Any]]:
    low, high = map(_percent, test["interval"][-1])
    return [
        {
            "metric": ERROR,
            "value": _percent(test["error"][-1]),
            "low": low,
            "high": high,
            "valid": _percent(valid["error"]),
        }
    ]


def _telling_scores(test: dict[str, Any], valid: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    count = test["sentences"] if "sentences" in test else test["images"]
    for key, value in test.items():
        if not isinstance(value, float):  # how many there were, or what is not known
            continue
        interval = wilson_interval(value * count, count) if key in SHARES else (None, None)
        low, high = map(_percent, interval)
        found.append(
            {
                "metric": NAMES.get(key, key),
                "value": _percent(value),
                "low": low,
                "high": high,
                "valid": _percent(valid.get(key)),
            }
        )
    return found


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 4)


def task_of(config: Config) -> str:
    """What a config is for, in words; raises ConfigError if the data has no name of its own."""
    data = config.data
    if data.kind in _TASKS:
        return _TASKS[data.kind]
    if data.kind != "cluttered":
        raise ConfigError(f"--task must be given for data.kind {data.kind}: say in a few words what the data is")
    height, width = images_of(data).canvas
    size = f"{height}x{width}"
    several = f", {data.num_digits} digits ({data.target})" if data.num_digits > 1 else ""
    if data.num_distractors:
        return f"cluttered {size}{several}"
    return f"MNIST {size}" if size == "28x28" else f"translated {size}{several}"


def origin(run: Run) -> tuple[str, str]:
    """Where the settings of a run come from.

    Returns:
        The path of its config file from the repository, empty if there is none of its name; and the settings in which
        the run differs from that file, or else from the defaults, as on a command line.
    """
    path = f"configs/{run.name}.yaml" if (REPOSITORY / f"configs/{run.name}.yaml").is_file() else ""
    file = REPOSITORY / path if path else None
    reached = base = parse(file=file)
    wanted = portable(run.config, base)
    settings: dict[str, list[str]] = {}
    # Again, as a setting that means nothing to the file's kind of model may mean something to the run's.
    while missing := [key for key, _, _ in different(essence(wanted), essence(reached))]:
        values = {key: operator.attrgetter(key) for key in missing if key not in settings}
        values = {key: value(wanted) for key, value in values.items() if value(wanted) != value(base)}
        if not values:
            raise RunError(f"no command line has the settings of {run}: {', '.join(missing)}")
        for key, value in values.items():
            settings[key] = [f"--{key}", value if isinstance(value, str) else json.dumps(value)]
        reached = parse(["=".join(setting) for setting in settings.values()], file=file)
    return path, shlex.join(word for pair in settings.values() for word in pair)


def portable(config: Config, base: Config) -> Config:
    """A config with files and folders as another has them, which was written for any machine."""
    weights = config.encoder.weights
    return dataclasses.replace(
        config,
        data=dataclasses.replace(config.data, root=base.data.root),
        encoder=dataclasses.replace(
            config.encoder,
            cache=base.encoder.cache,
            weights=weights if weights in (None, "default") else base.encoder.weights,
        ),
        train=dataclasses.replace(config.train, folder=base.train.folder),
    )


def read_rows(path: Path) -> list[Row]:
    """Read a file of results; none, if it does not exist yet.

    Raises:
        ConfigError: If it cannot be read, has other columns, or a value that cannot be.
    """
    try:
        lines = (
            list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig")), strict=True)) if path.exists() else []
        )
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    if not lines:
        return []
    header, *lines = lines
    if header != list(Row._fields):
        unknown, missing = (set(header) - set(Row._fields), set(Row._fields) - set(header))
        what = [*(f"unknown {name}" for name in sorted(unknown)), *(f"no {name}" for name in sorted(missing))]
        raise ConfigError(f"{path} must have the columns {', '.join(Row._fields)}: {', '.join(what) or 'other order'}")
    rows = []
    for number, cells in enumerate(lines, 2):
        try:
            if len(cells) != len(header):
                raise ValueError(f"there must be {len(header)} cells, got {len(cells)}")
            rows.append(Row(*map(_value, header, cells)))
        except ValueError as error:
            raise ConfigError(f"{path} is broken in row {number}: {error}") from error
    return rows


def _value(column: str, text: str) -> Any:
    kind = Row.__annotations__[column]
    if kind is str:
        if column == "section" and text not in SECTIONS:
            raise ValueError(f"section must be one of {', '.join(SECTIONS)}, got {text!r}")
        return text
    if text == "" and kind not in (int, float):
        return None
    try:
        value = int(text) if kind in (int, int | None) else float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{column} must be a number, got {text!r}")
    return value


def to_csv(rows: Sequence[Row]) -> str:
    """The content of a file of results."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(Row._fields)
    writer.writerows(["" if value is None else value for value in row] for row in rows)
    return file.getvalue()


def merge(rows: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    """Add rows, in the place of all those of the same section, name, task and seed.

    Returns:
        All rows, by section, task and name in the order in which these first came, then by seed.

    Raises:
        ConfigError: If two of the new rows are of the same place, or runs of the same name are of different trainings.
    """
    places = [(row.group, row.seed, row.metric) for row in new]
    for place, row in zip(places, new, strict=True):
        if places.count(place) > 1:
            raise ConfigError(f"there are two runs of {_title(row)}, seed {row.seed}: give one, or another --name")
    replaced = {(row.group, row.seed) for row in new}
    merged = [*(row for row in rows if (row.group, row.seed) not in replaced), *new]
    for group in groups(merged):
        trainings = sorted({f"{row.config or 'the defaults'} {row.settings}".strip() for row in group})
        if len(trainings) > 1:
            raise ConfigError(
                f"runs of {_title(group[0])} must differ in their seed only, got {'; and '.join(trainings)}: give "
                "another --name, or all seeds at once to replace them"
            )
    order: dict[tuple[str, ...], int] = {}
    for row in [*rows, *new]:
        for parts in range(1, 4):
            order.setdefault(row.group[:parts], len(order))
    # Metrics stay in their order, as sorting is stable.
    return sorted(merged, key=lambda row: (*(order[row.group[:parts]] for parts in range(1, 4)), row.seed))


def _title(row: Row) -> str:
    return f"{row.name} ({row.section}, {row.task})"


def groups(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of each training, seeds and metrics together."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(row.group, []).append(row)
    return list(found.values())
