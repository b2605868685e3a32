"""The commands of evaluate.py for trained classifiers."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from glimpse.distributed import Processes
from glimpse.errors import ConfigError
from glimpse.evaluation.classify import ClassificationScores, Classifier, evaluate_classifier
from glimpse.evaluation.comparison import rollout_modes
from glimpse.evaluation.early_exit import exit_curves
from glimpse.evaluation.gradient_variance import measure
from glimpse.evaluation.result_rows import EARLY_EXIT_METRICS, percent
from glimpse.losses.estimators.reinforce import Reinforce
from glimpse.metrics.statistics import wilson_interval
from glimpse.tasks.base import Task
from glimpse.tasks.classification_report import write_report
from glimpse.tasks.classification_runs import compare_runs, greedy_outcome, load_glimpse_runs, load_runs, trace_runs
from glimpse.tasks.settings import ClassificationConfig
from glimpse.view.comparison import comparison_tables, group_rows, paired_rows, rows_to_csv, run_rows
from glimpse.view.comparison_figure import draw_comparison
from glimpse.view.coverage import draw_coverage
from glimpse.view.early_exit import early_exit_lines, early_exit_rows
from glimpse.view.glimpse_animation import save_animation
from glimpse.view.glimpse_sheet import draw_sheet
from glimpse.view.gradient_variance import draw_variance, variance_table
from glimpse.view.output import publish, save_figure
from glimpse.view.tables import score_table

if TYPE_CHECKING:
    from glimpse.training.run import Run


class ClassificationCommands(Task[ClassificationConfig, Classifier, ClassificationScores]):
    """The commands for runs that classify images."""

    verb = "classifies"
    noun = "image"
    commands = ("score", "compare", "animate", "glimpses", "coverage", "report", "variance")

    @classmethod
    def score(cls, run: "Run", options: Namespace, processes: Processes) -> dict[str, Any]:
        """See `Task`: greedy, sampled and averaged rollouts, where they differ, and early exit."""
        [classifier], splits = load_runs(cls, [run])
        mode = (options.read or classifier.mode) if classifier.model.attends else None
        rollouts = rollout_modes(classifier.model, mode)
        evaluate = partial(
            evaluate_classifier,
            classifier.model.to(processes.device),
            mode=mode,
            rollouts=options.rollouts,
            batch_size=options.batch_size or run.config.score.batch_size,
            limit=options.limit,
            device=processes.device,
            seed=options.seed,
        )
        data = getattr(splits, options.split)
        outcomes = {name: evaluate(data, rollout_mode=name) for name in rollouts}
        scores = {name: ClassificationScores.of(outcome).as_dict() for name, outcome in outcomes.items()}
        exits: list[dict[str, Any]] = []
        if classifier.model.attends:
            greedy = outcomes["greedy"]
            valid = greedy if data is splits.valid else evaluate(splits.valid, rollout_mode="greedy")
            exits = [curve.summary() for curve in exit_curves(valid, greedy)]
        if not options.json:
            names = {"averaged": f"mean of {options.rollouts}"}
            if len(rollouts) == 1:
                names["greedy"] = mode or "whole image"
            reading = f"{mode} read" if classifier.model.attends else "no glimpses: whole-image network"
            print(f"{run}: {reading}, {scores['greedy']['images']:,} {options.split} images\n")
            print(score_table({names.get(name, name): values for name, values in scores.items()}).text(), end="\n\n")
            if exits:
                print(early_exit_lines(exits), end="\n\n")
        return {
            "run": str(run),
            "split": options.split,
            "read": mode,
            "rollouts": options.rollouts if "averaged" in rollouts else None,
            "seed": options.seed,
            "scores": scores,
            "stopping": exits,
        }

    @classmethod
    def compare(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`."""
        comparison, _, _ = compare_runs(cls, runs, options, processes)
        rows = {"comparison.csv": rows_to_csv(group_rows(comparison)), "runs.csv": rows_to_csv(run_rows(comparison))}
        if any(group.exit_curves() for group in comparison.groups):
            rows["stopping.csv"] = rows_to_csv(early_exit_rows(comparison))
        if len(comparison.groups) > 1:
            rows["paired.csv"] = rows_to_csv(paired_rows(comparison))
        publish(options.out, tables=comparison_tables(comparison), rows=rows, figure=draw_comparison(comparison))

    @classmethod
    def animate(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`."""
        traces = trace_runs(cls, runs, options, processes)
        save_animation(options.out, traces, seconds=options.seconds, hold=2 * options.seconds)
        print(f"Wrote {options.out}")

    @classmethod
    def glimpses(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`."""
        if options.self_attention:
            raise ConfigError(f"--self is for models with self-attention, but {runs[0]} {cls.verb}")
        if len(runs) > 1:
            raise ConfigError(
                f"there must be one classifier to draw, got {len(runs)}; several runs must be captioners or translators"
            )
        [trace] = trace_runs(cls, runs, options, processes)
        save_figure(draw_sheet(trace), options.out)

    @classmethod
    def coverage(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`."""
        classifiers, splits = load_glimpse_runs(cls, runs)
        if len(classifiers) < len(runs):
            print("Left out whole-image networks, which have no glimpses", file=sys.stderr)
        data = getattr(splits, options.split)
        outcomes = {
            classifier.name: greedy_outcome(
                classifier, data, options.read or classifier.mode, processes.device, options.limit
            )
            for classifier in classifiers
        }
        save_figure(draw_coverage(outcomes, data.image_shape), options.out)

    @classmethod
    def report(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`: the comparison, and a viewer of images and glimpses."""
        write_report(cls, runs, options, processes)

    @classmethod
    def variance(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`."""
        [classifier], splits = load_runs(cls, runs)
        result = measure(
            classifier.model.to(processes.device),
            getattr(splits, options.split),
            cast(Reinforce, cls.config_of(runs[0]).choice_estimator),  # others are refused
            images=options.images,
            rollouts=options.rollouts,
            repeats=options.repeats,
            seed=options.seed,
            device=processes.device,
        )
        table = variance_table(result)
        print(f"{table.title}\n\n{table.text()}\n")
        for note in table.notes:
            print(f"{note}\n")
        save_figure(draw_variance(result), options.out)

    @classmethod
    def early_exit_rows(cls, run: "Run") -> list[dict[str, Any]]:
        """See `Task`, with thresholds picked on the validation images."""
        [classifier], splits = load_runs(cls, [run])
        if not classifier.model.attends or classifier.model.num_glimpses == 1:
            return super().early_exit_rows(run)
        evaluate = partial(
            evaluate_classifier, classifier.model, mode=classifier.mode, batch_size=run.config.score.batch_size
        )
        rows: list[dict[str, Any]] = []
        for curve in exit_curves(evaluate(splits.valid), evaluate(splits.test)):
            error, glimpses = EARLY_EXIT_METRICS[curve.signal]
            chosen, valid = curve.chosen, curve.valid[curve.picked]
            low, high = wilson_interval(round(chosen.error * curve.images), curve.images)
            rows += [
                {
                    "metric": error,
                    "value": percent(chosen.error),
                    "valid": percent(valid.error),
                    "low": percent(low),
                    "high": percent(high),
                },
                {"metric": glimpses, "value": round(chosen.glimpses, 4), "valid": round(valid.glimpses, 4)},
            ]
        return rows
