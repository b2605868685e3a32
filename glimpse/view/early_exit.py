"""What stopping early gives, as lines, a table, rows of numbers and a curve of a figure."""

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes

from glimpse.comparison import Comparison, Group
from glimpse.stopping import SLACK
from glimpse.view.drawing import percents
from glimpse.view.tables import Table

NAMES = {"confidence": "confidence", "halting": "halting unit"}  # of how one knows when to stop
LINES = {"confidence": "-", "halting": "--"}


def stopping_lines(found: Sequence[dict[str, Any]]) -> str:
    """What stopping early gives, a line for each way of knowing when.

    Args:
        found: As of `stopping.Early.summary`.
    """
    lines = []
    for its in found:
        low, high = (100 * end for end in its["interval"])
        lines.append(
            f"stopping by {NAMES[its['by']]} above {its['threshold']:.8g}: error {100 * its['error']:.2f}% "
            f"({low:.2f}-{high:.2f}), {its['glimpses']:.2f} glimpses on average; picked on validation, where it gives "
            f"{100 * its['valid_error']:.2f}% and {its['valid_glimpses']:.2f}, all glimpses "
            f"{100 * its['valid_full_error']:.2f}%"
        )
    return "\n".join(lines)


def stopping_table(comparison: Comparison) -> Table:
    """What the thresholds give that validation picked; a row for each group and way of knowing when to stop."""
    steps = max(len(runs[0].chosen.shares) for group in comparison.groups for runs in group.early())
    rows = []
    for group in comparison.groups:
        for runs in group.early():
            chosen = [its.chosen for its in runs]
            thresholds = [point.threshold for point in chosen]
            shares = [f"{100 * fmean(share):.1f}" for share in zip(*(point.shares for point in chosen), strict=True)]
            rows.append(
                [
                    group.name,
                    NAMES[runs[0].by],
                    str(len(runs)),
                    " to ".join(f"{value:.8g}" for value in sorted({min(thresholds), max(thresholds)})),
                    f"{100 * fmean(its.scored[-1].error for its in runs):.2f}",
                    f"{100 * fmean(point.error for point in chosen):.2f}",
                    f"{fmean(point.glimpses for point in chosen):.2f}",
                    *shares,
                    *["-"] * (steps - len(shares)),
                ]
            )
    numbers = [str(step + 1) for step in range(steps)]
    header = ["", "stops by", "runs", "threshold", "all glimpses %", "stopping early %", "mean glimpses", *numbers]
    notes = [
        "Stopping early: after the first glimpse at which the probability of the answer, or of stopping by the halting "
        "unit, exceeds a threshold. Errors are in %, and the last columns have the share of the images in % that took "
        "so many glimpses. The threshold of each run is the one with the fewest glimpses whose error on validation "
        f"images is at most {100 * SLACK:g} points above that with all glimpses. One greedy rollout serves them all."
    ]
    return Table(f"Stopping early, {comparison.images:,} {comparison.split} images", header, rows, notes)


def stopping_rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """A row for each run, way of knowing when to stop, and threshold; "picked" is the one that validation chose."""
    early = [(group, entry, its) for group in comparison.groups for entry in group.entries for its in entry.early]
    steps = max(len(its.chosen.shares) for _, _, its in early)
    for group, entry, its in early:
        for index, (before, after) in enumerate(zip(its.valid, its.scored, strict=True)):
            shares = [*after.shares, *[None] * (steps - len(after.shares))]
            yield {
                "config": group.name,
                "seed": entry.seed,
                "run": entry.folder,
                "by": its.by,
                "threshold": after.threshold,
                "picked": index == its.picked,
                "valid_error": before.error,
                "valid_glimpses": before.glimpses,
                "split": comparison.split,
                "images": its.images,
                "error": after.error,
                "glimpses": after.glimpses,
                **{f"took_{number}": share for number, share in enumerate(shares, 1)},
            }


def draw_stopping(axes: Axes, group: Group, style: dict[str, str]) -> None:
    """Draw error against mean glimpses for all thresholds, what was picked, and dotted as many glimpses for all."""
    if not group.early():
        return
    for runs in group.early():
        curves = [list(zip(*points, strict=True)) for points in zip(*(its.scored for its in runs), strict=True)]
        _, errors, glimpses = zip(*([fmean(values) for values in its[:3]] for its in curves), strict=True)
        axes.plot(glimpses, percents(errors), linestyle=LINES[runs[0].by], linewidth=1.6, color=style["color"])
        _, error, taken = (fmean(values) for values in list(zip(*(its.chosen for its in runs), strict=True))[:3])
        axes.plot([taken], percents([error]), linestyle="", markersize=8, **style)
    errors = percents([estimate.mean for estimate in group.errors()])
    axes.plot(range(1, len(errors) + 1), errors, linestyle=":", linewidth=1, color=style["color"])
