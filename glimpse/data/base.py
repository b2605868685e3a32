"""What every data set offers, and the random numbers they share.

Shapes: B batch, C channels, H height, W width, N boxes per image.

Every random choice is a pure function of a few integers (which stream, seed, epoch, batch index), so a
resumed run needs no saved state and several processes agree without talking. The integers are derived from
raw Philox output by the few lines below, because NumPy keeps bit generators stable for ever but not the
distributions built on them.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from glimpse.errors import DataError
from glimpse.seeding import Stream, permutation


class Batch(NamedTuple):
    """Images with their targets."""

    images: Tensor  # (B, C, H, W) uint8
    targets: Tensor  # (B,) int64 class index, or (B, classes) float32 multi-hot
    boxes: Tensor  # (B, N, 4) float32: x0, y0, x1, y1 in pixels, half-open; N = 0 when unknown


class Dataset(ABC):
    """A classification data set that can be visited shuffled (training) or in a fixed order (scoring)."""

    num_classes: int
    class_names: tuple[str, ...]
    image_shape: tuple[int, int, int]  # (C, H, W)
    multi_label: bool

    @abstractmethod
    def __len__(self) -> int:
        """Number of examples."""

    @abstractmethod
    def epoch(self, *, seed: int, epoch: int, batch_size: int, rank: int = 0, world_size: int = 1) -> Iterator[Batch]:
        """Visits the examples once, shuffled, in whole batches; a last incomplete batch is dropped.

        Args:
            seed: the run's seed. Batch i depends on (seed, epoch, i) and on nothing else.
            epoch: number of this visit, from 0.
            batch_size: size of the *global* batch; must be a multiple of `world_size`.
            rank: which process this is, from 0.
            world_size: number of processes. Each gets its contiguous share of the rows of every global
                batch: the shares concatenated in order of rank are the batch that one process would get.

        Returns:
            An iterator of batches of `batch_size // world_size` examples.
        """

    @abstractmethod
    def in_order(self, *, batch_size: int, limit: int | None = None) -> Iterator[Batch]:
        """Visits every example once, in a fixed order, with the same images each time.

        Args:
            batch_size: number of examples at a time (the last batch may be short); changes nothing else.
            limit: stop after this many examples; None for all.

        Returns:
            An iterator of batches.
        """

    def select(self, indices: Sequence[int]) -> Batch:
        """Some examples of the fixed order, a row for each.

        Args:
            indices: any of 0..len - 1, in any order.
        """
        wanted = {index: None for index in indices}
        for index, batch in enumerate(self.in_order(batch_size=1, limit=max(indices) + 1)):
            if index in wanted:
                wanted[index] = batch
        rows = [wanted[index] for index in indices]
        return Batch(*(torch.cat(field) for field in zip(*rows, strict=True)))


class Splits(NamedTuple):
    """The three parts of a data set."""

    train: Dataset
    valid: Dataset
    test: Dataset


def shuffled_batches(
    size: int, *, stream: int, seed: int, epoch: int, batch_size: int, rank: int, world_size: int
) -> tuple[np.ndarray, slice]:
    """Checks the arguments of `Dataset.epoch` and shuffles the examples.

    Args:
        size: number of examples.
        stream: second seed word, to tell data sets apart that are shuffled with the same seed.
        seed: see `Dataset.epoch`, as are the remaining arguments.
        epoch: number of this visit.
        batch_size: size of the global batch.
        rank: number of this process.
        world_size: number of processes.

    Returns:
        Example indices (num_batches, batch_size) and the slice of each row that belongs to `rank`.
    """
    for name, value in (("seed", seed), ("epoch", epoch)):
        # Larger integers would take several seed words and so could collide with another seed.
        if not 0 <= value < 2**32:
            raise ValueError(f"{name} must be in [0, 2**32), got {value}")
    if world_size < 1 or not 0 <= rank < world_size:
        raise ValueError(f"rank must be in [0, world_size), got rank {rank} of world_size {world_size}")
    if batch_size < 1 or batch_size % world_size:
        raise ValueError(f"batch_size must be a positive multiple of world_size {world_size}, got {batch_size}")
    num_batches = size // batch_size
    if num_batches == 0:
        raise DataError(f"batch_size must be at most the {size} examples of the data set, got {batch_size}")
    order = permutation(Stream.PERMUTATION, stream, seed, epoch, size=size)[: num_batches * batch_size]
    share = batch_size // world_size
    return order.reshape(num_batches, batch_size), slice(rank * share, (rank + 1) * share)


def ordered_batches(size: int, *, batch_size: int, limit: int | None) -> list[slice]:
    """Checks the arguments of `Dataset.in_order` and cuts 0..size-1, or the first `limit`, into slices."""
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be at least 1 or None, got {limit}")
    stop = size if limit is None else min(size, limit)
    return [slice(start, min(start + batch_size, stop)) for start in range(0, stop, batch_size)]
