"""Tables of the rows of results.csv, and their insertion into a text."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from glimpse.evaluation.early_exit import MAX_ADDED_ERROR
from glimpse.evaluation.result_rows import (
    EARLY_EXIT,
    EARLY_EXIT_METRICS,
    ERROR,
    EXACT,
    ON_DIGIT,
    ON_SPAN,
    TRUE_AND_COMPLETE,
    Row,
    groups,
)
from glimpse.metrics.statistics import Estimate, over_seeds
from glimpse.view.early_exit import SIGNAL_NAMES
from glimpse.view.tables import Table

CAPTION_METRICS = (TRUE_AND_COMPLETE, "BLEU-1", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr", ON_DIGIT)
TRANSLATION_METRICS = (EXACT, "BLEU", ON_SPAN)
PICKED = (
    "The stopping threshold is picked on validation images: among those that add at most "
    f"{100 * MAX_ADDED_ERROR:g} points to the error there, the one with the fewest glimpses."
)
ONE_RUN = "† One run: Wilson's interval, over examples. Intervals of several runs: Student's t, over seeds."


class Published(NamedTuple):
    """Published errors of others for a task and a read mode."""

    paper: str
    public: str = "-"  # the best public implementation


def estimate(rows: Sequence[Row]) -> Estimate | None:
    """The mean and its interval: Student's t over several runs; a single run's own interval, None if unknown."""
    if len(rows) > 1:
        mean, low, high = over_seeds([row.value for row in rows])
        return Estimate(mean, max(0.0, low), min(100.0, high) if rows[0].metric.endswith("%") else high)
    [row] = rows
    return None if row.low is None or row.high is None else Estimate(row.value, row.low, row.high)


def main_table(
    rows: Sequence[Row],
    published: dict[tuple[str, str], Published],
    sources: Sequence[str],
    shipped: dict[tuple[str, str], str],
) -> Table:
    """Make the table of the errors of the main models, with published results.

    Args:
        rows: Rows of results.csv.
        published: Published results, by task and read mode.
        sources: Notes on the sources of the published results.
        shipped: Names of the shipped models, by config file and settings.
    """
    lines = []
    for group in _errors(rows, "main"):
        first = group[0]
        paper, public = published.get((first.task, first.read), Published("-"))
        name = shipped.get((first.config, first.settings))
        model = f"`{name}`" if name else "-"
        lines.append([*_beginning(group), cell(group), str(len(group)), paper, public, _minutes(group), model])
    header = ["task", "model", "read", "glimpses", ERROR, "runs", "paper", "best public", "minutes", "shipped as"]
    return Table("Test error", header, lines, [*_notes(lines), *sources])


def section_table(rows: Sequence[Row], section: str, title: str) -> Table:
    """Make the table of the errors of a section."""
    lines = [[*_beginning(group), cell(group), str(len(group)), _minutes(group)] for group in _errors(rows, section)]
    header = ["task", "model", "read", "glimpses", ERROR, "runs", "minutes"]
    return Table(title, header, lines, _notes(lines))


def ablation_table(rows: Sequence[Row]) -> Table:
    """Make the table of the error of each change; the first row of each task is the reference."""
    references: dict[str, float] = {}
    lines = []
    for group in _errors(rows, "ablation"):
        mean, task = _mean(group), group[0].task
        reference = task not in references
        points = "reference" if reference else f"{mean - references[task]:+.2f}"
        references.setdefault(task, mean)
        lines.append([task, group[0].name, cell(group), points, str(len(group))])
    return Table("Ablations", ["task", "change", ERROR, "difference in points", "runs"], lines, _notes(lines))


def early_exit_results(rows: Sequence[Row]) -> Table:
    """Make the table of results with early exit, with a row for each model and stopping signal."""
    lines = []
    for group in groups([row for row in rows if row.section == EARLY_EXIT]):
        runs = [row for row in group if row.metric == ERROR]
        for signal, metrics in EARLY_EXIT_METRICS.items():
            error, glimpses = ([row for row in group if row.metric == metric] for metric in metrics)
            if error:
                end = [cell(runs), cell(error), cell(glimpses), str(len(error)), _minutes(group)]
                lines.append([*_beginning(group), SIGNAL_NAMES[signal], *end])
    errors = [ERROR, EARLY_EXIT_METRICS["confidence"][0], EARLY_EXIT_METRICS["confidence"][1]]
    header = ["task", "model", "read", "glimpses", "stops by", *errors, "runs", "minutes"]
    return Table("Early exit", header, lines, [*_notes(lines), *([PICKED] if lines else [])])


def caption_results(rows: Sequence[Row]) -> Table:
    """Make the table of the scores of captioners."""
    return _sequence_table(rows, "captions", CAPTION_METRICS, "Captions")


def translation_results(rows: Sequence[Row]) -> Table:
    """Make the table of the scores of translators."""
    return _sequence_table(rows, "translation", TRANSLATION_METRICS, "Translation")


def _sequence_table(rows: Sequence[Row], section: str, metrics: Sequence[str], title: str) -> Table:
    rows = [row for row in rows if row.section == section]
    shown = [metric for metric in metrics if any(row.metric == metric for row in rows)]
    lines = []
    for group in groups(rows):
        cells = [cell([row for row in group if row.metric == metric]) for metric in shown]
        seeds = {row.seed for row in group}
        lines.append([group[0].task, group[0].name, group[0].read, *cells, str(len(seeds)), _minutes(group)])
    return Table(title, ["task", "model", "read", *shown, "runs", "minutes"], lines, _notes(lines))


def commands_table(rows: Sequence[Row]) -> Table:
    """Make the table of the training commands, with their first seed, and the seeds they were run with."""
    lines = []
    for group in groups(rows):
        first, seeds = group[0], sorted({row.seed for row in group})
        threads = sorted({row.threads for row in group if row.threads is not None})
        lines.append(
            [
                f"{first.task}, {first.name}: `{first.command}`",
                ", ".join(map(str, seeds)),
                f"{first.parameters:,}",
                str(first.epochs),
                _minutes(group),
                ", ".join(map(str, threads)) or "-",
            ]
        )
    header = ["model and command", "seeds", "weights", "epochs", "minutes", "threads"]
    return Table("Commands", header, lines)


def fill(text: str, tables: dict[str, Table]) -> str:
    """Insert tables between the markers `<!-- results:NAME -->` and `<!-- /results:NAME -->` of a text.

    Raises:
        ValueError: If there is no table for a marker, or a marker has no counterpart.
    """

    def table(match: re.Match) -> str:
        begin, name, end = match.groups()
        if name not in tables:
            raise ValueError(f"there is no table results:{name}; valid: {', '.join(tables)}")
        found = tables[name]
        content = found.markdown() if found.rows else f"**{found.title}**: nothing measured yet.\n"
        return f"{begin}\n{content}{end}"

    markers = re.findall(r"<!-- /?results:", text)
    filled, count = re.subn(r"(<!-- results:(\S+) -->)\n.*?(<!-- /results:\2 -->)", table, text, flags=re.DOTALL)
    if len(markers) != 2 * count:
        raise ValueError("each mark <!-- results:NAME --> must have its <!-- /results:NAME --> after it")
    return filled


def cell(rows: Sequence[Row]) -> str:
    """Format a mean with its interval."""
    if not rows:
        return "-"
    found = estimate(rows)
    if found is None:
        return f"{rows[0].value:.2f}"
    return f"{found.mean:.2f} ({found.low:.2f}-{found.high:.2f}){' †' if len(rows) == 1 else ''}"


def _errors(rows: Sequence[Row], section: str) -> list[list[Row]]:
    return groups([row for row in rows if row.section == section and row.metric == ERROR])


def _beginning(group: list[Row]) -> list[str]:
    first = group[0]
    return [first.task, first.name, first.read, "-" if first.glimpses is None else str(first.glimpses)]


def _mean(group: list[Row]) -> float:
    return sum(row.value for row in group) / len(group)


def _minutes(group: list[Row]) -> str:
    return f"{sum(row.minutes for row in group) / len(group):.0f}"


def _notes(lines: list[list[str]]) -> list[str]:
    return [ONE_RUN] if any("†" in text for line in lines for text in line) else []
