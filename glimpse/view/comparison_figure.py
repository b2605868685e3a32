"""The figure of a comparison: error after each glimpse, error with early exit, and error against cost."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from glimpse.evaluation.comparison import Comparison, RunGroup
from glimpse.view.drawing import MIN_PERCENT, line_style, to_percent
from glimpse.view.early_exit import draw_early_exit

LEGEND_CHARACTERS = 110  # characters per line of the legend


def draw_comparison(comparison: Comparison) -> Figure:
    """Plot error against glimpses, against mean glimpses if any run has early-exit curves, and against cost."""
    early = any(group.exit_curves() for group in comparison.groups)
    figure = Figure(figsize=(14 if early else 10, 5.2), layout="constrained")
    left, *middle, right = figure.subplots(1, 2 + early, sharey=True, width_ratios=[1.25, *[1.25] * early, 1])
    for index, group in enumerate(comparison.groups):
        style = line_style(index)
        _draw_by_glimpse(left, group, style)
        _draw_by_cost(right, group, style)
        for axes in middle:
            draw_early_exit(axes, group, style)
    steps = max(len(group.errors()) for group in comparison.groups)
    for axes in (left, *middle):
        axes.set(xlim=(0.8, max(steps, 2) + 0.2))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    left.set(xlabel="glimpses", ylabel=f"{comparison.split} error %")
    left.set_title("error after each glimpse", fontsize=11)
    for axes in middle:
        axes.set(xlabel="mean glimpses")
        axes.set_title("error with early exit (dotted: fixed number of glimpses)", fontsize=11)
    costs = [group.cost.multiply_adds / 1e6 for group in comparison.groups]
    right.set(xlabel="multiply-adds per image, in millions", xscale="log", xlim=(min(costs) / 2, max(costs) * 2))
    right.set_title("error against cost", fontsize=11)
    means = [100 * estimate.mean for group in comparison.groups for estimate in group.errors()]
    # Limits by the means, as intervals over few seeds may reach zero, which a logarithmic axis cannot show.
    left.set(yscale="log", ylim=(max(min(means), MIN_PERCENT) / 2, max(2 * MIN_PERCENT, min(110, 1.5 * max(means)))))
    for axis in (left.yaxis, right.xaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    for axes in figure.axes:
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    draw_legend(figure, [group.name for group in comparison.groups])
    return figure


def draw_legend(figure: Figure, names: Sequence[str], characters: int = LEGEND_CHARACTERS) -> None:
    """Draw the legend below a figure, in at most 4 columns, with about `characters` characters per line."""
    columns = max(1, min(4, len(names), characters // (max(map(len, names)) + 6)))
    for text in figure.legend(loc="outside lower center", ncols=columns, frameon=False).get_texts():
        text.set_parse_math(False)


def _draw_by_glimpse(axes: Axes, group: RunGroup, style: dict[str, Any]) -> None:
    errors = group.errors()
    mean, low, high = (to_percent(column) for column in zip(*errors, strict=True))
    if not group.attends:  # a whole-image network: constant
        axes.axhline(mean[0], color=style["color"], linestyle="--", linewidth=1.2)
        axes.axhspan(low[0], high[0], color=style["color"], alpha=0.12, linewidth=0)
        return
    steps = range(1, len(mean) + 1)
    axes.plot(steps, mean, linewidth=1.6, markersize=6, **style)
    axes.fill_between(steps, low, high, color=style["color"], alpha=0.2, linewidth=0)


def _draw_by_cost(axes: Axes, group: RunGroup, style: dict[str, Any]) -> None:
    mean, low, high = to_percent(group.errors()[-1])
    bars = [
        [max(0.0, mean - low)],
        [max(0.0, high - mean)],
    ]  # rounding could make them negative at 0 and 100%
    line = "-" if group.attends else "--"
    axes.errorbar(
        group.cost.multiply_adds / 1e6, mean, bars, label=group.name, capsize=3, markersize=7, linestyle=line, **style
    )
