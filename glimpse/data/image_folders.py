"""Classification data sets of torchvision, and folders of images."""

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image, ImageOps
from torchvision import datasets

from glimpse.data.base import Dataset, Splits
from glimpse.data.image_loader import Subset, make_splits
from glimpse.errors import DataError
from glimpse.seeding import Stream, permutation

# These have the signature of a classification data set, but their targets are attributes, boxes or masks.
_NOT_CLASSIFICATION = {"CelebA", "Cityscapes", "Kitti", "WIDERFace"}


def torchvision_names() -> list[str]:
    """Names of torchvision's dataset classes for classification that have a train and a test split."""
    names = []
    for name, cls in inspect.getmembers(datasets, inspect.isclass):
        parameters = inspect.signature(cls).parameters
        required = [p.name for p in parameters.values() if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
        split = parameters["split"].default if "split" in parameters else None
        if (
            required == ["root"]
            and ("train" in parameters or split in ("train", "trainval"))
            and _accepts(cls, "transform")
            and name not in _NOT_CLASSIFICATION
        ):
            names.append(name)
    return names


def torchvision_data(
    *,
    name: str,
    root: str | Path,
    size: tuple[int, int] | None = None,
    download: bool = False,
    valid_fraction: float = 0.1,
    channels: Literal[1, 3] | None = None,
    workers: int = 0,
) -> Splits[Dataset]:
    """Open a classification data set of torchvision.

    Without a validation split, a fixed random `valid_fraction` of the training images is held out. With a validation
    but no test split, as in ImageNet, the validation split becomes the test split.

    Args:
        name: Class name in `torchvision.datasets`, such as "CIFAR10".
        root: Folder of the data set, in torchvision's layout.
        size: (H, W) to resize to; None: all images have the size of the first one.
        download: Whether torchvision downloads the data set to `root` if it is missing.
        valid_fraction: Fraction of the training images to hold out, if needed.
        channels: 1: grayscale, 3: RGB, None: as in the first image.
        workers: Number of data loader processes; 0: read in the main process.
    """
    _check(size=size, channels=channels, workers=workers, valid_fraction=valid_fraction)
    names = torchvision_names()
    if name not in names:
        raise DataError(f"name must be one of {', '.join(names)}, got {name!r}")
    cls = getattr(datasets, name)
    train, valid, test = _open_splits(cls, root, download)
    kept = np.arange(len(train))
    if valid is None:
        kept, held_out = _hold_out(np.zeros(len(train)), [valid_fraction], [name])
        valid_subset = Subset(train, held_out, f"{name} train")
    else:
        valid_subset = Subset(valid, np.arange(len(valid)), f"{name} valid")
    return make_splits(
        Subset(train, kept, f"{name} train"),
        valid_subset,
        Subset(test, np.arange(len(test)), f"{name} test"),
        class_names=_class_names(train),
        size=size,
        channels=channels,
        workers=workers,
    )


def image_folder(
    *,
    root: str | Path,
    size: tuple[int, int] | None = None,
    valid_fraction: float = 0.1,
    test_fraction: float = 0.1,
    channels: Literal[1, 3] | None = None,
    workers: int = 0,
) -> Splits[Dataset]:
    """Open a folder of images with one subfolder per class.

    With `root/train/<class>/`, the splits are the folders `train`, `valid` (or `val`) and `test`; a missing split is
    held out from `train`. With `root/<class>/`, both are held out. The same images are held out each time, the same
    fraction of every class.

    Args:
        root: The folder.
        size: (H, W) to resize to; None: all images have the size of the first one.
        valid_fraction: Fraction of each class to hold out for validation, if needed.
        test_fraction: Fraction of each class to hold out for testing, if needed.
        channels: 1: grayscale, 3: RGB, None: as in the first image.
        workers: Number of data loader processes; 0: read in the main process.
    """
    _check(
        size=size,
        channels=channels,
        workers=workers,
        valid_fraction=valid_fraction,
        test_fraction=test_fraction,
    )
    root = Path(root)
    if not root.is_dir():
        raise DataError(f"root must be a folder of images, but {root} is not a folder")
    # A class may be called "train"; its folder has images but no subfolders.
    has_splits = (root / "train").is_dir() and any(path.is_dir() for path in (root / "train").iterdir())
    train = _open_folder(root / "train" if has_splits else root)
    subsets: dict[str, Subset] = {}
    for split, folders in (("valid", ("valid", "val")), ("test", ("test",))):
        folder = next((root / name for name in folders if (root / name).is_dir()), None)
        if has_splits and folder is not None:
            source = _open_folder(folder)
            if source.classes != train.classes:
                different = ", ".join(sorted(set(source.classes) ^ set(train.classes)))
                raise DataError(
                    f"{folder} must have the same class folders as {root / 'train'}, "
                    f"but these are in only one of them: {different}"
                )
            subsets[split] = Subset(source, np.arange(len(source)), str(folder))
    fractions = {"valid": valid_fraction, "test": test_fraction}
    missing = [split for split in fractions if split not in subsets]
    kept, *held_out = _hold_out(np.array(train.targets), [fractions[split] for split in missing], train.classes)
    for split, indices in zip(missing, held_out, strict=True):
        subsets[split] = Subset(train, indices, str(root))
    return make_splits(
        Subset(train, kept, str(root)),
        subsets["valid"],
        subsets["test"],
        class_names=tuple(train.classes),
        size=size,
        channels=channels,
        workers=workers,
    )


def _check(*, size: tuple[int, int] | None, channels: int | None, workers: int, **fractions: float) -> None:
    """Raise a ValueError unless the arguments of `torchvision_data` or `image_folder` are valid."""
    if size is not None and (len(size) != 2 or min(size) < 1):
        raise ValueError(f"size must be None or a positive (height, width), got {size}")
    if channels not in (None, 1, 3):
        raise ValueError(f"channels must be 1, 3 or None, got {channels}")
    if workers < 0:
        raise ValueError(f"workers must not be negative, got {workers}")
    for name, fraction in fractions.items():
        if not 0 < fraction < 1:
            raise ValueError(f"{name} must be between 0 and 1, got {fraction}")
    if sum(fractions.values()) >= 1:
        raise ValueError(f"{' + '.join(fractions)} must be below 1, got {sum(fractions.values())}")


def _hold_out(labels: np.ndarray, fractions: list[float], class_names: Sequence[str]) -> list[np.ndarray]:
    """Split 0..len(labels)-1 into the indices to keep and one part per fraction, stratified by class."""
    parts: list[list[np.ndarray]] = [[] for _ in range(1 + len(fractions))]
    for label, name in enumerate(class_names):
        members = np.flatnonzero(labels == label)
        members = members[permutation(Stream.HOLD_OUT, label, size=len(members))]
        counts = [max(1, round(fraction * len(members))) for fraction in fractions]
        if sum(counts) >= len(members):
            wanted = " + ".join(map(str, counts))
            raise DataError(f"{name} has {len(members)} images, too few to hold out {wanted} of them")
        *held_out, kept = np.split(members, np.cumsum(counts))
        for part, piece in zip(parts, [kept, *held_out], strict=True):
            part.append(piece)
    return [np.sort(np.concatenate(part)) for part in parts]


def _open_folder(folder: Path) -> datasets.ImageFolder:
    try:
        return datasets.ImageFolder(str(folder), loader=_load)
    except FileNotFoundError as error:  # no class folder, or one without images
        raise DataError(f"{folder} must have a subfolder of images per class: {error}") from error


def _load(path: str) -> Image.Image:
    """Open an image in its own mode, upright; torchvision's default loader would convert it to RGB."""
    with Image.open(path) as image:
        return ImageOps.exif_transpose(image)


def _accepts(cls: type, parameter: str) -> bool:
    """Whether the constructor has this parameter or **kwargs."""
    parameters = inspect.signature(cls).parameters
    return parameter in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _open(cls: type, root: str | Path, download: bool, **split: Any) -> Any | None:
    """Open one split of a torchvision data set; None if it has no split of that name."""
    # ImageNet has **kwargs but rejects this argument.
    if download and (cls is datasets.ImageNet or not _accepts(cls, "download")):
        raise DataError(f"download must be False: torchvision cannot download {cls.__name__}")
    try:
        return cls(str(root), **split, **({"download": True} if download else {}))
    except (RuntimeError, OSError, ImportError, ValueError) as error:
        if "for argument split" in str(error):
            return None
        advice = "" if download else "; set download=True (data.download in a config) to download it, if possible"
        raise DataError(f"cannot open {cls.__name__} in root {root}: {error}{advice}") from error


def _open_splits(cls: type, root: str | Path, download: bool) -> tuple[Any, Any | None, Any]:
    """Open the train, valid (None if it must be held out) and test split."""
    if "train" in inspect.signature(cls).parameters:
        return _open(cls, root, download, train=True), None, _open(cls, root, download, train=False)
    train, trainval, val, valid, test = (
        _open(cls, root, download, split=name) for name in ("train", "trainval", "val", "valid", "test")
    )
    train = trainval if train is None else train
    valid = val if valid is None else valid
    return (train, None, valid) if test is None else (train, valid, test)


def _class_names(source: Any) -> tuple[str, ...]:
    """Names of the classes, or their indices if torchvision has no names."""
    if hasattr(source, "classes"):
        # Class names of ImageNet are tuples of synonyms.
        return tuple(name if isinstance(name, str) else ", ".join(name) for name in source.classes)
    labels = next((getattr(source, key) for key in ("targets", "labels", "_labels") if hasattr(source, key)), None)
    if labels is None:
        pairs = source._samples if hasattr(source, "_samples") else source
        labels = [label for _, label in pairs]
    return tuple(str(label) for label in range(int(max(labels)) + 1))
