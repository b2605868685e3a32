"""Settings of the data sets of images with classes."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from glimpse.data.settings.base import (
    DATASETS,
    ImageDataSettings,
    as_pair,
    check_canvas,
    check_fraction,
    check_fractions,
)

if TYPE_CHECKING:
    from glimpse.data.base import Dataset, Splits


@DATASETS.register("cluttered")
class ClutteredMNISTSettings(ImageDataSettings):
    """data: MNIST digits among clutter, generated on the fly."""

    has_boxes = True
    kind: Literal["cluttered"] = "cluttered"
    """MNIST digits among clutter, generated on the fly."""
    canvas: int | tuple[int, int] = 60
    """Side of the image in pixels, or [height, width]; at least 28."""
    num_digits: int = 1
    """Digits per image, at most 10."""
    num_distractors: int = 4
    """Distractors (crops of other digits) per image; 0: translated MNIST, or plain MNIST on a canvas of 28."""
    distractor_size: int = 8
    """Side of the distractors in pixels."""
    target: Literal["label", "mark", "combine", "sum"] = "label"
    """Target: the label of one digit; for several digits, multi-hot labels (mark), a class such as "3+7" (combine), or
    their sum."""

    def check(self) -> None:
        """Check the ranges."""
        check_canvas(self)
        self.require_positive("num_digits")
        self.require(self.num_digits <= 10, "num_digits", "at most 10")
        self.require(
            (self.target == "label") == (self.num_digits == 1),
            "target",
            "label for one digit, and mark, combine or sum for several",
            f"{self.target} with data.num_digits {self.num_digits}",
        )

    def idle(self) -> set[str]:
        """The size of distractors, without any."""
        return set() if self.num_distractors else {"distractor_size"}

    def canonical(self, name: str, value: Any) -> Any:
        """The canvas as a pair."""
        return as_pair(value) if name == "canvas" else value

    def title(self) -> str:
        """See `DataSettings`: cluttered, translated or plain MNIST."""
        height, width = as_pair(self.canvas)
        size = f"{height}x{width}"
        several = f", {self.num_digits} digits ({self.target})" if self.num_digits > 1 else ""
        if self.num_distractors:
            return f"cluttered {size}{several}"
        return f"MNIST {size}" if (height, width) == (28, 28) else f"translated {size}{several}"

    def build(self) -> "Splits[Dataset]":
        """Open the splits."""
        from glimpse.data.cluttered_mnist import cluttered_mnist

        return cluttered_mnist(
            canvas=as_pair(self.canvas),
            num_digits=self.num_digits,
            num_distractors=self.num_distractors,
            distractor_size=self.distractor_size,
            target=self.target,
        )


class _StoredImageSettings(ImageDataSettings):
    """data: images in files."""

    technical = ("workers", "download")
    paths = ("root",)
    root: str = "data"
    """Folder of the data."""
    size: tuple[int, int] | None = None
    """Resize images to [height, width]; null: no resizing, all must have the size of the first one."""
    channels: Literal[1, 3] | None = None
    """Read images as gray (1) or color (3); null: as in the first image."""
    valid_fraction: float = 0.1
    """Fraction of the training images to hold out if there is no validation split."""
    workers: int = 0
    """Number of data loader processes; 0: read in the main process."""

    def check(self) -> None:
        """Check the ranges."""
        self.require(self.size is None or min(self.size) >= 1, "size", "null or two numbers of at least 1")
        check_fraction(self, "valid_fraction")
        self.require(self.workers >= 0, "workers", "at least 0")

    def _shared(self) -> dict[str, Any]:
        return {
            "root": Path(self.root),
            "size": self.size,
            "channels": self.channels,
            "valid_fraction": self.valid_fraction,
            "workers": self.workers,
        }


@DATASETS.register("torchvision")
class TorchvisionSettings(_StoredImageSettings):
    """data: a classification data set of torchvision."""

    kind: Literal["torchvision"] = "torchvision"
    """A classification data set of torchvision."""
    name: str = "CIFAR10"
    """Class name in torchvision.datasets."""
    download: bool = False
    """Download the data if it is missing."""

    def build(self) -> "Splits[Dataset]":
        """Open the splits."""
        from glimpse.data.image_folders import torchvision_data

        return torchvision_data(**self._shared(), name=self.name, download=self.download)


@DATASETS.register("folder")
class ImageFolderSettings(_StoredImageSettings):
    """data: a folder with a subfolder per class, or with folders train/, valid/ and test/ of such subfolders."""

    kind: Literal["folder"] = "folder"
    """A folder with a subfolder per class, or with folders train/, valid/ and test/ of such subfolders."""
    test_fraction: float = 0.1
    """Fraction of the images to hold out if there is no test/ folder."""

    def check(self) -> None:
        """Check the ranges."""
        super().check()
        check_fractions(self)

    def build(self) -> "Splits[Dataset]":
        """Open the splits."""
        from glimpse.data.image_folders import image_folder

        return image_folder(**self._shared(), test_fraction=self.test_fraction)
