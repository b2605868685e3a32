"""Plain, translated and cluttered MNIST, with one or several digits.

The image classification task of RAM (Mnih et al., NIPS 2014), after DeepMind's mnist-cluttered generator. One
example, every draw uniform and inclusive, sources always from the same split:
1. a zero canvas H x W;
2. `num_distractors` times, a crop of a random image is added at a random place; capped at 1;
3. each digit is added at a random place where it fits; capped at 1.
Departures: canvases need not be square, and `in_order` is a frozen set, which the original lacks.

Pixels stay integers 0..255. Step 2's cap needs no code of its own, since
min(min(clutter, 255) + digit, 255) == min(clutter + digit, 255) for digit >= 0.

Shapes: B batch, N digits, D distractors, H height, W width. Corners are (y, x) of the top left pixel.
"""

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor

from glimpse.data.base import Batch, Dataset, Splits, ordered_batches, shuffled_batches
from glimpse.data.mnist import SPLITS, Split, load_mnist
from glimpse.seeding import Stream, below, random_bits

Target = Literal["label", "mark", "combine", "sum"]
_DIGIT = 28  # side of an MNIST image
_MAX_PASTES = 257  # as many full-intensity pixels as a uint16 can add up


class Layout(NamedTuple):
    """All that is random in B examples; int64."""

    digits: np.ndarray  # (B, N) image of the split
    digit_corners: np.ndarray  # (B, N, 2) on the canvas
    distractors: np.ndarray  # (B, D) image of the split
    crop_corners: np.ndarray  # (B, D, 2) of the crop in that image
    paste_corners: np.ndarray  # (B, D, 2) on the canvas

    def rows(self, rows: slice) -> "Layout":
        """The layout of some of the examples."""
        return Layout(*(field[rows] for field in self))


class ClutteredMNIST(Dataset):
    """MNIST digits at random places of a canvas, among crops of other digits.

    In training, places and clutter are drawn afresh at every visit; the first digit of an example follows
    the epoch's permutation, further digits are drawn with replacement. `in_order` has example i show image
    i of the split in a layout that never changes.
    """

    def __init__(
        self,
        *,
        split: Split,
        canvas: tuple[int, int],
        num_digits: int = 1,
        num_distractors: int = 4,
        distractor_size: int = 8,
        target: Target = "label",
    ):
        """Loads MNIST.

        Args:
            split: "train", "valid" or "test".
            canvas: (H, W) of the images, each at least 28. 28 x 28 with no distractors is plain MNIST.
            num_digits: digits per image; they may overlap.
            num_distractors: crops per image.
            distractor_size: side of the crops, 1 to 28.
            target: "label", the digit, for one digit. For several: "mark", which digits are present
                (multi-hot over 10 classes); "combine", the unordered digits as one class, such as "3+7";
                "sum", their sum.
        """
        height, width = canvas
        if min(canvas) < _DIGIT:
            raise ValueError(f"canvas must be at least {_DIGIT} x {_DIGIT}, got {height} x {width}")
        if num_digits < 1:
            raise ValueError(f"num_digits must be at least 1, got {num_digits}")
        if num_distractors < 0:
            raise ValueError(f"num_distractors must not be negative, got {num_distractors}")
        if num_digits + num_distractors > _MAX_PASTES:
            raise ValueError(
                f"num_digits + num_distractors must be at most {_MAX_PASTES}, got {num_digits} + {num_distractors}"
            )
        if not 1 <= distractor_size <= _DIGIT:
            raise ValueError(f"distractor_size must be in 1..{_DIGIT}, got {distractor_size}")
        if target not in get_args(Target):
            raise ValueError(f"target must be one of {', '.join(get_args(Target))}, got {target!r}")
        if (target == "label") != (num_digits == 1):
            raise ValueError(
                'target must be "label" for one digit and "mark", "combine" or "sum" for several, '
                f"got {target!r} with num_digits {num_digits}"
            )
        self._images, self._labels = load_mnist(split)  # (M, 28, 28) uint8, (M,) int64
        self._stream = SPLITS.index(split)
        self._num_digits, self._num_distractors = num_digits, num_distractors
        self._distractor_size = distractor_size
        self._target = target
        self._combinations = list(combinations_with_replacement(range(10), num_digits)) if target == "combine" else []

        self.image_shape = (1, height, width)
        self.multi_label = target == "mark"
        self.class_names = {
            "label": tuple(map(str, range(10))),
            "mark": tuple(map(str, range(10))),
            "combine": tuple("+".join(map(str, digits)) for digits in self._combinations),
            "sum": tuple(map(str, range(9 * num_digits + 1))),
        }[target]
        self.num_classes = len(self.class_names)

    def __len__(self) -> int:
        """Number of MNIST images in the split."""
        return len(self._labels)

    def epoch(self, *, seed: int, epoch: int, batch_size: int, rank: int = 0, world_size: int = 1) -> Iterator[Batch]:
        """See `Dataset.epoch`."""
        order, share = shuffled_batches(
            len(self),
            stream=self._stream,
            seed=seed,
            epoch=epoch,
            batch_size=batch_size,
            rank=rank,
            world_size=world_size,
        )
        # Every process draws for the whole batch, which is cheap, and composes only its own rows.
        return (
            self.compose(self.draw(Stream.TRAIN_BATCH, self._stream, seed, epoch, i, first_digits=first).rows(share))
            for i, first in enumerate(order)
        )

    def in_order(self, *, batch_size: int, limit: int | None = None) -> Iterator[Batch]:
        """See `Dataset.in_order`; the layout does not depend on any seed of the user's."""
        batches = ordered_batches(len(self), batch_size=batch_size, limit=limit)
        return (self.compose(self._frozen.rows(rows)) for rows in batches)

    def select(self, indices: Sequence[int]) -> Batch:
        """See `Dataset.select`."""
        return self.compose(self._frozen.rows(np.asarray(indices)))

    @cached_property
    def _frozen(self) -> Layout:
        return self.draw(Stream.FROZEN, self._stream, first_digits=np.arange(len(self)))

    def digest(self) -> str:
        """The sha256 of all images, then all targets, then all boxes of the frozen set."""
        batches = list(self.in_order(batch_size=1000))
        sha256 = hashlib.sha256()
        for field in zip(*batches, strict=True):
            for tensor in field:
                array = tensor.numpy()
                sha256.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")))
        return sha256.hexdigest()

    def draw(self, *words: int, first_digits: np.ndarray) -> Layout:
        """Draws a layout.

        Args:
            words: seed of the draws, see `base.random_bits`.
            first_digits: (B,) the image that each example's first digit shows.

        Returns:
            Layout of B examples.
        """
        _, height, width = self.image_shape
        batch, digits, distractors = len(first_digits), self._num_digits, self._num_distractors
        size = self._distractor_size
        # How many values each draw of an example can take, in the order of the fields of Layout.
        highs = [
            [len(self)] * (digits - 1),
            [height - _DIGIT + 1, width - _DIGIT + 1] * digits,
            [len(self)] * distractors,
            [_DIGIT - size + 1] * (2 * distractors),
            [height - size + 1, width - size + 1] * distractors,
        ]
        flat = np.array([high for field in highs for high in field], np.uint64)
        draws = below(random_bits(*words, shape=(batch, len(flat))), flat)
        more_digits, digit_corners, sources, crops, pastes = np.split(
            draws, np.cumsum([len(field) for field in highs])[:-1], axis=1
        )
        return Layout(
            digits=np.concatenate([first_digits[:, None], more_digits], axis=1),
            digit_corners=digit_corners.reshape(batch, digits, 2),
            distractors=sources,
            crop_corners=crops.reshape(batch, distractors, 2),
            paste_corners=pastes.reshape(batch, distractors, 2),
        )

    def compose(self, layout: Layout) -> Batch:
        """Paints a layout.

        Args:
            layout: B examples.

        Returns:
            Images (B, 1, H, W), targets (B,) or (B, 10), and boxes (B, N, 4): the 28 x 28 square of each
            digit.
        """
        batch, size = len(layout.digits), self._distractor_size
        examples = np.arange(batch)
        canvas = np.zeros((batch, *self.image_shape[1:]), np.uint16)  # (B, H, W)
        # Views: [b, y, x] is the square whose top left pixel is (y, x). Indexing with a whole batch of
        # corners is several times faster than a loop over examples.
        places = sliding_window_view(canvas, (size, size), axis=(1, 2), writeable=True)
        crops = sliding_window_view(self._images, (size, size), axis=(1, 2))
        for d in range(self._num_distractors):
            crop_y, crop_x = layout.crop_corners[:, d].T
            y, x = layout.paste_corners[:, d].T
            places[examples, y, x] += crops[layout.distractors[:, d], crop_y, crop_x]
        places = sliding_window_view(canvas, (_DIGIT, _DIGIT), axis=(1, 2), writeable=True)
        for n in range(self._num_digits):
            y, x = layout.digit_corners[:, n].T
            places[examples, y, x] += self._images[layout.digits[:, n]]
        images = np.minimum(canvas, 255, out=canvas).astype(np.uint8)

        top_left = layout.digit_corners[:, :, ::-1]  # (B, N, 2) x, y
        boxes = np.concatenate([top_left, top_left + _DIGIT], axis=2).astype(np.float32)
        return Batch(
            images=torch.from_numpy(images).unsqueeze(1),
            targets=self._targets(self._labels[layout.digits]),
            boxes=torch.from_numpy(boxes),
        )

    def _targets(self, labels: np.ndarray) -> Tensor:
        """Targets (B,) or (B, 10) of the digits' labels (B, N)."""
        if self._target == "label":
            return torch.from_numpy(labels[:, 0])
        if self._target == "sum":
            return torch.from_numpy(labels.sum(axis=1))
        if self._target == "combine":
            # Ascending digits read as a decimal number are in the order of the combinations.
            powers = 10 ** np.arange(self._num_digits)[::-1]
            numbers = np.array(self._combinations) @ powers
            return torch.from_numpy(np.searchsorted(numbers, np.sort(labels, axis=1) @ powers))
        marks = np.zeros((len(labels), 10), np.float32)
        np.put_along_axis(marks, labels, 1.0, axis=1)
        return torch.from_numpy(marks)


def cluttered_mnist(
    *,
    canvas: tuple[int, int],
    num_digits: int = 1,
    num_distractors: int = 4,
    distractor_size: int = 8,
    target: Target = "label",
) -> Splits:
    """The three splits of `ClutteredMNIST`, which documents the arguments."""
    return Splits(
        *(
            ClutteredMNIST(
                split=split,
                canvas=canvas,
                num_digits=num_digits,
                num_distractors=num_distractors,
                distractor_size=distractor_size,
                target=target,
            )
            for split in SPLITS
        )
    )
