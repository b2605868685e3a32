"""Rows of results.csv, one per run and metric: read, write and merge them.

`training/result_rows.py` makes the rows of finished runs, `view/result_tables.py` makes tables of them.
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

EARLY_EXIT = "early_exit"
SECTIONS = ("main", "control", "paper", "ablation", "parts", EARLY_EXIT, "captions", "translation", "other")
ERROR = "test error %"
# The error and the mean number of glimpses with early exit, by stopping signal.
EARLY_EXIT_METRICS = {
    "confidence": ("test error stopping early %", "mean glimpses"),
    "halting": ("test error halting %", "mean glimpses halting"),
}
TRUE_AND_COMPLETE = CaptionScores.names["true_and_complete"]
ON_DIGIT = CaptionScores.names["on_digit"]
EXACT = TranslationScores.names["exact"]
ON_SPAN = TranslationScores.names["on_span"]
# Present names of values in files of version 0.1, by column.
RENAMED = {"section": {"lazy": EARLY_EXIT}, "metric": {"attention on the words meant %": ON_SPAN}}


def percent(share: float | None) -> float | None:
    """Convert a fraction to percent, rounded as in results.csv."""
    return None if share is None else round(100 * share, 4)


class Row(NamedTuple):
    """The value of one metric of one run; the fields are the columns of results.csv."""

    section: str
    name: str
    task: str
    config: str  # path of the config file in the repository; empty: the defaults
    settings: str  # command-line options in which the run differs from the config file
    seed: int
    read: str  # read mode in which it was scored
    glimpses: int | None
    metric: str
    value: float
    low: float | None  # 95% interval over images; None if the metric is not a fraction of the images
    high: float | None
    valid: float | None  # value on the validation split, for the epoch selected
    parameters: int
    epochs: int
    minutes: float
    threads: int | None
    commit: str
    command: str

    @property
    def group(self) -> tuple[str, str, str]:
        """Section, task and name, which the runs of one training with different seeds share."""
        return self.section, self.task, self.name


def read_rows(path: Path) -> list[Row]:
    """Read a file of results; no rows if it does not exist.

    Raises:
        ConfigError: If the file cannot be read, has other columns, or has an invalid value.
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
        unknown, missing = set(header) - set(Row._fields), set(Row._fields) - set(header)
        found = [*(f"unknown {name}" for name in sorted(unknown)), *(f"no {name}" for name in sorted(missing))]
        difference = ", ".join(found) or "other order"
        raise ConfigError(f"{path} must have the columns {', '.join(Row._fields)}, got {difference}")
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
        text = RENAMED.get(column, {}).get(text, text)
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
    """The rows as CSV text, with a header; None becomes an empty cell."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(Row._fields)
    writer.writerows(["" if value is None else value for value in row] for row in rows)
    return file.getvalue()


def merge(rows: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    """Add rows; they replace all rows of the same section, task, name and seed.

    Returns:
        All rows, by section, task and name in the order of their first occurrence, then by seed.

    Raises:
        ConfigError: If two new rows have the same key, or runs with the same name differ in more than their seed.
    """
    keys = [(row.group, row.seed, row.metric) for row in new]
    for key, row in zip(keys, new, strict=True):
        if keys.count(key) > 1:
            raise ConfigError(f"there are two runs of {_title(row)}, seed {row.seed}: give only one, or another --name")
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
    # Sorting is stable, so metrics stay in their order.
    return sorted(merged, key=lambda row: (*(order[row.group[:parts]] for parts in range(1, 4)), row.seed))


def _title(row: Row) -> str:
    return f"{row.name} ({row.section}, {row.task})"


def groups(rows: Sequence[Row]) -> list[list[Row]]:
    """Group rows by section, task and name; a group has all seeds and metrics."""
    by_group: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        by_group.setdefault(row.group, []).append(row)
    return list(by_group.values())
