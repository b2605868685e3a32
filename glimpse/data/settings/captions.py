"""Settings of the data sets of images with captions."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from glimpse.data.settings.base import DATASETS, CaptionDataSettings, as_pair, check_canvas, check_fraction

if TYPE_CHECKING:
    from glimpse.data.captions import CaptionSplits

PHOTO_SIZE = (224, 224)  # of photographs, where no size is given


@DATASETS.register("digit_captions")
class DigitCaptionsSettings(CaptionDataSettings):
    """data: several digits among clutter, with captions that say which digits are where."""

    fixed_images = False
    kind: Literal["digit_captions"] = "digit_captions"
    """Several digits among clutter, with captions that say which digits are where."""
    canvas: int | tuple[int, int] = 60
    """Side of the image in pixels, or [height, width]; at least 28."""
    max_digits: int = 1
    """Largest number of digits of an image, up to 4."""
    num_distractors: int = 4
    """Pieces of other digits per image."""
    distractor_size: int = 8
    """Side of a distractor in pixels."""

    def check(self) -> None:
        """Check the ranges."""
        check_canvas(self)
        self.require_positive("max_digits")

    def canonical(self, name: str, value: Any) -> Any:
        """A canvas is a pair."""
        return as_pair(value) if name == "canvas" else value

    def title(self) -> str:
        """See `DataSettings`."""
        return "digit captions"

    def build(self) -> "CaptionSplits":
        """Make the splits."""
        from glimpse.data.digit_captions import digit_captions, min_canvas_pixels
        from glimpse.data.digit_grammar import MOST_DIGITS

        height, width = as_pair(self.canvas)
        self.require(self.max_digits <= MOST_DIGITS, "max_digits", f"at most {MOST_DIGITS}")
        least = min_canvas_pixels(self.max_digits)
        pixels = f"of at least {least} pixels, so that {self.max_digits} digits find room"
        self.require(height * width >= least, "canvas", pixels, (height, width))
        return digit_captions(
            canvas=(height, width),
            max_digits=self.max_digits,
            num_distractors=self.num_distractors,
            distractor_size=self.distractor_size,
        )


class _PhotoCaptionSettings(CaptionDataSettings):
    """data: photographs with captions."""

    technical = ("workers",)
    paths = ("root",)
    on_broken_image: Literal["error", "skip"] = "error"
    """What to do about images that are missing or cannot be decoded; skip counts them."""
    size: tuple[int, int] | None = None
    """Scale and crop images to [height, width]; null is [224, 224]."""
    workers: int = 0
    """Processes that read images."""

    def check(self) -> None:
        """Check the ranges."""
        self.require(self.size is None or min(self.size) >= 1, "size", "null or two numbers of at least 1")
        self.require(self.workers >= 0, "workers", "at least 0")

    def canonical(self, name: str, value: Any) -> Any:
        """No size is the default size."""
        return (value or PHOTO_SIZE) if name == "size" else super().canonical(name, value)

    def _shared(self) -> dict[str, Any]:
        return {"size": self.size or PHOTO_SIZE, "broken": self.on_broken_image, "workers": self.workers}


@DATASETS.register("coco")
class COCOSettings(_PhotoCaptionSettings):
    """data: COCO, as it is published."""

    kind: Literal["coco"] = "coco"
    """COCO, as it is published."""
    root: str = "data"
    """Folder of train2017/, val2017/ and annotations/."""
    year: Literal[2014, 2017] = 2017
    """Which of the two editions."""
    valid_fraction: float = 0.1
    """Fraction of the training images held out for validation."""

    def check(self) -> None:
        """Check the ranges."""
        super().check()
        check_fraction(self, "valid_fraction")

    def build(self) -> "CaptionSplits":
        """Make the splits."""
        from glimpse.data.photo_captions import coco_captions

        return coco_captions(root=Path(self.root), **self._shared(), year=self.year, valid_fraction=self.valid_fraction)


@DATASETS.register("karpathy")
class KarpathySettings(_PhotoCaptionSettings):
    """data: photographs with captions in Karpathy's splits and JSON."""

    kind: Literal["karpathy"] = "karpathy"
    """Photographs with captions in Karpathy's splits and JSON: Flickr8k, Flickr30k, COCO."""
    root: str = "data"
    """Folder from which the annotations name image files."""
    annotations: str = "dataset_coco.json"
    """JSON file of captions and splits, from root or absolute."""

    def build(self) -> "CaptionSplits":
        """Make the splits."""
        from glimpse.data.photo_captions import karpathy_captions

        return karpathy_captions(root=Path(self.root), **self._shared(), annotations=self.annotations)
