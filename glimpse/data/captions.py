"""What every caption data set offers, and what those share that keep their images and captions.

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

GROUP = 32  # batches that are sorted together by the length of their captions


class CaptionBatch(NamedTuple):
    """Images with captions."""

    images: Tensor  # (B, C, H, W) uint8; or (B, L, A) float32, what a frozen encoder made of them
    captions: list[list[Tokens]]  # B lists: one caption each in training, all references in scoring
    boxes: Tensor  # (B, N, 4) float32: x0, y0, x1, y1 in pixels, half-open; zeros where there is none; N = 0 if unknown
    classes: Tensor  # (B, N) int64: what is in each box; -1 where there is none


class CaptionDataset(ABC):
    """A caption data set that can be visited shuffled (training) or in a fixed order (scoring)."""

    selection_metric = "BLEU-4"  # the score that selects the best epoch
    image_shape: tuple[int, int, int]  # (C, H, W)

    @abstractmethod
    def __len__(self) -> int:
        """Number of images."""

    @abstractmethod
    def vocabulary_captions(self) -> Iterator[Tokens]:
        """Captions to count words in; of training data only."""

    @abstractmethod
    def epoch(
        self, *, seed: int, epoch: int, batch_size: int, rank: int = 0, world_size: int = 1
    ) -> Iterator[CaptionBatch]:
        """Visits the images once, shuffled, each with one caption; a last incomplete batch is dropped.

        Captions of a batch are of about the same length, so that little is padded. For the arguments see
        `Dataset.epoch`: batch i depends on (seed, epoch, i) alone, and the shares of all ranks make up the batch.
        """

    @abstractmethod
    def in_order(self, *, batch_size: int, limit: int | None = None) -> Iterator[CaptionBatch]:
        """Visits every image once, in a fixed order, with all its references, the same each time."""


class CaptionSplits(NamedTuple):
    """The three parts of a caption data set."""

    train: CaptionDataset
    valid: CaptionDataset
    test: CaptionDataset


def batches_by_length(lengths: Sequence[int] | np.ndarray, *words: int, batch_size: int) -> np.ndarray:
    """Cuts a group of examples into batches whose captions are of about one length, and shuffles the batches.

    Args:
        lengths: of the captions; as many as make whole batches.
        words: what the order of the batches depends on, see `base.random_bits`.
        batch_size: examples of a batch.

    Returns:
        (batches, batch_size) int64, which of the examples make up each batch.
    """
    by_length = np.argsort(lengths, kind="stable").reshape(-1, batch_size)
    return by_length[permutation(*words, size=len(by_length))]


class StoredCaptions(CaptionDataset):
    """One split of images that are the same at every visit, each with one caption or more.

    Which images and captions make up a batch is decided here; how the images are read, by the subclasses.
    """

    def __init__(self, *, split: Split, captions: Sequence[tuple[Tokens, ...]], image_shape: tuple[int, int, int]):
        """Keeps the arguments.

        Args:
            split: "train", "valid" or "test".
            captions: of each image, at least one.
            image_shape: (C, H, W) of the images.
        """
        self.split = split
        self.captions = captions
        self.image_shape = image_shape

    @abstractmethod
    def read(self, batches: list[list[int]]) -> Iterator[Tensor]:
        """Reads the images of each batch, given their numbers in the fixed order."""

    def __len__(self) -> int:
        """Number of images."""
        return len(self.captions)

    def vocabulary_captions(self) -> Iterator[Tokens]:
        """All captions; of the training split alone."""
        if self.split != "train":
            raise ValueError(f'words must be counted in the "train" split, got "{self.split}"')
        return (caption for captions in self.captions for caption in captions)

    def epoch(
        self, *, seed: int, epoch: int, batch_size: int, rank: int = 0, world_size: int = 1
    ) -> Iterator[CaptionBatch]:
        """See `CaptionDataset.epoch`; which of its captions an image has depends on (seed, epoch) alone.

        Batches are made in groups of 32: the images of a group are sorted by the length of their captions and cut into
        batches, which come in a random order.
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
        numbers = np.array([len(captions) for captions in self.captions])
        choices = below(random_bits(Stream.CAPTION_CHOICE, stream, seed, epoch, shape=(len(self),)), numbers)
        chosen = [captions[choice] for captions, choice in zip(self.captions, choices, strict=True)]
        lengths = np.array([len(caption) for caption in chosen])
        batches = []
        for group, start in enumerate(range(0, len(order), GROUP)):
            rows = order[start : start + GROUP].ravel()
            words = (Stream.CAPTION_ORDER, stream, seed, epoch, group)
            batches += rows[batches_by_length(lengths[rows], *words, batch_size=batch_size)][:, share].tolist()
        return self._captioned(batches, [(caption,) for caption in chosen])

    def in_order(self, *, batch_size: int, limit: int | None = None) -> Iterator[CaptionBatch]:
        """See `CaptionDataset.in_order`."""
        slices = ordered_batches(len(self), batch_size=batch_size, limit=limit)
        return self._captioned([list(range(rows.start, rows.stop)) for rows in slices], self.captions)

    def _captioned(self, batches: list[list[int]], captions: Sequence[tuple[Tokens, ...]]) -> Iterator[CaptionBatch]:
        for rows, images in zip(batches, self.read(batches), strict=True):
            nowhere, nothing = torch.zeros(len(rows), 0, 4), torch.zeros(len(rows), 0, dtype=torch.int64)
            yield CaptionBatch(images, [list(captions[row]) for row in rows], nowhere, nothing)
