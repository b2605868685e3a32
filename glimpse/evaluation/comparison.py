"""Compare trained models: runs grouped by config, scored on the very same images, with what they cost.

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
from glimpse.evaluation.classify import ClassifierOutcome, RolloutMode, TrainedClassifier, evaluate_classifier
from glimpse.evaluation.cost import Cost, costs
from glimpse.evaluation.early_exit import ExitCurve, exit_curves
from glimpse.metrics.statistics import Estimate, Paired, over_seeds, paired, wilson_interval

if TYPE_CHECKING:
    from glimpse.tasks.settings import Config
    from glimpse.training.run import Run

Identity = tuple[tuple[str, Any], ...]  # of a config, see `Settings.identity`
COST_BATCH = 256  # images at a time when speeds are measured


class ScoredRun(NamedTuple):
    """A run, scored."""

    folder: str
    seed: int
    outcomes: dict[RolloutMode, ClassifierOutcome]
    seconds: float  # that its training took
    early: Sequence[ExitCurve] = ()  # what stopping early gives, greedily; none if that was not asked for


class RunGroup(NamedTuple):
    """Runs that differ in their seed only."""

    name: str
    config: "Config"
    mode: ReadMode | None  # None if it sees the whole image
    num_choices: int  # of its glimpses
    entries: list[ScoredRun]
    cost: Cost

    @property
    def attends(self) -> bool:
        """Whether it takes glimpses; else it sees the whole image."""
        return self.mode is not None

    @property
    def rollout_modes(self) -> tuple[RolloutMode, ...]:
        """The ways it was rolled out."""
        return tuple(self.entries[0].outcomes)

    def wrong(self, rollout_mode: RolloutMode = "greedy") -> np.ndarray:
        """Which images each run gets wrong after each glimpse: (S, I, T), bool."""
        return np.stack([~entry.outcomes[rollout_mode].correct.numpy() for entry in self.entries])

    def errors(self, rollout_mode: RolloutMode = "greedy") -> list[Estimate]:
        """Mean error after each glimpse; the interval is over seeds, or with a single run over images."""
        wrong = self.wrong(rollout_mode)
        if len(wrong) > 1:
            estimates = [over_seeds(errors) for errors in wrong.mean(1).T.tolist()]
            return [Estimate(mean, max(0.0, low), min(1.0, high)) for mean, low, high in estimates]
        counts = wrong[0].sum(0).tolist()
        images = wrong.shape[1]
        return [Estimate(count / images, *wilson_interval(count, images)) for count in counts]

    def hits(self, rollout_mode: RolloutMode = "greedy") -> list[float] | None:
        """Share of the glimpses that are centred on a digit, glimpse by glimpse; None if that is not known."""
        on_target = [entry.outcomes[rollout_mode].on_target for entry in self.entries]
        if on_target[0] is None:
            return None
        return torch.stack(on_target).double().mean((0, 1, 2)).tolist()

    def early(self) -> list[tuple[ExitCurve, ...]]:
        """For each way of knowing when to stop, what it gives in every run."""
        return list(zip(*(entry.early for entry in self.entries), strict=True))


class Comparison(NamedTuple):
    """Groups of runs, scored on the same images."""

    groups: list[RunGroup]
    split: str
    images: int
    rollouts: int  # of the averages
    device: str

    def against(self, one: RunGroup, other: RunGroup) -> Paired:
        """How two groups differ in their last answers, greedily, on the same images."""
        return paired(one.wrong()[:, :, -1], other.wrong()[:, :, -1])


def rollout_modes(model: torch.nn.Module, mode: ReadMode | None) -> tuple[RolloutMode, ...]:
    """The ways to roll out a model that differ: only one, if it leaves nothing to chance."""
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
        runs: The runs, as `loading.load_runs` opened them.
        data: The images.
        valid: Images to pick on when to stop early; if not given, nobody stops early.
        split: What to call the images.
        rollouts: How many sampled rollouts to average.
        limit: Take the first so many images only.
        batch_size: Images at a time; decides, with the seed, what is sampled for which image.
        device: Where to compute.
        seed: Decides what is sampled.
        log: Told of the progress.

    Raises:
        RunError: If a run is not finished, or two have the same config and seed.
    """
    groups = group_runs([loaded.run for loaded in runs])
    entries = []
    for number, loaded in enumerate(runs, 1):
        log(f"Scoring {number} of {len(runs)}: {loaded.run}")
        look = partial(
            evaluate_classifier,
            loaded.model.to(device),
            mode=loaded.mode,
            rollouts=rollouts,
            limit=limit,
            batch_size=batch_size,
            device=device,
            seed=seed,
        )
        outcomes = {
            rollout_mode: look(data, rollout_mode=rollout_mode)
            for rollout_mode in rollout_modes(loaded.model, loaded.mode)
        }
        early = []
        if valid is not None and loaded.model.attends:
            greedy = outcomes["greedy"]
            early = exit_curves(greedy if valid is data else look(valid, rollout_mode="greedy"), greedy)
        entries.append(ScoredRun(str(loaded.run), loaded.run.config.seed, outcomes, loaded.run.seconds, early))
    firsts = [runs[indices[0]] for indices in groups]
    log("Measuring what they cost")
    batch = next(data.in_order(batch_size=COST_BATCH))
    batch = type(batch)(*(field.to(device) for field in batch))
    measured = costs([first.model for first in firsts], [first.mode for first in firsts], batch)
    return Comparison(
        groups=[
            RunGroup(
                name, first.run.config, first.mode, first.model.num_choices, [entries[index] for index in indices], cost
            )
            for name, first, indices, cost in zip(
                group_names([first.run for first in firsts]), firsts, groups, measured, strict=True
            )
        ],
        split=split,
        images=len(entries[0].outcomes["greedy"].correct),
        rollouts=rollouts,
        device=str(device),
    )


def group_runs(runs: "Sequence[Run]") -> list[list[int]]:
    """The indices of the runs of each config, in the order in which configs first occur.

    Raises:
        RunError: If a run is not finished, or two have the same config and seed.
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
                    "give one of them"
                )
        group.append(index)
    return list(groups.values())


def group_names(firsts: "Sequence[Run]") -> list[str]:
    """Names of groups, given a run of each: of their configs, and of those with the same name what they differ in."""
    result = []
    for run in firsts:
        own = dict(run.config.identity())
        unlike: dict[str, str] = {}
        for other in firsts:
            if other.name == run.name:
                unlike |= _differences(own, dict(other.config.identity()))
        differences = ", ".join(f"{key} {value}" for key, value in unlike.items())
        result.append(f"{run.name} ({differences})" if differences else run.name)
    return result


def _differences(own: dict[str, Any], other: dict[str, Any]) -> dict[str, str]:
    """The values of one config where another differs: of settings that both have, if any of these differ."""
    unlike = {key: str(value) for key, value, _ in diff(own, other) if key in own}
    return {key: value for key, value in unlike.items() if key in other} or unlike
