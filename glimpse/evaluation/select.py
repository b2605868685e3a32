"""Select images of a dataset to show: by index, the first of a class, mistakes, or a gallery of instructive ones.

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

MISTAKE_FROM = 4  # a gallery of at least this many images ends with a mistake


class ImageChoice(NamedTuple):
    """The options of the command line that select images."""

    indices: list[int] | None  # exactly these images; None: selected by the other options
    num_images: int  # the largest number of images
    label: str | None  # only images of the class with this name
    mistakes: bool  # only images that at least one model gets wrong
    gallery: bool  # the most instructive images, instead of the first ones

    @property
    def needs_outcomes(self) -> bool:
        """Whether the selection depends on the outcomes of the models on all images."""
        return self.indices is None and (self.mistakes or self.gallery)

    def check(self, data: Dataset, limit: int | None = None) -> None:
        """Raise ConfigError if the data, or its first `limit` images, cannot satisfy the options."""
        if self.indices is not None:
            if self.label is not None or self.mistakes or self.gallery:
                raise ConfigError(
                    "--images names the images: it cannot be combined with --class, --mistakes or --gallery"
                )
            last = min(len(data), limit or len(data)) - 1
            if invalid := [index for index in self.indices if index > last]:
                raise ConfigError(f"--images must be in 0..{last}, got {invalid[0]}")
        if self.label is not None and self.label not in data.class_names:
            raise ConfigError(f"--class must be one of {', '.join(data.class_names)}, got {self.label}")

    def select(self, outcomes: Sequence[ClassifierOutcome | None], data: Dataset) -> list[int]:
        """Select images and return their indices.

        Args:
            outcomes: The outcome of each model on all images; None only unless `needs_outcomes`.
            data: The dataset.
        """
        if self.indices is not None:
            return self.indices
        label = None if self.label is None else data.class_names.index(self.label)
        if not self.needs_outcomes:
            return _first(data, self.num_images, label, None if outcomes[0] is None else len(outcomes[0].correct))
        known = [outcome for outcome in outcomes if outcome is not None]
        try:
            return select_examples(
                known, count=self.num_images, label=label, mistakes=self.mistakes, gallery=self.gallery
            )
        except ValueError as error:
            raise ConfigError(str(error)) from error


def _first(data: Dataset, count: int, label: int | None, limit: int | None) -> list[int]:
    """The indices of the first `count` images, of one class if a label is given."""
    indices: list[int] = []
    for index, batch in enumerate(data.in_order(batch_size=1, limit=limit)):
        target = batch.targets[0]
        if label is None or (target[label] > 0 if target.dim() else int(target) == label):
            indices.append(index)
        if len(indices) == count:
            break
    if not indices:
        which = "" if label is None else f" is of class {data.class_names[label]}"
        raise ConfigError(f"no image matches: none{which}")
    return indices


def select_examples(
    outcomes: Sequence[ClassifierOutcome],
    *,
    count: int,
    label: int | None = None,
    mistakes: bool = False,
    gallery: bool = False,
) -> list[int]:
    """Select images by the outcomes of one or more models.

    A gallery has images that every model gets right after its last glimpse, ranked by the increase of the probability
    of the correct class from the first glimpse to the last, summed over the models. It alternates between the classes:
    the best image of each class, in the order of these images; then the second best of each; and so on. The last image
    of a gallery of four or more is the most confident mistake: the image with the highest probability of a wrong
    prediction by any model. With `mistakes`, all images of the gallery are mistakes, ranked by that probability and
    alternating between the classes. For multi-hot targets, each set of labels counts as a class, and the probability of
    a prediction is the product over the labels. Ties are in the order of the data.

    Args:
        outcomes: The outcome of each model on the same images.
        count: The largest number of images.
        label: Only images of this class, or with this label among others; None: all classes.
        mistakes: Only images that at least one model gets wrong after its last glimpse.
        gallery: The most instructive images, instead of the first ones.

    Returns:
        Indices of images, at most `count`.

    Raises:
        ValueError: If the outcomes are of different images, an argument is out of range, or no image matches.
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
    matches = torch.ones_like(correct)
    if label is not None:
        matches &= targets[:, label] > 0 if targets.is_floating_point() else targets == label
    if mistakes:
        matches &= ~correct
    elif gallery and count < MISTAKE_FROM:
        matches &= correct
    if not matches.any():
        raise ValueError(f"no image matches: {_reason(label, mistakes, gallery)}")
    if not gallery:
        return matches.nonzero().flatten().tolist()[:count]

    wrong_confidence = torch.stack(
        [final_confidence(outcome).where(~outcome.correct[:, -1], -1.0) for outcome in outcomes]
    ).amax(0)
    if mistakes:
        return _alternate(wrong_confidence, matches, targets)[:count]
    improvements = (likelihood(outcome)[:, -1] - likelihood(outcome)[:, 0] for outcome in outcomes)
    last = _ranked(wrong_confidence, matches & ~correct)[: count >= MISTAKE_FROM]
    return _alternate(sum(improvements, torch.zeros(())), matches & correct, targets)[: count - len(last)] + last


def likelihood(outcome: ClassifierOutcome) -> Tensor:
    """The probability of the correct class after each glimpse: (I, T)."""
    probabilities, targets = outcome.probabilities.double(), outcome.targets
    if targets.is_floating_point():
        return probabilities.where(targets.unsqueeze(1) > 0, 1 - probabilities).prod(-1)
    return probabilities.gather(-1, targets.view(-1, 1, 1).expand(-1, probabilities.shape[1], 1)).squeeze(-1)


def final_confidence(outcome: ClassifierOutcome) -> Tensor:
    """The probability of the last prediction, correct or not: (I,)."""
    return metrics.confidence(outcome.probabilities[:, -1].double(), outcome.targets.is_floating_point())


def _reason(label: int | None, mistakes: bool, gallery: bool) -> str:
    which = "" if label is None else " of that class"
    if mistakes:
        return f"no model is wrong on any{which}"
    if gallery:
        return f"none{which} is right for all models"
    return f"there is none{which}"


def _ranked(values: Tensor, matches: Tensor) -> list[int]:
    """The indices of the images that match, the largest value first."""
    order = values.sort(descending=True, stable=True).indices
    return order[matches[order]].tolist()


def _alternate(values: Tensor, matches: Tensor, targets: Tensor) -> list[int]:
    """The indices of the images that match: the best of each class, then the second best of each, and so on."""
    classes: dict[tuple[float, ...], list[int]] = {}
    for index in _ranked(values, matches):
        classes.setdefault(tuple(targets[index].view(-1).tolist()), []).append(index)
    return [index for rank in zip_longest(*classes.values()) for index in rank if index is not None]
