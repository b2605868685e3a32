"""Base classes of the settings of data sets, their registry, and shared checks."""

from typing import TYPE_CHECKING, Any, ClassVar

from glimpse.config.registry import Registry
from glimpse.config.schema import Settings
from glimpse.errors import ConfigError

if TYPE_CHECKING:
    from glimpse.data.base import Dataset, Splits
    from glimpse.data.captions import CaptionDataset
    from glimpse.data.sentence_pairs import PairDataset, Tokenizer


class DataSettings(Settings):
    """data: the data set."""

    group = "data"
    kind: str

    def title(self) -> str:
        """Name of the data in tables of results; raises ConfigError if only the caller can name it."""
        raise ConfigError(f"--task must be given for data.kind {self.kind}: a short name of the data")

    def build(self) -> Any:
        """Open the splits.

        Raises:
            ConfigError: If the settings do not match the data.
            DataError: If the data cannot be read.
        """
        raise NotImplementedError


class ImageDataSettings(DataSettings):
    """data: images with classes."""

    has_boxes: ClassVar[bool] = False
    """Whether the data has bounding boxes of the objects."""

    def build(self) -> "Splits[Dataset]":
        """Open the splits."""
        raise NotImplementedError


class CaptionDataSettings(DataSettings):
    """data: images with captions."""

    fixed_images: ClassVar[bool] = True
    """Whether the images are the same in every epoch, so that their features can be cached."""

    def build(self) -> "Splits[CaptionDataset]":
        """Open the splits."""
        raise NotImplementedError


class SentenceDataSettings(DataSettings):
    """data: sentences and their translations."""

    def build(self) -> "Splits[PairDataset]":
        """Open the splits."""
        raise NotImplementedError

    def tokenizer(self) -> "Tokenizer":
        """The tokenizer of the data; does not read the data."""
        raise NotImplementedError


DATASETS: Registry[type[DataSettings]] = Registry("data.kind")


def as_pair(canvas: int | tuple[int, int]) -> tuple[int, int]:
    """Height and width of a canvas; a single number is both."""
    return canvas if isinstance(canvas, tuple) else (canvas, canvas)


def check_canvas(settings: Any) -> None:
    """Check the canvas and the distractors of rendered images."""
    settings.require(min(as_pair(settings.canvas)) >= 28, "canvas", "at least 28, the side of a digit")
    settings.require(0 <= settings.num_distractors <= 200, "num_distractors", "in 0..200")
    settings.require(1 <= settings.distractor_size <= 28, "distractor_size", "in 1..28")


def check_fraction(settings: DataSettings, name: str) -> None:
    """Check a fraction to hold out."""
    settings.require(0 < getattr(settings, name) < 1, name, "between 0 and 1")


def check_fractions(settings: Any) -> None:
    """Check the fractions to hold out for validation and test."""
    for name in ("valid_fraction", "test_fraction"):
        check_fraction(settings, name)
    held_out = settings.valid_fraction + settings.test_fraction
    settings.require(held_out < 1, "valid_fraction", "less than 1 when added to data.test_fraction", held_out)
