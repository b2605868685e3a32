"""The rules of the environments, for B of them at once: what is seen, what an action does, what it earns.

There is no other implementation: one environment is a batch of one, so that many are equal to each by construction.
The images are read with `sensor.View`, as the models read them.

Of T glimpses the first is given. Every action answers what the image shows by what was seen so far and says where to
look next; so there are T actions, and the place that comes with the last of them is never looked at.

Shapes: B environments, C channels, H x W image, K scales, G patch side, T glimpses.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from gymnasium import Space, spaces
from gymnasium.error import ResetNeeded
from torch import Tensor

from glimpse.attention.placement import RULES
from glimpse.attention.sensor import Sensor
from glimpse.attention.sensor_views import View
from glimpse.data.mnist import Split
from glimpse.envs.actions import Actions, Answer, Shape
from glimpse.envs.episodes import Draw, Episodes, Source, source_of
from glimpse.losses.classification import correct, log_likelihood

First = Literal["center", "random"]
Motion = Literal["absolute", "relative", "bounded"]
Reward = Literal["final", "accuracy", "log_likelihood"]
NEEDS_SCORES = ("log_likelihood",)  # rewards of a probability: a label alone has none

LOGITS_PER_SCORE = 8.0  # scores in [-1, 1] can be as sure as 1 - 1e-6; a power of two, which rounds nothing


class StepOutcome(NamedTuple):
    """What an action led to in each of B environments; in those that did not act, nothing."""

    rewards: np.ndarray  # (B,) float64
    ended: np.ndarray  # (B,) bool
    correct: np.ndarray  # (B,) bool: whether the answer was


class GlimpseRules:
    """B environments. `GlimpseEnv` documents the options."""

    def __init__(
        self,
        size: int,
        *,
        data: Source | Mapping[str, Any],
        split: Split = "train",
        num_glimpses: int = 6,
        patch_size: int = 12,
        num_scales: int = 3,
        scale_factor: int = 2,
        background: float = 0.0,
        first: First = "center",
        motion: Motion = "absolute",
        max_stride: float = 0.5,
        margin: float = 0.0,
        answer: Answer = "label",
        reward: Reward = "final",
        step_cost: float = 0.0,
        stop: bool = False,
        flat: bool = False,
        **data_options: Any,
    ):
        if first == "centre":  # the former spelling
            first = "center"
        for name, value, kind in (
            ("first", first, First),
            ("motion", motion, Motion),
            ("answer", answer, Answer),
            ("reward", reward, Reward),
        ):
            if value not in get_args(kind):
                raise ValueError(f"{name} must be one of {', '.join(get_args(kind))}, got {value!r}")
        if size < 1:
            raise ValueError(f"num_envs must be at least 1, got {size}")
        if num_glimpses < 1:
            raise ValueError(f"num_glimpses must be at least 1, got {num_glimpses}")
        if not 0 < max_stride < np.inf:
            raise ValueError(f"max_stride must be positive and finite, got {max_stride}")
        for name, value in (("margin", margin), ("step_cost", step_cost)):
            if not 0 <= value < np.inf:
                raise ValueError(f"{name} must be finite and not negative, got {value}")
        if answer == "label" and (flat or reward in NEEDS_SCORES):
            raise ValueError(f"answer must be 'scores' with flat={flat} and reward={reward!r}, got 'label'")

        self.episodes = Episodes(source_of(data, data_options), split)
        self.sensor = Sensor(
            patch_size=patch_size, num_scales=num_scales, scale_factor=scale_factor, background=background
        )
        self.size, self.num_glimpses = size, num_glimpses
        self.first, self.motion, self.answer, self.reward, self.flat = first, motion, answer, reward, flat
        self.max_stride, self.step_cost, self.can_stop = max_stride, step_cost, stop
        self.limit = 1 + margin  # of locations

        examples = self.episodes.data
        self.num_classes, self.multi_label = examples.num_classes, examples.multi_label
        self.actions = Actions(
            num_classes=self.num_classes,
            multi_label=self.multi_label,
            answer=answer,
            stop=stop,
            flat=flat,
            reach=self.limit if motion == "absolute" else 1.0,
        )
        self.index = np.zeros(size, np.int64)
        self.images = torch.zeros(size, *examples.image_shape, dtype=torch.uint8)
        self.targets = torch.zeros(size, self.num_classes) if self.multi_label else torch.zeros(size, dtype=torch.int64)
        self.location = np.zeros((size, 2), np.float32)
        self.visited = np.zeros((size, num_glimpses, 2), np.float32)  # where the glimpses were
        self.step = np.zeros(size, np.int64)  # how many actions there were
        self.over = np.ones(size, bool)
        one = answer == "label" and not self.multi_label
        # The last ones, for those who look on: (B,) or (B, classes).
        self.answers = np.zeros(
            size if one else (size, self.num_classes), np.int64 if answer == "label" else np.float32
        )
        self._view: View | None = None

    @property
    def observation_space(self) -> Space:
        """What is seen of one environment."""
        background, side = self.sensor.background, self.sensor.patch_size
        shape = (self.sensor.num_scales * self.images.shape[1], side, side)
        # Where image and background share a cell, the sum of the shares may be rounded up.
        low, high = min(0.0, background), max(1.0, background) + (1e-6 if background else 0.0)
        if not self.flat:
            return spaces.Dict(
                {
                    "glimpse": spaces.Box(low, high, shape),
                    "location": spaces.Box(-self.limit, self.limit, (2,)),
                    "step": spaces.Discrete(self.num_glimpses + 1),
                }
            )
        pixels = np.ones(np.prod(shape), np.float32)
        place = np.full(2, self.limit, np.float32)
        return spaces.Box(
            np.concatenate([low * pixels, -place, np.zeros(1, np.float32)]),
            np.concatenate([high * pixels, place, np.ones(1, np.float32)]),
        )

    def reset(self, rows: np.ndarray, generators: list[np.random.Generator], index: np.ndarray | None = None) -> None:
        """Begin new episodes.

        Args:
            rows: (N,), in which environments.
            generators: (N,), their chance.
            index: (N,), which examples they show; drawn if not given.

        Raises:
            ValueError: If there is no such example.
        """
        size = len(self.episodes.data)
        if index is not None and ((index < 0) | (index >= size)).any():
            raise ValueError(f"index must be in 0..{size - 1}, got {index[(index < 0) | (index >= size)][0]}")
        draw = self.episodes.draw(generators) if index is None else Draw(index, None)
        batch = self.episodes.show(draw)
        self.index[rows] = draw.index
        self.images[rows], self.targets[rows] = batch.images, batch.targets
        self._view = None
        if RULES[self.first].is_random:
            self.location[rows] = [generator.uniform(-1, 1, 2) for generator in generators]
        else:
            self.location[rows] = 0
        self.visited[rows, 0] = self.location[rows]
        self.step[rows], self.over[rows] = 0, False

    def act(self, action: Any, lead: Shape, rows: np.ndarray) -> StepOutcome:
        """Let agents act; for the arguments see `Actions.read`."""
        if self.over[rows].any():
            raise ResetNeeded("there is no episode to act in, it has ended or not begun: call reset()")
        wanted, answer, stop = self.actions.read(action, lead, rows)
        here = self.location[rows]
        step = self.step[rows] + 1
        ended = stop | (step == self.num_glimpses)
        there = np.where(ended[:, None], here, self._move(here, wanted))
        self.step[rows], self.over[rows], self.location[rows] = step, ended, there
        self.visited[rows, np.minimum(step, self.num_glimpses - 1)] = there
        self.answers[rows] = answer

        targets = self.targets[rows]
        outcome = StepOutcome(np.zeros(self.size), np.zeros(self.size, bool), np.zeros(self.size, bool))
        correct = self._is_correct(answer, targets)
        earned = correct.astype(np.float64)
        if self.reward in NEEDS_SCORES:
            earned[:] = log_likelihood(logits_of(answer).unsqueeze(1), targets).squeeze(1)
        elif self.reward == "final":
            earned[~ended] = 0
        outcome.rewards[rows] = earned - self.step_cost
        outcome.ended[rows], outcome.correct[rows] = ended, correct
        return outcome

    def observe(self) -> Any:
        """What is seen in B environments: new arrays each time, those of an element of the space one dimension up."""
        if self._view is None:
            self._view = self.sensor.view(self.images, self.num_glimpses)
        glimpse = self._view.at(torch.from_numpy(self.location)).numpy()
        if not self.flat:
            return {"glimpse": glimpse, "location": self.location.copy(), "step": self.step.copy()}
        time = (self.step / self.num_glimpses).astype(np.float32)
        return np.concatenate([glimpse.reshape(self.size, -1), self.location, time[:, None]], 1)

    def _move(self, here: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        if self.motion == "absolute":
            return wanted
        if self.motion == "bounded":
            length = np.sqrt(np.square(wanted).sum(1, keepdims=True))
            wanted = wanted * (np.float32(self.max_stride) / np.maximum(length, 1))
        return (here + wanted).clip(-self.limit, self.limit)

    def _is_correct(self, answer: np.ndarray, targets: Tensor) -> np.ndarray:
        if self.answer == "scores":
            return correct(logits_of(answer).unsqueeze(1), targets).squeeze(1).numpy() > 0
        equal = answer == targets.numpy()
        return equal.all(1) if self.multi_label else equal

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_view": None}  # made again when needed


def logits_of(scores: np.ndarray) -> Tensor:
    """Scores (B, classes) as logits."""
    return torch.from_numpy(scores) * LOGITS_PER_SCORE
