"""The interface of caption data sets, and a base class for those whose images and captions are stored.

Shapes: B batch, C channels, H height, W width, N boxes per image, L places, A annotation size.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from glimpse.data.base import ordered_batches, shuffled_batches
from glimpse.data.mnist import SPLITS, Split
from glimpse.data.vocabulary import Tokens
from glimpse.seeding import Stream, below, permutation, random_bits

GROUP_SIZE = 32  # batches that are sorted together by caption length


class CaptionBatch(NamedTuple):
    """Images with captions."""

    images: Tensor  # (B, C, H, W) uint8; or (B, L, A) float32, the annotations of a frozen encoder
    captions: list[list[Tokens]]  # B lists: one caption each in training, all references in scoring
    boxes: Tensor  # (B, N, 4) float32: x0, y0, x1, y1 in pixels, half-open; zeros are padding; N = 0 if unknown
    classes: Tensor  # (B, N) int64: class of the object in each box; -1 is padding


class CaptionDataset(ABC):
    """A caption data set, visited shuffled (training) or in a fixed order (scoring)."""

    selection_metric = "BLEU-4"  # the validation score that selects the best epoch
    image_shape: tuple[int, int, int]  # (C, H, W)

    @abstractmethod
    def __len__(self) -> int:
        """Number of images."""

    @abstractmethod
    def vocabulary_captions(self) -> Iterator[Tokens]:
        """The captions that the vocabulary is built from; only the training split has them."""

    @abstractmethod
    def epoch(
        self, *, seed: int, epoch: int, batch_size: int, rank: int = 0, world_size: int = 1
    ) -> Iterator[CaptionBatch]:
        """Iterate over the images once, shuffled, each with one caption; a last incomplete batch is dropped.

        Captions of a batch have similar lengths, which keeps padding small. For the arguments see `Dataset.epoch`:
        batch i depends on (seed, epoch, i) alone, and is divided between the ranks.
        """

    @abstractmethod
    def in_order(self, *, batch_size: int, limit: int | None = None) -> Iterator[CaptionBatch]:
        """Iterate over all images once, in a fixed order, with all its references; see `Dataset.in_order`."""


def batches_by_length(lengths: Sequence[int] | np.ndarray, *words: int, batch_size: int) -> np.ndarray:
    """Cut a group of examples into batches of similar length, in a random order.

    Args:
        lengths: Lengths of the captions; their number must be a multiple of `batch_size`.
        words: Seed of the order of the batches, see `seeding.random_bits`.
        batch_size: Examples per batch.

    Returns:
        (batches, batch_size) int64, the indices of the examples of each batch.
    """
    by_length = np.argsort(lengths, kind="stable").reshape(-1, batch_size)
    return by_length[permutation(*words, size=len(by_length))]


class StoredCaptions(CaptionDataset):
    """One split of stored images, each with one or more captions.

    This class decides which images and captions make up a batch; subclasses read the images.
    """

    def __init__(self, *, split: Split, captions: Sequence[tuple[Tokens, ...]], image_shape: tuple[int, int, int]):
        """Create the split.

        Args:
            split: "train", "valid" or "test".
            captions: The captions of each image, at least one.
            image_shape: (C, H, W) of the images.
        """
        self.split = split
        self.captions = captions
        self.image_shape = image_shape

    @abstractmethod
    def read(self, batches: list[list[int]]) -> Iterator[Tensor]:
        """Read the images of each batch, given their indices in the fixed order."""

    def __len__(self) -> int:
        """Number of images."""
        return len(self.captions)

    def vocabulary_captions(self) -> Iterator[Tokens]:
        """All captions of the training split; see `CaptionDataset.vocabulary_captions`."""
        check_training_split(self.split)
        return (caption for captions in self.captions for caption in captions)

    def epoch(
        self, *, seed: int, epoch: int, batch_size: int, rank: int = 0, world_size: int = 1
    ) -> Iterator[CaptionBatch]:
        """See `CaptionDataset.epoch`; the caption sampled for an image depends on (seed, epoch) alone.

        Batches are made in groups of 32: the images of a group are sorted by caption length, cut into batches, and the
        batches shuffled.
        """
        stream = SPLITS.index(self.split)
        order, share = shuffled_batches(
            len(self),
            stream=stream,
            seed=seed,
            epoch=epoch,
            batch_size=batch_size,
            rank=rank,
            world_size=world_size,
        )
        counts = np.array([len(captions) for captions in self.captions])
        choices = below(random_bits(Stream.CAPTION_CHOICE, stream, seed, epoch, shape=(len(self),)), counts)
        sampled = [captions[choice] for captions, choice in zip(self.captions, choices, strict=True)]
        lengths = np.array([len(caption) for caption in sampled])
        batches: list[list[int]] = []
        for group, start in enumerate(range(0, len(order), GROUP_SIZE)):
            rows = order[start : start + GROUP_SIZE].ravel()
            words = (Stream.CAPTION_ORDER, stream, seed, epoch, group)
            batches += rows[batches_by_length(lengths[rows], *words, batch_size=batch_size)][:, share].tolist()
        return self._read_batches(batches, [(caption,) for caption in sampled])

    def in_order(self, *, batch_size: int, limit: int | None = None) -> Iterator[CaptionBatch]:
        """See `CaptionDataset.in_order`."""
        slices = ordered_batches(len(self), batch_size=batch_size, limit=limit)
        return self._read_batches([list(range(rows.start, rows.stop)) for rows in slices], self.captions)

    def _read_batches(self, batches: list[list[int]], captions: Sequence[tuple[Tokens, ...]]) -> Iterator[CaptionBatch]:
        """Read batches of images and add the captions of their rows."""
        for rows, images in zip(batches, self.read(batches), strict=True):
            no_boxes, no_classes = torch.zeros(len(rows), 0, 4), torch.zeros(len(rows), 0, dtype=torch.int64)
            yield CaptionBatch(images, [list(captions[row]) for row in rows], no_boxes, no_classes)


def check_training_split(split: Split) -> None:
    """Raise a ValueError unless the split is "train": a vocabulary must not be built from other data."""
    if split != "train":
        raise ValueError(f'the vocabulary must be built from the "train" split, got "{split}"')
