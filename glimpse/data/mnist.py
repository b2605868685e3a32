"""MNIST from files embedded in the package, unpacked once into a cache folder.

The cache folder is the platform's cache folder for "glimpse", or that of the environment variable GLIMPSE_CACHE. It has
torchvision's layout, `<cache>/MNIST/raw/<name>`, so `torchvision.datasets.MNIST(root=<cache>)` reads it too.
"""

import gzip
import hashlib
import os
import uuid
import zlib
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

import numpy as np
import platformdirs
from torchvision.datasets import MNIST

from glimpse.errors import DataError

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")

# Checksums of the unpacked files.
SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
_VALID_START = 50_000  # the last 10,000 of the 60,000 training images are the validation split


@lru_cache
def load_mnist(split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Load one split: train is the first 50,000 training images, valid the last 10,000.

    Args:
        split: "train", "valid" or "test".

    Returns:
        Images (N, 28, 28) uint8 and labels (N,) int64; read-only, because all callers share them.
    """
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}, got {split!r}")
    folder = unpack_mnist() / "MNIST" / "raw"
    stem = "t10k" if split == "test" else "train"
    for kind in ("images-idx3-ubyte", "labels-idx1-ubyte"):
        _verify(folder / f"{stem}-{kind}")
    images, labels = _read(folder.parents[1], split != "test")
    rows = {"train": slice(_VALID_START), "valid": slice(_VALID_START, None), "test": slice(None)}[split]
    return images[rows], labels[rows]


def unpack_mnist() -> Path:
    """Unpack the MNIST files that are missing from the cache folder.

    Safe against crashes and concurrent processes: a file gets its name only when it is complete and verified.

    Returns:
        The cache folder, the `root` of `torchvision.datasets.MNIST`.
    """
    override = os.environ.get("GLIMPSE_CACHE")
    cache = Path(override) if override else platformdirs.user_cache_path("glimpse")
    packed = files("glimpse.data") / "mnist_idx"
    for name in SHA256:
        path = cache / "MNIST" / "raw" / name
        if not path.is_file():
            _unpack(packed / f"{name}.gz", path)
    return cache


def _unpack(packed: Traversable, path: Path) -> None:
    """Decompress a file, verify it, and move it to `path` atomically."""
    try:
        content = gzip.decompress(packed.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"embedded file {packed} is missing or corrupt ({error}): reinstall glimpse") from error
    if hashlib.sha256(content).hexdigest() != SHA256[path.name]:
        raise DataError(f"embedded file {packed} is corrupt (wrong sha256): reinstall glimpse")
    # Unique, so that two processes never write to the same file.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())  # otherwise a power failure could leave an empty file under the final name
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(
            f"cannot write MNIST to the cache folder {path.parent} ({error}); set the environment variable "
            "GLIMPSE_CACHE to a writable folder"
        ) from error


def _verify(path: Path) -> None:
    """Raise a DataError unless the file has the expected checksum."""
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(f"cannot read {path} ({error})") from error
    if digest != SHA256[path.name]:
        raise DataError(
            f"{path} is corrupt: its sha256 is {digest}, expected {SHA256[path.name]}. "
            "Delete it and it will be unpacked again"
        )


@lru_cache
def _read(root: Path, train: bool) -> tuple[np.ndarray, np.ndarray]:
    """Read all images (N, 28, 28) uint8 and labels (N,) int64 of one of torchvision's two splits, read-only."""
    data = MNIST(str(root), train=train)
    arrays = data.data.numpy(), data.targets.numpy()
    for array in arrays:
        array.setflags(write=False)
    return arrays
