"""Where a glimpse can be, and how it becomes a vector: points of the plane, or the cells of a grid.

Both have the same methods: `prepare` makes images ready, `attention` chooses a place, `attention_at` is the attention
to a given place, `encode` makes a glimpse vector of what was read, `pixels_read` and `patches_read` say what was seen.

Shapes: B batch, L cells of the grid, K scales, C channels, G patch side, P numbers of a location (2 on the plane).
"""

import torch
from torch import Tensor, nn

from glimpse.attention.annotation import Annotations, Attention
from glimpse.attention.distributions import Categorical, Gaussian
from glimpse.attention.reading import LocationAttention, Reading
from glimpse.attention.sensor import Sensor
from glimpse.attention.sensor_views import View
from glimpse.attention.settings import ReadMode
from glimpse.config.registry import Registry
from glimpse.models.glimpse_network import GlimpseNetwork
from glimpse.models.rollout import Glimpse

GLIMPSES: Registry[type[nn.Module]] = Registry("attention.kind")


@GLIMPSES.register("plane")
class PlaneGlimpses(nn.Module):
    """Glimpses at points of the plane."""

    def __init__(self, *, sensor: Sensor, network: GlimpseNetwork, attention: LocationAttention):
        super().__init__()
        self.sensor = sensor
        self.network = network
        self.attention = attention

    def prepare(self, images: Tensor, *, num_reads: int, detach: bool = False) -> View:
        """Make images (B, C, H, W) ready for so many hard reads; there is nothing to `detach`."""
        return self.sensor.view(images, num_reads)

    def attention_at(self, memory: View, location: Tensor) -> Gaussian:
        """The attention to a given location (B, P)."""
        return self.attention.at_fixed_std(location)

    def encode(self, reading: Reading[Gaussian]) -> Glimpse:
        """Encode what was read, and where."""
        location = reading.place
        return Glimpse(self.network(reading.context, location), location, reading.attention.std)

    def pixels_read(self, num_glimpses: int) -> int:
        """How many numbers a rollout takes in, per channel."""
        return num_glimpses * self.sensor.num_scales * self.sensor.patch_size**2

    def patches_read(self, view: View, glimpse: Glimpse, mode: ReadMode) -> Tensor:
        """The patches (B, K*C, G, G) that the glimpse was made of; soft: their expectation."""
        if mode == "hard":
            return view.at(glimpse.location)
        return view.expect(Gaussian(glimpse.location, glimpse.std))


@GLIMPSES.register("grid")
class GridGlimpses(nn.Module):
    """Glimpses at the cells of a grid: all encoded once, as the annotations of the image, then attended to."""

    cells: Tensor

    def __init__(self, *, sensor: Sensor, network: GlimpseNetwork, attention: Attention, grid: tuple[int, int]):
        """Join the parts; `grid` is the number of rows and columns, spread evenly over the image."""
        super().__init__()
        self.sensor = sensor
        self.network = network
        self.attention = attention
        self.grid = grid
        rows, columns = ((torch.arange(n) + 0.5) * 2 / n - 1 for n in grid)
        self.register_buffer(
            "cells", torch.stack(torch.meshgrid(columns, rows, indexing="xy"), -1).view(-1, 2), persistent=False
        )  # (L, 2)

    def prepare(self, images: Tensor, *, num_reads: int, detach: bool = False) -> Annotations:
        """Take and encode all L glimpses of images (B, C, H, W); `detach` them from what decides where to look."""
        batch, places = len(images), len(self.cells)
        view = self.sensor.view(images, places)
        patches = torch.stack([view.at(cell.expand(batch, 2)) for cell in self.cells], 1)  # (B, L, K*C, G, G)
        locations = self.cells.expand(batch, places, 2)
        encoded = self.network(patches.flatten(0, 1), locations.reshape(-1, 2))
        return self.attention.annotate(encoded.view(batch, places, -1), grid=self.grid, detach_keys=detach)

    def attention_at(self, memory: Annotations, location: Tensor) -> Categorical:
        """The attention to a given location (B, 2): to the cell next to it, and to no other."""
        cell = (location.unsqueeze(1) - self.cells).square().sum(-1).argmin(1)
        return Categorical.one_hot(cell, len(self.cells), memory.values.dtype)

    def encode(self, reading: Reading[Categorical]) -> Glimpse:
        """Pass on what was read: it is encoded already."""
        weights = reading.attention.weights
        mean = weights @ self.cells
        location = mean if reading.log_prob is None else self.cells[reading.place]
        std = (weights @ self.cells.square() - mean.square()).clamp(min=0).sqrt()
        return Glimpse(reading.context, location, std, weights)

    def pixels_read(self, num_glimpses: int) -> int:
        """How many numbers a rollout takes in, per channel: the whole grid is encoded before any cell is chosen."""
        return len(self.cells) * self.sensor.num_scales * self.sensor.patch_size**2

    def patches_read(self, view: View, glimpse: Glimpse, mode: ReadMode) -> Tensor:
        """The patches (B, K*C, G, G) that the glimpse was made of; soft: the mean of all cells' by their weights."""
        if mode == "hard":
            return view.at(glimpse.location)
        every = torch.stack([view.at(cell.expand(len(glimpse.location), 2)) for cell in self.cells], 1)
        return torch.einsum("bl,bl...->b...", glimpse.attention_weights, every)


Glimpses = PlaneGlimpses | GridGlimpses
