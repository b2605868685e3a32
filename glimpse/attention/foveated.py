"""A foveated sensor: one patch, whose cells are the wider the further they lie from the center.

Resolution falls off with eccentricity, as in the retina, and without the steps of a pyramid; every part of the region
is seen once. The cells are a product of two axes: along each, the innermost cells are one pixel wide, and each further
one is `growth` times as wide as its neighbor. A cell is the mean over its rectangle, and rectangles need not begin at
the edge of a pixel: a pixel counts by the part of it that is covered.

With the location at m, the part of pixel [j, j + 1) that lies left of an edge e from the location is
r(j + 1 - m - e) - r(j - m - e), r(x) = max(0, x), less 1 is the part to its right. So a cell takes differences of r at
its two edges, and its expectation over a Gaussian location replaces r by its own expectation,
x Phi(x / s) + s phi(x / s): closed form, separable, and r again for s = 0.

A read multiplies matrices, which costs more for larger images, unlike the crops of the pyramid.

Shapes: B batch, C channels, H x W image, G cells of an axis.
"""

import copy
import math

import torch
from torch import Tensor

from glimpse.attention.distributions import Gaussian
from glimpse.attention.sensor import to_pixels


class FoveatedSensor:
    """The geometry of a foveated glimpse: G x G cells that widen from the center."""

    num_scales = 1

    def __init__(self, *, patch_size: int, growth: float, background: float = 0.0):
        """Create a sensor.

        Args:
            patch_size: Number G of cells along each axis; odd or even.
            growth: How many times as wide each cell is as its neighbor nearer to the center, at least 1.
            background: What is seen outside the image, in the units of float images (uint8 images: 255 is 1.0).
        """
        if patch_size < 1:
            raise ValueError(f"patch_size must be at least 1, got {patch_size}")
        if not growth >= 1:
            raise ValueError(f"growth must be at least 1, got {growth}")
        self.patch_size = patch_size
        self.growth = growth
        self.background = background
        outer = [growth**distance for distance in range(patch_size // 2)]
        if patch_size % 2:  # the middle cell has one of width 1 on either side
            widths = [*(width * growth for width in reversed(outer)), 1.0, *(width * growth for width in outer)]
        else:
            widths = [*reversed(outer), *outer]
        self.edges = [-sum(widths) / 2]  # of the cells, in pixels from the location: G + 1
        for width in widths:
            self.edges.append(self.edges[-1] + width)

    def view(self, images: Tensor, num_reads: int = 1) -> "FoveatedView":
        """Prepare images (B, C, H, W), floating point or uint8, for reading; there is nothing to do for many reads."""
        if images.dim() != 4:
            raise ValueError(f"images must have shape (B, C, H, W), got {tuple(images.shape)}")
        if not (images.is_floating_point() or images.dtype == torch.uint8):
            raise ValueError(f"images must be floating point or uint8, got {images.dtype}")
        return FoveatedView(self, images)

    def boxes(self, location: Tensor, height: int, width: int) -> Tensor:
        """The region of a read at `location` (..., 2): (..., 1, 4) as x0, y0, x1, y1 in pixels."""
        center = to_pixels(location, height, width).unsqueeze(-2)
        return torch.cat([center + self.edges[0], center + self.edges[-1]], -1)


class FoveatedView:
    """A batch of images made ready for a foveated sensor; an `attention.reading.Memory`."""

    def __init__(self, sensor: FoveatedSensor, images: Tensor):
        self.sensor = sensor
        self.images = images if images.is_floating_point() else images.float() / 255

    def rows(self, index: Tensor) -> "FoveatedView":
        """The view of some of the images only."""
        view = copy.copy(self)
        view.images = self.images[index]
        return view

    def at(self, location: Tensor) -> Tensor:
        """Hard read: the patch at `location` (B, 2). Returns (B, C, G, G)."""
        self._check("location", location)
        location = location.detach()
        return self._read(location, torch.zeros_like(location))

    def expect(self, attention: Gaussian) -> Tensor:
        """Soft read: the exact expectation of `at` for a Gaussian location; a std of 0 gives the hard read."""
        for name, value in zip(("mean", "std"), attention, strict=True):
            self._check(name, value)
        return self._read(attention.mean, attention.std)

    def _check(self, name: str, value: Tensor) -> None:
        if value.shape != (len(self.images), 2):
            raise ValueError(f"{name} must have shape ({len(self.images)}, 2), got {tuple(value.shape)}")

    def _read(self, mean: Tensor, std: Tensor) -> Tensor:
        height, width = self.images.shape[2:]
        mean = mean.to(self.images.dtype)
        center = to_pixels(mean, height, width)
        spread = std.to(mean) * mean.new_tensor([width / 2, height / 2])
        rows = self._cells(center[:, 1], spread[:, 1], height).unsqueeze(1)  # (B, 1, G, H)
        columns = self._cells(center[:, 0], spread[:, 0], width).unsqueeze(1)  # (B, 1, G, W)
        patch = rows @ self.images @ columns.transpose(2, 3)
        if self.sensor.background:
            seen = rows.sum(3).unsqueeze(3) * columns.sum(3).unsqueeze(2)  # (B, 1, G, G)
            patch = patch + self.sensor.background * (1 - seen)
        return patch

    def _cells(self, center: Tensor, spread: Tensor, length: int) -> Tensor:
        """The weight (B, G, length) of each pixel of an axis in each cell; those of a whole cell sum to 1."""
        edges = center.new_tensor(self.sensor.edges)  # (G + 1,)
        pixels = torch.arange(length + 1, device=center.device, dtype=center.dtype)
        left_of = _ramp(pixels - center.view(-1, 1, 1) - edges.view(-1, 1), spread.view(-1, 1, 1))  # (B, G + 1, L + 1)
        covered = left_of[:, :-1] - left_of[:, 1:]  # by the cell, from minus infinity to each pixel's edge
        return (covered[:, :, 1:] - covered[:, :, :-1]) / (edges[1:] - edges[:-1]).view(-1, 1)


def _ramp(x: Tensor, spread: Tensor) -> Tensor:
    """The expectation of max(0, x + n) for normal n of standard deviation `spread`, which may be 0."""
    z = x / spread.clamp(min=1e-12)
    density = (-0.5 * z.square()).exp() / math.sqrt(2 * math.pi)
    return x * torch.special.ndtr(z) + spread * density
