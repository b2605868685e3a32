"""Cache of image features on disk: the annotations that a frozen encoder makes of each photograph, computed once.

A folder holds the features of the three splits:

    features.json   metadata: encoder, hashes of weights and images, shapes
    done.json       number of images of each split that are done
    train.f16       the annotations (L, A) of all images in order, as little-endian 16-bit floats; valid.f16 and
                    test.f16 likewise

Features are appended to a file, and counted once they are on disk: if the process is killed at any moment, the count is
correct, and the next process resumes from it. A cache made with other metadata is neither used nor overwritten.

Shapes: B batch, L places, A annotation size.
"""

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout
from torch import Tensor
from tqdm import tqdm

from glimpse.data.base import Splits
from glimpse.data.captions import CaptionDataset, StoredCaptions
from glimpse.data.photo_captions import PhotoCaptions
from glimpse.distributed import Processes
from glimpse.errors import DataError
from glimpse.files import write_atomically
from glimpse.models.image_encoders import Encoder
from glimpse.models.inference import evaluating

CACHE_FORMAT = "glimpse-features-1"
NUMBER = np.dtype("<f2")
_METADATA, _DONE, _LOCK = "features.json", "done.json", ".lock"
_SYNC_INTERVAL = 256  # images from one fsync to the next


class FeatureDataset(StoredCaptions):
    """Photographs with cached features: the same batches as of `photos`, with features in place of images.

    `image_shape` is that of the photographs.
    """

    def __init__(self, *, photos: PhotoCaptions, features: np.ndarray):
        """Create the data set.

        Args:
            photos: The photographs.
            features: (images, L, A) float16, usually a memory map.
        """
        super().__init__(split=photos.split, captions=photos.captions, image_shape=photos.image_shape)
        self.photos = photos
        self._features = features

    def read(self, batches: list[list[int]]) -> Iterator[Tensor]:
        """See `StoredCaptions.read`: (B, L, A) float32."""
        return (torch.from_numpy(self._features[rows]).float() for rows in batches)


def cache_features(
    splits: Splits[CaptionDataset],
    encoder: Encoder,
    folder: str | Path,
    *,
    name: str,
    batch_size: int,
    processes: Processes,
    log: Callable[[str], None] = print,
) -> Splits[CaptionDataset]:
    """Replace photographs by their features, computing those that are not in the cache.

    Of several processes, the main one computes and the others wait; all must see the same folder.

    Args:
        splits: Three `PhotoCaptions`.
        encoder: Frozen; it is moved to the device of the process.
        folder: The cache. It may not exist, be empty, or hold these features, complete or not.
        name: Name of the encoder, for the metadata and error messages.
        batch_size: Images encoded at a time.
        processes: The processes of the run, and their device.
        log: Called with a line about the features that will be computed, if any.

    Returns:
        Three `FeatureDataset`.

    Raises:
        DataError: If the folder holds anything else, another process is writing to it, or the disk is too small.
    """
    if any(parameter.requires_grad for parameter in encoder.parameters()):
        raise ValueError("encoder must be frozen, got parameters that require gradients: their features would change")
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    cache = _Cache(Path(folder), splits, encoder, name)
    if processes.main:
        try:
            cache.check()
            if not cache.finished():
                with cache.locked():
                    for _ in cache.fill(encoder.to(processes.device), batch_size, log):
                        _all_processes(processes, False)
        except OSError as error:
            raise DataError(f"cannot write features to {folder}: {error.strerror or error}") from error
        _all_processes(processes, True)
    else:
        # One collective call whenever some images are done: a single one at the end would time out.
        while not _all_processes(processes, False):
            pass
        cache.check()
    return cache.open()


def _all_processes(processes: Processes, finished: bool) -> bool:
    """Wait for all processes; return whether the main one has finished."""
    return bool(processes.mean(torch.tensor(float(finished and processes.main), device=processes.device)) > 0)


class _Cache:
    """A folder of features."""

    def __init__(self, folder: Path, splits: Splits[CaptionDataset], encoder: Encoder, name: str):
        self.folder = folder
        self.splits: dict[str, PhotoCaptions] = splits._asdict()
        _, height, width = splits.train.image_shape
        self.shape = (math.prod(encoder.grid(height, width)), encoder.out_dim)  # L, A
        self.image_bytes = math.prod(self.shape) * NUMBER.itemsize
        self.metadata = {
            "format": CACHE_FORMAT,
            "encoder": name,
            "weights": _hash_weights(encoder),
            "places and size of an annotation": list(self.shape),
            "height and width of an image": [height, width],
            **{f"images of {split}": _hash_files(photos) for split, photos in self.splits.items()},
        }

    def check(self) -> None:
        """Refuse a folder that holds anything but these features."""
        if not (self.folder / _METADATA).exists():
            if self.folder.exists() and (not self.folder.is_dir() or self._has_other_files()):
                raise DataError(f"{self.folder} must be empty or a cache of features, got other files")
            return
        stored = self._read(_METADATA)
        changes = [
            f"{key} was {stored.get(key)}, is {value}"
            for key, value in self.metadata.items()
            if stored.get(key) != value
        ]
        if changes:
            raise DataError(
                f"the features in {self.folder} do not match the encoder and images: {'; '.join(changes)}; "
                "delete the folder, or choose another"
            )

    def _has_other_files(self) -> bool:
        return any(path.name != _LOCK and not path.name.endswith(".tmp") for path in self.folder.iterdir())

    def done(self) -> dict[str, int]:
        """Number of images of each split that are done, checked against the sizes of the files."""
        done = self._read(_DONE) if (self.folder / _DONE).exists() else dict.fromkeys(self.splits, 0)
        for split, photos in self.splits.items():
            path, count = self._path(split), done.get(split)
            if not isinstance(count, int) or not 0 <= count <= len(photos):
                raise DataError(
                    f"{self.folder / _DONE} is broken: {split} must be in 0..{len(photos)}, got {count!r}; "
                    "delete the folder, or choose another"
                )
            size = path.stat().st_size if path.exists() else 0
            if size < count * self.image_bytes:
                raise DataError(
                    f"{path} is broken: it must have {count * self.image_bytes:,} bytes for the {count:,} images that "
                    f"are done, got {size:,}; delete the folder, or choose another"
                )
        return {split: done[split] for split in self.splits}

    def finished(self) -> bool:
        """Whether the features of all images are cached."""
        return all(len(self.splits[split]) == count for split, count in self.done().items())

    def open(self) -> Splits[CaptionDataset]:
        """The splits with their features."""
        if not self.finished():
            raise DataError(f"{self.folder} must be a folder that all processes share, got an incomplete cache")
        data = []
        for split, photos in self.splits.items():
            features = np.memmap(self._path(split), NUMBER, mode="r", shape=(len(photos), *self.shape))
            data.append(FeatureDataset(photos=photos, features=np.asarray(features)))
        return Splits(*data)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's lock, which the system releases even if the process is killed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.folder / _LOCK, timeout=0):
                yield
        except Timeout as error:
            raise DataError(
                f"another process is writing features to {self.folder}; wait for it, or choose another folder"
            ) from error

    def fill(self, encoder: Encoder, batch_size: int, log: Callable[[str], None]) -> Iterator[None]:
        """Compute the missing features; yield whenever those computed so far are on disk."""
        self.check()  # again: another process may have written before this one got the lock
        done, images = self.done(), sum(map(len, self.splits.values()))
        ready = sum(done.values())
        places, size = self.shape
        resumed = f"; {ready:,} are done" if ready else ""
        log(
            f"Features of {images:,} images, {places:,} x {size:,} each: {images * self.image_bytes / 1e9:.3g} GB "
            f"in {self.folder}{resumed}"
        )
        needed, free = (images - ready) * self.image_bytes, shutil.disk_usage(self.folder).free
        if needed > free:
            raise DataError(
                f"the disk of {self.folder} must have {needed / 1e9:.3g} GB free for the features, "
                f"got {free / 1e9:.3g} GB; choose another folder, or no cache"
            )
        for leftover in self.folder.glob(".*.tmp"):
            leftover.unlink(missing_ok=True)
        write_atomically(self.folder / _METADATA, (json.dumps(self.metadata, indent=2) + "\n").encode())
        with tqdm(total=images, initial=ready, desc="encoding", unit="image", leave=False, disable=None) as bar:
            for split in self.splits:
                for count in self._fill(split, done[split], encoder, batch_size, bar):
                    done[split] = count
                    write_atomically(self.folder / _DONE, (json.dumps(done) + "\n").encode())
                    yield

    def _fill(self, split: str, first: int, encoder: Encoder, batch_size: int, bar: tqdm) -> Iterator[int]:
        """Compute the features of a split from image `first` on; yield how many images are on disk."""
        photos = self.splits[split]
        starts = range(first, len(photos), batch_size)
        batches = [list(range(start, min(start + batch_size, len(photos)))) for start in starts]
        synced = first
        with open(self._path(split), "ab") as file:
            file.truncate(first * self.image_bytes)  # a killed process may have left uncounted bytes
            for rows, images in zip(batches, photos.read(batches), strict=True):
                file.write(self._encode(encoder, images, [photos.files[row] for row in rows]))
                bar.update(len(rows))
                count = rows[-1] + 1
                if count - synced >= _SYNC_INTERVAL or count == len(photos):
                    file.flush()
                    os.fsync(file.fileno())
                    synced = count
                    yield count

    def _encode(self, encoder: Encoder, images: Tensor, files: list[Path]) -> bytes:
        """The features (B, L, A) of images (B, C, H, W) in the format of the cache."""
        with evaluating(encoder), torch.no_grad():
            features = encoder(images.to(encoder.pixel_mean.device)).cpu()
        halved = features.half()
        is_finite = halved.isfinite().flatten(1).all(1)
        if not is_finite.all():
            index = int((~is_finite).nonzero()[0, 0])
            raise DataError(
                f"features must be finite and below 65,520 to be stored as 16-bit floats, "
                f"got {features[index].abs().max():.3g} of {files[index]}"
            )
        return halved.numpy().astype(NUMBER).tobytes()

    def _path(self, split: str) -> Path:
        return self.folder / f"{split}.f16"

    def _read(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        try:
            content = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise DataError(f"{path} is broken: {error}; delete the folder, or choose another") from error
        if not isinstance(content, dict):
            raise DataError(f"{path} is broken: it must hold an object; delete the folder, or choose another")
        return content


def _hash_weights(encoder: Encoder) -> str:
    """The SHA-256 of all weights and buffers with their names, dtypes and shapes."""
    sha256 = hashlib.sha256()
    for key, value in sorted(encoder.state_dict().items()):
        sha256.update(f"{key} {value.dtype} {tuple(value.shape)}\n".encode())
        sha256.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return sha256.hexdigest()


def _hash_files(photos: PhotoCaptions) -> str:
    """The number of files, and the SHA-256 of their names, sizes and modification times, in order."""
    sha256 = hashlib.sha256()
    for file in photos.files:
        try:
            status = file.stat()
        except OSError as error:
            raise DataError(f"cannot read {file}: {error.strerror}") from error
        sha256.update(f"{file.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return f"{len(photos):,}, sha256 {sha256.hexdigest()}"
