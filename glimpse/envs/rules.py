"""The rules of the environments, for a batch of B: observations, transitions and rewards.

This is the only implementation: one environment is a batch of one, so a batch equals its single environments by
construction. The images are read by the sensor, as the models read them.

Of T glimpses the first is given. Every action answers from the glimpses so far and says where to look next, so there
are T actions, and the location of the last one is not looked at.

Shapes: B environments, C channels, H x W image, K scales, G patch side, T glimpses.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from gymnasium import Space, spaces
from gymnasium.error import ResetNeeded
from torch import Tensor

from glimpse.attention.distributions import Gaussian
from glimpse.attention.placement import RULES
from glimpse.attention.reading import Memory
from glimpse.attention.sensor import ImageSensor, Sensor
from glimpse.data.mnist import Split
from glimpse.envs.actions import Actions, Answer, Shape
from glimpse.envs.episodes import Draw, Episodes, Source, source_of
from glimpse.losses.classification import correct, log_likelihood

First = Literal["center", "random"]
Motion = Literal["absolute", "relative", "bounded"]
RewardName = Literal["final", "accuracy", "log_likelihood"]
NEEDS_SCORES = ("log_likelihood",)  # rewards that need class probabilities, which a label does not give

# Scores in [-1, 1] then reach probabilities of 1 - 1e-6; as a power of two it adds no rounding error.
LOGITS_PER_SCORE = 8.0


class StepOutcome(NamedTuple):
    """The result of a step in each of B environments; zero and False in those that did not act."""

    rewards: np.ndarray  # (B,) float64
    terminated: np.ndarray  # (B,) bool
    correct: np.ndarray  # (B,) bool: whether the answer was


class GlimpseRules:
    """The state of B environments, and what changes it. `GlimpseEnv` documents the options."""

    def __init__(
        self,
        size: int,
        *,
        data: Source | Mapping[str, Any],
        split: Split = "train",
        num_glimpses: int = 6,
        sensor: ImageSensor | None = None,
        patch_size: int = 12,
        num_scales: int = 3,
        scale_factor: int = 2,
        background: float = 0.0,
        first: First | Literal["centre"] = "center",
        motion: Motion = "absolute",
        max_stride: float = 0.5,
        margin: float = 0.0,
        answer: Answer = "label",
        reward: RewardName = "final",
        step_cost: float = 0.0,
        stop: bool = False,
        flat: bool = False,
        **data_options: Any,
    ):
        if first == "centre":  # the former spelling
            first = "center"
        for name, choice, valid in (
            ("first", first, First),
            ("motion", motion, Motion),
            ("answer", answer, Answer),
            ("reward", reward, RewardName),
        ):
            if choice not in get_args(valid):
                raise ValueError(f"{name} must be one of {', '.join(get_args(valid))}, got {choice!r}")
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
        self.sensor: ImageSensor = sensor or Sensor(
            patch_size=patch_size, num_scales=num_scales, scale_factor=scale_factor, background=background
        )
        self.size, self.num_glimpses = size, num_glimpses
        self.first, self.motion, self.answer, self.reward, self.flat = first, motion, answer, reward, flat
        self.max_stride, self.step_cost, self.can_stop = max_stride, step_cost, stop
        self.limit = 1 + margin  # locations lie in [-limit, limit]

        examples = self.episodes.data
        self.num_classes, self.multi_label = examples.num_classes, examples.multi_label
        self.actions = Actions(
            num_classes=self.num_classes,
            multi_label=self.multi_label,
            answer=answer,
            stop=stop,
            flat=flat,
            max_abs=self.limit if motion == "absolute" else 1.0,
        )
        self.index = np.zeros(size, np.int64)
        self.images = torch.zeros(size, *examples.image_shape, dtype=torch.uint8)
        self.targets = torch.zeros(size, self.num_classes) if self.multi_label else torch.zeros(size, dtype=torch.int64)
        self.location = np.zeros((size, 2), np.float32)
        self.visited = np.zeros((size, num_glimpses, 2), np.float32)  # locations of the glimpses so far
        self.num_actions = np.zeros(size, np.int64)  # in this episode
        self.over = np.ones(size, bool)  # whether there is no episode to act in
        # The last answers, for `render`: (B,) labels, or (B, classes).
        is_class = answer == "label" and not self.multi_label
        self.answers = np.zeros(
            size if is_class else (size, self.num_classes), np.int64 if answer == "label" else np.float32
        )
        self._view: Memory[Gaussian] | None = None

    @property
    def observation_space(self) -> Space:
        """The observation space of one environment."""
        background, side = self.sensor.background, self.sensor.patch_size
        shape = (self.sensor.num_scales * self.images.shape[1], side, side)
        # Rounding errors may exceed the bounds slightly where image and background share a cell.
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
        """Start new episodes.

        Args:
            rows: (N,), the environments to reset.
            generators: (N,), the random generator of each of them.
            index: (N,), the examples to show; None: random ones.

        Raises:
            ValueError: If there is no such example.
        """
        size = len(self.episodes.data)
        if index is not None and ((index < 0) | (index >= size)).any():
            raise ValueError(f"index must be in 0..{size - 1}, got {index[(index < 0) | (index >= size)][0]}")
        draw = self.episodes.draw(generators) if index is None else Draw(index, None)
        batch = self.episodes.batch(draw)
        self.index[rows] = draw.example
        self.images[rows], self.targets[rows] = batch.images, batch.targets
        self._view = None
        if RULES[self.first].is_random:
            self.location[rows] = [generator.uniform(-1, 1, 2) for generator in generators]
        else:
            self.location[rows] = 0
        self.visited[rows, 0] = self.location[rows]
        self.num_actions[rows], self.over[rows] = 0, False

    def step(self, action: Any, batch_shape: Shape, rows: np.ndarray) -> StepOutcome:
        """Take one action in each environment of `rows`; `Actions.read` documents the arguments."""
        if self.over[rows].any():
            raise ResetNeeded("there is no episode to act in, it has ended or not begun: call reset()")
        motion, answer, stop = self.actions.read(action, batch_shape, rows)
        location = self.location[rows]
        num_actions = self.num_actions[rows] + 1
        ended = stop | (num_actions == self.num_glimpses)
        location = np.where(ended[:, None], location, self._move(location, motion))
        self.num_actions[rows], self.over[rows], self.location[rows] = num_actions, ended, location
        self.visited[rows, np.minimum(num_actions, self.num_glimpses - 1)] = location
        self.answers[rows] = answer

        targets = self.targets[rows]
        outcome = StepOutcome(np.zeros(self.size), np.zeros(self.size, bool), np.zeros(self.size, bool))
        is_correct = self._is_correct(answer, targets)
        rewards = is_correct.astype(np.float64)
        if self.reward in NEEDS_SCORES:
            rewards[:] = log_likelihood(logits_of(answer).unsqueeze(1), targets).squeeze(1)
        elif self.reward == "final":
            rewards[~ended] = 0
        outcome.rewards[rows] = rewards - self.step_cost
        outcome.terminated[rows], outcome.correct[rows] = ended, is_correct
        return outcome

    def observe(self) -> Any:
        """Return the observations of B environments, in new arrays: an element of the space, with a batch dimension."""
        if self._view is None:
            self._view = self.sensor.view(self.images, self.num_glimpses)
        glimpse = self._view.at(torch.from_numpy(self.location)).numpy()
        if not self.flat:
            return {"glimpse": glimpse, "location": self.location.copy(), "step": self.num_actions.copy()}
        time = (self.num_actions / self.num_glimpses).astype(np.float32)
        return np.concatenate([glimpse.reshape(self.size, -1), self.location, time[:, None]], 1)

    def _move(self, location: np.ndarray, motion: np.ndarray) -> np.ndarray:
        """The next locations (N, 2), before the end of the episode is considered."""
        if self.motion == "absolute":
            return motion
        if self.motion == "bounded":
            length = np.sqrt(np.square(motion).sum(1, keepdims=True))
            motion = motion * (np.float32(self.max_stride) / np.maximum(length, 1))
        return (location + motion).clip(-self.limit, self.limit)

    def _is_correct(self, answer: np.ndarray, targets: Tensor) -> np.ndarray:
        if self.answer == "scores":
            return correct(logits_of(answer).unsqueeze(1), targets).squeeze(1).numpy() > 0
        equal = answer == targets.numpy()
        return equal.all(1) if self.multi_label else equal

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_view": None}  # computed again when needed


def logits_of(scores: np.ndarray) -> Tensor:
    """Convert scores (B, classes) to logits."""
    return torch.from_numpy(scores) * LOGITS_PER_SCORE
