"""A comparison as tables, as rows of numbers and as a figure."""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any, get_args

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from glimpse.classification import Mode
from glimpse.comparison import Comparison, Group
from glimpse.metrics import wilson_interval
from glimpse.stats import Estimate
from glimpse.sweep import duration
from glimpse.view.drawing import LEAST, line_style, percents
from glimpse.view.stopping import draw_stopping, stopping_table
from glimpse.view.tables import Table

LEGEND_LETTERS = 110  # that fit into a line


def comparison_tables(comparison: Comparison) -> list[Table]:
    """All tables of a comparison."""
    tables = [_error_table(comparison)]
    if any(group.how for group in comparison.groups):
        tables.append(_glimpse_table(comparison))
    if any(group.early() for group in comparison.groups):
        tables.append(stopping_table(comparison))
    tables.append(_cost_table(comparison))
    if len(comparison.groups) > 1:
        tables.append(_paired_table(comparison))
    return tables


def _error_table(comparison: Comparison) -> Table:
    header = ["", "read", "runs", "greedy %", "sampled %", f"mean of {comparison.rollouts} %", "on the digit %"]
    rows = []
    for group in comparison.groups:
        cells = [in_percent(group.errors(mode)[-1]) if mode in group.modes else "-" for mode in get_args(Mode)]
        hits = group.hits()
        chosen = hits and (hits[len(hits) - group.num_choices :] if group.num_choices else hits)
        on_digit = f"{100 * sum(chosen) / len(chosen):.1f}" if chosen else "-"
        rows.append([group.name, group.how or "-", str(len(group.entries)), *cells, on_digit])
    notes = [
        "Greedy: one rollout that looks at the most likely places. Sampled: one that samples them. Mean of "
        f"{comparison.rollouts}: class probabilities averaged over so many sampled rollouts. On the digit: glimpses "
        "centred on it, of those that the model chose; of all, where a rule places them.",
        _interval_note(comparison),
    ]
    title = f"Error after the last glimpse, {comparison.images:,} {comparison.split} images"
    return Table(title, header, rows, notes)


def _glimpse_table(comparison: Comparison) -> Table:
    errors = {group.name: group.errors() for group in comparison.groups if group.how}
    steps = max(map(len, errors.values()))
    rows = [
        [name, *(f"{100 * estimate.mean:.2f}" for estimate in estimates), *["-"] * (steps - len(estimates))]
        for name, estimates in errors.items()
    ]
    return Table("Error % after each glimpse, greedy", ["", *(str(step + 1) for step in range(steps))], rows)


def _cost_table(comparison: Comparison) -> Table:
    header = ["", "pixels seen", "% of image", "multiply-adds", "parameters", "images/s", "training"]
    rows = []
    for group in comparison.groups:
        cost = group.cost
        trained = sum(entry.seconds for entry in group.entries) / len(group.entries)
        rows.append(
            [
                group.name,
                f"{cost.pixels:,}",
                f"{100 * cost.share:.0f}",
                f"{cost.multiply_adds / 1e6:.2f} M",
                f"{cost.parameters:,}",
                f"{cost.images_per_second:,.0f}",
                duration(trained),
            ]
        )
    notes = [
        "Of one image, read greedily. Pixels seen: the numbers that the network is given, all glimpses and scales "
        "together, and in percent of the number of pixels (squares overlap, and the coarse ones cover more than they "
        "tell). Multiply-adds: of matrix products and convolutions. Images/s: measured in turns on this machine "
        f"({comparison.device}). Training: mean time of a run, where and as it was trained."
    ]
    return Table("Cost", header, rows, notes)


def _paired_table(comparison: Comparison) -> Table:
    first, *others = comparison.groups
    rows = []
    for other in others:
        result = comparison.against(other, first)
        rows.append(
            [
                other.name,
                f"{100 * result.difference:+.2f}",
                f"{100 * result.low:+.2f} to {100 * result.high:+.2f}",
                _probability(result.p_images),
                "-" if result.p_seeds is None else _probability(result.p_seeds),
            ]
        )
    notes = [
        "Difference in error after the last glimpse, greedy, in percentage points; negative is better. Interval and "
        "p (images): for these runs, over images, paired (McNemar's exact test between single runs, else Student's). "
        "p (seeds): Welch's test over runs, with two or more of each. The p are not corrected for being several."
    ]
    title = f"Against {first.name}, on the same images"
    return Table(title, ["", "difference", "95% interval", "p (images)", "p (seeds)"], rows, notes)


def _interval_note(comparison: Comparison) -> str:
    single = [group.name for group in comparison.groups if len(group.entries) == 1]
    if not single:
        return "In brackets: 95% intervals over seeds (Student's)."
    if len(single) == len(comparison.groups):
        return "In brackets: 95% intervals over images (Wilson's) of a single run; other seeds may differ by more."
    return (
        "In brackets: 95% intervals, over seeds (Student's) where there are several runs; over images (Wilson's) for a "
        "single run, whose other seeds may differ by more."
    )


def in_percent(estimate: Estimate) -> str:
    """A share with its interval, as tables show it."""
    return f"{100 * estimate.mean:.2f} ({100 * estimate.low:.2f}-{100 * estimate.high:.2f})"


def _probability(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def run_rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """A row for each run, way of rolling out and glimpse; the interval is over images."""
    for group in comparison.groups:
        for entry in group.entries:
            for mode, outcome in entry.outcomes.items():
                images = len(outcome.right)
                for step, wrong in enumerate((~outcome.right).sum(0).tolist()):
                    low, high = wilson_interval(wrong, images)
                    hit = None if outcome.hit is None else float(outcome.hit[:, :, step].double().mean())
                    yield {
                        "config": group.name,
                        "seed": entry.seed,
                        "run": entry.folder,
                        "read": group.how,
                        "mode": mode,
                        "rollouts": comparison.rollouts if mode == "averaged" else 1,
                        "split": comparison.split,
                        "images": images,
                        "glimpse": step + 1,
                        "error": wrong / images,
                        "low": low,
                        "high": high,
                        "on_digit": hit,
                        "train_seconds": entry.seconds,
                        **group.cost._asdict(),
                    }


def group_rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """A row for each group, way of rolling out and glimpse; the interval is over seeds if there are several."""
    for group in comparison.groups:
        for mode in group.modes:
            hits = group.hits(mode)
            for step, estimate in enumerate(group.errors(mode)):
                yield {
                    "config": group.name,
                    "runs": len(group.entries),
                    "read": group.how,
                    "mode": mode,
                    "rollouts": comparison.rollouts if mode == "averaged" else 1,
                    "split": comparison.split,
                    "images": comparison.images,
                    "glimpse": step + 1,
                    "error": estimate.mean,
                    "low": estimate.low,
                    "high": estimate.high,
                    "interval": "seeds" if len(group.entries) > 1 else "images",
                    "on_digit": None if hits is None else hits[step],
                    "train_seconds": sum(entry.seconds for entry in group.entries) / len(group.entries),
                    **group.cost._asdict(),
                }


def paired_rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """A row for each group but the first: how it differs from the first, see `stats.Paired`."""
    first, *others = comparison.groups
    for other in others:
        yield {"config": other.name, "against": first.name, **comparison.against(other, first)._asdict()}


def to_csv(rows: Iterator[dict[str, Any]]) -> str:
    """Rows as CSV, with a header; what is not known is left empty."""
    rows = list(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def draw_comparison(comparison: Comparison) -> Figure:
    """Draw error against glimpses, with bands; if anyone stops early, against their mean number; and against cost."""
    early = any(group.early() for group in comparison.groups)
    figure = Figure(figsize=(14 if early else 10, 5.2), layout="constrained")
    left, *middle, right = figure.subplots(1, 2 + early, sharey=True, width_ratios=[1.25, *[1.25] * early, 1])
    for index, group in enumerate(comparison.groups):
        style = line_style(index)
        _draw_by_glimpse(left, group, style)
        _draw_by_cost(right, group, style)
        for axes in middle:
            draw_stopping(axes, group, style)
    steps = max(len(group.errors()) for group in comparison.groups)
    for axes in (left, *middle):
        axes.set(xlim=(0.8, max(steps, 2) + 0.2))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    left.set(xlabel="glimpses", ylabel=f"{comparison.split} error %")
    left.set_title("error after each glimpse", fontsize=11)
    for axes in middle:
        axes.set(xlabel="mean glimpses")
        axes.set_title("error when stopping early (dotted: as many for all)", fontsize=11)
    costs = [group.cost.multiply_adds / 1e6 for group in comparison.groups]
    right.set(xlabel="multiply-adds of an image, in millions", xscale="log", xlim=(min(costs) / 2, max(costs) * 2))
    right.set_title("error against cost", fontsize=11)
    means = [100 * estimate.mean for group in comparison.groups for estimate in group.errors()]
    # By the means: intervals of few seeds may reach to zero, which a logarithmic axis has not.
    left.set(yscale="log", ylim=(max(min(means), LEAST) / 2, max(2 * LEAST, min(110, 1.5 * max(means)))))
    for axis in (left.yaxis, right.xaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    for axes in figure.axes:
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    draw_legend(figure, [group.name for group in comparison.groups])
    return figure


def draw_legend(figure: Figure, names: Sequence[str], letters: int = LEGEND_LETTERS) -> None:
    """Draw the legend of a figure below it, in as many columns as fit, given how many letters do."""
    columns = max(1, min(4, len(names), letters // (max(map(len, names)) + 6)))
    for text in figure.legend(loc="outside lower center", ncols=columns, frameon=False).get_texts():
        text.set_parse_math(False)


def _draw_by_glimpse(axes: Axes, group: Group, style: dict[str, str]) -> None:
    errors = group.errors()
    mean, low, high = (percents(column) for column in zip(*errors, strict=True))
    if group.how is None:  # sees everything at once: the same however often the others look
        axes.axhline(mean[0], color=style["color"], linestyle="--", linewidth=1.2)
        axes.axhspan(low[0], high[0], color=style["color"], alpha=0.12, linewidth=0)
        return
    steps = range(1, len(mean) + 1)
    axes.plot(steps, mean, linewidth=1.6, markersize=6, **style)
    axes.fill_between(steps, low, high, color=style["color"], alpha=0.2, linewidth=0)


def _draw_by_cost(axes: Axes, group: Group, style: dict[str, str]) -> None:
    mean, low, high = percents(group.errors()[-1])
    bars = [[max(0.0, mean - low)], [max(0.0, high - mean)]]  # at 0 and 100% an end may be a rounding error off
    line = "--" if group.how is None else "-"
    axes.errorbar(
        group.cost.multiply_adds / 1e6, mean, bars, label=group.name, capsize=3, markersize=7, linestyle=line, **style
    )
