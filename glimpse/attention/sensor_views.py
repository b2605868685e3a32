"""Images prepared for a sensor, to be read at a location or in expectation over a Gaussian location.

Shapes: B batch, C channels, H x W image, K scales, G patch side, S side of the largest square.
"""

import copy
import math
from functools import cached_property
from typing import TYPE_CHECKING, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from glimpse.attention.distributions import Gaussian

if TYPE_CHECKING:
    from glimpse.attention.sensor import Sensor

FLOAT32_INTEGERS = 2**24  # float32 holds every integer up to here exactly
PER_IMAGE = ("images", "_float_images", "_planes", "_lines")  # attributes of a view with a row per image


class View:
    """A batch of images prepared for reading; subclasses implement the sums of a hard read."""

    def __init__(self, sensor: "Sensor", images: Tensor):
        self.sensor = sensor
        self.images = images
        device = images.device
        sides = torch.tensor(sensor.sides, device=device).view(-1, 1)
        cells = torch.tensor(sensor.cell_widths, device=device).view(-1, 1)
        # Edges of the cells of each scale, relative to the anchor: (K, G + 1).
        self._edges = torch.arange(sensor.patch_size + 1, device=device) * cells - sides // 2
        unit = 1 / 255 if images.dtype == torch.uint8 else 1.0
        scale = torch.tensor(
            [unit / width**2 for width in sensor.cell_widths], dtype=_float_dtype(images), device=device
        )
        self._scale = scale.view(-1, 1, 1, 1)  # turns the sum over a cell into its mean
        # Anchors at which the largest square has just left the image; further outside the reading is the same.
        height, width = images.shape[2:]
        before = sensor.sides[-1] // 2
        first = torch.full((2,), float(before - sensor.sides[-1]), device=device)
        self._anchor_range = first, torch.tensor([float(width + before), float(height + before)], device=device)

    def rows(self, index: Tensor) -> Self:
        """Return the view of a subset of the images; prepared tables are shared."""
        view = copy.copy(self)
        vars(view).update({name: value[index] for name, value in vars(self).items() if name in PER_IMAGE})
        return view

    def at(self, location: Tensor) -> Tensor:
        """Read the patches (B, K*C, G, G), the finest scale first, at `location` (B, 2): the hard read."""
        batch, _, height, width = self.images.shape
        if location.shape != (batch, 2):
            raise ValueError(f"location must have shape ({batch}, 2), got {tuple(location.shape)}")
        if location.dtype in (torch.float16, torch.bfloat16):
            location = location.float()  # half precision cannot represent every pixel coordinate
        # NaN reads background; the location itself stays NaN, so the loss shows it.
        anchor = self.sensor.anchor(location.detach(), height, width).floor().nan_to_num(math.inf)
        anchor = anchor.clamp(*self._anchor_range).long()
        patches = self._sums(anchor) * self._scale  # (B, K, C, G, G)
        if self.sensor.background:
            column, row = anchor.unbind(1)
            inside = self._inside(row, height).unsqueeze(-1) * self._inside(column, width).unsqueeze(-2)
            patches = patches + self.sensor.background * (1 - inside.unsqueeze(2))
        return patches.flatten(1, 2)

    def expect(self, attention: Gaussian) -> Tensor:
        """Return the expectation of `at(location)` for a Gaussian location, in closed form: the soft read.

        For an anchor a, pixel j belongs to the cell that starts e pixels from a and is w wide if and only if a is one
        of j - e - w + 1 ... j - e. So the cell contains the pixel with probability
        Phi((j + 1 - e - m) / s) - Phi((j + 1 - e - w - m) / s), separably in x and y.

        Args:
            attention: Distribution of the location; a std of 0 gives the hard read.

        Returns:
            (B, K*C, G, G).
        """
        mean, std = attention
        batch, _, height, width = self.images.shape
        if mean.shape != (batch, 2) or std.shape != (batch, 2):
            raise ValueError(
                f"mean and std must have shape ({batch}, 2), got {tuple(mean.shape)} and {tuple(std.shape)}"
            )
        sensor = self.sensor
        center = sensor.anchor(mean, height, width)
        spread = std * std.new_tensor([width / 2, height / 2])
        rows = _expected_cells(sensor, center[:, 1], spread[:, 1], height)  # K x (B, G, H)
        columns = _expected_cells(sensor, center[:, 0], spread[:, 0], width)  # K x (B, G, W)
        strips = torch.cat(rows, 1).unsqueeze(1) @ self._float_images  # (B, C, K*G, W)
        patches = []
        for strip, row, column in zip(strips.split(sensor.patch_size, 2), rows, columns, strict=True):
            patch = strip @ column.transpose(1, 2).unsqueeze(1)  # (B, C, G, W) @ (B, 1, W, G)
            if sensor.background:
                inside = row.sum(2).unsqueeze(2) * column.sum(2).unsqueeze(1)  # (B, G, G)
                patch = patch + sensor.background * (1 - inside.unsqueeze(1))
            patches.append(patch)
        return torch.cat(patches, 1)

    @cached_property
    def _float_images(self) -> Tensor:
        return self.images if self.images.is_floating_point() else self.images.float() / 255

    def _sums(self, anchor: Tensor) -> Tensor:
        """Return the sums (B, K, C, G, G) over the cells at the anchors (B, 2); pixels outside the image count as 0."""
        raise NotImplementedError

    def _inside(self, anchor: Tensor, length: int) -> Tensor:
        """Return the fraction of each cell (B, K, G) of one axis that is inside the image."""
        edges = (anchor.view(-1, 1, 1) + self._edges).clamp(0, length)
        pixels = (edges[..., 1:] - edges[..., :-1]).to(self._scale.dtype)
        return pixels / pixels.new_tensor(self.sensor.cell_widths).unsqueeze(1)


class TableView(View):
    """Hard reads from a summed-area table: a cell is the difference of the four table entries at its corners.

    Neighboring cells share corners, so a patch takes (G + 1)^2 look-ups at any scale.
    """

    def __init__(self, sensor: "Sensor", images: Tensor):
        super().__init__(sensor, images)
        batch, channels, height, width = images.shape
        table = images.new_zeros(batch, channels, height + 1, width + 1, dtype=table_dtype(images))
        table[:, :, 1:, 1:] = images
        self._table = table.cumsum(2).cumsum(3)
        planes = torch.arange(batch * channels, device=images.device) * ((height + 1) * (width + 1))
        self._planes = planes.view(batch, 1, channels, 1, 1)

    def _sums(self, anchor: Tensor) -> Tensor:
        column, row = anchor.unbind(1)
        batch, _, height, width = self.images.shape
        scales, corners = self._edges.shape
        # Outside the image the table is constant: clamped indices replace padding.
        rows = (row.view(-1, 1, 1) + self._edges).clamp(0, height).view(batch, scales, 1, corners, 1)
        columns = (column.view(-1, 1, 1) + self._edges).clamp(0, width).view(batch, scales, 1, 1, corners)
        index = (rows * (width + 1) + self._planes) + columns  # (B, K, C, G+1, G+1)
        sums = self._table.view(-1).index_select(0, index.view(-1)).view(index.shape)
        sums = sums[..., 1:, :] - sums[..., :-1, :]
        return (sums[..., 1:] - sums[..., :-1]).to(self._scale.dtype)


class CropView(View):
    """Hard reads by copying the largest square, line by line, and pooling all scales from it.

    Small images are padded by the width of the square, so that every line is inside. Large images are not padded, as
    that would cost more than the reads: the few squares that cross the edge are read again, pixel by pixel.
    """

    def __init__(self, sensor: "Sensor", images: Tensor, margin: bool = True):
        super().__init__(sensor, images)
        batch, channels, height, width = images.shape
        side = sensor.sides[-1]
        self._margin = side if margin else 0
        padded = F.pad(images, [self._margin] * 4) if margin else images
        self._width = padded.shape[3]
        self._flat = padded.reshape(-1).contiguous()  # `as_strided` below needs contiguous pixels
        if self._flat.numel() < side:  # the whole batch has fewer pixels than one line of the square
            self._flat = F.pad(self._flat, (0, side))
        self._windows = self._flat.as_strided((self._flat.numel() - side + 1, side), (1, 1))  # every run of S pixels
        self._steps = torch.arange(side, device=images.device) - side // 2
        self._planes = torch.arange(batch * channels, device=images.device).view(batch, channels, 1)
        self._planes = self._planes * (padded.shape[2] * self._width)
        # Start of each line of the square, relative to the anchor: (B, C, S).
        self._lines = self._planes + (self._steps + self._margin) * self._width + (self._margin - side // 2)
        # Range of anchors whose square is inside the image, and range of pixels.
        size = torch.tensor([width, height], device=images.device)
        self._inner = torch.full_like(size, side // 2), size - (side - side // 2)
        self._zero, self._last = torch.zeros_like(size).view(2, 1), (size - 1).view(2, 1)
        self._sum_dtype = images.dtype
        if images.dtype == torch.uint8:  # the smallest integers that can hold the sum over a cell
            self._sum_dtype = torch.int16 if 255 * sensor.cell_widths[-1] ** 2 < 2**15 else torch.int32

    def _sums(self, anchor: Tensor) -> Tensor:
        sensor, side = self.sensor, self.sensor.sides[-1]
        column, row = anchor.unbind(1)
        first = (row * self._width + column).view(-1, 1, 1) + self._lines  # (B, C, S)
        if not self._margin:
            first = first.clamp(0, len(self._windows) - 1)
        square = self._windows.index_select(0, first.view(-1)).view(*first.shape, side).to(self._sum_dtype)
        if not self._margin:
            self._read_over_edge(square, anchor)
        sums = []
        for scale, size in enumerate(sensor.sides):
            start = side // 2 - size // 2
            part = square[:, :, start : start + size, start : start + size]
            for dim in (2, 3):
                for _ in range(scale):
                    part = _sum_neighbors(part, sensor.scale_factor, dim)
            sums.append(part)
        return torch.stack(sums, 1)

    def _read_over_edge(self, square: Tensor, anchor: Tensor) -> None:
        """Overwrite the squares that cross the edge of their image, reading them again pixel by pixel."""
        first, last = self._inner
        over = ((anchor < first) | (anchor > last)).any(1).nonzero().squeeze(1)
        if not over.numel():
            return
        pixels = anchor[over].unsqueeze(2) + self._steps  # (B', 2, S)
        nearest = pixels.clamp(min=self._zero, max=self._last)
        column, row = nearest.unbind(1)
        inside_column, inside_row = (pixels == nearest).unbind(1)
        lines = (row * self._width).unsqueeze(1) + self._planes[over]  # (B', C, S)
        index = lines.unsqueeze(3) + column.view(len(over), 1, 1, -1)  # (B', C, S, S)
        values = self._flat.index_select(0, index.view(-1)).view(index.shape)
        inside = inside_row.unsqueeze(2) & inside_column.unsqueeze(1)  # (B', S, S)
        square[over] = (values * inside.unsqueeze(1)).to(square.dtype)


def table_dtype(images: Tensor) -> torch.dtype:
    """Return the cheapest dtype in which differences of the images' summed-area table are exact enough."""
    height, width = images.shape[2:]
    exact = images.dtype == torch.uint8 and 255 * height * width < FLOAT32_INTEGERS
    return torch.float32 if exact else torch.float64


def _expected_cells(sensor: "Sensor", center: Tensor, spread: Tensor, length: int) -> list[Tensor]:
    """Return the probability that each cell covers each pixel of one axis, divided by the cell's width.

    Args:
        sensor: Geometry of the cells.
        center: (B,), mean of the anchor's coordinate, in pixels.
        spread: (B,), std of the anchor's coordinate, in pixels.
        length: Number of pixels of the axis.

    Returns:
        A tensor (B, G, length) for each scale.
    """
    side = sensor.sides[-1]
    # All scales need the normal cdf at the same integers.
    first = 1 - (side - side // 2)
    points = torch.arange(first, first + length + side, device=center.device, dtype=center.dtype)
    center, spread = center.unsqueeze(1), spread.unsqueeze(1)
    # With spread 0 the anchor is floor(center): the probability of center < point is 0 at an integer center.
    distance = torch.where((points == center) & (spread == 0), -1.0, points - center)
    scaled = distance / spread.clamp(min=torch.finfo(spread.dtype).tiny ** 0.5)
    cdf = 0.5 * torch.erf(scaled * math.sqrt(0.5))  # without the constant 1/2, which cancels in differences
    cells = []
    for width, size in zip(sensor.cell_widths, sensor.sides, strict=True):
        start = (side - side // 2) - (size - size // 2)
        part = cdf[:, start : start + length + size]
        cover = (part[:, width:] - part[:, :-width]) / width  # (B, length + (G - 1) width)
        # Cell i covers pixel j with cover[j + (G - 1 - i) width]: windows of the same line, the last cell first.
        cells.append(cover.unfold(1, length, width).flip(1))
    return cells


def _sum_neighbors(x: Tensor, factor: int, dim: int) -> Tensor:
    """Sum blocks of `factor` neighbors along `dim` 2 or 3, by slices, which are faster than reducing a short axis."""
    parts = [x[:, :, i::factor] if dim == 2 else x[:, :, :, i::factor] for i in range(factor)]
    return sum(parts[1:], parts[0])


def _float_dtype(images: Tensor) -> torch.dtype:
    return images.dtype if images.is_floating_point() else torch.float32
