"""Photographs with captions: COCO as published, and Karpathy's splits (arXiv:1412.2306).

Karpathy's files dataset_coco.json, dataset_flickr8k.json and dataset_flickr30k.json define the splits that most papers
use. Captions are tokenized by `vocabulary.tokenize_ptb`; captions without words are dropped.

Shapes: B batch, H height, W width.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torchvision.transforms.v2 import functional
from tqdm import tqdm

from glimpse.data.base import Splits, ordered_batches
from glimpse.data.captions import CaptionDataset, StoredCaptions
from glimpse.data.image_loader import read_batches
from glimpse.data.mnist import SPLITS, Split
from glimpse.data.vocabulary import Tokens, tokenize_ptb
from glimpse.errors import DataError
from glimpse.seeding import Stream, permutation

OnBrokenImage = Literal["error", "skip"]

_KARPATHY_SPLITS: dict[str, Split] = {"train": "train", "restval": "train", "val": "valid", "test": "test"}
_TYPE_NAMES = {int: "an integer", str: "a string", list: "a list"}


class Photo(NamedTuple):
    """An image file with its captions."""

    file: Path
    captions: tuple[Tokens, ...]
    problem: str | None = None  # why the image is left out


class PhotoCaptions(StoredCaptions):
    """One split of photographs, read on demand; `in_order` has the order of the JSON file.

    Images are resized to cover the given size, and center-cropped.
    """

    files: tuple[Path, ...]  # image files, in the fixed order
    skipped: tuple[str, ...]  # for each image that is left out, a line with the reason

    def __init__(self, *, split: Split, photos: Sequence[Photo], size: tuple[int, int], workers: int = 0):
        """Create the split; called by `coco_captions` and `karpathy_captions`.

        Args:
            split: "train", "valid" or "test".
            photos: Image files with at least one caption each; those with a problem are left out.
            size: (H, W) of the batches.
            workers: Number of data loader processes; 0: read in the main process.
        """
        kept = [photo for photo in photos if photo.problem is None]
        super().__init__(split=split, captions=[photo.captions for photo in kept], image_shape=(3, *size))
        self.files = tuple(photo.file for photo in kept)
        self.skipped = tuple(photo.problem for photo in photos if photo.problem is not None)
        self._workers = workers

    def read(self, batches: list[list[int]]) -> Iterator[Tensor]:
        """See `StoredCaptions.read`: (B, 3, H, W) uint8."""
        return read_batches(_Images(self.files, self.image_shape[1:]), batches, self._workers)


def load_photo(path: str | Path, size: tuple[int, int]) -> Tensor:
    """Read a photograph in RGB, upright, resized to cover the given size, and center-cropped.

    Args:
        path: Image file in any format that Pillow reads, with 8 bits per channel.
        size: (H, W) of the result.

    Returns:
        (3, H, W) uint8.

    Raises:
        DataError: If the image cannot be read.
    """
    height, width = size
    try:
        with Image.open(path) as image:
            # Decode large JPEGs at 1/2, 1/4 or 1/8 of their size, but at no less than twice the result in either
            # orientation: the remaining resizing uses a better filter.
            image.draft("RGB", (2 * max(size), 2 * max(size)))
            upright = ImageOps.exif_transpose(image)
    except Exception as error:  # image decoders raise OSError, SyntaxError, struct.error and more
        raise DataError(f"cannot read {path}: {error}") from error
    if upright.mode[0] in "IF":
        raise DataError(f"{path} must have 8 bits per channel, got image mode {upright.mode}")
    if upright.mode == "P":
        upright = upright.convert("RGBA")  # direct conversion to RGB makes Pillow warn of transparent colors
    return functional.pil_to_tensor(ImageOps.fit(upright.convert("RGB"), (width, height), Image.Resampling.BILINEAR))


def coco_captions(
    *,
    root: str | Path,
    year: Literal[2014, 2017] = 2017,
    size: tuple[int, int] = (224, 224),
    valid_fraction: float = 0.1,
    on_broken_image: OnBrokenImage = "error",
    workers: int = 0,
) -> Splits[CaptionDataset]:
    """Open COCO as published: root/train2017, root/val2017, and root/annotations with the captions.

    The captions of COCO's test images are not public, so COCO's validation images are the test split, and a fixed
    random `valid_fraction` of its training images is held out for validation.

    Args:
        root: Folder of the folders train{year}, val{year} and annotations, which contains captions_train{year}.json
            and captions_val{year}.json.
        year: 2014 or 2017.
        size: (H, W) of the images.
        valid_fraction: Fraction of the training images to hold out.
        on_broken_image: What to do about images that are missing, have no caption or cannot be decoded. "error": raise
            an error, at once for images that are missing or have no caption, otherwise when the image is read. "skip":
            leave them out; every image is decoded once at the start, so that all processes and resumed runs have the
            same images, which takes minutes for all of COCO.
        workers: Number of data loader processes; 0: read in the main process.

    Raises:
        DataError: If a file or folder is missing or broken; the message names it.
    """
    _check(size=size, on_broken_image=on_broken_image, workers=workers)
    if year not in (2014, 2017):
        raise ValueError(f"year must be 2014 or 2017, got {year}")
    if not 0 < valid_fraction < 1:
        raise ValueError(f"valid_fraction must be between 0 and 1, got {valid_fraction}")
    root = _folder(root, "root")
    parts = []
    for name in (f"train{year}", f"val{year}"):
        folder = _folder(root / name, f"root/{name}")
        path = root / "annotations" / f"captions_{name}.json"
        parts.append(_check_images(_read_coco(path, folder), path, on_broken_image, workers))
    train, test = parts
    held_out = permutation(Stream.HOLD_OUT, 0, size=len(train))[: max(1, round(valid_fraction * len(train)))]
    in_valid = np.isin(np.arange(len(train)), held_out)
    kept = [photo for photo, is_held_out in zip(train, in_valid, strict=True) if not is_held_out]
    valid = [photo for photo, is_held_out in zip(train, in_valid, strict=True) if is_held_out]
    return _make_splits([kept, valid, test], root / "annotations", size, workers)


def karpathy_captions(
    *,
    root: str | Path,
    annotations: str | Path,
    size: tuple[int, int] = (224, 224),
    on_broken_image: OnBrokenImage = "error",
    workers: int = 0,
) -> Splits[CaptionDataset]:
    """Open captions in Karpathy's format, with his splits; "restval" is part of the training split, as usual.

    Args:
        root: Folder of the images. Flickr images are directly in it, COCO images in the subfolders train2014 and
            val2014, as given in the JSON file.
        annotations: JSON file, such as dataset_flickr8k.json; a relative path starts from `root`.
        size: (H, W) of the images.
        on_broken_image: See `coco_captions`.
        workers: Number of data loader processes; 0: read in the main process.

    Raises:
        DataError: If a file or folder is missing or broken; the message names it.
    """
    _check(size=size, on_broken_image=on_broken_image, workers=workers)
    root = _folder(root, "root")
    path = root / annotations
    photos, splits = _read_karpathy(path, root)
    photos = _check_images(photos, path, on_broken_image, workers)
    parts = [[photo for photo, own in zip(photos, splits, strict=True) if own == split] for split in SPLITS]
    return _make_splits(parts, path, size, workers)


class _Images:
    """A source of images for `read_batches`; without captions, which would be copied to every worker process."""

    def __init__(self, files: Sequence[Path], size: tuple[int, int]):
        self.files, self.size = files, size

    def __getitems__(self, rows: list[int]) -> Tensor | DataError:
        try:
            return torch.stack([load_photo(self.files[row], self.size) for row in rows])
        except DataError as error:
            return error


class _Problems:
    """A source of error messages for `read_batches`: why a file cannot be decoded, or None if it can."""

    def __init__(self, files: Sequence[Path]):
        self.files = files

    def __getitems__(self, rows: list[int]) -> list[str | None]:
        return [self._problem(self.files[row]) for row in rows]

    def _problem(self, file: Path) -> str | None:
        try:
            load_photo(file, (8, 8))  # small, so that JPEGs are decoded at 1/8 of their size, which is fast
        except DataError as error:
            return str(error)
        return None


def _check(*, size: tuple[int, int], on_broken_image: str, workers: int) -> None:
    if len(size) != 2 or min(size) < 1:
        raise ValueError(f"size must be a positive (height, width), got {size}")
    if on_broken_image not in ("error", "skip"):
        raise ValueError(f'on_broken_image must be "error" or "skip", got {on_broken_image!r}')
    if workers < 0:
        raise ValueError(f"workers must not be negative, got {workers}")


def _folder(path: str | Path, name: str) -> Path:
    path = Path(path)
    if not path.is_dir():
        raise DataError(f"{name} must be a folder of images, but {path} is not a folder")
    return path


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise DataError(f"cannot read the captions in {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} must be valid JSON: {error}") from error


def _records(path: Path, parent: Any, key: str, within: str = "", **fields: type) -> list[dict[str, Any]]:
    """Get a list of objects from parsed JSON and check its fields.

    Args:
        path: The JSON file.
        parent: Object that has the list.
        key: Key of the list.
        within: Position of the parent in the file, for error messages.
        fields: Required fields of the objects with their types.
    """
    records = parent.get(key) if isinstance(parent, dict) else None
    if not isinstance(records, list):
        raise DataError(f"{path} is broken: {within}{key} must be a list")
    for index, record in enumerate(records):
        for name, type_ in fields.items():
            value = record.get(name) if isinstance(record, dict) else None
            if not isinstance(value, type_):
                where = f"{within}{key}[{index}].{name}"
                raise DataError(f"{path} is broken: {where} must be {_TYPE_NAMES[type_]}, got {value!r:.50}")
    return records


def _words(texts: Iterable[str]) -> tuple[Tokens, ...]:
    """Tokenize captions and drop those without words; words are interned, so each is in memory once."""
    captions = (tuple(map(sys.intern, tokenize_ptb(text))) for text in texts)
    return tuple(caption for caption in captions if caption)


def _read_coco(path: Path, folder: Path) -> list[Photo]:
    content = _read_json(path)
    images = _records(path, content, "images", id=int, file_name=str)
    texts: dict[int, list[str]] = {image["id"]: [] for image in images}
    if len(texts) < len(images):
        raise DataError(f"{path} is broken: ids of images must be unique, got duplicates")
    for index, annotation in enumerate(_records(path, content, "annotations", image_id=int, caption=str)):
        if annotation["image_id"] not in texts:
            where, image_id = f"annotations[{index}].image_id", annotation["image_id"]
            raise DataError(f"{path} is broken: {where} must be the id of an image, got {image_id}")
        texts[annotation["image_id"]].append(annotation["caption"])
    return [Photo(folder / image["file_name"], _words(texts[image["id"]])) for image in images]


def _read_karpathy(path: Path, root: Path) -> tuple[list[Photo], list[Split]]:
    """Read the images and the split of each."""
    images = _records(path, _read_json(path), "images", filename=str, split=str, sentences=list)
    photos = []
    for index, image in enumerate(images):
        where = f"images[{index}]."
        if image["split"] not in _KARPATHY_SPLITS:
            valid = ", ".join(_KARPATHY_SPLITS)
            raise DataError(f"{path} is broken: {where}split must be one of {valid}, got {image['split']!r}")
        folder = image.get("filepath", "")
        if not isinstance(folder, str):
            raise DataError(f"{path} is broken: {where}filepath must be {_TYPE_NAMES[str]}, got {folder!r:.50}")
        sentences = _records(path, image, "sentences", where, raw=str)
        photos.append(Photo(root / folder / image["filename"], _words(sentence["raw"] for sentence in sentences)))
    return photos, [_KARPATHY_SPLITS[image["split"]] for image in images]


def _check_images(photos: list[Photo], path: Path, on_broken_image: OnBrokenImage, workers: int) -> list[Photo]:
    """Find broken images of a JSON file; raise a DataError, or print their number and mark them to be left out."""
    problems: dict[int, str] = {}
    for index, photo in enumerate(photos):
        if not os.path.isfile(photo.file):
            problems[index] = f"{photo.file} is missing"
        elif not photo.captions:
            problems[index] = f"{photo.file} has no caption"
    if on_broken_image == "skip":
        files = {index: photo.file for index, photo in enumerate(photos) if index not in problems}
        problems |= _undecodable(files, workers)
    if not problems:
        return photos
    lines = [problems[index] for index in sorted(problems)]
    shortened = "; ".join(lines[:3]) + ("; ..." if len(lines) > 3 else "")
    if on_broken_image == "error":
        raise DataError(
            f"{len(lines):,} of the {len(photos):,} images of {path} cannot be used: {shortened}; "
            'set on_broken_image="skip" (data.on_broken_image in a config) to leave them out'
        )
    print(f"Left out {len(lines):,} of {len(photos):,} images of {path.name}: {shortened}", file=sys.stderr)
    return [photo._replace(problem=problems.get(index)) for index, photo in enumerate(photos)]


def _undecodable(files: dict[int, Path], workers: int) -> dict[int, str]:
    """Decode every file; return the error messages of those that fail, by the same indices."""
    batches = [list(range(rows.start, rows.stop)) for rows in ordered_batches(len(files), batch_size=64, limit=None)]
    results: list[str | None] = []
    with tqdm(total=len(files), desc="checking images", unit="image", leave=False, disable=None) as bar:
        for problems in read_batches(_Problems(tuple(files.values())), batches, workers):
            results += problems
            bar.update(len(problems))
    return {index: problem for index, problem in zip(files, results, strict=True) if problem is not None}


def _make_splits(
    parts: Sequence[Sequence[Photo]], path: Path, size: tuple[int, int], workers: int
) -> Splits[CaptionDataset]:
    splits = [
        PhotoCaptions(split=split, photos=photos, size=size, workers=workers)
        for split, photos in zip(SPLITS, parts, strict=True)
    ]
    for data in splits:
        if not len(data):
            left_out = f" ({len(data.skipped):,} left out)" if data.skipped else ""
            raise DataError(f"{path} must have an image for every split, but {data.split} has none{left_out}")
    return Splits(*splits)
