"""Which images of a data set to show: those asked for, the first of a kind, or the most instructive ones.

Shapes: I images, T glimpses.
"""

from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

import torch
from torch import Tensor

from glimpse.data import Dataset
from glimpse.errors import ConfigError
from glimpse.evaluation.classify import ClassifierOutcome
from glimpse.metrics import classification as metrics

FAILURE_FROM = 4  # a gallery of so many images or more ends with a mistake


class ImageChoice(NamedTuple):
    """Which images are wanted, as on a command line."""

    images: list[int] | None  # these
    count: int  # or so many: the first ones, unless
    label: str | None  # only of this class
    mistakes: bool  # only those that a model gets wrong
    gallery: bool  # the most instructive ones

    @property
    def needs_outcomes(self) -> bool:
        """Whether what the models make of all images decides which are shown."""
        return self.images is None and (self.mistakes or self.gallery)

    def check(self, data: Dataset, limit: int | None = None) -> None:
        """Refuse a choice that the data, or its first so many images, cannot satisfy; raises ConfigError."""
        if self.images is not None:
            if self.label is not None or self.mistakes or self.gallery:
                raise ConfigError(
                    "--images names the images: it cannot be combined with --class, --mistakes or --gallery"
                )
            last = min(len(data), limit or len(data)) - 1
            if wrong := [index for index in self.images if index > last]:
                raise ConfigError(f"--images must be in 0..{last}, got {wrong[0]}")
        if self.label is not None and self.label not in data.class_names:
            raise ConfigError(f"--class must be one of {', '.join(data.class_names)}, got {self.label}")

    def select(self, outcomes: Sequence[ClassifierOutcome | None], data: Dataset) -> list[int]:
        """The indices of the images; what the models made of all images must be given where it is needed."""
        if self.images is not None:
            return self.images
        label = None if self.label is None else data.class_names.index(self.label)
        if not self.needs_outcomes:
            return _first(data, self.count, label, None if outcomes[0] is None else len(outcomes[0].correct))
        try:
            return select_examples(
                outcomes, count=self.count, label=label, mistakes=self.mistakes, gallery=self.gallery
            )
        except ValueError as error:
            raise ConfigError(str(error)) from error


def _first(data: Dataset, count: int, label: int | None, limit: int | None) -> list[int]:
    """The first images, of a class if one is given."""
    found: list[int] = []
    for index, batch in enumerate(data.in_order(batch_size=1, limit=limit)):
        target = batch.targets[0]
        if label is None or (target[label] > 0 if target.dim() else int(target) == label):
            found.append(index)
        if len(found) == count:
            break
    if not found:
        raise ConfigError(f"no image matches: none is of class {data.class_names[label]}")
    return found


def select_examples(
    outcomes: Sequence[ClassifierOutcome],
    *,
    count: int,
    label: int | None = None,
    mistakes: bool = False,
    gallery: bool = False,
) -> list[int]:
    """Choose images by what one or more models made of them.

    A gallery is of images that every model gets right after its last glimpse, those first where looking helped the
    most: where the probability of the right answer rose the most from the first glimpse to the last, summed over the
    models. It is spread over the classes: the best image of each class, classes in the order of their best; then the
    second best of each; and so on. A gallery of four or more is honest: its last image is the most confident mistake,
    the image that one of the models answers wrongly with the highest probability. With `mistakes` all of it is of
    mistakes, the most confident first, spread in the same way. Several labels at once make a class of their own, and
    the probability of an answer is then the product over the labels. Equals stay in the order of the data.

    Args:
        outcomes: What each model did with the very same images.
        count: How many images at most.
        label: Only images of this class; of several labels, one of them.
        mistakes: Only images that at least one model gets wrong after its last glimpse.
        gallery: The most instructive images, instead of the first.

    Returns:
        Indices of images, fewer than `count` if there are fewer.

    Raises:
        ValueError: If the models did not see the same images, or the conditions make no sense or leave no image.
    """
    if not outcomes:
        raise ValueError("outcomes must be of at least one model, got none")
    targets = outcomes[0].targets
    for outcome in outcomes[1:]:
        if len(outcome.targets) != len(targets):
            raise ValueError(f"outcomes must be of the same images, got {len(targets)} and {len(outcome.targets)}")
        if not torch.equal(outcome.targets, targets):
            raise ValueError("outcomes must be of the same images, got other targets")
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}")

    classes = outcomes[0].probabilities.shape[-1]
    if label is not None and not 0 <= label < classes:
        raise ValueError(f"label must be in 0..{classes - 1}, got {label}")
    correct = torch.stack([outcome.correct[:, -1] for outcome in outcomes]).all(0)  # (I,)
    left = torch.ones_like(correct)
    if label is not None:
        left &= targets[:, label] > 0 if targets.is_floating_point() else targets == label
    if mistakes:
        left &= ~correct
    elif gallery and count < FAILURE_FROM:
        left &= correct
    if not left.any():
        raise ValueError(f"no image matches: {_conditions(label, mistakes, gallery)}")
    if not gallery:
        return left.nonzero().flatten().tolist()[:count]

    wrong_confidence = torch.stack(
        [confidence(outcome).where(~outcome.correct[:, -1], -1.0) for outcome in outcomes]
    ).amax(0)
    if mistakes:
        return _spread(wrong_confidence, left, targets)[:count]
    improvement = sum(likelihood(outcome)[:, -1] - likelihood(outcome)[:, 0] for outcome in outcomes)
    failures = _ranked(wrong_confidence, left & ~correct)[: count >= FAILURE_FROM]
    return _spread(improvement, left & correct, targets)[: count - len(failures)] + failures


def likelihood(outcome: ClassifierOutcome) -> Tensor:
    """The probability of the right answer after each glimpse (I, T)."""
    probabilities, targets = outcome.probabilities.double(), outcome.targets
    if targets.is_floating_point():
        return probabilities.where(targets.unsqueeze(1) > 0, 1 - probabilities).prod(-1)
    return probabilities.gather(-1, targets.view(-1, 1, 1).expand(-1, probabilities.shape[1], 1)).squeeze(-1)


def confidence(outcome: ClassifierOutcome) -> Tensor:
    """The probability of the last answer, right or wrong (I,)."""
    return metrics.confidence(outcome.probabilities[:, -1].double(), outcome.targets.is_floating_point())


def _conditions(label: int | None, mistakes: bool, gallery: bool) -> str:
    which = "" if label is None else " of that class"
    if mistakes:
        return f"no model is wrong on any{which}"
    if gallery:
        return f"none{which} is right for all models"
    return f"there is none{which}"


def _ranked(worth: Tensor, left: Tensor) -> list[int]:
    """The images left, the best first."""
    order = worth.sort(descending=True, stable=True).indices
    return order[left[order]].tolist()


def _spread(worth: Tensor, left: Tensor, targets: Tensor) -> list[int]:
    """The images left: the best of each class, then the second best of each, and so on."""
    groups: dict[tuple, list[int]] = {}
    for index in _ranked(worth, left):
        groups.setdefault(tuple(targets[index].view(-1).tolist()), []).append(index)
    return [index for turn in zip_longest(*groups.values()) for index in turn if index is not None]
