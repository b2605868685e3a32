"""Plain, translated and cluttered MNIST, with one or more digits.

The image classification task of RAM (Mnih et al., NIPS 2014), after DeepMind's mnist-cluttered generator. An example is
made as follows, with uniform random numbers, bounds included, and images of one split:
1. start with a black canvas of H x W pixels;
2. `num_distractors` times, add a random crop of a random image at a random position; clip at 1;
3. add each digit at a random position where it fits; clip at 1.
Unlike the original, canvases need not be square, and `in_order` visits a fixed set.

Pixels are integers in 0..255. The clipping of step 2 is left out, since
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

from glimpse.data.base import Batch, Dataset, Splits, little_endian, ordered_batches, shuffled_batches
from glimpse.data.mnist import SPLITS, Split, load_mnist
from glimpse.seeding import Stream, below, random_bits

Target = Literal["label", "mark", "combine", "sum"]
_DIGIT = 28  # side of an MNIST image
_MAX_PASTES = 257  # the number of white pixels whose sum fits a uint16


class Layout(NamedTuple):
    """The random numbers of B examples; int64."""

    digits: np.ndarray  # (B, N) image index in the split
    digit_corners: np.ndarray  # (B, N, 2) on the canvas
    distractors: np.ndarray  # (B, D) image index in the split
    crop_corners: np.ndarray  # (B, D, 2) of the crop in that image
    paste_corners: np.ndarray  # (B, D, 2) on the canvas

    def rows(self, rows: slice | np.ndarray) -> "Layout":
        """The layout of a slice or selection of the examples."""
        return Layout(*(field[rows] for field in self))


class ClutteredMNIST(Dataset):
    """MNIST digits at random positions on a canvas, among crops of other digits.

    In training, positions and clutter are sampled anew in every epoch; the first digits of the examples are a
    permutation of the split, further digits are sampled with replacement. In `in_order`, example i shows image i of the
    split in a fixed layout.
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
        """Load MNIST.

        Args:
            split: "train", "valid" or "test".
            canvas: (H, W) of the images, each at least 28; 28 x 28 without distractors is plain MNIST.
            num_digits: Digits per image; they may overlap.
            num_distractors: Distractors (crops of other digits) per image.
            distractor_size: Side of the distractors in pixels, 1 to 28.
            target: For one digit, "label": its class. For several digits, "mark": which digits are present (multi-hot
                over 10 classes); "combine": the unordered combination as one class, such as "3+7"; or "sum": their sum.
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
        # Every process samples the layout of the global batch, which is cheap, and renders only its own rows.
        return (
            self.compose(self.draw(Stream.TRAIN_BATCH, self._stream, seed, epoch, i, first_digits=first).rows(share))
            for i, first in enumerate(order)
        )

    def in_order(self, *, batch_size: int, limit: int | None = None) -> Iterator[Batch]:
        """See `Dataset.in_order`; the layout does not depend on the seed of the run."""
        batches = ordered_batches(len(self), batch_size=batch_size, limit=limit)
        return (self.compose(self._fixed_layout.rows(rows)) for rows in batches)

    def select(self, indices: Sequence[int]) -> Batch:
        """See `Dataset.select`."""
        return self.compose(self._fixed_layout.rows(np.asarray(indices)))

    @cached_property
    def _fixed_layout(self) -> Layout:
        return self.draw(Stream.FROZEN, self._stream, first_digits=np.arange(len(self)))

    def digest(self) -> str:
        """The sha256 of the fixed set: all images, then all targets, then all boxes."""
        sha256 = hashlib.sha256()
        for tensors in zip(*self.in_order(batch_size=1000), strict=True):
            for tensor in tensors:
                sha256.update(little_endian(tensor))
        return sha256.hexdigest()

    def draw(self, *words: int, first_digits: np.ndarray) -> Layout:
        """Sample a layout of B examples.

        Args:
            words: Seed, see `seeding.random_bits`.
            first_digits: (B,) image index of the first digit of each example.
        """
        _, height, width = self.image_shape
        batch, digits, distractors = len(first_digits), self._num_digits, self._num_distractors
        size = self._distractor_size
        # Upper bounds (exclusive) of the random integers of an example, in the order of the fields of Layout.
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
        """Render a layout of B examples.

        Returns:
            Images (B, 1, H, W), targets (B,) or (B, 10), and boxes (B, N, 4): the 28 x 28 square of each digit.
        """
        batch, size = len(layout.digits), self._distractor_size
        examples = np.arange(batch)
        canvas = np.zeros((batch, *self.image_shape[1:]), np.uint16)  # (B, H, W)
        # Views: [b, y, x] is the square whose top left pixel is (y, x). Indexing with a batch of corners is much faster
        # than a loop over examples.
        squares = sliding_window_view(canvas, (size, size), axis=(1, 2), writeable=True)
        crops = sliding_window_view(self._images, (size, size), axis=(1, 2))
        for d in range(self._num_distractors):
            crop_y, crop_x = layout.crop_corners[:, d].T
            y, x = layout.paste_corners[:, d].T
            squares[examples, y, x] += crops[layout.distractors[:, d], crop_y, crop_x]
        squares = sliding_window_view(canvas, (_DIGIT, _DIGIT), axis=(1, 2), writeable=True)
        for n in range(self._num_digits):
            y, x = layout.digit_corners[:, n].T
            squares[examples, y, x] += self._images[layout.digits[:, n]]
        images = np.minimum(canvas, 255, out=canvas).astype(np.uint8)

        top_left = layout.digit_corners[:, :, ::-1]  # (B, N, 2) x, y
        boxes = np.concatenate([top_left, top_left + _DIGIT], axis=2).astype(np.float32)
        return Batch(
            images=torch.from_numpy(images).unsqueeze(1),
            targets=self._targets(self._labels[layout.digits]),
            boxes=torch.from_numpy(boxes),
        )

    def _targets(self, labels: np.ndarray) -> Tensor:
        """Targets (B,) or (B, 10) from the labels (B, N) of the digits."""
        if self._target == "label":
            return torch.from_numpy(labels[:, 0])
        if self._target == "sum":
            return torch.from_numpy(labels.sum(axis=1))
        if self._target == "combine":
            # Sorted digits, read as a decimal number, have the same order as the combinations.
            powers = 10 ** np.arange(self._num_digits)[::-1]
            numbers = np.array(self._combinations) @ powers
            return torch.from_numpy(np.searchsorted(numbers, np.sort(labels, axis=1) @ powers))
        multi_hot = np.zeros((len(labels), 10), np.float32)
        np.put_along_axis(multi_hot, labels, 1.0, axis=1)
        return torch.from_numpy(multi_hot)


def cluttered_mnist(
    *,
    canvas: tuple[int, int],
    num_digits: int = 1,
    num_distractors: int = 4,
    distractor_size: int = 8,
    target: Target = "label",
) -> Splits[Dataset]:
    """The three splits of `ClutteredMNIST`; see there for the arguments."""
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
