"""The HTML report of trained classifiers: comparison tables and figures, and a viewer of images and glimpses."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import torch

from glimpse.data import Batch
from glimpse.distributed import Processes
from glimpse.evaluation.classify import TrainedClassifier
from glimpse.evaluation.comparison import RunGroup
from glimpse.evaluation.glimpse_traces import GlimpseTrace
from glimpse.evaluation.saliency import pixel_jacobian, saliency, sequential_jacobian
from glimpse.models.whole_image import WholeImage
from glimpse.tasks.classification_runs import compare_runs, glimpse_model, image_choice, load_glimpse_runs, trace_run
from glimpse.tasks.runs import TaskType
from glimpse.view.comparison import comparison_tables
from glimpse.view.comparison_figure import draw_comparison
from glimpse.view.coverage import draw_coverage
from glimpse.view.glimpse_report import MAX_MODELS, make_report
from glimpse.view.output import save_page

if TYPE_CHECKING:
    from glimpse.training.run import Run


def write_report(task: TaskType, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
    """Compare runs and write the report to `options.out`."""
    _, splits = load_glimpse_runs(task, runs)
    data = getattr(splits, options.split)
    choice = image_choice(options)
    choice.check(data, options.limit)
    comparison, classifiers, data = compare_runs(task, runs, options, processes)
    # The tables are of all runs; the viewer shows the first run of each group, under the group's name.
    names = {group.runs[0].folder: _name_of_first(group) for group in comparison.groups}
    firsts = [run._replace(name=names[str(run.run)]) for run in classifiers if str(run.run) in names]
    viewed = _viewed(firsts)
    greedy = {run.folder: run.outcomes["greedy"] for group in comparison.groups for run in group.runs}
    outcomes = [greedy[str(classifier.run)] for classifier in viewed]
    indices = choice.select(outcomes, data)
    batch = data.select(indices)
    traces = [
        trace_run(classifier, batch, data, classifier.mode, outcome, indices, processes.device)
        for classifier, outcome in zip(viewed, outcomes, strict=True)
    ]
    outcome_of = {trace.name: outcome for trace, outcome in zip(traces, outcomes, strict=True)}
    images = f"{comparison.images:,} {comparison.split} images"
    html = make_report(
        title=f"Glimpses: {' and '.join(trace.name for trace in traces)}",
        intro=f"{_number(len(classifiers), 'run')} of {_number(len(comparison.groups), 'model')}, compared on the "
        f"same {images}. {_number(len(indices), 'image')} can be stepped through, with the first run of each model.",
        traces=traces,
        indices=indices,
        sensitivity=[
            _sensitivity(classifier, trace, batch, processes.device)
            for classifier, trace in zip(viewed, traces, strict=True)
        ],
        saliency=_saliency(firsts, batch, processes.device),
        tables=comparison_tables(comparison),
        figures=[
            ("Error after each glimpse, with early exit, and against cost.", draw_comparison(comparison)),
            (
                f"Where the glimpses of the first run of each model fall, over {images}.",
                draw_coverage(outcome_of, data.image_shape),
            ),
        ],
    )
    save_page(html, options.out)


def _name_of_first(group: RunGroup) -> str:
    """The name of the first run of a group in tables and in the viewer."""
    return group.name if len(group.runs) == 1 else f"{group.name}, seed {group.runs[0].seed}"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _viewed(classifiers: list[TrainedClassifier]) -> list[TrainedClassifier]:
    """The models that the viewer shows: first those that choose their glimpses, then those with glimpses by rule."""
    with_glimpses = [classifier for classifier in classifiers if classifier.model.attends]
    with_glimpses.sort(key=lambda classifier: not classifier.model.num_choices)
    for classifier in with_glimpses[MAX_MODELS:]:
        print(f"{classifier.name} is only compared: the examples show at most {MAX_MODELS} models", file=sys.stderr)
    return with_glimpses[:MAX_MODELS]


def _sensitivity(
    classifier: TrainedClassifier, trace: GlimpseTrace, batch: Batch, device: torch.device
) -> torch.Tensor:
    """The sensitivity of each answer to each glimpse vector; see `sequential_jacobian`."""
    vectors = trace.rollout.glimpse_vectors.to(device)
    return sequential_jacobian(glimpse_model(classifier).classify_glimpses, vectors, batch.targets.to(device)).cpu()


def _saliency(
    classifiers: list[TrainedClassifier], batch: Batch, device: torch.device
) -> tuple[str, torch.Tensor] | None:
    """The name of the first whole-image network and its saliency maps (B, H, W); None without one."""
    for classifier in classifiers:
        if not classifier.model.attends:
            logits = cast(WholeImage, classifier.model).logits
            jacobian = pixel_jacobian(logits, batch.images.to(device), batch.targets.to(device))
            return classifier.name, saliency(jacobian).cpu()
    return None
