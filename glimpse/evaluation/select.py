"""Which images of a data set to show: those asked for, the first of a kind, or the most instructive ones.

Shapes: I images, T glimpses.
"""

from collections.abc import Sequence
from itertools import zip_longest

import torch
from torch import Tensor

from glimpse.classification import Outcome

FAILURE_FROM = 4  # a gallery of so many images or more ends with a mistake


def choose(
    outcomes: Sequence[Outcome],
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

    classes = outcomes[0].answers.shape[-1]
    if label is not None and not 0 <= label < classes:
        raise ValueError(f"label must be in 0..{classes - 1}, got {label}")
    right = torch.stack([outcome.right[:, -1] for outcome in outcomes]).all(0)  # (I,)
    left = torch.ones_like(right)
    if label is not None:
        left &= targets[:, label] > 0 if targets.is_floating_point() else targets == label
    if mistakes:
        left &= ~right
    elif gallery and count < FAILURE_FROM:
        left &= right
    if not left.any():
        raise ValueError(f"no image is left: none {_conditions(label, mistakes, gallery)}")
    if not gallery:
        return left.nonzero().flatten().tolist()[:count]

    boldness = torch.stack([confidence(outcome).where(~outcome.right[:, -1], -1.0) for outcome in outcomes]).amax(0)
    if mistakes:
        return _spread(boldness, left, targets)[:count]
    rise = sum(likelihood(outcome)[:, -1] - likelihood(outcome)[:, 0] for outcome in outcomes)
    failures = _ranked(boldness, left & ~right)[: count >= FAILURE_FROM]
    return _spread(rise, left & right, targets)[: count - len(failures)] + failures


def likelihood(outcome: Outcome) -> Tensor:
    """The probability of the right answer after each glimpse (I, T)."""
    answers, targets = outcome.answers.double(), outcome.targets
    if targets.is_floating_point():
        return answers.where(targets.unsqueeze(1) > 0, 1 - answers).prod(-1)
    return answers.gather(-1, targets.view(-1, 1, 1).expand(-1, answers.shape[1], 1)).squeeze(-1)


def confidence(outcome: Outcome) -> Tensor:
    """The probability of the last answer, right or wrong (I,)."""
    last = outcome.answers[:, -1].double()
    return last.maximum(1 - last).prod(-1) if outcome.targets.is_floating_point() else last.amax(-1)


def _conditions(label: int | None, mistakes: bool, gallery: bool) -> str:
    parts = [] if label is None else ["is of that class"]
    if mistakes:
        parts.append("is answered wrongly by one of the models")
    elif gallery:
        parts.append("is answered rightly by all models")
    return " and ".join(parts)


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
