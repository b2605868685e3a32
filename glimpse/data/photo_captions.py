"""Photographs with captions: COCO as it is published, and the splits of Karpathy (arXiv:1412.2306).

Karpathy's files, dataset_coco.json, dataset_flickr8k.json and dataset_flickr30k.json, say what most papers trained and
tested on. Captions are split into words by `text.tokenize_ptb`; one without words is dropped.

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

from glimpse.data.base import ordered_batches
from glimpse.data.captions import CaptionSplits, StoredCaptions
from glimpse.data.image_loader import read_batches
from glimpse.data.mnist import SPLITS, Split
from glimpse.data.vocabulary import Tokens, tokenize_ptb
from glimpse.errors import DataError
from glimpse.seeding import Stream, permutation

Broken = Literal["error", "skip"]

_KARPATHY = {"train": "train", "restval": "train", "val": "valid", "test": "test"}
_KINDS = {int: "a whole number", str: "a text", list: "a list"}


class Photo(NamedTuple):
    """An image file with its captions."""

    file: Path
    captions: tuple[Tokens, ...]
    problem: str | None = None  # why it is to be left out


class PhotoCaptions(StoredCaptions):
    """One split of photographs, read when they are needed; `in_order` follows the JSON file.

    Each is scaled until it just covers the size wanted, and its middle cut out.
    """

    files: tuple[Path, ...]  # of the images, in the fixed order
    skipped: tuple[str, ...]  # what was left out, and why: a line for each image

    def __init__(self, *, split: Split, photos: Sequence[Photo], size: tuple[int, int], workers: int = 0):
        """Leaves out those with a problem; made by `coco_captions` and `karpathy_captions`.

        Args:
            split: "train", "valid" or "test".
            photos: the files and their captions, at least one each.
            size: (H, W) of the batches.
            workers: number of processes that read images; 0 reads in this one.
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
    """Reads a photograph, upright and in colour, scaled until it just covers the size, and cuts out its middle.

    Args:
        path: of an image file of any kind that Pillow reads, with 8 bits per channel.
        size: (H, W) to make of it.

    Returns:
        (3, H, W) uint8.

    Raises:
        DataError: If it cannot be read.
    """
    height, width = size
    try:
        with Image.open(path) as image:
            # A large JPEG is decoded at a half, a quarter or an eighth of its size, but at no less than twice what is
            # wanted, whichever way it lies: the rest is scaled with a better filter.
            image.draft("RGB", (2 * max(size), 2 * max(size)))
            upright = ImageOps.exif_transpose(image)
    except Exception as error:  # image decoders raise OSError, SyntaxError, struct.error and more
        raise DataError(f"cannot read {path}: {error}") from error
    if upright.mode[0] in "IF":
        raise DataError(f"{path} must have 8 bits per channel, got image mode {upright.mode}")
    if upright.mode == "P":
        upright = upright.convert("RGBA")  # straight to RGB, Pillow would warn of transparent colours
    return functional.pil_to_tensor(ImageOps.fit(upright.convert("RGB"), (width, height), Image.Resampling.BILINEAR))


def coco_captions(
    *,
    root: str | Path,
    year: Literal[2014, 2017] = 2017,
    size: tuple[int, int] = (224, 224),
    valid_fraction: float = 0.1,
    broken: Broken = "error",
    workers: int = 0,
) -> CaptionSplits:
    """COCO's captions, as published: root/train2017, root/val2017, and root/annotations with their captions.

    COCO keeps the captions of its test images to itself, so its validation images are the test split, and
    `valid_fraction` of its training images, always the same ones, is held out for validation.

    Args:
        root: the folder with the folders train{year}, val{year} and annotations, which has captions_train{year}.json
            and captions_val{year}.json.
        year: 2014 or 2017.
        size: (H, W) of the images.
        valid_fraction: share of the training images to hold out.
        broken: what to do about images that are missing, have no caption or cannot be decoded. "error" refuses the data
            at once if one is missing or without caption, and stops at one that cannot be decoded when it is read.
            "skip" leaves them out; to know them beforehand, and so have the same images in every process and when a run
            is resumed, every image is decoded once at the beginning, which takes minutes for all of COCO.
        workers: number of processes that read images; 0 reads in this one.

    Returns:
        The three splits.

    Raises:
        DataError: If something is missing or broken; it says what.
    """
    _check(size=size, broken=broken, workers=workers)
    if year not in (2014, 2017):
        raise ValueError(f"year must be 2014 or 2017, got {year}")
    if not 0 < valid_fraction < 1:
        raise ValueError(f"valid_fraction must be between 0 and 1, got {valid_fraction}")
    root = _folder(root, "the data's root")
    parts = []
    for name in (f"train{year}", f"val{year}"):
        folder = _folder(root / name, "COCO's folder of images")
        path = root / "annotations" / f"captions_{name}.json"
        parts.append(_check_images(_read_coco(path, folder), path, broken, workers))
    train, test = parts
    held_out = permutation(Stream.HOLD_OUT, 0, size=len(train))[: max(1, round(valid_fraction * len(train)))]
    is_valid = np.isin(np.arange(len(train)), held_out)
    parts = (
        [photo for photo, valid in zip(train, is_valid, strict=True) if not valid],
        [photo for photo, valid in zip(train, is_valid, strict=True) if valid],
        test,
    )
    return _make_splits(parts, root / "annotations", size, workers)


def karpathy_captions(
    *,
    root: str | Path,
    annotations: str | Path,
    size: tuple[int, int] = (224, 224),
    broken: Broken = "error",
    workers: int = 0,
) -> CaptionSplits:
    """Captions in Karpathy's format, with his splits; "restval" is used for training, as is usual.

    Args:
        root: the folder of images: those of Flickr lie directly in it, those of COCO in the folders that the file
            names, train2014 and val2014.
        annotations: the JSON file, such as dataset_flickr8k.json; a relative path begins at `root`.
        size: (H, W) of the images.
        broken: see `coco_captions`.
        workers: number of processes that read images; 0 reads in this one.

    Returns:
        The three splits.

    Raises:
        DataError: If something is missing or broken; it says what.
    """
    _check(size=size, broken=broken, workers=workers)
    root = _folder(root, "the data's root")
    path = root / annotations
    photos, splits = _read_karpathy(path, root)
    photos = _check_images(photos, path, broken, workers)
    parts = [[photo for photo, one in zip(photos, splits, strict=True) if one == split] for split in SPLITS]
    return _make_splits(parts, path, size, workers)


class _Images:
    """The images of some files, for `read_batches`; no captions, which would be sent to every worker process."""

    def __init__(self, files: Sequence[Path], size: tuple[int, int]):
        self.files, self.size = files, size

    def __getitems__(self, rows: list[int]) -> Tensor | DataError:
        try:
            return torch.stack([load_photo(self.files[row], self.size) for row in rows])
        except DataError as error:
            return error


class _Problems:
    """Why each of some files cannot be decoded, for `read_batches`; None if it can."""

    def __init__(self, files: Sequence[Path]):
        self.files = files

    def __getitems__(self, rows: list[int]) -> list[str | None]:
        return [self._problem(self.files[row]) for row in rows]

    def _problem(self, file: Path) -> str | None:
        try:
            load_photo(file, (8, 8))  # so small that a JPEG is decoded at an eighth of its size, which is quick
        except DataError as error:
            return str(error)
        return None


def _check(*, size: tuple[int, int], broken: str, workers: int) -> None:
    if len(size) != 2 or min(size) < 1:
        raise ValueError(f"size must be a positive (height, width), got {size}")
    if broken not in ("error", "skip"):
        raise ValueError(f'broken must be "error" or "skip", got {broken!r}')
    if workers < 0:
        raise ValueError(f"workers must not be negative, got {workers}")


def _folder(path: str | Path, what: str) -> Path:
    path = Path(path)
    if not path.is_dir():
        raise DataError(f"{what} must be a folder of images, but {path} is not a folder")
    return path


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise DataError(f"cannot read the captions in {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is broken: it must be JSON, but {error}") from error


def _records(path: Path, parent: Any, key: str, within: str = "", **fields: type) -> list[dict[str, Any]]:
    """The list with this key in a piece of JSON, of objects that all have these fields."""
    records = parent.get(key) if isinstance(parent, dict) else None
    if not isinstance(records, list):
        raise DataError(f"{path} is broken: it must have a list {within}{key}")
    for index, record in enumerate(records):
        for name, kind in fields.items():
            value = record.get(name) if isinstance(record, dict) else None
            if not isinstance(value, kind):
                where = f"{within}{key}[{index}].{name}"
                raise DataError(f"{path} is broken: {where} must be {_KINDS[kind]}, got {value!r:.50}")
    return records


def _words(texts: Iterable[str]) -> tuple[Tokens, ...]:
    """The captions that have words; a word is kept in memory once, however often it occurs."""
    captions = (tuple(map(sys.intern, tokenize_ptb(text))) for text in texts)
    return tuple(caption for caption in captions if caption)


def _read_coco(path: Path, folder: Path) -> list[Photo]:
    content = _read_json(path)
    images = _records(path, content, "images", id=int, file_name=str)
    texts: dict[int, list[str]] = {image["id"]: [] for image in images}
    if len(texts) < len(images):
        raise DataError(f"{path} is broken: every image must have an id of its own, but some share one")
    for index, annotation in enumerate(_records(path, content, "annotations", image_id=int, caption=str)):
        if annotation["image_id"] not in texts:
            where, which = f"annotations[{index}].image_id", annotation["image_id"]
            raise DataError(f"{path} is broken: {where} must be the id of one of the images, got {which}")
        texts[annotation["image_id"]].append(annotation["caption"])
    return [Photo(folder / image["file_name"], _words(texts[image["id"]])) for image in images]


def _read_karpathy(path: Path, root: Path) -> tuple[list[Photo], list[Split]]:
    """The images, and the split of each."""
    images = _records(path, _read_json(path), "images", filename=str, split=str, sentences=list)
    photos = []
    for index, image in enumerate(images):
        where = f"images[{index}]."
        if image["split"] not in _KARPATHY:
            valid = ", ".join(_KARPATHY)
            raise DataError(f"{path} is broken: {where}split must be one of {valid}, got {image['split']!r}")
        inside = image.get("filepath", "")
        if not isinstance(inside, str):
            raise DataError(f"{path} is broken: {where}filepath must be {_KINDS[str]}, got {inside!r:.50}")
        sentences = _records(path, image, "sentences", where, raw=str)
        photos.append(Photo(root / inside / image["filename"], _words(sentence["raw"] for sentence in sentences)))
    return photos, [_KARPATHY[image["split"]] for image in images]


def _check_images(photos: list[Photo], path: Path, broken: Broken, workers: int) -> list[Photo]:
    """Finds the problem of each photo of a JSON file, and says how many have one, or raises an error if one has."""
    problems: dict[int, str] = {}
    for index, photo in enumerate(photos):
        if not os.path.isfile(photo.file):
            problems[index] = f"{photo.file} is missing"
        elif not photo.captions:
            problems[index] = f"{photo.file} has no caption"
    if broken == "skip":
        there = [index for index in range(len(photos)) if index not in problems]
        problems |= _undecodable({index: photos[index].file for index in there}, workers)
    if not problems:
        return photos
    lines = [problems[index] for index in sorted(problems)]
    some = "; ".join(lines[:3]) + ("; ..." if len(lines) > 3 else "")
    if broken == "error":
        raise DataError(
            f"{len(lines):,} of the {len(photos):,} images of {path} cannot be used: {some}; "
            'broken="skip", data.broken in a config, leaves such images out'
        )
    print(f"Left out {len(lines):,} of {len(photos):,} images of {path.name}: {some}", file=sys.stderr)
    return [photo._replace(problem=problems.get(index)) for index, photo in enumerate(photos)]


def _undecodable(files: dict[int, Path], workers: int) -> dict[int, str]:
    """Decodes every file; returns what is wrong with those that fail, by the same numbers."""
    batches = [list(range(rows.start, rows.stop)) for rows in ordered_batches(len(files), batch_size=64, limit=None)]
    found: list[str | None] = []
    with tqdm(total=len(files), desc="checking images", unit="image", leave=False, disable=None) as bar:
        for problems in read_batches(_Problems(tuple(files.values())), batches, workers):
            found += problems
            bar.update(len(problems))
    return {index: problem for index, problem in zip(files, found, strict=True) if problem is not None}


def _make_splits(parts: Sequence[Sequence[Photo]], path: Path, size: tuple[int, int], workers: int) -> CaptionSplits:
    splits = [
        PhotoCaptions(split=split, photos=photos, size=size, workers=workers)
        for split, photos in zip(SPLITS, parts, strict=True)
    ]
    for data in splits:
        if not len(data):
            left_out = f" ({len(data.skipped):,} left out)" if data.skipped else ""
            raise DataError(f"{path} must leave an image for every split, but {data.split} has none{left_out}")
    return CaptionSplits(*splits)
