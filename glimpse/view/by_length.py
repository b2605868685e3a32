"""Scores of translators by source length, as a table, CSV rows and a figure."""

from collections.abc import Iterator
from typing import Any

from matplotlib.figure import Figure

from glimpse.evaluation.by_length import ALL, LengthComparison
from glimpse.metrics.statistics import Estimate
from glimpse.view.comparison import in_percent
from glimpse.view.comparison_figure import draw_legend
from glimpse.view.drawing import line_style
from glimpse.view.tables import Table

OFFSET = 0.12  # horizontal distance between the markers of two run groups; length groups are 1 apart
LEGEND_CHARACTERS = 66  # characters per line of the legend
TITLES = {"error": "Translations that are not exact, in %", "BLEU": "BLEU"}


def length_table(lengths: LengthComparison) -> Table:
    """Make a table with a row for each group of runs and a column for each length group."""
    header = ["source words", "runs", *(f"{words} ({count:,})" for words, count in lengths.counts.items())]
    rows = [
        [group.name, str(len(group.runs)), *(in_percent(group.score(words)) for words in lengths.counts)]
        for group in lengths.groups
    ]
    title = f"{TITLES[lengths.metric]}, by the length of the source, {lengths.counts[ALL]:,} {lengths.split} sentences"
    return Table(
        title, header, rows, [f"In parentheses: in the header, the number of sentences; {_intervals(lengths)}"]
    )


def length_run_rows(lengths: LengthComparison) -> Iterator[dict[str, Any]]:
    """Yield a row for each run and length group; the interval is over sentences."""
    for group in lengths.groups:
        for run in group.runs:
            for words, count in lengths.counts.items():
                columns = {"config": group.name, "seed": run.seed, "run": run.folder, "attention": group.has_attention}
                yield {**columns, **_row(lengths, words, count, run.scores[words])}


def length_group_rows(lengths: LengthComparison) -> Iterator[dict[str, Any]]:
    """Yield a row for each group of runs and length group; the interval is over seeds if there are several runs."""
    for group in lengths.groups:
        for words, count in lengths.counts.items():
            columns = {"config": group.name, "runs": len(group.runs), "attention": group.has_attention}
            interval = "seeds" if len(group.runs) > 1 else "sentences"
            yield {**columns, **_row(lengths, words, count, group.score(words)), "interval": interval}


def draw_lengths(lengths: LengthComparison) -> Figure:
    """Plot the scores against the source length, a line for each group of runs; dashed: without attention."""
    words = [name for name in lengths.counts if name != ALL]
    figure = Figure(figsize=(max(6.5, 2.5 + 1.1 * len(words)), 4.6), layout="constrained")
    axes = figure.subplots()
    for index, group in enumerate(lengths.groups):
        mean, low, high = zip(*(group.score(name) for name in words), strict=True)
        # Shifted sideways, so that intervals do not overlap.
        positions = [position + OFFSET * (index - (len(lengths.groups) - 1) / 2) for position in range(len(words))]
        bars = [
            [100 * max(0.0, middle - end) for middle, end in zip(mean, low, strict=True)],
            [100 * max(0.0, end - middle) for middle, end in zip(mean, high, strict=True)],
        ]
        axes.errorbar(
            positions,
            [100 * value for value in mean],
            bars,
            label=group.name,
            linestyle="-" if group.has_attention else "--",
            linewidth=1.6,
            markersize=6,
            capsize=3,
            clip_on=False,  # do not cut markers at zero
            **line_style(index),
        )
    axes.set_xticks(range(len(words)), [f"{name}\n({lengths.counts[name]:,})" for name in words])
    axes.set(xlabel="source words (sentences)", ylabel=f"{lengths.split} {_unit(lengths)}")
    axes.set(xlim=(-0.6, len(words) - 0.4))
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(f"{_unit(lengths)} by the length of the source (dashed: without attention)", fontsize=11)
    draw_legend(figure, [group.name for group in lengths.groups], characters=LEGEND_CHARACTERS)
    return figure


def _unit(lengths: LengthComparison) -> str:
    return "error %" if lengths.metric == "error" else "BLEU"


def _row(lengths: LengthComparison, words: str, count: int, estimate: Estimate) -> dict[str, Any]:
    return {
        "split": lengths.split,
        "source_words": words,
        "sentences": count,
        "metric": lengths.metric,
        "value": estimate.mean,
        "low": estimate.low,
        "high": estimate.high,
    }


def _intervals(lengths: LengthComparison) -> str:
    over = "Wilson's" if lengths.metric == "error" else "by the bootstrap"
    several, single = "over seeds (Student's t)", f"over sentences ({over})"
    runs = [len(group.runs) for group in lengths.groups]
    if min(runs) > 1:
        return f"in the cells, 95% intervals {several}."
    if max(runs) == 1:
        return f"in the cells, 95% intervals {single} for a single run; other seeds may differ by more."
    return f"in the cells, 95% intervals, {several} for several runs, {single} for a single run."
