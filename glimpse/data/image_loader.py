"""Images of one size as a `Dataset`, read from any torchvision-style source when they are needed.

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
    """One split: some of the items of a torchvision data set."""

    source: Any  # source[i] is (PIL image, label)
    indices: np.ndarray  # (size,) int64
    name: str

    def read(self, index: int) -> tuple[Image.Image, int | None]:
        """One item, any failure as an error that names it."""
        try:
            return self.source[index]
        except Exception as error:  # image decoders raise OSError, SyntaxError, struct.error and more
            raise DataError(f"cannot read {self.describe(index)}: {error}") from error

    def describe(self, index: int) -> str:
        """The file of an item, where there is one."""
        if isinstance(self.source, DatasetFolder):
            return str(self.source.samples[index][0])
        return f"image {index} of {self.name}"


class ImageData(Dataset):
    """Images of one size, read when they are needed.

    `in_order` visits them in a fixed shuffled order, so that the first few hundred are a fair sample even
    though most data sets are stored class by class.
    """

    multi_label = False

    def __init__(
        self,
        *,
        part: Subset,
        class_names: tuple[str, ...],
        image_shape: tuple[int, int, int],
        resize: bool,
        workers: int,
    ):
        """Keeps the arguments; made by `torchvision_data` and `image_folder`.

        Args:
            part: where the images are.
            class_names: names by class index.
            image_shape: (C, H, W) of the batches.
            resize: whether images of another size are resized or refused.
            workers: number of processes that read images; 0 reads in this one.
        """
        self._part = part._replace(indices=part.indices[permutation(Stream.FROZEN, 0, size=len(part.indices))])
        self._resize, self._workers = resize, workers
        self.class_names, self.num_classes = class_names, len(class_names)
        self.image_shape = image_shape

    def __len__(self) -> int:
        """Number of images."""
        return len(self._part.indices)

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
        """Reads one batch; called by the DataLoader, possibly in another process.

        Args:
            rows: which examples, in 0..len-1.

        Returns:
            The batch, or the error; see `read_batches`.
        """
        try:
            images, labels = zip(*(self._item(int(self._part.indices[row])) for row in rows), strict=True)
        except DataError as error:
            return error
        return Batch(torch.stack(images), torch.tensor(labels), torch.zeros(len(rows), 0, 4))

    def _item(self, index: int) -> tuple[Tensor, int]:
        """One image (C, H, W) uint8 and its class."""
        image, label = self._part.read(index)
        if label is None or not 0 <= label < self.num_classes:
            raise DataError(f"{self._part.describe(index)} must have a label in [0, {self.num_classes}), got {label}")
        channels, height, width = self.image_shape
        if image.mode[0] in "IF":
            raise DataError(f"{self._part.describe(index)} must have 8 bits per channel, got image mode {image.mode}")
        if not self._resize and (image.height, image.width) != (height, width):
            raise DataError(
                f"{self._part.describe(index)} is {image.height} x {image.width} (height x width) "
                f"but the first image is {height} x {width}; set size=(height, width), data.size in a config, "
                "to resize all images"
            )
        pixels = functional.pil_to_tensor(image.convert("L" if channels == 1 else "RGB"))
        return functional.resize(pixels, [height, width], antialias=True), int(label)


def make_splits(
    *parts: Subset,
    class_names: tuple[str, ...],
    size: tuple[int, int] | None,
    channels: Literal[1, 3] | None,
    workers: int,
) -> Splits:
    """Data sets of the parts, with what is not given taken from the first training image."""
    first, _ = parts[0].read(0)
    shape = (channels or (1 if first.mode in _GRAY_MODES else 3), *(size or (first.height, first.width)))
    return Splits(
        *(
            ImageData(
                part=part,
                class_names=class_names,
                image_shape=shape,
                resize=size is not None,
                workers=workers,
            )
            for part in parts
        )
    )


def read_batches(source: Any, batches: list[list[int]], workers: int) -> Iterator[Any]:
    """Reads one batch after the other, if wanted in processes of their own.

    Args:
        source: `source.__getitems__(rows)` reads a batch. An error is to be returned, not raised: a worker process
            would bury it in a traceback.
        batches: which rows make up each batch.
        workers: number of processes that read; 0 reads in this one.

    Returns:
        An iterator of what was read.

    Raises:
        DataError: If one is returned, when its turn comes.
    """
    loader = DataLoader(
        source,
        batch_sampler=batches,
        num_workers=workers,
        collate_fn=_as_is,
        generator=torch.Generator(),  # otherwise it would draw from, and so change, the global one
    )
    for batch in loader:
        if isinstance(batch, DataError):
            raise batch
        yield batch


def _as_is(batch: Any) -> Any:
    """Stands in for the DataLoader's own collation; a function, not a lambda, so that it can be pickled."""
    return batch
