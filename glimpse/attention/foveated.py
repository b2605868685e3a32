"""A foveated sensor: one patch, whose cells widen with their distance from the center.

Resolution falls off with eccentricity, as in the retina, smoothly and not in the steps of a pyramid; cells do not
overlap. They are the product of two axes: along each, the innermost cells are one pixel wide, and each further cell is
`growth` times as wide as its inner neighbor. A cell is the mean over its rectangle; a pixel that is partly inside is
weighted by the fraction that is covered.

For a location m and a cell edge at offset e, the fraction of pixel [j, j + 1) to the right of the edge is
r(j + 1 - m - e) - r(j - m - e) with r(x) = max(0, x). So a cell takes the difference of this at its two edges, and its
expectation over a Gaussian location replaces r by its expectation x Phi(x / s) + s phi(x / s): closed form, separable,
and equal to r for s = 0.

A read is a product of matrices, whose cost grows with the image, unlike the crops of the pyramid. It is computed in
double precision for such images, otherwise in single precision: half precision cannot represent every pixel coordinate.

Shapes: B batch, C channels, H x W image, G cells of an axis.
"""

import copy
import math
from typing import Any

import torch
from torch import Tensor

from glimpse.attention.distributions import Gaussian
from glimpse.attention.sensor import to_pixels


class FoveatedSensor:
    """The geometry of a foveated glimpse: G x G cells that widen from the center; a `sensor.ImageSensor`."""

    num_scales = 1

    def __init__(self, *, patch_size: int, growth: float, background: float = 0.0):
        """Create a sensor.

        Args:
            patch_size: Number G of cells along each axis; odd or even.
            growth: Ratio of the width of a cell to that of its inner neighbor, at least 1.
            background: Pixel value outside the image, in the units of float images (255 of a uint8 image is 1.0).
        """
        if patch_size < 1:
            raise ValueError(f"patch_size must be at least 1, got {patch_size}")
        if not growth >= 1:
            raise ValueError(f"growth must be at least 1, got {growth}")
        self.patch_size = patch_size
        self.growth = growth
        self.background = background
        outer = [growth**distance for distance in range(patch_size // 2)]
        if patch_size % 2:  # one middle cell of width 1
            widths = [*(width * growth for width in reversed(outer)), 1.0, *(width * growth for width in outer)]
        else:
            widths = [*reversed(outer), *outer]
        self.edges = [-sum(widths) / 2]  # the G + 1 edges of the cells, in pixels from the location
        for width in widths:
            self.edges.append(self.edges[-1] + width)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FoveatedSensor) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        options = f"patch_size={self.patch_size}, growth={self.growth}, background={self.background}"
        return f"FoveatedSensor({options})"

    @property
    def env_options(self) -> dict[str, Any]:
        """See `ImageSensor`."""
        return {"sensor": self}

    def view(self, images: Tensor, num_reads: int = 1) -> "FoveatedView":
        """Prepare images (B, C, H, W), floating point or uint8, for reading; `num_reads` is ignored."""
        if images.dim() != 4:
            raise ValueError(f"images must have shape (B, C, H, W), got {tuple(images.shape)}")
        if not (images.is_floating_point() or images.dtype == torch.uint8):
            raise ValueError(f"images must be floating point or uint8, got {images.dtype}")
        return FoveatedView(self, images)

    def boxes(self, location: Tensor, height: int, width: int) -> Tensor:
        """Return the region of a read at `location` (..., 2) in pixels: (..., 1, 4) as x0, y0, x1, y1."""
        center = to_pixels(location, height, width).unsqueeze(-2)
        return torch.cat([center + self.edges[0], center + self.edges[-1]], -1)


class FoveatedView:
    """A batch of images prepared for a foveated sensor; an `attention.reading.Memory`."""

    def __init__(self, sensor: FoveatedSensor, images: Tensor):
        self.sensor = sensor
        images = images if images.is_floating_point() else images.float() / 255
        self.images = images if images.dtype == torch.float64 else images.float()
        self._dtype = images.dtype  # of patches

    def rows(self, index: Tensor) -> "FoveatedView":
        """Return the view of a subset of the images."""
        view = copy.copy(self)
        view.images = self.images[index]
        return view

    def at(self, location: Tensor) -> Tensor:
        """Read the patch (B, C, G, G) at `location` (B, 2): the hard read."""
        self._check("location", location)
        # Not a finite number reads background; the location itself stays NaN, so the loss shows it.
        location = location.detach().nan_to_num(math.inf, math.inf, math.inf)
        return self._read(location, torch.zeros_like(location))

    def expect(self, attention: Gaussian) -> Tensor:
        """Return the exact expectation of `at` for a Gaussian location: the soft read; with std 0, the hard read."""
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
            inside = rows.sum(3).unsqueeze(3) * columns.sum(3).unsqueeze(2)  # (B, 1, G, G)
            patch = patch + self.sensor.background * (1 - inside)
        return patch.to(self._dtype)

    def _cells(self, center: Tensor, spread: Tensor, length: int) -> Tensor:
        """Return the weight (B, G, length) of each pixel in each cell of an axis; a cell inside the image sums to 1."""
        edges = center.new_tensor(self.sensor.edges)  # (G + 1,)
        # An infinite center would give NaN. This far, all cells are well outside the image, with a soft read too.
        far = 4 * (length + self.sensor.edges[-1]) + 12 * spread.detach()
        center = center.clamp(-far, length + far)
        pixels = torch.arange(length + 1, device=center.device, dtype=center.dtype)
        ramps = _ramp(pixels - center.view(-1, 1, 1) - edges.view(-1, 1), spread.view(-1, 1, 1))  # (B, G + 1, L + 1)
        covered = ramps[:, :-1] - ramps[:, 1:]  # length of each cell to the left of each pixel edge
        return (covered[:, :, 1:] - covered[:, :, :-1]) / (edges[1:] - edges[:-1]).view(-1, 1)


def _ramp(x: Tensor, spread: Tensor) -> Tensor:
    """Return the expectation of max(0, x + n) for normal n with standard deviation `spread`, which can be 0."""
    z = x / spread.clamp(min=1e-12)
    density = (-0.5 * z.square()).exp() / math.sqrt(2 * math.pi)
    return x * torch.special.ndtr(z) + spread * density
