"""Where a glimpse can be, and how it becomes a vector: points of the plane, or the cells of a grid.

Both have the same methods: `open` makes images ready, `given` is the attention to a place that nobody chose, `look`
encodes what was read, and `attention` chooses.

Shapes: B batch, L cells of the grid, K scales, C channels, G patch side.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from glimpse.attention import Annotations, Attention, LocationAttention, Reading
from glimpse.networks import GlimpseNetwork
from glimpse.places import Categorical, Gaussian
from glimpse.sensor import Sensor, View


class Look(NamedTuple):
    """One glimpse, encoded."""

    glimpse: Tensor  # (B, out_dim)
    location: Tensor  # (B, 2)
    reading: Reading


class PlaneGlimpses(nn.Module):
    """Glimpses at points of the plane."""

    def __init__(self, *, sensor: Sensor, network: GlimpseNetwork, attention: LocationAttention):
        super().__init__()
        self.sensor = sensor
        self.network = network
        self.attention = attention

    def open(self, images: Tensor, *, num_reads: int, detach: bool) -> View:
        """Make images (B, C, H, W) ready for so many hard reads."""
        return self.sensor.view(images, num_reads)

    def given(self, memory: View, location: Tensor) -> Gaussian:
        """The attention to a place (B, 2) that nobody chose."""
        return self.attention.around(location)

    def look(self, reading: Reading) -> Look:
        """Encode what was read."""
        location = reading.place
        return Look(self.network(reading.context, location), location, reading)

    def std(self, look: Look) -> Tensor:
        """The width of the attention (B, 2)."""
        return look.reading.attention.std


class GridGlimpses(nn.Module):
    """Glimpses at the cells of a grid: all encoded once, as the annotations of the image, then attended to."""

    cells: Tensor

    def __init__(self, *, sensor: Sensor, network: GlimpseNetwork, attention: Attention, grid: tuple[int, int]):
        """Create the looker; `grid` is the number of rows and columns, spread evenly over the image."""
        super().__init__()
        self.sensor = sensor
        self.network = network
        self.attention = attention
        self.grid = grid
        rows, columns = ((torch.arange(n) + 0.5) * 2 / n - 1 for n in grid)
        self.register_buffer(
            "cells", torch.stack(torch.meshgrid(columns, rows, indexing="xy"), -1).view(-1, 2), persistent=False
        )  # (L, 2)

    def open(self, images: Tensor, *, num_reads: int, detach: bool) -> Annotations:
        """Take and encode all L glimpses of images (B, C, H, W); `detach` them from what decides where to look."""
        batch, places = len(images), len(self.cells)
        view = self.sensor.view(images, places)
        patches = torch.stack([view.at(cell.expand(batch, 2)) for cell in self.cells], 1)  # (B, L, K*C, G, G)
        locations = self.cells.expand(batch, places, 2)
        encoded = self.network(patches.flatten(0, 1), locations.reshape(-1, 2))
        return self.attention.annotate(encoded.view(batch, places, -1), grid=self.grid, detach_keys=detach)

    def given(self, memory: Annotations, location: Tensor) -> Categorical:
        """The attention to a place (B, 2) that nobody chose: to the cell next to it, and to no other."""
        cell = (location.unsqueeze(1) - self.cells).square().sum(-1).argmin(1)
        return Categorical.certain(cell, len(self.cells), memory.values.dtype)

    def look(self, reading: Reading) -> Look:
        """Pass on what was read: it is encoded already."""
        weights = reading.attention.weights
        location = weights @ self.cells if reading.log_prob is None else self.cells[reading.place]
        return Look(reading.context, location, reading)

    def std(self, look: Look) -> Tensor:
        """The width of the attention (B, 2)."""
        weights = look.reading.attention.weights
        mean = weights @ self.cells
        return (weights @ self.cells.square() - mean.square()).clamp(min=0).sqrt()
