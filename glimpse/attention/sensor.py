"""The glimpse sensor: multi-scale patches of an image at a location.

Recurrent Models of Visual Attention (arXiv:1406.6247), section 3.1, "Sensor". A glimpse is K concentric squares of
side G, fG, f^2 G, ... pixels, each reduced to G x G by averaging: all patches have the same size, and resolution
decreases from the center outwards.

There are two ways to read:

* `View.at(location)`: the patches at one location (the *hard* read);
* `View.expect(attention)`: the exact expectation of these patches for a Gaussian location (the *soft* read),
  differentiable in mean and std. As std goes to 0 it becomes the hard read.

Coordinates, in the whole package: a location is (x, y), where -1 is the left or top *edge* of the image and +1 the
right or bottom edge, as in `grid_sample(align_corners=False)`; `to_pixels` and its inverse are the only conversions.
Locations can lie outside the image, where everything is background.

Shapes: B batch, C channels, H x W image, K scales, G patch side, S side of the largest square.
"""

from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from glimpse.attention.distributions import Gaussian
from glimpse.attention.reading import Memory
from glimpse.attention.sensor_views import CropView, TableView, View, table_dtype

Plan = Literal["auto", "table", "crop"]

# Relative cost of the two plans of hard reads: ns per element on a 2-core CPU (`python benchmarks/sensor.py --fit`).
TABLE_BUILD, TABLE_BUILD_DOUBLE, TABLE_READ, CROP_READ = 1.9, 2.5, 8.0, 0.95
# Padding per byte of a padded image, and reading squares over the edge again per pixel of a square; rough estimates.
PAD, MEND = 0.03, 0.25


def to_pixels(location: Tensor, height: int, width: int) -> Tensor:
    """Convert x and y, the first numbers of locations (..., P) in [-1, 1], to pixels (..., 2): j covers [j, j + 1)."""
    return (location[..., :2] + 1) * location.new_tensor([width / 2, height / 2])


def from_pixels(point: Tensor, height: int, width: int) -> Tensor:
    """Convert pixel coordinates (..., 2) to locations: the inverse of `to_pixels`."""
    return point / point.new_tensor([width / 2, height / 2]) - 1


class ImageSensor(Protocol):
    """The geometry of a glimpse at a point of the plane, for any kind of sensor."""

    patch_size: int  # side G of a patch
    num_scales: int  # number K of patches
    background: float  # pixel value outside the image

    @property
    def env_options(self) -> dict[str, Any]:
        """The options of an environment with this sensor."""

    def view(self, images: Tensor, num_reads: int = 1) -> Memory[Gaussian]:
        """Prepare images (B, C, H, W) for about `num_reads` hard reads, which return patches (B, K*C, G, G)."""

    def boxes(self, location: Tensor, height: int, width: int) -> Tensor:
        """Return the regions of a read at `location` (..., 2) in pixels: (..., K, 4) as x0, y0, x1, y1."""


class Sensor:
    """The geometry of a glimpse: K concentric squares, each averaged down to G x G."""

    def __init__(
        self,
        *,
        patch_size: int,
        num_scales: int = 1,
        scale_factor: int = 2,
        background: float = 0.0,
        plan: Plan = "auto",
    ):
        """Create a sensor.

        Args:
            patch_size: Side G of the smallest square, in pixels, and of every patch; odd or even.
            num_scales: Number K of squares.
            scale_factor: Ratio of the sides of successive squares.
            background: Pixel value outside the image, in the units of float images (255 of a uint8 image is 1.0).
            plan: How to compute hard reads. All plans give the same patches: "table" builds a summed-area table once
                per image, "crop" gathers the largest square at each read, "auto" takes the cheaper of the two.
        """
        for name, value, least in (
            ("patch_size", patch_size, 1),
            ("num_scales", num_scales, 1),
            ("scale_factor", scale_factor, 2 if num_scales > 1 else 1),
        ):
            if value < least:
                raise ValueError(f"{name} must be at least {least} (num_scales={num_scales}), got {value}")
        if plan not in ("auto", "table", "crop"):
            raise ValueError(f"plan must be 'auto', 'table' or 'crop', got {plan!r}")
        self.patch_size = patch_size
        self.num_scales = num_scales
        self.scale_factor = scale_factor
        self.background = background
        self.plan = plan
        self.cell_widths = tuple(scale_factor**k for k in range(num_scales))  # pixels per cell of scale k
        self.sides = tuple(patch_size * width for width in self.cell_widths)  # pixels per square of scale k

    @property
    def env_options(self) -> dict[str, Any]:
        """See `ImageSensor`."""
        return {name: getattr(self, name) for name in ("patch_size", "num_scales", "scale_factor", "background")}

    def view(self, images: Tensor, num_reads: int = 1) -> View:
        """Prepare a batch of images for reading.

        Args:
            images: (B, C, H, W), floating point, or uint8, which is divided by 255.
            num_reads: Expected number of hard reads, from which the plan "auto" estimates costs.
        """
        if images.dim() != 4:
            raise ValueError(f"images must have shape (B, C, H, W), got {tuple(images.shape)}")
        if not (images.is_floating_point() or images.dtype == torch.uint8):
            raise ValueError(f"images must be floating point or uint8, got {images.dtype}")
        if self._table_pays(images, num_reads):
            return TableView(self, images)
        return CropView(self, images, margin=self._margin_pays(images, num_reads))

    def anchor(self, location: Tensor, height: int, width: int) -> Tensor:
        """Return pixel coordinates whose floor a is the anchor of the squares, which start at a - side // 2.

        Adding half a pixel centers squares of an even side on the location; those of an odd side do not need it.
        """
        return to_pixels(location, height, width) + (0.0 if self.patch_size % 2 else 0.5)

    def boxes(self, location: Tensor, height: int, width: int) -> Tensor:
        """Return the squares of a hard read at `location` (..., 2) in pixels: (..., K, 4) as x0, y0, x1, y1."""
        corner = self.anchor(location, height, width).floor().unsqueeze(-2)  # (..., 1, 2)
        sides = location.new_tensor(self.sides).unsqueeze(-1)  # (K, 1)
        start = corner - (sides / 2).floor()
        return torch.cat([start, start + sides], -1)

    def _table_pays(self, images: Tensor, num_reads: int) -> bool:
        if self.plan != "auto":
            return self.plan == "table"
        dtype = table_dtype(images)
        if dtype == torch.float64 and images.device.type == "mps":  # has no double precision
            return False
        if images.requires_grad:  # the backward pass of the crop plan's windows is too expensive
            return True
        height, width = images.shape[2:]
        build = height * width * (TABLE_BUILD if dtype == torch.float32 else TABLE_BUILD_DOUBLE)
        per_read = self.num_scales * (self.patch_size + 1) ** 2 * TABLE_READ
        return build + num_reads * per_read < num_reads * self.sides[-1] ** 2 * CROP_READ

    def _margin_pays(self, images: Tensor, num_reads: int) -> bool:
        side = self.sides[-1]
        padded = (images.shape[2] + 2 * side) * (images.shape[3] + 2 * side) * images.element_size()
        return padded * PAD < num_reads * side**2 * MEND
