"""Scores of translators by the length of the source, as a table, as rows of numbers and as a figure."""

from collections.abc import Iterator
from typing import Any

from matplotlib.figure import Figure

from glimpse.evaluation.by_length import ALL, LengthComparison
from glimpse.metrics.statistics import Estimate
from glimpse.view.comparison import in_percent
from glimpse.view.comparison_figure import draw_legend
from glimpse.view.drawing import line_style
from glimpse.view.tables import Table

OFFSET = 0.12  # between the marks of two groups, as a share of the width of a group of lengths
LEGEND_CHARACTERS = 66  # that fit into a line
TITLES = {"error": "Translations that are not exact, in %", "BLEU": "BLEU"}


def length_table(lengths: LengthComparison) -> Table:
    """A row for each group of runs, a column for each group of lengths."""
    header = ["source words", "runs", *(f"{words} ({count:,})" for words, count in lengths.counts.items())]
    rows = [
        [group.name, str(len(group.runs)), *(in_percent(group.score(words)) for words in lengths.counts)]
        for group in lengths.groups
    ]
    title = f"{TITLES[lengths.metric]}, by the length of the source, {lengths.counts[ALL]:,} {lengths.split} sentences"
    return Table(title, header, rows, [f"In brackets: in the header, the number of sentences; {_intervals(lengths)}"])


def run_rows(lengths: LengthComparison) -> Iterator[dict[str, Any]]:
    """A row for each run and group of lengths; the interval is over sentences."""
    for group in lengths.groups:
        for run in group.runs:
            for words, count in lengths.counts.items():
                about = {"config": group.name, "seed": run.seed, "run": run.folder, "attention": group.attends}
                yield {**about, **_row(lengths, words, count, run.scores[words])}


def group_rows(lengths: LengthComparison) -> Iterator[dict[str, Any]]:
    """A row for each group of runs and of lengths; the interval is over seeds if there are several runs."""
    for group in lengths.groups:
        for words, count in lengths.counts.items():
            about = {"config": group.name, "runs": len(group.runs), "attention": group.attends}
            interval = "seeds" if len(group.runs) > 1 else "sentences"
            yield {**about, **_row(lengths, words, count, group.score(words)), "interval": interval}


def draw_lengths(lengths: LengthComparison) -> Figure:
    """Draw the scores against the length of the source, a line for each group of runs, dashed without attention."""
    words = [name for name in lengths.counts if name != ALL]
    figure = Figure(figsize=(max(6.5, 2.5 + 1.1 * len(words)), 4.6), layout="constrained")
    axes = figure.subplots()
    for index, group in enumerate(lengths.groups):
        mean, low, high = zip(*(group.score(name) for name in words), strict=True)
        # Side by side, so that overlapping intervals can be told apart.
        places = [place + OFFSET * (index - (len(lengths.groups) - 1) / 2) for place in range(len(words))]
        bars = [
            [100 * max(0.0, middle - end) for middle, end in zip(mean, low, strict=True)],
            [100 * max(0.0, end - middle) for middle, end in zip(mean, high, strict=True)],
        ]
        axes.errorbar(
            places,
            [100 * value for value in mean],
            bars,
            label=group.name,
            linestyle="-" if group.attends else "--",
            linewidth=1.6,
            markersize=6,
            capsize=3,
            clip_on=False,  # a mark at zero is not cut
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
    several, single = "over seeds (Student's)", f"over sentences ({over})"
    runs = [len(group.runs) for group in lengths.groups]
    if min(runs) > 1:
        return f"in the cells, 95% intervals {several}."
    if max(runs) == 1:
        return f"in the cells, 95% intervals {single} of a single run; other seeds may differ by more."
    return f"in the cells, 95% intervals, {several} where there are several runs, {single} of a single one."
