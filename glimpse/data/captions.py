"""What every caption data set offers.

Shapes: B batch, C channels, H height, W width, N boxes per image.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor

Words = tuple[str, ...]  # a caption: lower-case words without punctuation


class Captioned(NamedTuple):
    """Images with captions."""

    images: Tensor  # (B, C, H, W) uint8
    captions: list[list[Words]]  # B lists: one caption each in training, all references in scoring
    boxes: Tensor  # (B, N, 4) float32: x0, y0, x1, y1 in pixels, half-open; zeros where there is none; N = 0 if unknown
    classes: Tensor  # (B, N) int64: what is in each box; -1 where there is none


class CaptionData(ABC):
    """A caption data set that can be visited shuffled (training) or in a fixed order (scoring)."""

    image_shape: tuple[int, int, int]  # (C, H, W)

    @abstractmethod
    def __len__(self) -> int:
        """Number of images."""

    @abstractmethod
    def vocabulary_captions(self) -> Iterator[Words]:
        """Captions to count words in; of training data only."""

    @abstractmethod
    def epoch(
        self, *, seed: int, epoch: int, batch_size: int, rank: int = 0, world_size: int = 1
    ) -> Iterator[Captioned]:
        """Visits the images once, shuffled, each with one caption; a last incomplete batch is dropped.

        Captions of a batch are of about the same length, so that little is padded. For the arguments see
        `DataSet.epoch`: batch i depends on (seed, epoch, i) alone, and the shares of all ranks make up the batch.
        """

    @abstractmethod
    def in_order(self, *, batch_size: int, limit: int | None = None) -> Iterator[Captioned]:
        """Visits every image once, in a fixed order, with all its references, the same each time."""


class CaptionSplits(NamedTuple):
    """The three parts of a caption data set."""

    train: CaptionData
    valid: CaptionData
    test: CaptionData
