"""Early exit: the trade-off between error and number of glimpses, and the choice of a threshold.

A model stops taking glimpses after the first one whose stopping signal, in [0, 1], exceeds a threshold. The signal is
the confidence, i.e. the probability of the predicted class, or the probability of the halting unit, trained with
`losses.halting_cost`. A lower threshold means fewer glimpses. Stopping does not change the glimpses before it, so one
full rollout gives the results of every threshold.

The threshold is picked on validation images and scored on other images. `models.early_exit.stop_early` applies it.

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

# Evenly spaced in log-odds, as confidences concentrate near 1. At 0 every image takes one glimpse, at 1 all T.
THRESHOLDS = (0.0, *torch.linspace(-5, 15, 81, dtype=torch.float64).sigmoid().tolist(), 1.0)
MAX_ADDED_ERROR = 0.001  # error that early exit may add on validation images: a tenth of a percentage point


class ExitPoint(NamedTuple):
    """The error and the number of glimpses with one threshold."""

    threshold: float
    error: float
    glimpses: float  # mean over images
    shares: tuple[float, ...]  # fractions of the images that take 1 ... T glimpses


class ExitCurve(NamedTuple):
    """The exit points of a model for all THRESHOLDS, with one stopping signal."""

    signal: StoppingSignal
    valid: list[ExitPoint]  # on the images that the threshold is picked on
    scored: list[ExitPoint]  # on the images that it is scored on
    picked: int  # index of the threshold picked
    images: int  # number of images scored

    @property
    def chosen(self) -> ExitPoint:
        """The scores with the threshold picked."""
        return self.scored[self.picked]

    def summary(self) -> dict[str, float | str | list[float]]:
        """The scores with the threshold picked, as JSON values.

        Keys with "valid" are of the images that it was picked on, keys with "full" of all T glimpses.
        """
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


def exit_step(signal: Tensor, threshold: float) -> Tensor:
    """The number of glimpses of each image: up to the first whose signal exceeds the threshold, or all T.

    Args:
        signal: (I, T), in [0, 1].
        threshold: In [0, 1].

    Returns:
        (I,), from 1 to T.
    """
    stop = signal > threshold
    stop[:, -1] = True
    return stop.int().argmax(1) + 1


def exit_point(signal: Tensor, correct: Tensor, threshold: float) -> ExitPoint:
    """Compute the error and the number of glimpses with a threshold.

    Args:
        signal: (I, T), in [0, 1].
        correct: (I, T), bool: whether the prediction after each glimpse is correct.
        threshold: In [0, 1].
    """
    exits = exit_step(signal, threshold)
    images, steps = signal.shape
    wrong = ~correct.gather(1, exits.unsqueeze(1) - 1)
    counts = torch.bincount(exits - 1, minlength=steps).tolist()
    total = sum(number * count for number, count in enumerate(counts, 1))
    return ExitPoint(threshold, int(wrong.sum()) / images, total / images, tuple(count / images for count in counts))


def exit_curve(signal: Tensor, correct: Tensor) -> list[ExitPoint]:
    """Compute the exit point of each of THRESHOLDS; for the arguments see `exit_point`."""
    return [exit_point(signal, correct, threshold) for threshold in THRESHOLDS]


def pick_threshold(points: Sequence[ExitPoint], max_added_error: float = MAX_ADDED_ERROR) -> int:
    """Pick the threshold with the fewest glimpses that adds at most `max_added_error` to the error.

    Args:
        points: The exit points on validation images; the last is that of all T glimpses.
        max_added_error: The largest error to add to that of all T glimpses.

    Returns:
        The index of the exit point; among equal numbers of glimpses, the one with the lowest error.
    """
    max_error = points[-1].error + max_added_error
    allowed = [index for index, point in enumerate(points) if point.error <= max_error]
    return min(allowed, key=lambda index: (points[index].glimpses, points[index].error))


def stopping_signals(outcome: ClassifierOutcome) -> dict[StoppingSignal, Tensor]:
    """The stopping signals (I, T) that a model has: the confidence, and the probability of its halting unit."""
    signals: dict[StoppingSignal, Tensor] = {
        "confidence": confidence(outcome.probabilities, outcome.targets.is_floating_point())
    }
    if outcome.halt_probabilities is not None:
        signals["halting"] = outcome.halt_probabilities
    return signals


def exit_curves(valid: ClassifierOutcome, scored: ClassifierOutcome) -> list[ExitCurve]:
    """Pick a threshold for each stopping signal on some images, and score all thresholds on others.

    Args:
        valid: The outcome on the images to pick on.
        scored: The outcome on the images to score on.

    Returns:
        A curve for each stopping signal; none for a model with a single prediction.
    """
    if scored.correct.shape[1] == 1:
        return []
    curves = []
    scored_signals = stopping_signals(scored)
    for name, signal in stopping_signals(valid).items():
        points = exit_curve(signal, valid.correct)
        scored_points = exit_curve(scored_signals[name], scored.correct)
        curves.append(ExitCurve(name, points, scored_points, pick_threshold(points), len(scored.correct)))
    return curves
