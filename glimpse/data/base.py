"""The interface of classification data sets, and the batching that all data sets share.

Shapes: B batch, C channels, H height, W width, N boxes per image.

Random numbers are pure functions of a few integers (stream, seed, epoch, batch index), see `glimpse.seeding`: a resumed
run needs no saved state, and processes agree without communicating.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from glimpse.errors import DataError
from glimpse.seeding import Stream, permutation

D = TypeVar("D", covariant=True)


class Batch(NamedTuple):
    """Images with their targets."""

    images: Tensor  # (B, C, H, W) uint8
    targets: Tensor  # (B,) int64 class index, or (B, classes) float32 multi-hot
    boxes: Tensor  # (B, N, 4) float32: x0, y0, x1, y1 in pixels, half-open; N = 0 when unknown


class Dataset(ABC):
    """A classification data set, visited shuffled (training) or in a fixed order (scoring)."""

    num_classes: int
    class_names: tuple[str, ...]
    image_shape: tuple[int, int, int]  # (C, H, W)
    multi_label: bool

    @abstractmethod
    def __len__(self) -> int:
        """Number of examples."""

    @abstractmethod
    def epoch(self, *, seed: int, epoch: int, batch_size: int, rank: int = 0, world_size: int = 1) -> Iterator[Batch]:
        """Iterate over the examples once, shuffled, in whole batches; a last incomplete batch is dropped.

        Args:
            seed: Seed of the run. Batch i depends on (seed, epoch, i) and on nothing else.
            epoch: Number of the epoch, from 0.
            batch_size: Size of the *global* batch; must be a multiple of `world_size`.
            rank: Number of this process, from 0.
            world_size: Number of processes. Each gets a contiguous share of the rows of every global batch: the shares
                of all ranks, concatenated in order, are the batch that a single process would get.

        Returns:
            An iterator of batches of `batch_size // world_size` examples.
        """

    @abstractmethod
    def in_order(self, *, batch_size: int, limit: int | None = None) -> Iterator[Batch]:
        """Iterate over all examples once, in a fixed order, with the same images each time.

        Args:
            batch_size: Examples per batch; the last batch may be smaller. The examples do not depend on it.
            limit: Stop after this many examples; None: visit all.

        Returns:
            An iterator of batches.
        """

    def select(self, indices: Sequence[int]) -> Batch:
        """A batch of chosen examples.

        Args:
            indices: Positions in the fixed order, in any order; one may occur several times.

        Raises:
            IndexError: If there is no such position.
        """
        if invalid := [index for index in indices if not 0 <= index < len(self)]:
            raise IndexError(f"indices must be in 0..{len(self) - 1}, got {invalid[0]}")
        wanted = set(indices)
        batches = enumerate(self.in_order(batch_size=1, limit=max(indices) + 1))
        found = {index: batch for index, batch in batches if index in wanted}
        return Batch(*(torch.cat(field) for field in zip(*(found[index] for index in indices), strict=True)))


class Splits(NamedTuple, Generic[D]):
    """The training, validation and test split of a data set."""

    train: D
    valid: D
    test: D


def little_endian(tensor: Tensor) -> memoryview:
    """The contents of a tensor in little-endian byte order, to be hashed."""
    array = tensor.numpy()
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data


def shuffled_batches(
    size: int, *, stream: int, seed: int, epoch: int, batch_size: int, rank: int, world_size: int
) -> tuple[np.ndarray, slice]:
    """Check the arguments of `Dataset.epoch` and shuffle the examples.

    Args:
        size: Number of examples.
        stream: Second seed word, which gives data sets of the same seed different orders.
        seed: See `Dataset.epoch`, as for all other arguments.
        epoch: Number of the epoch.
        batch_size: Size of the global batch.
        rank: Number of this process.
        world_size: Number of processes.

    Returns:
        Example indices (num_batches, batch_size), and the slice of each row that belongs to `rank`.
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
    """Check the arguments of `Dataset.in_order` and cut 0..size-1, or the first `limit`, into slices."""
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be at least 1 or None, got {limit}")
    stop = size if limit is None else min(size, limit)
    return [slice(start, min(start + batch_size, stop)) for start in range(0, stop, batch_size)]
