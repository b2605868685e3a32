"""Load trained classifiers with their data, compare them, and trace their glimpses: what several commands need."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from glimpse.attention.settings import ReadMode
from glimpse.data import Batch, Dataset, Splits
from glimpse.distributed import Processes
from glimpse.errors import RunError
from glimpse.evaluation.classify import ClassifierOutcome, TrainedClassifier, evaluate_classifier, takes_glimpses
from glimpse.evaluation.comparison import Comparison, compare
from glimpse.evaluation.glimpse_traces import GlimpseTrace, trace_glimpses
from glimpse.evaluation.select import ImageChoice
from glimpse.models.recurrent_attention import RecurrentAttention
from glimpse.tasks.build import build_data
from glimpse.tasks.runs import TaskType, check_given_once, check_same_data, unique_names

if TYPE_CHECKING:
    from glimpse.training.run import Run


def load_runs(task: TaskType, runs: "Sequence[Run]") -> tuple[list[TrainedClassifier], Splits]:
    """Load runs that share their data, and the data.

    Raises:
        RunError: If a run is given twice, its checkpoint cannot be used, or the data differ or have changed.
        DataError: If the data cannot be read.
    """
    check_given_once(runs)
    check_same_data({str(run): run.config for run in runs})
    data: Splits = build_data(runs[0].config.data)
    classifiers = []
    for run, name in zip(runs, unique_names(runs), strict=True):
        classifier: TrainedClassifier = task.load(run)
        _check_data(classifier, data)
        classifiers.append(classifier._replace(name=name))
    return classifiers, data


def _check_data(classifier: TrainedClassifier, data: Splits) -> None:
    """Raise RunError if the data have another shape or other classes than the model was trained on."""
    then = list(classifier.image_shape), list(classifier.class_names)
    now = list(data.test.image_shape), list(data.test.class_names)
    if then != now:
        parts = [f"images of {then[0]} and {len(then[1])} classes then, {now[0]} and {len(now[1])} now"]
        parts += [f"class {old} then, {new} now" for old, new in zip(then[1], now[1], strict=False) if old != new]
        raise RunError(f"the data of {classifier.run} has changed since training: {'; '.join(parts[:5])}")


def load_glimpse_runs(task: TaskType, runs: "Sequence[Run]") -> tuple[list[TrainedClassifier], Splits]:
    """Like `load_runs`, without whole-image networks; raises RunError if no run is left."""
    classifiers, splits = load_runs(task, runs)
    with_glimpses = [classifier for classifier in classifiers if classifier.model.attends]
    if not with_glimpses:
        raise RunError(f"{classifiers[0].run} is a whole-image network and has no glimpses to show")
    return with_glimpses, splits


def compare_runs(
    task: TaskType, runs: "Sequence[Run]", options: Namespace, processes: Processes
) -> tuple[Comparison, list[TrainedClassifier], Dataset]:
    """Load and compare runs with the options of the command; returns the classifiers and the images too."""
    classifiers, splits = load_runs(task, runs)
    data = getattr(splits, options.split)
    comparison = compare(
        classifiers,
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
    return comparison, classifiers, data


def glimpse_model(classifier: TrainedClassifier) -> RecurrentAttention:
    """The model of a classifier that takes glimpses; raises RunError for a whole-image network."""
    if not takes_glimpses(classifier.model):
        raise RunError(f"{classifier.run} is a whole-image network and has no glimpses to show")
    return classifier.model


def image_choice(options: Namespace) -> ImageChoice:
    """The images that the options of a command ask for."""
    return ImageChoice(options.images, options.count, options.label, options.mistakes, options.gallery)


def greedy_outcome(
    classifier: TrainedClassifier,
    data: Dataset,
    mode: ReadMode | None,
    device: torch.device,
    limit: int | None = None,
) -> ClassifierOutcome:
    """Evaluate a classifier on a data set with one greedy rollout for each image."""
    return evaluate_classifier(
        classifier.model.to(device),
        data,
        mode=mode,
        batch_size=classifier.run.config.score.batch_size,
        limit=limit,
        device=device,
    )


def trace_runs(task: TaskType, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> list[GlimpseTrace]:
    """Trace the glimpses of each run on the images that the options ask for."""
    classifiers, splits = load_glimpse_runs(task, runs)
    if len(classifiers) < len(runs):
        raise RunError("a whole-image network has no glimpses to show: leave it out")
    data = getattr(splits, options.split)
    choice = image_choice(options)
    choice.check(data)
    modes = [options.read or classifier.mode for classifier in classifiers]
    # All images are evaluated only if that decides which to show, or if glimpses at random places must be those scored.
    outcomes = [
        greedy_outcome(classifier, data, mode, processes.device)
        if choice.needs_outcomes or classifier.model.is_random
        else None
        for classifier, mode in zip(classifiers, modes, strict=True)
    ]
    indices = choice.select(outcomes, data)
    batch = data.select(indices)
    return [
        trace_run(classifier, batch, data, mode, outcome, indices, processes.device)
        for classifier, mode, outcome in zip(classifiers, modes, outcomes, strict=True)
    ]


def trace_run(
    classifier: TrainedClassifier,
    batch: Batch,
    data: Dataset,
    mode: ReadMode | None,
    outcome: ClassifierOutcome | None,
    indices: list[int],
    device: torch.device,
) -> GlimpseTrace:
    """Trace the glimpses of a classifier on a batch; with an outcome, at the places where it was scored."""
    return trace_glimpses(
        glimpse_model(classifier).to(device),
        batch,
        name=classifier.name,
        class_names=data.class_names,
        mode=mode,
        locations=None if outcome is None else outcome.locations[indices, 0],
    )
