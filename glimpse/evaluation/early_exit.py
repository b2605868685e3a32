"""Laziness: how many glimpses an image needs, and what is lost by taking no more.

After each glimpse there is an answer, and a number in [0, 1] that says how certain it is: the probability that the
model gives it (any classifier has that), or what a halting unit says that was trained to (`losses.halting_cost`). One
stops after the first glimpse whose certainty exceeds a threshold: the lower it is, the fewer the glimpses. One whole
rollout tells what every threshold gives, as stopping changes nothing about the glimpses before.

The threshold is picked on validation images, and what it gives is told on others. `models.early_exit.stop_early`
applies it.

Shapes: I images, T glimpses.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from glimpse.evaluation.classify import ClassifierOutcome
from glimpse.metrics.classification import confidence
from glimpse.metrics.statistics import wilson_interval
from glimpse.models.early_exit import StoppingSignal

# Evenly spaced in log-odds, as certainties crowd near 1; and the ends: one glimpse is enough, and none is.
THRESHOLDS = (0.0, *torch.linspace(-5, 15, 81, dtype=torch.float64).sigmoid().tolist(), 1.0)
MAX_ADDED_ERROR = 0.001  # error on validation images that a threshold may add, a tenth of a point


class ExitPoint(NamedTuple):
    """What one threshold gives on some images."""

    threshold: float
    error: float
    glimpses: float  # mean number
    shares: tuple[float, ...]  # of the images that take 1 ... T glimpses


class ExitCurve(NamedTuple):
    """A model that stops early, with every threshold of THRESHOLDS."""

    signal: StoppingSignal
    valid: list[ExitPoint]  # on the images that the threshold is picked on
    scored: list[ExitPoint]  # on those that it is scored on
    picked: int  # which
    images: int  # that were scored

    @property
    def chosen(self) -> ExitPoint:
        """What the threshold gives that was picked."""
        return self.scored[self.picked]

    def summary(self) -> dict[str, float | str | list[float]]:
        """The choice in plain values, "valid" for the images that it was made on; "full" is without stopping."""
        threshold, error, glimpses, shares = self.chosen
        return {
            "by": self.signal,
            "threshold": threshold,
            "error": error,
            "interval": list(wilson_interval(round(error * self.images), self.images)),
            "glimpses": glimpses,
            "shares": list(shares),
            "full_error": self.scored[-1].error,
            "valid_error": self.valid[self.picked].error,
            "valid_glimpses": self.valid[self.picked].glimpses,
            "valid_full_error": self.valid[-1].error,
        }


def exit_step(certainty: Tensor, threshold: float) -> Tensor:
    """After how many glimpses one stops: the first whose certainty exceeds the threshold, or all.

    Args:
        certainty: (I, T).
        threshold: In [0, 1].

    Returns:
        (I,), from 1 to T.
    """
    enough = certainty > threshold
    enough[:, -1] = True
    return enough.int().argmax(1) + 1


def stop(certainty: Tensor, correct: Tensor, threshold: float) -> ExitPoint:
    """What a threshold gives.

    Args:
        certainty: (I, T).
        correct: (I, T), bool: whether the answer after each glimpse is right.
        threshold: In [0, 1].
    """
    taken = exit_step(certainty, threshold)
    images, steps = certainty.shape
    wrong = ~correct.gather(1, taken.unsqueeze(1) - 1)
    counts = torch.bincount(taken - 1, minlength=steps).tolist()
    total = sum(number * count for number, count in enumerate(counts, 1))
    return ExitPoint(threshold, int(wrong.sum()) / images, total / images, tuple(count / images for count in counts))


def curve(certainty: Tensor, correct: Tensor) -> list[ExitPoint]:
    """What each of THRESHOLDS gives, from one glimpse for every image to all of them; see `stop`."""
    return [stop(certainty, correct, threshold) for threshold in THRESHOLDS]


def pick(points: Sequence[ExitPoint], max_added_error: float = MAX_ADDED_ERROR) -> int:
    """The threshold with the fewest glimpses whose error is at most `max_added_error` above that without stopping.

    Args:
        points: The curve on validation images; the last is without stopping.
        max_added_error: The error that may be added.

    Returns:
        Its index; of several with as few glimpses, that of the least error.
    """
    most = points[-1].error + max_added_error
    allowed = [index for index, point in enumerate(points) if point.error <= most]
    return min(allowed, key=lambda index: (points[index].glimpses, points[index].error))


def certainties(outcome: ClassifierOutcome) -> dict[StoppingSignal, Tensor]:
    """How certain the answers (I, T) are, by each measure that the model has."""
    found: dict[StoppingSignal, Tensor] = {
        "confidence": confidence(outcome.probabilities, outcome.targets.is_floating_point())
    }
    if outcome.halting is not None:
        found["halting"] = outcome.halting
    return found


def exit_curves(valid: ClassifierOutcome, scored: ClassifierOutcome) -> list[ExitCurve]:
    """Pick a threshold for each measure of certainty on some images, and say what all of them give on others.

    Args:
        valid: What the model did with the images to pick on.
        scored: What it did with the images to score on.

    Returns:
        One for each measure; none for a model that has one answer only.
    """
    if scored.correct.shape[1] == 1:
        return []
    early = []
    for (signal, before), after in zip(certainties(valid).items(), certainties(scored).values(), strict=True):
        points = curve(before, valid.correct)
        early.append(ExitCurve(signal, points, curve(after, scored.correct), pick(points), len(scored.correct)))
    return early
