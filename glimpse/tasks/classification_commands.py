"""What the commands of evaluate.py do with trained classifiers."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from glimpse.attention.settings import ReadMode
from glimpse.data import Batch, Dataset, Splits
from glimpse.distributed import Processes
from glimpse.errors import ConfigError, RunError
from glimpse.evaluation.classify import ClassificationScores, ClassifierOutcome, TrainedClassifier, evaluate_classifier
from glimpse.evaluation.comparison import Comparison, RunGroup, compare, rollout_modes
from glimpse.evaluation.early_exit import exit_curves
from glimpse.evaluation.glimpse_traces import GlimpseTrace, trace_glimpses
from glimpse.evaluation.gradient_variance import measure
from glimpse.evaluation.result_rows import EARLY, percent
from glimpse.evaluation.saliency import pixel_jacobian, saliency, sequential_jacobian
from glimpse.evaluation.select import ImageChoice
from glimpse.tasks.base import Task
from glimpse.tasks.build import build_data
from glimpse.tasks.runs import check_given_once, check_same_data, unique_names
from glimpse.view.comparison import comparison_tables, group_rows, paired_rows, run_rows, to_csv
from glimpse.view.comparison_figure import draw_comparison
from glimpse.view.coverage import draw_coverage
from glimpse.view.early_exit import early_exit_lines, early_exit_rows
from glimpse.view.glimpse_animation import save_animation
from glimpse.view.glimpse_report import MAX_MODELS, make_report
from glimpse.view.glimpse_sheet import draw_sheet
from glimpse.view.gradient_variance import draw_variance, variance_table
from glimpse.view.output import publish, save_figure, save_page
from glimpse.view.tables import score_table

if TYPE_CHECKING:
    from glimpse.training.run import Run


class ClassificationCommands(Task):
    """The commands for runs that classify images."""

    verb = "classifies"
    noun = "image"

    @classmethod
    def score(cls, run: "Run", options: Namespace, processes: Processes) -> dict[str, Any]:
        """See `Task`: sampled and averaged rollouts too, where they differ, and what stopping early gives."""
        [loaded], splits = load_runs(cls, [run])
        mode = loaded.mode and (options.read or loaded.mode)
        rollouts = rollout_modes(loaded.model, mode)
        look_at = partial(
            evaluate_classifier,
            loaded.model.to(processes.device),
            mode=mode,
            rollouts=options.rollouts,
            batch_size=options.batch_size or run.config.score.batch_size,
            limit=options.limit,
            device=processes.device,
            seed=options.seed,
        )
        data = getattr(splits, options.split)
        outcomes = {name: look_at(data, rollout_mode=name) for name in rollouts}
        scores = {name: ClassificationScores.of(outcome).as_dict() for name, outcome in outcomes.items()}
        early = []
        if loaded.model.attends:
            greedy = outcomes["greedy"]
            early = exit_curves(
                greedy if data is splits.valid else look_at(splits.valid, rollout_mode="greedy"), greedy
            )
            early = [its.summary() for its in early]
        if not options.json:
            names = {"averaged": f"mean of {options.rollouts}"}
            if len(rollouts) == 1:
                names["greedy"] = mode or "whole image"
            what = f"{mode} read" if loaded.model.attends else "no glimpses: whole-image network"
            print(f"{run}: {what}, {scores['greedy']['images']:,} {options.split} images\n")
            print(score_table({names.get(name, name): values for name, values in scores.items()}).text(), end="\n\n")
            if early:
                print(early_exit_lines(early), end="\n\n")
        return {
            "run": str(run),
            "split": options.split,
            "read": mode,
            "rollouts": options.rollouts if "averaged" in rollouts else None,
            "seed": options.seed,
            "scores": scores,
            "stopping": early,
        }

    @classmethod
    def compare(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`."""
        comparison, _, _ = compare_runs(cls, runs, options, processes)
        rows = {"comparison.csv": to_csv(group_rows(comparison)), "runs.csv": to_csv(run_rows(comparison))}
        if any(group.early() for group in comparison.groups):
            rows["stopping.csv"] = to_csv(early_exit_rows(comparison))
        if len(comparison.groups) > 1:
            rows["paired.csv"] = to_csv(paired_rows(comparison))
        publish(options.out, tables=comparison_tables(comparison), rows=rows, figure=draw_comparison(comparison))

    @classmethod
    def animate(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`."""
        traces = _trace(cls, runs, options, processes)
        save_animation(options.out, traces, seconds=options.seconds, hold=2 * options.seconds)
        print(f"Wrote {options.out}")

    @classmethod
    def sheet(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`."""
        if options.self_attention:
            raise ConfigError(f"--self is for models with self-attention, but {runs[0]} {cls.verb}")
        if len(runs) > 1:
            raise ConfigError(
                f"one classifier is drawn at a time, got {len(runs)} runs; several captioners or translators may be"
            )
        [trace] = _trace(cls, runs, options, processes)
        save_figure(draw_sheet(trace), options.out)

    @classmethod
    def coverage(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`."""
        attending, splits = _load_attending(cls, runs)
        if len(attending) < len(runs):
            print("Whole-image networks have no glimpses, and are left out", file=sys.stderr)
        data = getattr(splits, options.split)
        outcomes = {
            loaded.name: _observe(loaded, data, options.read or loaded.mode, processes.device, options.limit)
            for loaded in attending
        }
        save_figure(draw_coverage(outcomes, data.image_shape), options.out)

    @classmethod
    def report(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`: the comparison, and an explorer of images and glimpses."""
        _, splits = _load_attending(cls, runs)
        data = getattr(splits, options.split)
        choice = _choice(options)
        choice.check(data, options.limit)
        comparison, loaded_runs, data = compare_runs(cls, runs, options, processes)
        # Tables are of all runs; what is explored is the first of each group, under the name that has it in them.
        names = {group.entries[0].folder: _first_run(group) for group in comparison.groups}
        firsts = [loaded._replace(name=names[str(loaded.run)]) for loaded in loaded_runs if str(loaded.run) in names]
        shown = _shown(firsts)
        greedy = {entry.folder: entry.outcomes["greedy"] for group in comparison.groups for entry in group.entries}
        outcomes = [greedy[str(loaded.run)] for loaded in shown]
        indices = choice.select(outcomes, data)
        batch = data.select(indices)
        traces = [
            _trace_run(loaded, batch, data, loaded.mode, outcome, indices)
            for loaded, outcome in zip(shown, outcomes, strict=True)
        ]
        targets = batch.targets.to(processes.device)
        sensitivity = [
            sequential_jacobian(
                loaded.model.classify_glimpses, its.rollout.glimpse_vectors.to(processes.device), targets
            ).cpu()
            for loaded, its in zip(shown, traces, strict=True)
        ]
        saliency = _saliency(firsts, batch, processes.device)
        by_name = {its.name: outcome for its, outcome in zip(traces, outcomes, strict=True)}
        images = f"{comparison.images:,} {comparison.split} images"
        html = make_report(
            title=f"Glimpses: {' and '.join(its.name for its in traces)}",
            intro=f"{_number(len(loaded_runs), 'run')} of {_number(len(comparison.groups), 'model')}, compared on the "
            f"same {images}. {_number(len(indices), 'image')} can be explored, as the first run of each saw them.",
            traces=traces,
            indices=indices,
            sensitivity=sensitivity,
            saliency=saliency,
            tables=comparison_tables(comparison),
            figures=[
                ("Error after each glimpse, when stopping early, and against cost.", draw_comparison(comparison)),
                (
                    f"Where the glimpses of the first run of each model fall, over {images}.",
                    draw_coverage(by_name, data.image_shape),
                ),
            ],
        )
        save_page(html, options.out)

    @classmethod
    def variance(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`."""
        [loaded], splits = load_runs(cls, runs)
        result = measure(
            loaded.model.to(processes.device),
            getattr(splits, options.split),
            getattr(loaded.run.config, "estimator", None),
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
        [loaded], splits = load_runs(cls, [run])
        if not loaded.model.attends or loaded.model.num_glimpses == 1:
            return super().early_exit_rows(run)
        look_at = partial(evaluate_classifier, loaded.model, mode=loaded.mode, batch_size=run.config.score.batch_size)
        found = []
        for early in exit_curves(look_at(splits.valid), look_at(splits.test)):
            its = early.summary()
            error, glimpses = EARLY[early.signal]
            low, high = map(percent, its["interval"])
            errors = {"value": percent(its["error"]), "valid": percent(its["valid_error"]), "low": low, "high": high}
            means = {"value": round(its["glimpses"], 4), "valid": round(its["valid_glimpses"], 4)}
            found += [{"metric": error, **errors}, {"metric": glimpses, **means}]
        return found


def load_runs(task: type[Task], runs: "Sequence[Run]") -> tuple[list[TrainedClassifier], Splits]:
    """Load runs that are to be scored on the very same images, and these.

    Raises:
        RunError: If a run is given twice, or its checkpoint cannot be used; or if the data has changed, or is not the
            same for all.
        DataError: If the data cannot be read.
    """
    check_given_once(runs)
    check_same_data({str(run): run.config for run in runs})
    data = build_data(runs[0].config.data)
    found = []
    for run, name in zip(runs, unique_names(runs), strict=True):
        loaded = task.load(run)
        _check_data(loaded, data)
        found.append(loaded._replace(name=name))
    return found, data


def _check_data(loaded: TrainedClassifier, data: Splits) -> None:
    """Refuse a model whose data is not what it was trained on any more."""
    then = list(loaded.image_shape), list(loaded.class_names)
    now = list(data.test.image_shape), list(data.test.class_names)
    if then != now:
        parts = [f"images of {then[0]} and {len(then[1])} classes then, {now[0]} and {len(now[1])} now"]
        parts += [f"class {one} then, {other} now" for one, other in zip(then[1], now[1], strict=False) if one != other]
        raise RunError(f"the data of {loaded.run} is not what it was trained on: {'; '.join(parts[:5])}")


def compare_runs(
    task: type[Task], runs: "Sequence[Run]", options: Namespace, processes: Processes
) -> tuple[Comparison, list[TrainedClassifier], Dataset]:
    """Compare runs as the options say; returns the loaded runs and the images too."""
    loaded, splits = load_runs(task, runs)
    data = getattr(splits, options.split)
    comparison = compare(
        loaded,
        data,
        valid=splits.valid,
        split=options.split,
        rollouts=options.rollouts,
        limit=options.limit,
        batch_size=options.batch_size or runs[0].config.score.batch_size,
        device=processes.device,
        seed=options.seed,
        log=lambda text: print(text, file=sys.stderr),
    )
    return comparison, loaded, data


def _first_run(group: RunGroup) -> str:
    """What to call the first run of a group."""
    return group.name if len(group.entries) == 1 else f"{group.name}, seed {group.entries[0].seed}"


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _shown(runs: list[TrainedClassifier]) -> list[TrainedClassifier]:
    """The models that a report lets explore: those that choose where to look before those that do not."""
    runs = sorted((loaded for loaded in runs if loaded.model.attends), key=lambda loaded: not loaded.model.num_choices)
    for loaded in runs[MAX_MODELS:]:
        print(f"{loaded.name} is compared, but not shown: a report shows {MAX_MODELS} models", file=sys.stderr)
    return runs[:MAX_MODELS]


def _load_attending(task: type[Task], runs: "Sequence[Run]") -> tuple[list[TrainedClassifier], Splits]:
    """Load those of some runs that have glimpses; raises RunError if none has."""
    loaded, splits = load_runs(task, runs)
    attending = [its for its in loaded if its.model.attends]
    if not attending:
        raise RunError(f"{loaded[0].run} is a whole-image network and has no glimpses to show")
    return attending, splits


def _saliency(runs: list[TrainedClassifier], batch: Batch, device: torch.device) -> tuple[str, torch.Tensor] | None:
    """What matters to the first whole-image network of some runs: its name and maps (B, H, W); None without one."""
    for loaded in runs:
        if not loaded.model.attends:
            jacobian = pixel_jacobian(loaded.model.logits, batch.images.to(device), batch.targets.to(device))
            return loaded.name, saliency(jacobian).cpu()
    return None


def _trace(task: type[Task], runs: "Sequence[Run]", options: Namespace, processes: Processes) -> list[GlimpseTrace]:
    """Let each of the runs look at the images that were asked for."""
    loaded_runs, splits = _load_attending(task, runs)
    if len(loaded_runs) < len(runs):
        raise RunError("a whole-image network has no glimpses to show: leave it out")
    data = getattr(splits, options.split)
    choice = _choice(options)
    choice.check(data)
    modes = [options.read or loaded.mode for loaded in loaded_runs]
    # What the models make of all images matters if it decides which are shown, or if glimpses are placed at random.
    outcomes = [
        _observe(loaded, data, mode, processes.device) if choice.needs_outcomes or loaded.model.is_random else None
        for loaded, mode in zip(loaded_runs, modes, strict=True)
    ]
    indices = choice.select(outcomes, data)
    batch = data.select(indices)
    return [
        _trace_run(loaded._replace(model=loaded.model.to(processes.device)), batch, data, mode, outcome, indices)
        for loaded, mode, outcome in zip(loaded_runs, modes, outcomes, strict=True)
    ]


def _choice(options: Namespace) -> ImageChoice:
    return ImageChoice(options.images, options.count, options.label, options.mistakes, options.gallery)


def _trace_run(
    loaded: TrainedClassifier,
    batch: Batch,
    data: Dataset,
    mode: ReadMode | None,
    outcome: ClassifierOutcome | None,
    indices: list[int],
) -> GlimpseTrace:
    """Let a run look at a batch; where glimpses are placed by no choice of its own, as in an outcome."""
    return trace_glimpses(
        loaded.model,
        batch,
        name=loaded.name,
        class_names=data.class_names,
        mode=mode,
        locations=None if outcome is None else outcome.locations[indices, 0],
    )


def _observe(
    loaded: TrainedClassifier, data: Dataset, mode: ReadMode | None, device: torch.device, limit: int | None = None
) -> ClassifierOutcome:
    """What a run makes of all images, greedily."""
    return evaluate_classifier(
        loaded.model.to(device),
        data,
        mode=mode,
        batch_size=loaded.run.config.score.batch_size,
        limit=limit,
        device=device,
    )
