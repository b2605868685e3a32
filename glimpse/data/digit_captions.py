"""Digits on a cluttered canvas with captions that say which they are and where.

Images are made as in `cluttered.py`: crops of other digits, then 1 to 4 digits of the same split, added and capped.
The number of digits is uniform, and so are their places among all those where their 28 x 28 boxes do not overlap (all
are drawn anew until they do not). Captions come from `digit_grammar.py`.

Shapes: B batch, N most digits of an image, R captions per image, H height, W width.
"""

import hashlib
from collections.abc import Iterator
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch

from glimpse.data.base import ordered_batches, shuffled_batches
from glimpse.data.captions import GROUP, CaptionBatch, CaptionDataset, CaptionSplits, batches_by_length
from glimpse.data.cluttered_mnist import ClutteredMNIST, Layout
from glimpse.data.digit_grammar import MOST_DIGITS, Digit, Scene, captions_of
from glimpse.data.mnist import SPLITS, Split, load_mnist
from glimpse.data.vocabulary import Tokens
from glimpse.seeding import Stream, below, random_bits

NUM_REFERENCES = 5
_SIZES = {"train": 50_000, "valid": 2_000, "test": 5_000}
_DIGIT = 28  # side of an MNIST image
_TRIES = 16  # placements that are drawn at once, and the first without overlap taken

# Second or third word of a seed, after the stream: which examples it is for.
_TRAINING, _FROZEN, _VOCABULARY = 0, 1, 2


class Scenes(NamedTuple):
    """All that is random in B images and their captions."""

    layout: Layout  # of N digits, of which the first `numbers` are shown
    numbers: np.ndarray  # (B,) int64, 1..N
    wording: np.ndarray  # (B, R) uint64

    def rows(self, rows: slice | np.ndarray) -> "Scenes":
        """Some of the scenes."""
        return Scenes(self.layout.rows(rows), self.numbers[rows], self.wording[rows])


def min_canvas_pixels(max_digits: int) -> int:
    """Of a canvas for so many digits: a fuller one would take too many draws to find places without overlap."""
    return 9 * max_digits * _DIGIT**2 // 4 if max_digits > 1 else _DIGIT**2


class DigitCaptions(CaptionDataset):
    """One split of canvases with digits and their captions.

    In training, scenes are drawn afresh at every visit; the first digit of an image follows the epoch's permutation of
    the split's first `len` digits, the others are drawn with replacement from all. `in_order` is a frozen set with five
    references each, whose image i has digit i of the split first.
    """

    selection_metric = "true_and_complete"

    def __init__(
        self,
        *,
        split: Split,
        canvas: tuple[int, int] = (84, 84),
        max_digits: int = 4,
        num_distractors: int = 4,
        distractor_size: int = 8,
    ):
        """Loads MNIST.

        Args:
            split: "train", "valid" or "test".
            canvas: (H, W) of the images, each at least 28, and so large that the digits fill at most 4/9 of it.
            max_digits: images have 1 to this many digits, at most 4.
            num_distractors: crops per image.
            distractor_size: side of the crops, 1 to 28.
        """
        height, width = canvas
        if not 1 <= max_digits <= MOST_DIGITS:
            raise ValueError(f"max_digits must be in 1..{MOST_DIGITS}, got {max_digits}")
        # One painter for each number of digits; they check the other arguments.
        self._painters = {
            number: ClutteredMNIST(
                split=split,
                canvas=canvas,
                num_digits=number,
                num_distractors=num_distractors,
                distractor_size=distractor_size,
                target="label" if number == 1 else "sum",
            )
            for number in range(1, max_digits + 1)
        }
        if height * width < (least := min_canvas_pixels(max_digits)):
            raise ValueError(
                f"canvas must have at least {least} pixels for {max_digits} digits, "
                f"got {height} x {width} = {height * width}"
            )
        self._split = split
        self._labels = load_mnist(split)[1]
        self._most = max_digits
        self.image_shape = (1, height, width)

    def __len__(self) -> int:
        """Images in an epoch and in the frozen set: 50,000 for training, 2,000 for validation, 5,000 for testing."""
        return _SIZES[self._split]

    def vocabulary_captions(self) -> Iterator[Tokens]:
        """A caption of each of 20,000 scenes that are the same for ever; of the training split alone."""
        if self._split != "train":
            raise ValueError(f'words must be counted in the "train" split, got "{self._split}"')
        scenes = self._draw(_VOCABULARY, 0, 0, 0, first_digits=np.arange(20_000), num_captions=1)
        return (caption for (caption,) in self._captions(scenes))

    def epoch(
        self, *, seed: int, epoch: int, batch_size: int, rank: int = 0, world_size: int = 1
    ) -> Iterator[CaptionBatch]:
        """See `CaptionDataset.epoch`.

        Batches are made in groups of 32: the images of a group are sorted by the length of their captions and cut into
        batches, which come in a random order.
        """
        order, share = shuffled_batches(
            len(self),
            stream=SPLITS.index(self._split),
            seed=seed,
            epoch=epoch,
            batch_size=batch_size,
            rank=rank,
            world_size=world_size,
        )
        return self._batches(order, share, seed, epoch)

    def _batches(self, order: np.ndarray, share: slice, seed: int, epoch: int) -> Iterator[CaptionBatch]:
        """Batches of an epoch whose first digits are `order` (batches, batch_size); `share` of the rows of each."""
        for group, start in enumerate(range(0, len(order), GROUP)):
            first = order[start : start + GROUP]
            words = (_TRAINING, seed, epoch, group)
            scenes = self._draw(*words, first_digits=first.ravel(), num_captions=1)
            # Every process words the whole group, which sorting needs, and paints only its own rows.
            captions = self._captions(scenes)
            lengths = [len(caption) for (caption,) in captions]
            words = (Stream.DIGIT_ORDER, SPLITS.index(self._split), *words)
            for batch in batches_by_length(lengths, *words, batch_size=first.shape[1]):
                rows = batch[share]
                yield self._paint(scenes.rows(rows), [captions[row] for row in rows])

    def in_order(self, *, batch_size: int, limit: int | None = None) -> Iterator[CaptionBatch]:
        """See `CaptionDataset.in_order`; the scenes do not depend on any seed of the user's."""
        batches = ordered_batches(len(self), batch_size=batch_size, limit=limit)
        parts = (self._frozen.rows(rows) for rows in batches)
        return (self._paint(scenes, self._captions(scenes)) for scenes in parts)

    @cached_property
    def _frozen(self) -> Scenes:
        return self._draw(_FROZEN, 0, 0, 0, first_digits=np.arange(len(self)), num_captions=NUM_REFERENCES)

    def digest(self) -> str:
        """The sha256 of the frozen set: of each thousand images, their pixels, boxes, classes and captions."""
        sha256 = hashlib.sha256()
        for batch in self.in_order(batch_size=1000):
            for tensor in (batch.images, batch.boxes, batch.classes):
                array = tensor.numpy()
                sha256.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")))
            for captions in batch.captions:
                sha256.update("".join(" ".join(caption) + "\n" for caption in captions).encode())
        return sha256.hexdigest()

    def _draw(self, *words: int, first_digits: np.ndarray, num_captions: int) -> Scenes:
        """Draws scenes.

        Args:
            words: what the draws depend on besides the split: the use, seed, epoch and group.
            first_digits: (B,) the image that each scene's first digit shows.
            num_captions: captions per scene.

        Returns:
            B scenes.
        """
        words = (SPLITS.index(self._split), *words)
        batch = len(first_digits)
        layout = self._painters[self._most].draw(Stream.DIGIT_CONTENT, *words, first_digits=first_digits)
        numbers = 1 + below(random_bits(Stream.DIGIT_NUMBER, *words, shape=(batch,)), self._most)
        corners = np.empty_like(layout.digit_corners)
        _, height, width = self.image_shape
        highs = np.array([height - _DIGIT + 1, width - _DIGIT + 1])
        left, attempt = np.arange(batch), 0  # rows that have no places yet
        while len(left):
            shape = (len(left), _TRIES, self._most, 2)
            tries = below(random_bits(Stream.DIGIT_PLACES, *words, attempt, shape=shape), highs)
            free = _apart(tries, numbers[left])  # (rows left, tries)
            found = free.any(axis=1)
            corners[left[found]] = tries[found, free[found].argmax(axis=1)]
            left, attempt = left[~found], attempt + 1
        return Scenes(
            layout._replace(digit_corners=corners),
            numbers,
            random_bits(Stream.DIGIT_WORDING, *words, shape=(batch, num_captions)),
        )

    def _captions(self, scenes: Scenes) -> list[list[Tokens]]:
        """The captions of each scene."""
        canvas = self.image_shape[1:]
        return [
            captions_of(scene, canvas, bits)
            for scene, bits in zip(self._described(scenes), scenes.wording.tolist(), strict=True)
        ]

    def _described(self, scenes: Scenes) -> Iterator[Scene]:
        """The digits of each scene, for the grammar."""
        labels = self._labels[scenes.layout.digits].tolist()
        corners = scenes.layout.digit_corners.tolist()
        for number, row_labels, row_corners in zip(scenes.numbers.tolist(), labels, corners, strict=True):
            yield tuple(
                Digit(label, x, y, x + _DIGIT, y + _DIGIT)
                for label, (y, x) in zip(row_labels[:number], row_corners[:number], strict=True)
            )

    def _paint(self, scenes: Scenes, captions: list[list[Tokens]]) -> CaptionBatch:
        """Images (B, 1, H, W), boxes (B, N, 4) and classes (B, N) of B scenes, with their captions."""
        batch = len(scenes.numbers)
        images = torch.empty((batch, *self.image_shape), dtype=torch.uint8)
        boxes = torch.zeros((batch, self._most, 4))
        classes = torch.full((batch, self._most), -1)
        for number, painter in self._painters.items():
            rows = np.flatnonzero(scenes.numbers == number)
            layout = scenes.layout.rows(rows)
            layout = layout._replace(digits=layout.digits[:, :number], digit_corners=layout.digit_corners[:, :number])
            painted = painter.compose(layout)
            images[rows] = painted.images
            boxes[rows, :number] = painted.boxes
            classes[rows, :number] = torch.from_numpy(self._labels[layout.digits])
        return CaptionBatch(images, captions, boxes, classes)


def _apart(corners: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Whether no boxes of the first digits overlap: (B, tries), of corners (B, tries, N, 2) and numbers (B,)."""
    apart = np.ones(corners.shape[:2], bool)
    for one, other in combinations(range(corners.shape[2]), 2):
        far = (np.abs(corners[:, :, one] - corners[:, :, other]) >= _DIGIT).any(axis=-1)
        apart &= far | (numbers[:, None] <= other)
    return apart


def digit_captions(
    *,
    canvas: tuple[int, int] = (84, 84),
    max_digits: int = 4,
    num_distractors: int = 4,
    distractor_size: int = 8,
) -> CaptionSplits:
    """The three splits of `DigitCaptions`, which documents the arguments."""
    return CaptionSplits(
        *(
            DigitCaptions(
                split=split,
                canvas=canvas,
                max_digits=max_digits,
                num_distractors=num_distractors,
                distractor_size=distractor_size,
            )
            for split in SPLITS
        )
    )
