"""Table and figure of the variance of the REINFORCE gradient with each baseline."""

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from glimpse.evaluation.gradient_variance import GradientVariance
from glimpse.losses.policy_gradient import BASELINES
from glimpse.view.drawing import line_style
from glimpse.view.tables import Table

WIDE_RANGE = 20  # an axis is logarithmic if the ratio of the largest to the smallest value exceeds this


def variance_table(result: GradientVariance) -> Table:
    """Make a table of the variances, with a row for each baseline."""
    header = [
        "baseline",
        "rollouts per image",
        "variance",
        "95% interval",
        "relative to none",
        "95% interval",
        "signal-to-noise",
        "difference of mean",
    ]
    rows = []
    for estimator in result.estimators:
        first = estimator is result.estimators[0]  # the reference, without a baseline
        rows.append(
            [
                _title(estimator.baseline),
                str(estimator.rollouts),
                _number(estimator.variance),
                _range(estimator.interval),
                _number(estimator.ratio),
                "-" if first else _range(estimator.ratio_interval),
                _number(estimator.signal_to_noise),
                "-" if first else f"{estimator.mean_shift:.2f}",
            ]
        )
    notes = [
        f"Estimates of the gradient of {result.parameters:,} attention parameters from {result.images:,} images with "
        f"{result.rollouts} sampled rollouts per image; {result.repeats:,} repetitions. All baselines use the same "
        "rollouts; advantages are not normalized.",
        "Signal-to-noise: squared norm of the mean gradient divided by the variance of an estimate. The ratio is "
        "estimated without bias, so it can be below 0 where noise dominates.",
        "Difference of mean: distance of the mean gradient from that without a baseline, in standard errors. If the "
        "baseline does not bias the gradient, it is about 1, and exceeds 2 with a probability of at most about 5%.",
        *result.notes,
    ]
    return Table("Variance of the REINFORCE gradient", header, rows, notes)


def draw_variance(result: GradientVariance) -> Figure:
    """Plot the variance with each baseline (left), and the variance of the term of each choice (right)."""
    figure = Figure(figsize=(10, 4), dpi=100, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08))
    left, right = figure.subplots(1, 2, width_ratios=[1.15, 1])
    _draw_totals(left, result)
    _draw_choices(right, result)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=11)
    return figure


def _draw_totals(axes: Axes, result: GradientVariance) -> None:
    values = [estimator.variance for estimator in result.estimators]
    ends = [estimator.interval[1] for estimator in result.estimators if math.isfinite(estimator.interval[1])]
    start, largest = 0.0, max(*values, *ends)
    end_of_axis = 1.9 * largest or 1.0  # leaves space for the numbers beside the bars
    if _is_wide(values):
        axes.set_xscale("log")
        least = min(value for value in values if value > 0)
        start = least / 4
        end_of_axis = start * (largest / start) ** 1.9
    axes.set_xlim(start, end_of_axis)
    for row, estimator in enumerate(result.estimators):
        low, high = estimator.interval
        if start:  # no bars on a logarithmic axis, where they would have an arbitrary start
            axes.plot(estimator.variance, row, markersize=9, **_style(estimator.baseline))
        else:
            axes.barh(row, estimator.variance, color=_style(estimator.baseline)["color"], height=0.62)
        end = max(start, estimator.variance)
        if math.isfinite(high):
            axes.plot([low, high], [row, row], color="black", linewidth=1.4, marker="|", markersize=8)
            end = high
        text = _number(estimator.variance)
        if row > 0 and not math.isnan(estimator.ratio):
            text += f"  (×{_number(estimator.ratio)})"
        axes.annotate(text, (end, row), (7, 0), textcoords="offset points", va="center", fontsize=11)
    axes.set_yticks(range(len(values)), [_title(estimator.baseline) for estimator in result.estimators])
    axes.invert_yaxis()
    axes.set_xlabel("variance (× that of none), with 95% interval", fontsize=11)
    axes.set_title("Variance of the gradient, by baseline", fontsize=12, loc="left")


def _draw_choices(axes: Axes, result: GradientVariance) -> None:
    glimpses = range(result.first_choice, result.first_choice + len(result.estimators[0].per_choice))
    for estimator in result.estimators:
        axes.plot(
            glimpses,
            estimator.per_choice,
            markersize=7,
            linewidth=1.8,
            label=_title(estimator.baseline),
            **_style(estimator.baseline),
        )
    values = [value for estimator in result.estimators for value in estimator.per_choice]
    if _is_wide(values):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_xticks(glimpses)
    axes.margins(x=0.08)
    axes.set_xlabel("glimpse", fontsize=11)
    axes.set_title("Variance of the term of each choice", fontsize=12, loc="left")
    axes.legend(fontsize=11, frameon=False, loc="upper left", bbox_to_anchor=(1, 1), borderaxespad=0)


def _title(baseline: str) -> str:
    return baseline.replace("_", "-")


def _style(baseline: str) -> dict[str, Any]:
    """Return color and marker of a baseline, which do not depend on the others that are shown."""
    return line_style(list(BASELINES).index(baseline))


def _is_wide(values: list[float]) -> bool:
    positive = [value for value in values if value > 0]
    return bool(positive) and max(positive) > WIDE_RANGE * min(positive)


def _number(value: float) -> str:
    """Format with three significant digits; NaN is a dash."""
    if math.isnan(value):
        return "-"
    return f"{value:.3g}" if value == 0 or 1e-3 <= abs(value) < 1000 else f"{value:.2e}"


def _range(interval: tuple[float, float]) -> str:
    low, high = interval
    return f"{_number(low)} to {_number(high)}" if math.isfinite(high) else "-"
