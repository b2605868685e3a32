"""Compare trained classifiers: runs grouped by config, scored on the same images, with their cost.

Shapes: S runs of a group, I images, T glimpses.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from glimpse.attention.settings import ReadMode
from glimpse.config.schema import diff
from glimpse.data import Dataset
from glimpse.errors import RunError
from glimpse.evaluation.classify import (
    Classifier,
    ClassifierOutcome,
    RolloutMode,
    TrainedClassifier,
    evaluate_classifier,
)
from glimpse.evaluation.cost import Cost, costs
from glimpse.evaluation.early_exit import ExitCurve, exit_curves
from glimpse.metrics.statistics import Estimate, Paired, over_seeds, paired, wilson_interval

if TYPE_CHECKING:
    from glimpse.tasks.settings import Config
    from glimpse.training.run import Run

Identity = tuple[tuple[str, Any], ...]  # of a config, see `Settings.identity`
COST_BATCH = 256  # images per batch when throughput is measured


class ScoredRun(NamedTuple):
    """The outcomes of one run."""

    folder: str
    seed: int
    outcomes: dict[RolloutMode, ClassifierOutcome]
    seconds: float  # duration of the training
    exit_curves: Sequence[ExitCurve] = ()  # early exit of the greedy rollout, one curve per stopping signal


class RunGroup(NamedTuple):
    """The outcomes of runs that differ only in their seed."""

    name: str
    config: "Config"
    mode: ReadMode | None  # None for a whole-image network
    num_choices: int  # number of glimpses that the model chooses, the last ones
    runs: list[ScoredRun]
    cost: Cost

    @property
    def attends(self) -> bool:
        """Whether the model takes glimpses; a whole-image network does not."""
        return self.mode is not None

    @property
    def rollout_modes(self) -> tuple[RolloutMode, ...]:
        """The rollout modes that the runs were scored in."""
        return tuple(self.runs[0].outcomes)

    def wrong(self, rollout_mode: RolloutMode = "greedy") -> np.ndarray:
        """Whether each run is wrong on each image after each glimpse: (S, I, T), bool."""
        return np.stack([~run.outcomes[rollout_mode].correct.numpy() for run in self.runs])

    def errors(self, rollout_mode: RolloutMode = "greedy") -> list[Estimate]:
        """The mean error after each glimpse, with an interval over seeds; of a single run, over images."""
        wrong = self.wrong(rollout_mode)
        if len(wrong) > 1:
            estimates = [over_seeds(errors) for errors in wrong.mean(1).T.tolist()]
            return [Estimate(mean, max(0.0, low), min(1.0, high)) for mean, low, high in estimates]
        counts = wrong[0].sum(0).tolist()
        images = wrong.shape[1]
        return [Estimate(count / images, *wilson_interval(count, images)) for count in counts]

    def on_target(self, rollout_mode: RolloutMode = "greedy") -> list[float] | None:
        """The fraction of each glimpse centered on a digit, over images and runs; None without boxes or glimpses."""
        outcomes = [run.outcomes[rollout_mode].on_target for run in self.runs]
        on_target = [outcome for outcome in outcomes if outcome is not None]
        return torch.stack(on_target).double().mean((0, 1, 2)).tolist() if on_target else None

    def exit_curves(self) -> list[tuple[ExitCurve, ...]]:
        """For each stopping signal, the early-exit curve of every run."""
        return list(zip(*(run.exit_curves for run in self.runs), strict=True))


class Comparison(NamedTuple):
    """The outcomes of groups of runs on the same images."""

    groups: list[RunGroup]
    split: str
    images: int
    rollouts: int  # number of rollouts in rollout mode "averaged"
    device: str

    def against(self, group: RunGroup, reference: RunGroup) -> Paired:
        """The difference in error of a group from a reference group, after the last glimpse of greedy rollouts."""
        return paired(group.wrong()[:, :, -1], reference.wrong()[:, :, -1])


def rollout_modes(model: Classifier, mode: ReadMode | None) -> tuple[RolloutMode, ...]:
    """The rollout modes with different results: without random numbers, only "greedy"."""
    if mode == "hard" and model.num_choices > 0:
        return ("greedy", "sampled", "averaged")
    return ("greedy", "averaged") if model.is_random else ("greedy",)


def compare(
    runs: Sequence[TrainedClassifier],
    data: Dataset,
    *,
    valid: Dataset | None = None,
    split: str = "test",
    rollouts: int = 10,
    limit: int | None = None,
    batch_size: int = 500,
    device: torch.device | str = "cpu",
    seed: int = 0,
    log: Callable[[str], None] = print,
) -> Comparison:
    """Score runs on the same images and group them by config.

    Args:
        runs: The trained classifiers.
        data: The images to score on.
        valid: The images to pick the early-exit thresholds on; None: no early exit.
        split: Name of the split that `data` is.
        rollouts: Number of sampled rollouts to average.
        limit: Number of images, from the start of the dataset; None: all.
        batch_size: Images per batch. With the seed, it determines the random numbers of each image.
        device: Device to compute on.
        seed: Seed of the random numbers.
        log: Called with a line of text for each step.

    Raises:
        RunError: If a run is not finished, or two runs have the same config and seed.
    """
    groups = group_runs([trained.run for trained in runs])
    scored = []
    for number, trained in enumerate(runs, 1):
        log(f"Scoring {number} of {len(runs)}: {trained.run}")
        evaluate = partial(
            evaluate_classifier,
            trained.model.to(device),
            mode=trained.mode,
            rollouts=rollouts,
            limit=limit,
            batch_size=batch_size,
            device=device,
            seed=seed,
        )
        outcomes = {
            rollout_mode: evaluate(data, rollout_mode=rollout_mode)
            for rollout_mode in rollout_modes(trained.model, trained.mode)
        }
        curves = []
        if valid is not None and trained.model.attends:
            greedy = outcomes["greedy"]
            curves = exit_curves(greedy if valid is data else evaluate(valid, rollout_mode="greedy"), greedy)
        scored.append(ScoredRun(str(trained.run), trained.run.config.seed, outcomes, trained.run.seconds, curves))
    firsts = [runs[indices[0]] for indices in groups]
    log("Measuring the cost of each model")
    batch = next(data.in_order(batch_size=COST_BATCH))
    batch = type(batch)(*(field.to(device) for field in batch))
    group_costs = costs([first.model for first in firsts], [first.mode for first in firsts], batch)
    names = group_names([first.run for first in firsts])
    return Comparison(
        groups=[
            RunGroup(
                name, first.run.config, first.mode, first.model.num_choices, [scored[index] for index in indices], cost
            )
            for name, first, indices, cost in zip(names, firsts, groups, group_costs, strict=True)
        ],
        split=split,
        images=len(scored[0].outcomes["greedy"].correct),
        rollouts=rollouts,
        device=str(device),
    )


def group_runs(runs: "Sequence[Run]") -> list[list[int]]:
    """Group the indices of runs by config, in the order in which the configs first occur.

    Raises:
        RunError: If a run is not finished, or two runs have the same config and seed.
    """
    groups: dict[Identity, list[int]] = {}
    for index, run in enumerate(runs):
        if not run.finished:
            raise RunError(f"{run} is not finished; finish it with: python train.py --resume {run}")
        group = groups.setdefault(run.config.identity(), [])
        for other in group:
            if runs[other].config.seed == run.config.seed:
                raise RunError(
                    f"{runs[other]} and {run} are runs of the same config with the same seed, {run.config.seed}: "
                    "give only one of them"
                )
        group.append(index)
    return list(groups.values())


def group_names(firsts: "Sequence[Run]") -> list[str]:
    """Name groups by the config of one run of each, with the differences of the configs that share a name."""
    names = []
    for run in firsts:
        own = dict(run.config.identity())
        differences: dict[str, str] = {}
        for other in firsts:
            if other.name == run.name:
                differences |= _differences(own, dict(other.config.identity()))
        text = ", ".join(f"{key} {value}" for key, value in differences.items())
        names.append(f"{run.name} ({text})" if text else run.name)
    return names


def _differences(own: dict[str, Any], other: dict[str, Any]) -> dict[str, str]:
    """The settings of a config that differ from another; only the settings of both, if any of these differ."""
    differences = {key: str(value) for key, value, _ in diff(own, other) if key in own}
    return {key: value for key, value in differences.items() if key in other} or differences
