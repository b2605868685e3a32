"""Settings of the data sets of images with captions."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from glimpse.data.settings.base import DATASETS, CaptionDataSettings, as_pair, check_canvas, check_fraction

if TYPE_CHECKING:
    from glimpse.data.base import Splits
    from glimpse.data.captions import CaptionDataset

PHOTO_SIZE = (224, 224)  # default size of photographs


@DATASETS.register("digit_captions")
class DigitCaptionsSettings(CaptionDataSettings):
    """data: several digits among clutter, with captions that state which digits are where."""

    fixed_images = False
    kind: Literal["digit_captions"] = "digit_captions"
    """Several digits among clutter, with captions that state which digits are where."""
    canvas: int | tuple[int, int] = 60
    """Side of the image in pixels, or [height, width]; at least 28."""
    max_digits: int = 1
    """Maximum number of digits per image, at most 4."""
    num_distractors: int = 4
    """Distractors (crops of other digits) per image."""
    distractor_size: int = 8
    """Side of the distractors in pixels."""

    def check(self) -> None:
        """Check the ranges."""
        check_canvas(self)
        self.require_positive("max_digits")

    def idle(self) -> set[str]:
        """The size of distractors, without any."""
        return set() if self.num_distractors else {"distractor_size"}

    def canonical(self, name: str, value: Any) -> Any:
        """The canvas as a pair."""
        return as_pair(value) if name == "canvas" else value

    def title(self) -> str:
        """See `DataSettings`."""
        return "digit captions"

    def build(self) -> "Splits[CaptionDataset]":
        """Open the splits."""
        from glimpse.data.digit_captions import digit_captions, min_canvas_pixels
        from glimpse.data.digit_grammar import MAX_DIGITS

        height, width = as_pair(self.canvas)
        self.require(self.max_digits <= MAX_DIGITS, "max_digits", f"at most {MAX_DIGITS}")
        min_pixels = min_canvas_pixels(self.max_digits)
        valid = f"of at least {min_pixels} pixels for {self.max_digits} digits"
        self.require(height * width >= min_pixels, "canvas", valid, (height, width))
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
    """Whether an image that is missing or cannot be decoded raises an error, or is skipped and counted."""
    size: tuple[int, int] | None = None
    """Resize and crop images to [height, width]; null: [224, 224]."""
    workers: int = 0
    """Number of data loader processes; 0: read in the main process."""

    def check(self) -> None:
        """Check the ranges."""
        self.require(self.size is None or min(self.size) >= 1, "size", "null or two numbers of at least 1")
        self.require(self.workers >= 0, "workers", "at least 0")

    def canonical(self, name: str, value: Any) -> Any:
        """The default size in place of None."""
        return (value or PHOTO_SIZE) if name == "size" else super().canonical(name, value)

    def _shared(self) -> dict[str, Any]:
        return {"size": self.size or PHOTO_SIZE, "on_broken_image": self.on_broken_image, "workers": self.workers}


@DATASETS.register("coco")
class COCOSettings(_PhotoCaptionSettings):
    """data: COCO as published."""

    kind: Literal["coco"] = "coco"
    """COCO as published."""
    root: str = "data"
    """Folder that contains train2017/, val2017/ and annotations/."""
    year: Literal[2014, 2017] = 2017
    """Year of the edition."""
    valid_fraction: float = 0.1
    """Fraction of the training images to hold out for validation."""

    def check(self) -> None:
        """Check the ranges."""
        super().check()
        check_fraction(self, "valid_fraction")

    def build(self) -> "Splits[CaptionDataset]":
        """Open the splits."""
        from glimpse.data.photo_captions import coco_captions

        return coco_captions(root=Path(self.root), **self._shared(), year=self.year, valid_fraction=self.valid_fraction)


@DATASETS.register("karpathy")
class KarpathySettings(_PhotoCaptionSettings):
    """data: photographs with captions in Karpathy's splits and JSON."""

    kind: Literal["karpathy"] = "karpathy"
    """Photographs with captions in Karpathy's splits and JSON: Flickr8k, Flickr30k, COCO."""
    root: str = "data"
    """Folder of the images, to which the file names in the annotations are relative."""
    annotations: str = "dataset_coco.json"
    """JSON file of captions and splits; relative to root, or absolute."""

    def build(self) -> "Splits[CaptionDataset]":
        """Open the splits."""
        from glimpse.data.photo_captions import karpathy_captions

        return karpathy_captions(root=Path(self.root), **self._shared(), annotations=self.annotations)
