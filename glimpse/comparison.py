"""Compare trained models: runs grouped by config, scored on the very same images, with what they cost.

Shapes: S runs of a group, I images, T glimpses.
"""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from glimpse.attention import Read
from glimpse.build import Loaded
from glimpse.classification import Mode, Outcome, observe
from glimpse.classifier import RecurrentAttention
from glimpse.config import AttentionConfig, Config, SensorConfig, TrainConfig, different, images_of
from glimpse.cost import Cost, costs
from glimpse.data import DataSet
from glimpse.metrics import wilson_interval
from glimpse.runs import RunError
from glimpse.stats import Estimate, Paired, over_seeds, paired

COST_BATCH = 256  # images at a time when speeds are measured
ON_PLANE = ("std", "std_end", "std_until", "learn_std", "squash")  # settings of attention to points alone
ON_GRID = ("grid", "scorer", "scorer_dim")  # and to a grid of glimpses
TECHNICAL = ("device", "threads", "log_every", "tensorboard", "folder")  # settings of a training that it is not about


class Entry(NamedTuple):
    """A run, scored."""

    folder: str
    seed: int
    outcomes: dict[Mode, Outcome]
    seconds: float  # that its training took


class Group(NamedTuple):
    """Runs that differ in their seed only."""

    name: str
    config: Config
    how: Read | None  # None if it sees the whole image
    num_choices: int  # of its glimpses
    entries: list[Entry]
    cost: Cost

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The ways it was rolled out."""
        return tuple(self.entries[0].outcomes)

    def wrong(self, mode: Mode = "greedy") -> np.ndarray:
        """Which images each run gets wrong after each glimpse: (S, I, T), bool."""
        return np.stack([~entry.outcomes[mode].right.numpy() for entry in self.entries])

    def errors(self, mode: Mode = "greedy") -> list[Estimate]:
        """Mean error after each glimpse; the interval is over seeds, or with a single run over images."""
        wrong = self.wrong(mode)
        if len(wrong) > 1:
            estimates = [over_seeds(errors) for errors in wrong.mean(1).T.tolist()]
            return [Estimate(mean, max(0.0, low), min(1.0, high)) for mean, low, high in estimates]
        counts = wrong[0].sum(0).tolist()
        images = wrong.shape[1]
        return [Estimate(count / images, *wilson_interval(count, images)) for count in counts]

    def hits(self, mode: Mode = "greedy") -> list[float] | None:
        """Share of the glimpses that are centred on a digit, glimpse by glimpse; None if that is not known."""
        hit = [entry.outcomes[mode].hit for entry in self.entries]
        if hit[0] is None:
            return None
        return torch.stack(hit).double().mean((0, 1, 2)).tolist()


class Comparison(NamedTuple):
    """Groups of runs, scored on the same images."""

    groups: list[Group]
    split: str
    images: int
    rollouts: int  # of the averages
    device: str

    def against(self, one: Group, other: Group) -> Paired:
        """How two groups differ in their last answers, greedily, on the same images."""
        return paired(one.wrong()[:, :, -1], other.wrong()[:, :, -1])


def essence(config: Config) -> Config:
    """A config without what makes no difference to what is learned and how well.

    That is the seed, technical settings, and those that mean nothing to a model of its kind.
    """
    data = images_of(config.data)
    config = dataclasses.replace(
        config,
        seed=0,
        train=dataclasses.replace(config.train, **{name: getattr(TrainConfig, name) for name in TECHNICAL}),
        sensor=dataclasses.replace(config.sensor, plan=SensorConfig.plan),
        data=dataclasses.replace(data, root=str(Path(data.root).absolute())),  # as run folders keep it
    )
    if config.model == "captioner":
        return config
    if config.model != "attention":
        score = dataclasses.replace(config.score, read=None)
        idle = {name: getattr(Config(), name) for name in ("read", "num_glimpses", "sensor", "attention", "loss")}
        return dataclasses.replace(config, score=score, **idle)
    unused = ON_GRID if config.attention.places == "plane" else ON_PLANE
    defaults = {name: getattr(AttentionConfig, name) for name in unused}
    return dataclasses.replace(config, attention=dataclasses.replace(config.attention, **defaults))


def modes_of(model: torch.nn.Module, how: Read | None) -> tuple[Mode, ...]:
    """The ways to roll out a model that differ: only one, if it leaves nothing to chance."""
    if how == "hard" and model.num_choices > 0:
        return ("greedy", "sampled", "averaged")
    return ("greedy", "averaged") if by_chance(model) else ("greedy",)


def by_chance(model: torch.nn.Module) -> bool:
    """Whether glimpses that nobody chooses are placed at random."""
    if not isinstance(model, RecurrentAttention):
        return False
    return "random" in (model.policy, model.first if model.policy == "learned" else None)


def compare(
    runs: Sequence[Loaded],
    data: DataSet,
    *,
    split: str = "test",
    rollouts: int = 10,
    limit: int | None = None,
    batch_size: int = 500,
    device: torch.device | str = "cpu",
    seed: int = 0,
    say: Callable[[str], None] = print,
) -> Comparison:
    """Score runs on the same images and group them by config.

    Args:
        runs: The runs, as `build.load_runs` opened them.
        data: The images.
        split: What to call them.
        rollouts: How many sampled rollouts to average.
        limit: Take the first so many images only.
        batch_size: Images at a time; decides, with the seed, what is sampled for which image.
        device: Where to compute.
        seed: Decides what is sampled.
        say: Told of the progress.

    Raises:
        RunError: If a run is not finished, or two have the same config and seed.
    """
    groups: dict[Config, list[int]] = {}
    for index, loaded in enumerate(runs):
        if not loaded.run.finished:
            raise RunError(f"{loaded.run} is not finished; finish it with: python train.py --resume {loaded.run}")
        group = groups.setdefault(essence(loaded.run.config), [])
        for other in group:
            if runs[other].run.config.seed == loaded.run.config.seed:
                raise RunError(
                    f"{runs[other].run} and {loaded.run} are runs of the same config with the same seed, "
                    f"{loaded.run.config.seed}: give one of them"
                )
        group.append(index)
    entries = []
    for number, loaded in enumerate(runs, 1):
        say(f"Scoring {number} of {len(runs)}: {loaded.run}")
        loaded.model.to(device)
        outcomes = {
            mode: observe(
                loaded.model,
                data,
                how=loaded.how,
                mode=mode,
                rollouts=rollouts,
                limit=limit,
                batch_size=batch_size,
                device=device,
                seed=seed,
            )
            for mode in modes_of(loaded.model, loaded.how)
        }
        entries.append(Entry(str(loaded.run), loaded.run.config.seed, outcomes, loaded.run.seconds))
    firsts = [runs[indices[0]] for indices in groups.values()]
    say("Measuring what they cost")
    batch = next(data.in_order(batch_size=COST_BATCH))
    batch = type(batch)(*(field.to(device) for field in batch))
    measured = costs([first.model for first in firsts], [first.how for first in firsts], batch)
    return Comparison(
        groups=[
            Group(
                name, first.run.config, first.how, first.model.num_choices, [entries[index] for index in indices], cost
            )
            for name, first, indices, cost in zip(group_names(firsts), firsts, groups.values(), measured, strict=True)
        ],
        split=split,
        images=len(entries[0].outcomes["greedy"].right),
        rollouts=rollouts,
        device=str(device),
    )


def group_names(firsts: Sequence[Loaded]) -> list[str]:
    """Names of groups: of their configs, and of those with the same name what they differ in."""
    names = [loaded.run.name for loaded in firsts]
    result = []
    for name, loaded in zip(names, firsts, strict=True):
        own = essence(loaded.run.config)
        unlike: dict[str, str] = {}
        for other, its in zip(firsts, names, strict=True):
            if its == name:
                unlike |= {key: str(value) for key, value, _ in different(own, essence(other.run.config))}
        differences = ", ".join(f"{key} {value}" for key, value in unlike.items())
        result.append(f"{name} ({differences})" if differences else name)
    return result
