"""What an agent may do, as a Gymnasium space, and what it did, checked.

Shapes: B environments, N of them that act.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from gymnasium import Space, spaces

Answer = Literal["label", "scores"]
Shape = tuple[int, ...]

LARGEST = 1e6  # larger numbers count as this one, so that all that is computed of them is finite


class Action(NamedTuple):
    """What the agents of N environments do."""

    location: np.ndarray  # (N, 2) float32: where to, or how far
    answer: np.ndarray  # (N,) int64: labels; (N, classes) int64: marks; (N, classes) float32: scores
    stop: np.ndarray  # (N,) bool: whether this answer is the last


class Actions:
    """The actions of one form."""

    def __init__(self, *, num_classes: int, multi_label: bool, answer: Answer, stop: bool, flat: bool, reach: float):
        """Choose the form.

        Args:
            num_classes: Number of classes.
            multi_label: Whether any number of the classes may be there, or one is.
            answer: Whether an answer is a label or a score for each class.
            stop: Whether the agent may end the episode.
            flat: Whether an action is one line of numbers, or a dictionary.
            reach: The numbers of a location, or of a stride, lie in [-reach, reach].
        """
        self._num_classes, self._multi_label = num_classes, multi_label
        self._answer, self._stop, self._flat, self._reach = answer, stop, flat, reach

    @property
    def space(self) -> Space:
        """The actions of one environment."""
        if self._flat:
            high = np.ones(self._size, np.float32)
            high[:2] = self._reach
            return spaces.Box(-high, high)
        label = spaces.MultiBinary(self._num_classes) if self._multi_label else spaces.Discrete(self._num_classes)
        parts: dict[str, Space] = {
            "location": spaces.Box(-self._reach, self._reach, (2,)),
            self._answer: label if self._answer == "label" else spaces.Box(-1, 1, (self._num_classes,)),
        }
        if self._stop:
            parts["stop"] = spaces.Discrete(2)
        return spaces.Dict(parts)

    def read(self, action: Any, lead: Shape, rows: np.ndarray) -> Action:
        """Check the actions of a batch of environments.

        Args:
            action: An element of the space, or a batch of them.
            lead: The shape that comes before that of one action: () for one environment, (B,) for a batch.
            rows: (N,), which environments count; what the others do is ignored.

        Returns:
            The actions of those N environments; a location beyond the reach is clipped to it.

        Raises:
            ValueError: If it is not an action: a key, shape or type is wrong, a number is not finite, or there is no
                such class.
        """
        classes = self._num_classes
        if self._flat:
            numbers = _numbers("action", action, lead, (self._size,), rows)
            location, answer = numbers[:, :2], numbers[:, 2 : 2 + classes]
            stop = numbers[:, -1] > 0 if self._stop else np.zeros(len(numbers), bool)
        else:
            keys = ["location", self._answer] + ["stop"] * self._stop
            if not isinstance(action, Mapping) or set(action) != set(keys):
                got = ", ".join(map(str, action)) if isinstance(action, Mapping) else type(action).__name__
                raise ValueError(f"the action must be a dictionary of {', '.join(keys)}, got {got}")
            location = _numbers("location", action["location"], lead, (2,), rows)
            if self._answer == "scores":
                answer = _numbers("scores", action["scores"], lead, (classes,), rows)
            elif self._multi_label:
                answer = _integers("label", action["label"], lead, (classes,), rows, 2)
            else:
                answer = _integers("label", action["label"], lead, (), rows, classes)
            stop = np.zeros(len(location), bool)
            if self._stop:
                stop = _integers("stop", action["stop"], lead, (), rows, 2) > 0
        return Action(location.clip(-self._reach, self._reach), answer, stop)

    @property
    def _size(self) -> int:
        return 2 + self._num_classes + self._stop


def _numbers(name: str, value: Any, lead: Shape, own: Shape, rows: np.ndarray) -> np.ndarray:
    """Finite numbers (N, *own), float32."""
    array = _array(name, value, lead, own, rows)
    if not np.issubdtype(array.dtype, np.floating):
        raise ValueError(f"{name} must be floating-point numbers, got {array.dtype}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")
    return array.clip(-LARGEST, LARGEST).astype(np.float32, copy=False)


def _integers(name: str, value: Any, lead: Shape, own: Shape, rows: np.ndarray, stop: int) -> np.ndarray:
    """Integers of 0..stop - 1: (N, *own), int64."""
    array = _array(name, value, lead, own, rows)
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{name} must be integers, got {array.dtype}")
    if (wrong := (array < 0) | (array >= stop)).any():
        raise ValueError(f"{name} must be in 0..{stop - 1}, got {array[wrong][0]}")
    return array.astype(np.int64, copy=False)


def _array(name: str, value: Any, lead: Shape, own: Shape, rows: np.ndarray) -> np.ndarray:
    array = np.asarray(value)
    if array.shape != lead + own:
        raise ValueError(f"{name} must have shape {lead + own}, got {array.shape}")
    return array.reshape(-1, *own)[rows]
