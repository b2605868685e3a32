"""A `Dataset` of images of one size, read on demand from any torchvision-style source.

Shapes: B batch, C channels, H height, W width.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader
from torchvision.datasets import DatasetFolder
from torchvision.transforms.v2 import functional

from glimpse.data.base import Batch, Dataset, Splits, ordered_batches, shuffled_batches
from glimpse.errors import DataError
from glimpse.seeding import Stream, permutation

_GRAY_MODES = {"1", "L", "LA", "La"}


class Subset(NamedTuple):
    """One split: a subset of the items of a torchvision data set."""

    source: Any  # source[i] is (PIL image, label)
    indices: np.ndarray  # (size,) int64
    name: str  # for error messages

    def read(self, index: int) -> tuple[Image.Image, int | None]:
        """Read one item of the source; any failure is a DataError that names the item."""
        try:
            return self.source[index]
        except Exception as error:  # image decoders raise OSError, SyntaxError, struct.error and more
            raise DataError(f"cannot read {self.describe(index)}: {error}") from error

    def describe(self, index: int) -> str:
        """The file of an item, or its index if it has no file."""
        if isinstance(self.source, DatasetFolder):
            return str(self.source.samples[index][0])
        return f"image {index} of {self.name}"


class ImageData(Dataset):
    """Images of one size, read on demand.

    `in_order` visits them in a fixed random order, so that the first few hundred are a representative sample although
    most data sets are sorted by class.
    """

    multi_label = False

    def __init__(
        self,
        *,
        subset: Subset,
        class_names: tuple[str, ...],
        image_shape: tuple[int, int, int],
        resize: bool,
        workers: int,
    ):
        """Create the split; called by `torchvision_data` and `image_folder`.

        Args:
            subset: Source of the images.
            class_names: Names by class index.
            image_shape: (C, H, W) of the batches.
            resize: Whether images of another size are resized; otherwise they are an error.
            workers: Number of data loader processes; 0: read in the main process.
        """
        order = permutation(Stream.FROZEN, 0, size=len(subset.indices))
        self._subset = subset._replace(indices=subset.indices[order])
        self._resize, self._workers = resize, workers
        self.class_names, self.num_classes = class_names, len(class_names)
        self.image_shape = image_shape

    def __len__(self) -> int:
        """Number of images."""
        return len(self._subset.indices)

    def epoch(self, *, seed: int, epoch: int, batch_size: int, rank: int = 0, world_size: int = 1) -> Iterator[Batch]:
        """See `Dataset.epoch`."""
        order, share = shuffled_batches(
            len(self),
            stream=0,
            seed=seed,
            epoch=epoch,
            batch_size=batch_size,
            rank=rank,
            world_size=world_size,
        )
        return read_batches(self, [rows[share].tolist() for rows in order], self._workers)

    def in_order(self, *, batch_size: int, limit: int | None = None) -> Iterator[Batch]:
        """See `Dataset.in_order`."""
        slices = ordered_batches(len(self), batch_size=batch_size, limit=limit)
        return read_batches(self, [list(range(rows.start, rows.stop)) for rows in slices], self._workers)

    def select(self, indices: Sequence[int]) -> Batch:
        """See `Dataset.select`."""
        batch = self.__getitems__(list(indices))
        if isinstance(batch, DataError):
            raise batch
        return batch

    def __getitems__(self, rows: list[int]) -> Batch | DataError:
        """Read one batch; called by the DataLoader, possibly in a worker process.

        Args:
            rows: Indices of the examples, in 0..len-1.

        Returns:
            The batch, or an error; see `read_batches`.
        """
        try:
            images, labels = zip(*(self._item(int(self._subset.indices[row])) for row in rows), strict=True)
        except DataError as error:
            return error
        return Batch(torch.stack(images), torch.tensor(labels), torch.zeros(len(rows), 0, 4))

    def _item(self, index: int) -> tuple[Tensor, int]:
        """One image (C, H, W) uint8 and its class."""
        image, label = self._subset.read(index)
        if label is None or not 0 <= label < self.num_classes:
            raise DataError(f"{self._subset.describe(index)} must have a label in [0, {self.num_classes}), got {label}")
        channels, height, width = self.image_shape
        if image.mode[0] in "IF":
            raise DataError(f"{self._subset.describe(index)} must have 8 bits per channel, got image mode {image.mode}")
        if not self._resize and (image.height, image.width) != (height, width):
            raise DataError(
                f"{self._subset.describe(index)} is {image.height} x {image.width} (height x width) "
                f"but the first image is {height} x {width}; set size=(height, width) (data.size in a config) "
                "to resize all images"
            )
        pixels = functional.pil_to_tensor(image.convert("L" if channels == 1 else "RGB"))
        return functional.resize(pixels, [height, width], antialias=True), int(label)


def make_splits(
    *subsets: Subset,
    class_names: tuple[str, ...],
    size: tuple[int, int] | None,
    channels: Literal[1, 3] | None,
    workers: int,
) -> Splits[Dataset]:
    """Create the splits from their subsets; None for size or channels: those of the first training image."""
    first, _ = subsets[0].read(0)
    shape = (channels or (1 if first.mode in _GRAY_MODES else 3), *(size or (first.height, first.width)))
    return Splits(
        *(
            ImageData(
                subset=subset,
                class_names=class_names,
                image_shape=shape,
                resize=size is not None,
                workers=workers,
            )
            for subset in subsets
        )
    )


def read_batches(source: Any, batches: list[list[int]], workers: int) -> Iterator[Any]:
    """Iterate over batches read by a DataLoader.

    Args:
        source: `source.__getitems__(rows)` reads a batch. It returns a DataError rather than raising it, because a
            worker process would wrap it in a traceback.
        batches: Row indices of each batch.
        workers: Number of data loader processes; 0: read in the main process.

    Returns:
        An iterator of the batches.

    Raises:
        DataError: If the next batch is a DataError.
    """
    loader = DataLoader(
        source,
        batch_sampler=batches,
        num_workers=workers,
        collate_fn=_identity,
        generator=torch.Generator(),  # otherwise it would advance the global generator
    )
    for batch in loader:
        if isinstance(batch, DataError):
            raise batch
        yield batch


def _identity(batch: Any) -> Any:
    """Replaces the default collation of the DataLoader; not a lambda, because it must be picklable."""
    return batch
