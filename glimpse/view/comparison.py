"""Tables and CSV rows of a comparison of runs."""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any, get_args

from glimpse.evaluation.classify import RolloutMode
from glimpse.evaluation.comparison import Comparison
from glimpse.metrics.statistics import Estimate, wilson_interval
from glimpse.view.early_exit import early_exit_table
from glimpse.view.tables import Table, duration


def comparison_tables(comparison: Comparison) -> list[Table]:
    """Make all tables of a comparison."""
    tables = [_error_table(comparison)]
    if any(group.attends for group in comparison.groups):
        tables.append(_glimpse_table(comparison))
    if any(group.exit_curves() for group in comparison.groups):
        tables.append(early_exit_table(comparison))
    tables.append(_cost_table(comparison))
    if len(comparison.groups) > 1:
        tables.append(_paired_table(comparison))
    return tables


def _error_table(comparison: Comparison) -> Table:
    header = ["", "read", "runs", "greedy %", "sampled %", f"mean of {comparison.rollouts} %", "on the digit %"]
    rows = []
    for group in comparison.groups:
        cells = [
            in_percent(group.errors(rollout_mode)[-1]) if rollout_mode in group.rollout_modes else "-"
            for rollout_mode in get_args(RolloutMode)
        ]
        on_target = group.on_target()
        chosen = on_target and (on_target[len(on_target) - group.num_choices :] if group.num_choices else on_target)
        on_digit = f"{100 * sum(chosen) / len(chosen):.1f}" if chosen else "-"
        rows.append([group.name, group.mode or "-", str(len(group.runs)), *cells, on_digit])
    notes = [
        "Greedy: one rollout at the most likely locations. Sampled: one rollout at sampled locations. Mean of "
        f"{comparison.rollouts}: class probabilities averaged over that many sampled rollouts. On the digit: share of "
        "the glimpses chosen by the model that are centered on a digit; if a rule places all glimpses, share of all.",
        _interval_note(comparison),
    ]
    title = f"Error after the last glimpse, {comparison.images:,} {comparison.split} images"
    return Table(title, header, rows, notes)


def _glimpse_table(comparison: Comparison) -> Table:
    errors = {group.name: group.errors() for group in comparison.groups if group.attends}
    steps = max(map(len, errors.values()))
    rows = [
        [name, *(f"{100 * estimate.mean:.2f}" for estimate in estimates), *["-"] * (steps - len(estimates))]
        for name, estimates in errors.items()
    ]
    return Table("Error % after each glimpse, greedy", ["", *(str(step + 1) for step in range(steps))], rows)


def _cost_table(comparison: Comparison) -> Table:
    header = ["", "pixels read", "% of image", "multiply-adds", "parameters", "images/s", "training"]
    rows = []
    for group in comparison.groups:
        cost = group.cost
        trained = sum(run.seconds for run in group.runs) / len(group.runs)
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
        "Per image, greedy. Pixels read: input size of the network, over all glimpses and scales, and in percent of "
        "the pixels of the image (squares overlap, and coarse patches cover more pixels than they have). "
        "Multiply-adds: of matrix products and convolutions. Images/s: measured on this machine, the models in turn "
        f"({comparison.device}). Training: mean time of a run, on the machine it was trained on."
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
        "p (images): for these runs, over images, paired (McNemar's exact test between single runs, else Student's t). "
        "p (seeds): Welch's test over runs, with two or more of each. The p-values are not corrected for multiple "
        "comparisons."
    ]
    title = f"Against {first.name}, on the same images"
    return Table(title, ["", "difference", "95% interval", "p (images)", "p (seeds)"], rows, notes)


def _interval_note(comparison: Comparison) -> str:
    single = [group.name for group in comparison.groups if len(group.runs) == 1]
    if not single:
        return "In parentheses: 95% intervals over seeds (Student's t)."
    if len(single) == len(comparison.groups):
        return "In parentheses: 95% intervals over images (Wilson's) for a single run; other seeds may differ by more."
    return (
        "In parentheses: 95% intervals, over seeds (Student's t) for several runs, over images (Wilson's) for a single "
        "run; other seeds may differ by more."
    )


def in_percent(estimate: Estimate) -> str:
    """Format a share with its interval, in percent."""
    return f"{100 * estimate.mean:.2f} ({100 * estimate.low:.2f}-{100 * estimate.high:.2f})"


def _probability(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def run_rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """Yield a row for each run, rollout mode and glimpse; the interval is over images."""
    for group in comparison.groups:
        for run in group.runs:
            for rollout_mode, outcome in run.outcomes.items():
                images = len(outcome.correct)
                for step, wrong in enumerate((~outcome.correct).sum(0).tolist()):
                    low, high = wilson_interval(wrong, images)
                    on_target = (
                        None if outcome.on_target is None else float(outcome.on_target[:, :, step].double().mean())
                    )
                    yield {
                        "config": group.name,
                        "seed": run.seed,
                        "run": run.folder,
                        "read": group.mode,
                        "mode": rollout_mode,
                        "rollouts": comparison.rollouts if rollout_mode == "averaged" else 1,
                        "split": comparison.split,
                        "images": images,
                        "glimpse": step + 1,
                        "error": wrong / images,
                        "low": low,
                        "high": high,
                        "on_digit": on_target,
                        "train_seconds": run.seconds,
                        **group.cost._asdict(),
                    }


def group_rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """Yield a row for each group, rollout mode and glimpse; the interval is over seeds if there are several runs."""
    for group in comparison.groups:
        for rollout_mode in group.rollout_modes:
            on_target = group.on_target(rollout_mode)
            for step, estimate in enumerate(group.errors(rollout_mode)):
                yield {
                    "config": group.name,
                    "runs": len(group.runs),
                    "read": group.mode,
                    "mode": rollout_mode,
                    "rollouts": comparison.rollouts if rollout_mode == "averaged" else 1,
                    "split": comparison.split,
                    "images": comparison.images,
                    "glimpse": step + 1,
                    "error": estimate.mean,
                    "low": estimate.low,
                    "high": estimate.high,
                    "interval": "seeds" if len(group.runs) > 1 else "images",
                    "on_digit": None if on_target is None else on_target[step],
                    "train_seconds": sum(run.seconds for run in group.runs) / len(group.runs),
                    **group.cost._asdict(),
                }


def paired_rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """Yield a row for each group but the first, with its difference from the first (`metrics.statistics.Paired`)."""
    first, *others = comparison.groups
    for other in others:
        yield {"config": other.name, "against": first.name, **comparison.against(other, first)._asdict()}


def rows_to_csv(rows: Iterable[dict[str, Any]]) -> str:
    """Format rows as CSV with a header; None becomes an empty cell."""
    lines = list(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()
