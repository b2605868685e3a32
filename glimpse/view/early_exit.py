"""Early exit as text, a table, CSV rows and a plot."""

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes

from glimpse.evaluation.comparison import Comparison, RunGroup
from glimpse.evaluation.early_exit import MAX_ADDED_ERROR
from glimpse.view.drawing import to_percent
from glimpse.view.tables import Table

SIGNAL_NAMES = {"confidence": "confidence", "halting": "halting unit"}
LINE_STYLES = {"confidence": "-", "halting": "--"}


def early_exit_lines(summaries: Sequence[dict[str, Any]]) -> str:
    """Format error and mean number of glimpses with early exit, a line for each stopping signal.

    Args:
        summaries: As `evaluation.early_exit.ExitCurve.summary` returns them.
    """
    lines = []
    for summary in summaries:
        low, high = (100 * end for end in summary["interval"])
        lines.append(
            f"early exit by {SIGNAL_NAMES[summary['by']]} above {summary['threshold']:.8g}: "
            f"error {100 * summary['error']:.2f}% ({low:.2f}-{high:.2f}), {summary['glimpses']:.2f} glimpses on "
            f"average; threshold picked on validation images: error {100 * summary['valid_error']:.2f}% with "
            f"{summary['valid_glimpses']:.2f} glimpses there, {100 * summary['valid_full_error']:.2f}% with all"
        )
    return "\n".join(lines)


def early_exit_table(comparison: Comparison) -> Table:
    """Make a table of the results at the picked thresholds, with a row for each group and stopping signal."""
    steps = max(len(runs[0].chosen.shares) for group in comparison.groups for runs in group.exit_curves())
    rows = []
    for group in comparison.groups:
        for runs in group.exit_curves():
            chosen = [curve.chosen for curve in runs]
            thresholds = [point.threshold for point in chosen]
            shares = [f"{100 * fmean(share):.1f}" for share in zip(*(point.shares for point in chosen), strict=True)]
            rows.append(
                [
                    group.name,
                    SIGNAL_NAMES[runs[0].signal],
                    str(len(runs)),
                    " to ".join(f"{value:.8g}" for value in sorted({min(thresholds), max(thresholds)})),
                    f"{100 * fmean(curve.scored[-1].error for curve in runs):.2f}",
                    f"{100 * fmean(point.error for point in chosen):.2f}",
                    f"{fmean(point.glimpses for point in chosen):.2f}",
                    *shares,
                    *["-"] * (steps - len(shares)),
                ]
            )
    numbers = [str(step + 1) for step in range(steps)]
    header = ["", "signal", "runs", "threshold", "all glimpses %", "early exit %", "mean glimpses", *numbers]
    notes = [
        "Early exit: stop after the first glimpse at which the largest class probability, or the stopping probability "
        "of the halting unit, exceeds a threshold. Errors are in %; the last columns are the share of images, in %, "
        "that took this number of glimpses. The threshold of each run is picked on validation images: among those that "
        f"add at most {100 * MAX_ADDED_ERROR:g} points to the error there, the one with the fewest glimpses. All "
        "numbers are for one greedy rollout."
    ]
    return Table(f"Early exit, {comparison.images:,} {comparison.split} images", header, rows, notes)


def early_exit_rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """Yield a row for each run, stopping signal and threshold; "picked" marks the threshold picked on validation."""
    curves = [(group, run, curve) for group in comparison.groups for run in group.runs for curve in run.exit_curves]
    steps = max(len(curve.chosen.shares) for _, _, curve in curves)
    for group, run, curve in curves:
        for index, (before, after) in enumerate(zip(curve.valid, curve.scored, strict=True)):
            shares = [*after.shares, *[None] * (steps - len(after.shares))]
            yield {
                "config": group.name,
                "seed": run.seed,
                "run": run.folder,
                "by": curve.signal,
                "threshold": after.threshold,
                "picked": index == curve.picked,
                "valid_error": before.error,
                "valid_glimpses": before.glimpses,
                "split": comparison.split,
                "images": curve.images,
                "error": after.error,
                "glimpses": after.glimpses,
                **{f"took_{number}": share for number, share in enumerate(shares, 1)},
            }


def draw_early_exit(axes: Axes, group: RunGroup, style: dict[str, Any]) -> None:
    """Plot error against mean glimpses: all thresholds, the picked one, and (dotted) fixed numbers of glimpses."""
    if not group.exit_curves():
        return
    for runs in group.exit_curves():
        curves = [list(zip(*points, strict=True)) for points in zip(*(curve.scored for curve in runs), strict=True)]
        _, errors, glimpses = zip(*([fmean(values) for values in point[:3]] for point in curves), strict=True)
        axes.plot(
            glimpses, to_percent(errors), linestyle=LINE_STYLES[runs[0].signal], linewidth=1.6, color=style["color"]
        )
        _, error, taken = (fmean(values) for values in list(zip(*(curve.chosen for curve in runs), strict=True))[:3])
        axes.plot([taken], to_percent([error]), linestyle="", markersize=8, **style)
    means = to_percent([estimate.mean for estimate in group.errors()])
    axes.plot(range(1, len(means) + 1), means, linestyle=":", linewidth=1, color=style["color"])
