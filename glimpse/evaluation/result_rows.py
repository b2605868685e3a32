"""Results as rows of a file, a row per run and metric; `view/results.py` makes tables of them.

A row is read off a finished run folder: nothing is scored again, but for section lazy, which is about stopping early:
its runs look at the validation and the test images once more. A row's command reproduces the run: a config file as it
is now, the seed, and every other setting in which the run differs from that file; but for technical settings, and for
where on some disk things were.
"""

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from glimpse.errors import ConfigError
from glimpse.evaluation.caption import CaptionScores
from glimpse.metrics.translations import TranslationScores

LAZY = "lazy"
SECTIONS = ("main", "control", "paper", "ablation", LAZY, "captions", "translation", "other")
ERROR = "test error %"
# Of stopping early: the error and the mean number of glimpses, by how one knows when to stop.
EARLY = {
    "confidence": ("test error stopping early %", "mean glimpses"),
    "halting": ("test error halting %", "mean glimpses halting"),
}
TRUE = CaptionScores.names["true_and_complete"]
ON_DIGIT = CaptionScores.names["on_digit"]
EXACT = TranslationScores.names["exact"]
ON_SPAN = TranslationScores.names["on_span"]
RENAMED = {"attention on the words meant %": ON_SPAN}  # metrics that files of earlier versions call otherwise


def percent(share: float | None) -> float | None:
    """A share in percent, as rows have it."""
    return None if share is None else round(100 * share, 4)


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
