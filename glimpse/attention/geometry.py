"""Locations and pixels, and the places of a grid.

A location is (x, y); -1 is the left or top *edge* of the image and +1 the right or bottom edge, as in
`grid_sample(align_corners=False)`. `to_pixels` and its inverse are the only conversions of the package. Locations may
lie off the image: everything outside it is background.

Shapes: T glimpses, L cells.
"""

import math

import torch
from torch import Tensor


def grid_centers(rows: int, columns: int, height: float = 1, width: float = 1) -> Tensor:
    """The centers (L, 2), x and y, of the cells of a grid, row by row, each so high and so wide."""
    y, x = torch.meshgrid((torch.arange(rows) + 0.5) * height, (torch.arange(columns) + 0.5) * width, indexing="ij")
    return torch.stack([x, y], -1).view(-1, 2)


def to_pixels(location: Tensor, height: int, width: int) -> Tensor:
    """Convert locations (..., 2) in [-1, 1] to pixel coordinates (x, y), where pixel j covers [j, j + 1)."""
    return (location + 1) * location.new_tensor([width / 2, height / 2])


def from_pixels(point: Tensor, height: int, width: int) -> Tensor:
    """Convert pixel coordinates (..., 2) to locations: the inverse of `to_pixels`."""
    return point / point.new_tensor([width / 2, height / 2]) - 1


def raster(num_glimpses: int) -> Tensor:
    """The places (T, 2) of a raster: centers of the first T cells, in reading order, of the squarest grid that has T.

    Of six glimpses three lie in each of two rows; of seven, the last row of three has one.
    """
    rows = round(math.sqrt(num_glimpses))
    columns = math.ceil(num_glimpses / rows)
    index = torch.arange(num_glimpses)
    x, y = (2 * (index % columns) + 1) / columns - 1, (2 * (index // columns) + 1) / rows - 1
    return torch.stack([x, y], -1)
