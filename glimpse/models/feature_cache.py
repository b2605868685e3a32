"""Features kept on the disk: what a frozen encoder makes of each photograph, computed once.

A folder holds the features of the three splits:

    features.json   what they are features of: encoder, weights, images, sizes
    done.json       how many images of each split are done
    train.f16       the annotations (L, A) of one image after the other, as little-endian 16-bit floats; so with
                    valid.f16 and test.f16

Images are added at the end of a file, and counted once they are on the disk: a process killed at any moment leaves
whole images and a true count, and the next goes on from there. Features of anything else than what is asked for are
neither used nor overwritten.

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

from glimpse.data.captions import CaptionSplits, StoredCaptions
from glimpse.data.photo_captions import PhotoCaptions
from glimpse.distributed import Processes
from glimpse.errors import DataError
from glimpse.files import write_atomically
from glimpse.models.image_encoders import Encoder
from glimpse.models.inference import evaluating

FORMAT = "glimpse-features-1"
NUMBER = np.dtype("<f2")
_ABOUT, _DONE, _LOCK = "features.json", "done.json", ".lock"
_SAVED = 256  # images after which what is done is made safe


class FeatureDataset(StoredCaptions):
    """Photographs whose features are on the disk: the same batches with features for images, and nothing decoded.

    `image_shape` is that of the photographs, which `photos` still has.
    """

    def __init__(self, *, photos: PhotoCaptions, features: np.ndarray):
        """Keeps the arguments.

        Args:
            photos: the photographs.
            features: (images, L, A) float16, of each of them; usually a memory map.
        """
        super().__init__(split=photos.split, captions=photos.captions, image_shape=photos.image_shape)
        self.photos = photos
        self._features = features

    def read(self, batches: list[list[int]]) -> Iterator[Tensor]:
        """See `StoredCaptions.read`: (B, L, A) float32."""
        return (torch.from_numpy(self._features[rows]).float() for rows in batches)


def cache_features(
    splits: CaptionSplits,
    encoder: Encoder,
    folder: str | Path,
    *,
    name: str,
    batch_size: int,
    processes: Processes,
    log: Callable[[str], None] = print,
) -> CaptionSplits:
    """Replaces photographs by their features, which are computed and kept unless they have been.

    Of several processes the first one computes, the others wait; all have to see the folder.

    Args:
        splits: three `PhotoCaptions`.
        encoder: what makes the features. It must be frozen, and goes to the device of the process.
        folder: where to keep them; none yet, an empty one, or one with these features, all or some.
        name: of the encoder, to tell the user which it was.
        batch_size: images to encode at a time.
        processes: who shares the work, and where to compute.
        log: told in a line what is about to be computed, if anything is.

    Returns:
        Three `FeatureDataset`.

    Raises:
        DataError: If the folder holds something else, another process is writing there, or the disk is too small.
    """
    if any(parameter.requires_grad for parameter in encoder.parameters()):
        raise ValueError("the encoder must be frozen: features that are kept do not follow what it learns")
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
            raise DataError(f"cannot keep features in {folder}: {error.strerror or error}") from error
        _all_processes(processes, True)
    else:
        # A meeting whenever some images are done: processes that wait for all of them would give up at some time.
        while not _all_processes(processes, False):
            pass
        cache.check()
    return cache.open()


def _all_processes(processes: Processes, finished: bool) -> bool:
    """Wait for all processes; whether the main one has finished."""
    return bool(processes.mean(torch.tensor(float(finished and processes.main), device=processes.device)) > 0)


class _Cache:
    """A folder of features."""

    def __init__(self, folder: Path, splits: CaptionSplits, encoder: Encoder, name: str):
        self.folder = folder
        self.splits: dict[str, PhotoCaptions] = splits._asdict()
        _, height, width = splits.train.image_shape
        self.shape = (math.prod(encoder.grid(height, width)), encoder.out_dim)  # L, A
        self.bytes = math.prod(self.shape) * NUMBER.itemsize  # of an image
        self.about = {
            "format": FORMAT,
            "encoder": name,
            "weights": _hash_weights(encoder),
            "places and size of an annotation": list(self.shape),
            "height and width of an image": [height, width],
            **{f"images of {split}": _hash_files(photos) for split, photos in self.splits.items()},
        }

    def check(self) -> None:
        """Raises an error if the folder holds anything else than these features."""
        if not (self.folder / _ABOUT).exists():
            if self.folder.exists() and (not self.folder.is_dir() or self._has_other_files()):
                raise DataError(f"{self.folder} holds something else than features; choose another folder for them")
            return
        before = self._read(_ABOUT)
        changes = [
            f"{key} was {before.get(key)}, is {value}" for key, value in self.about.items() if before.get(key) != value
        ]
        if changes:
            raise DataError(
                f"the features in {self.folder} are others than those asked for: {'; '.join(changes)}; "
                "delete the folder, or choose another"
            )

    def _has_other_files(self) -> bool:
        return any(path.name != _LOCK and not path.name.endswith(".tmp") for path in self.folder.iterdir())

    def done(self) -> dict[str, int]:
        """How many images of each split are done, as far as the files go."""
        done = self._read(_DONE) if (self.folder / _DONE).exists() else dict.fromkeys(self.splits, 0)
        for split, photos in self.splits.items():
            path, count = self._path(split), done.get(split)
            if not isinstance(count, int) or not 0 <= count <= len(photos):
                raise DataError(
                    f"{self.folder / _DONE} is broken: {split} must be in 0..{len(photos)}, got {count!r}; "
                    "delete the folder, or choose another"
                )
            size = path.stat().st_size if path.exists() else 0
            if size < count * self.bytes:
                raise DataError(
                    f"{path} is broken: it must have {count * self.bytes:,} bytes for the {count:,} images that are "
                    f"done, got {size:,}; delete the folder, or choose another"
                )
        return {split: done[split] for split in self.splits}

    def finished(self) -> bool:
        """Whether all images are done."""
        return all(len(self.splits[split]) == count for split, count in self.done().items())

    def open(self) -> CaptionSplits:
        """The splits, with their features."""
        if not self.finished():
            raise DataError(f"{self.folder} must be the same folder for all processes, but here it is not complete")
        data = []
        for split, photos in self.splits.items():
            features = np.memmap(self._path(split), NUMBER, mode="r", shape=(len(photos), *self.shape))
            data.append(FeatureDataset(photos=photos, features=np.asarray(features)))
        return CaptionSplits(*data)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from writing; the system takes the lock back whichever way this one ends."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.folder / _LOCK, timeout=0):
                yield
        except Timeout as error:
            raise DataError(
                f"another process is writing features to {self.folder}; wait for it, or choose another folder"
            ) from error

    def fill(self, encoder: Encoder, batch_size: int, log: Callable[[str], None]) -> Iterator[None]:
        """Computes what is missing, and yields whenever what is done has been made safe."""
        self.check()  # once more: another process may have been here before the lock
        done, images = self.done(), sum(map(len, self.splits.values()))
        ready = sum(done.values())
        places, size = self.shape
        going_on = f"; {ready:,} are done" if ready else ""
        log(
            f"Features of {images:,} images, {places:,} x {size:,} each: {images * self.bytes / 1e9:.3g} GB "
            f"in {self.folder}{going_on}"
        )
        needed, free = (images - ready) * self.bytes, shutil.disk_usage(self.folder).free
        if needed > free:
            raise DataError(
                f"the disk of {self.folder} must have {needed / 1e9:.3g} GB free for the features, "
                f"got {free / 1e9:.3g} GB; choose another folder, or keep no features"
            )
        for leftover in self.folder.glob(".*.tmp"):
            leftover.unlink(missing_ok=True)
        write_atomically(self.folder / _ABOUT, (json.dumps(self.about, indent=2) + "\n").encode())
        with tqdm(total=images, initial=ready, desc="encoding", unit="image", leave=False, disable=None) as bar:
            for split in self.splits:
                for count in self._fill(split, done[split], encoder, batch_size, bar):
                    done[split] = count
                    write_atomically(self.folder / _DONE, (json.dumps(done) + "\n").encode())
                    yield

    def _fill(self, split: str, first: int, encoder: Encoder, batch_size: int, bar: tqdm) -> Iterator[int]:
        """Computes the features of a split from an image on; yields how many are on the disk."""
        photos = self.splits[split]
        starts = range(first, len(photos), batch_size)
        batches = [list(range(start, min(start + batch_size, len(photos)))) for start in starts]
        safe = first
        with open(self._path(split), "ab") as file:
            file.truncate(first * self.bytes)  # a process that was killed may have left more, or half an image
            for rows, images in zip(batches, photos.read(batches), strict=True):
                file.write(self._encode(encoder, images, [photos.files[row] for row in rows]))
                bar.update(len(rows))
                count = rows[-1] + 1
                if count - safe >= _SAVED or count == len(photos):
                    file.flush()
                    os.fsync(file.fileno())
                    safe = count
                    yield count

    def _encode(self, encoder: Encoder, images: Tensor, files: list[Path]) -> bytes:
        """The features (B, L, A) of images (B, C, H, W), as they are kept."""
        with evaluating(encoder), torch.no_grad():
            features = encoder(images.to(encoder.pixel_mean.device)).cpu()
        kept = features.half()
        fits = kept.isfinite().flatten(1).all(1)
        if not fits.all():
            index = int((~fits).nonzero()[0, 0])
            raise DataError(
                f"features must be finite and below 65,520 to be kept as 16-bit floats, "
                f"got {features[index].abs().max():.3g} of {files[index]}"
            )
        return kept.numpy().astype(NUMBER).tobytes()

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
    """The sha256 of all weights and buffers with their names, shapes and types."""
    sha256 = hashlib.sha256()
    for key, value in sorted(encoder.state_dict().items()):
        sha256.update(f"{key} {value.dtype} {tuple(value.shape)}\n".encode())
        sha256.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return sha256.hexdigest()


def _hash_files(photos: PhotoCaptions) -> str:
    """The number of files, and the sha256 of their names, sizes and times of change, in their order."""
    sha256 = hashlib.sha256()
    for file in photos.files:
        try:
            status = file.stat()
        except OSError as error:
            raise DataError(f"cannot read {file}: {error.strerror}") from error
        sha256.update(f"{file.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return f"{len(photos):,}, sha256 {sha256.hexdigest()}"
