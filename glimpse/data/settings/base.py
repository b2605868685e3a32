"""Base classes of the settings of data sets, their registry, and the checks that they share."""

from typing import TYPE_CHECKING, Any, ClassVar

from glimpse.config.registry import Registry
from glimpse.config.schema import Settings
from glimpse.errors import ConfigError

if TYPE_CHECKING:
    from glimpse.data.base import Splits
    from glimpse.data.captions import CaptionSplits
    from glimpse.data.sentence_pairs import Tokenizer, TranslationSplits


class DataSettings(Settings):
    """data: what to look at."""

    group = "data"
    kind: str

    def title(self) -> str:
        """What to call the data in tables of results; raises ConfigError if it has no name of its own."""
        raise ConfigError(f"--task must be given for data.kind {self.kind}: say in a few words what the data is")

    def build(self) -> Any:
        """Make the splits.

        Raises:
            ConfigError: If the settings do not go together with the data.
            DataError: If the data cannot be read.
        """
        raise NotImplementedError


class ImageDataSettings(DataSettings):
    """data: images with classes."""

    has_boxes: ClassVar[bool] = False
    """Whether it is known where the objects are."""

    def build(self) -> "Splits":
        """Make the splits."""
        raise NotImplementedError


class CaptionDataSettings(DataSettings):
    """data: images with captions."""

    fixed_images: ClassVar[bool] = True
    """Whether the images are the same at every visit, so that their features can be computed once."""

    def build(self) -> "CaptionSplits":
        """Make the splits."""
        raise NotImplementedError


class SentenceDataSettings(DataSettings):
    """data: sentences and their translations."""

    def build(self) -> "TranslationSplits":
        """Make the splits."""
        raise NotImplementedError

    def tokenizer(self) -> "Tokenizer":
        """How texts become words of such data, which need not be there."""
        raise NotImplementedError


DATASETS: Registry[type[DataSettings]] = Registry("data.kind")


def as_pair(canvas: int | tuple[int, int]) -> tuple[int, int]:
    """Height and width of a canvas that may be given by one side."""
    return canvas if isinstance(canvas, tuple) else (canvas, canvas)


def check_canvas(settings: Any) -> None:
    """Check canvas and distractors of made images."""
    settings.require(min(as_pair(settings.canvas)) >= 28, "canvas", "at least 28, the side of a digit")
    settings.require(0 <= settings.num_distractors <= 200, "num_distractors", "in 0..200")
    settings.require(1 <= settings.distractor_size <= 28, "distractor_size", "in 1..28")


def check_fraction(settings: DataSettings, name: str) -> None:
    """Check a fraction that is held out."""
    settings.require(0 < getattr(settings, name) < 1, name, "between 0 and 1")


def check_fractions(settings: Any) -> None:
    """Check the fractions that are held out for validation and test."""
    for name in ("valid_fraction", "test_fraction"):
        check_fraction(settings, name)
    held_out = settings.valid_fraction + settings.test_fraction
    settings.require(held_out < 1, "valid_fraction", "less than 1 together with data.test_fraction", held_out)
