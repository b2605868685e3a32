"""The action space, and the check of actions.

Shapes: B environments, N of them that act.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from gymnasium import Space, spaces

Answer = Literal["label", "scores"]
Shape = tuple[int, ...]

MAX_ABS = 1e6  # numbers are clipped to this absolute value, so that everything computed from them is finite


class Action(NamedTuple):
    """The actions of N environments."""

    location: np.ndarray  # (N, 2) float32: the next location, or the step towards it
    answer: np.ndarray  # (N,) int64: labels; (N, classes) int64: multi-hot labels; (N, classes) float32: scores
    stop: np.ndarray  # (N,) bool: whether the episode ends with this answer


class Actions:
    """The action space of an environment."""

    def __init__(self, *, num_classes: int, multi_label: bool, answer: Answer, stop: bool, flat: bool, max_abs: float):
        """Choose the form of the actions.

        Args:
            num_classes: Number of classes.
            multi_label: Whether an image may have any number of the classes, or exactly one.
            answer: Whether an answer is a label or a score for each class.
            stop: Whether the agent may end the episode.
            flat: Whether an action is one vector, or a dictionary.
            max_abs: The components of `location` lie in [-max_abs, max_abs].
        """
        self._num_classes, self._multi_label = num_classes, multi_label
        self._answer, self._stop, self._flat, self._max_abs = answer, stop, flat, max_abs

    @property
    def space(self) -> Space:
        """The action space of one environment."""
        if self._flat:
            high = np.ones(self._size, np.float32)
            high[:2] = self._max_abs
            return spaces.Box(-high, high)
        label = spaces.MultiBinary(self._num_classes) if self._multi_label else spaces.Discrete(self._num_classes)
        parts: dict[str, Space] = {
            "location": spaces.Box(-self._max_abs, self._max_abs, (2,)),
            self._answer: label if self._answer == "label" else spaces.Box(-1, 1, (self._num_classes,)),
        }
        if self._stop:
            parts["stop"] = spaces.Discrete(2)
        return spaces.Dict(parts)

    def read(self, action: Any, batch_shape: Shape, rows: np.ndarray) -> Action:
        """Check the actions of a batch of environments.

        Args:
            action: An element of the space, or a batch of them.
            batch_shape: () for one environment, (B,) for a batch.
            rows: (N,), the environments that act; the actions of the others are ignored.

        Returns:
            The actions of those N environments, with locations clipped to the space.

        Raises:
            ValueError: If it is not an action: a key, shape or type is wrong, a number is not finite, or there is no
                such class.
        """
        classes = self._num_classes
        if self._flat:
            numbers = _floats("action", action, batch_shape, (self._size,), rows)
            location, answer = numbers[:, :2], numbers[:, 2 : 2 + classes]
            stop = numbers[:, -1] > 0 if self._stop else np.zeros(len(numbers), bool)
        else:
            keys = ["location", self._answer] + ["stop"] * self._stop
            if not isinstance(action, Mapping) or set(action) != set(keys):
                got = ", ".join(map(str, action)) if isinstance(action, Mapping) else type(action).__name__
                raise ValueError(f"the action must be a dictionary of {', '.join(keys)}, got {got}")
            location = _floats("location", action["location"], batch_shape, (2,), rows)
            if self._answer == "scores":
                answer = _floats("scores", action["scores"], batch_shape, (classes,), rows)
            elif self._multi_label:
                answer = _integers("label", action["label"], batch_shape, (classes,), rows, 2)
            else:
                answer = _integers("label", action["label"], batch_shape, (), rows, classes)
            stop = np.zeros(len(location), bool)
            if self._stop:
                stop = _integers("stop", action["stop"], batch_shape, (), rows, 2) > 0
        return Action(location.clip(-self._max_abs, self._max_abs), answer, stop)

    @property
    def _size(self) -> int:
        return 2 + self._num_classes + self._stop


def _floats(name: str, value: Any, batch_shape: Shape, shape: Shape, rows: np.ndarray) -> np.ndarray:
    """Finite numbers (N, *shape), float32."""
    array = _array(name, value, batch_shape, shape, rows)
    if not np.issubdtype(array.dtype, np.floating):
        raise ValueError(f"{name} must be floating-point numbers, got {array.dtype}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")
    return array.clip(-MAX_ABS, MAX_ABS).astype(np.float32, copy=False)


def _integers(name: str, value: Any, batch_shape: Shape, shape: Shape, rows: np.ndarray, stop: int) -> np.ndarray:
    """Integers in 0..stop - 1: (N, *shape), int64."""
    array = _array(name, value, batch_shape, shape, rows)
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{name} must be integers, got {array.dtype}")
    if (wrong := (array < 0) | (array >= stop)).any():
        raise ValueError(f"{name} must be in 0..{stop - 1}, got {array[wrong][0]}")
    return array.astype(np.int64, copy=False)


def _array(name: str, value: Any, batch_shape: Shape, shape: Shape, rows: np.ndarray) -> np.ndarray:
    """The rows (N, *shape) of an array (*batch_shape, *shape)."""
    array = np.asarray(value)
    if array.shape != batch_shape + shape:
        raise ValueError(f"{name} must have shape {batch_shape + shape}, got {array.shape}")
    return array.reshape(-1, *shape)[rows]
