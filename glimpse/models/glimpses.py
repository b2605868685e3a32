"""Glimpses on the plane and on a grid, the glimpse network that encodes them, and the recurrent core.

Recurrent Models of Visual Attention (arXiv:1406.6247), the networks of its experiments. The glimpse network combines
what was read with where: g = relu(Linear(what) + Linear(where)) with what = relu(Linear(patches)) and where =
relu(Linear(location)); the core is h_t = relu(Linear(h_tm1) + Linear(g_t)). Options beyond the paper: a convolutional
"what" path, and GRU and LSTM cores.

A glimpse is read at a point of the plane (`PlaneGlimpses`) or at a cell of a grid (`GridGlimpses`). Both have the same
members: `prepare` makes images into a memory to read from, `attention` chooses where, `attention_at` is the attention
to a given location, `encode` makes a glimpse vector of a reading, `pixels_read` and `patches_read` report what was
read, `location_dim` is the number P of numbers of a location.

Shapes: B batch, L cells of the grid, K scales, C channels, G patch side, P numbers of a location (2 on the plane),
D state.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from glimpse.attention.annotation import Annotations, Attention
from glimpse.attention.distributions import Categorical, Gaussian
from glimpse.attention.reading import LocationAttention, Reading
from glimpse.attention.sensor import Sensor
from glimpse.attention.sensor_views import View
from glimpse.attention.settings import ReadMode
from glimpse.config.registry import Registry
from glimpse.models.rollout import CoreState, Glimpse

WhatKind = Literal["fc", "conv"]
CoreKind = Literal["rnn", "gru", "lstm"]


def what_path(
    kind: WhatKind, *, in_channels: int, patch_size: int, out_dim: int, conv_channels: int = 32, conv_layers: int = 2
) -> nn.Sequential:
    """Make the network from patches (B, K*C, G, G) to features (B, out_dim).

    "fc" is the paper's fully connected layer; "conv" has two or more 3 x 3 convolutions before it, the second of
    stride 2.
    """
    if kind == "fc":
        return nn.Sequential(nn.Flatten(), nn.Linear(in_channels * patch_size**2, out_dim), nn.ReLU())
    if kind == "conv":
        if conv_layers < 2:
            raise ValueError(f"conv_layers must be at least 2, got {conv_layers}")
        half = (patch_size + 1) // 2
        channels = [in_channels, conv_channels // 2, *[conv_channels] * (conv_layers - 1)]
        layers: list[nn.Module] = []
        for index, (before, after) in enumerate(pairwise(channels)):
            layers += [nn.Conv2d(before, after, 3, stride=2 if index == 1 else 1, padding=1), nn.ReLU()]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(conv_channels * half**2, out_dim), nn.ReLU())
    raise ValueError(f"kind must be 'fc' or 'conv', got {kind!r}")


def initialize(network: nn.Module) -> None:
    """Initialize layers that are followed by ReLUs: He normal weights (arXiv:1502.01852), zero biases.

    torch's default initialization shrinks the signal at every layer, so that all glimpse vectors begin nearly equal.
    """
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


class GlimpseNetwork(nn.Module):
    """Encodes patches and the location they were read at as one glimpse vector."""

    pixel_mean: Tensor
    pixel_std: Tensor

    def __init__(
        self,
        *,
        in_channels: int,
        patch_size: int,
        what: WhatKind = "fc",
        what_dim: int = 128,
        where_dim: int = 128,
        out_dim: int = 256,
        conv_channels: int = 32,
        conv_layers: int = 2,
        location_dim: int = 2,
        pixel_mean: float = 0.0,
        pixel_std: float = 1.0,
    ):
        """Create the network.

        Args:
            in_channels: Channels K*C of a patch: number of scales times channels of the image.
            patch_size: Side G of a patch.
            what: The "what" path, "fc" or "conv" (see `what_path`).
            what_dim: Size of the "what" features.
            where_dim: Size of the "where" features.
            out_dim: Size of the glimpse vector.
            conv_channels: Channels of the convolutions of the "what" path; the first has half as many.
            conv_layers: Number of convolutions of the "what" path.
            location_dim: Numbers P of a location.
            pixel_mean: Subtracted from the patches. Normalizing the image instead would make its padded edge visible.
            pixel_std: Divides the patches.
        """
        super().__init__()
        self.out_dim = out_dim
        self.location_dim = location_dim
        self.what = what_path(
            what,
            in_channels=in_channels,
            patch_size=patch_size,
            out_dim=what_dim,
            conv_channels=conv_channels,
            conv_layers=conv_layers,
        )
        self.where = nn.Sequential(nn.Linear(location_dim, where_dim), nn.ReLU())
        self.join_what = nn.Linear(what_dim, out_dim)
        self.join_where = nn.Linear(where_dim, out_dim)
        initialize(self)
        self.register_buffer("pixel_mean", torch.tensor(float(pixel_mean)))
        self.register_buffer("pixel_std", torch.tensor(float(pixel_std)))

    def forward(self, patches: Tensor, location: Tensor) -> Tensor:
        """Encode patches (B, K*C, G, G) read at location (B, P) as a glimpse vector (B, out_dim)."""
        what = self.what((patches - self.pixel_mean) / self.pixel_std)
        return torch.relu(self.join_what(what) + self.join_where(self.where(location)))


class RecurrentCore(nn.Module):
    """The recurrent network over glimpse vectors."""

    initial_output: nn.Parameter | None

    def __init__(self, *, kind: CoreKind = "gru", input_dim: int, state_dim: int, learn_initial: bool = False):
        """Create the core.

        Args:
            kind: "rnn" (with ReLU, the paper's), "gru" or "lstm".
            input_dim: Size of the glimpse vector.
            state_dim: Size D of the state.
            learn_initial: Whether h_0 is a parameter, so that attention can learn to place the first glimpse;
                otherwise it is zero.
        """
        super().__init__()
        cells = {
            "rnn": lambda: nn.RNNCell(input_dim, state_dim, nonlinearity="relu"),
            "gru": lambda: nn.GRUCell(input_dim, state_dim),
            "lstm": lambda: nn.LSTMCell(input_dim, state_dim),
        }
        if kind not in cells:
            raise ValueError(f"kind must be one of {', '.join(cells)}, got {kind!r}")
        self.kind = kind
        self.state_dim = state_dim
        self.cell = cells[kind]()
        self.initial_output = nn.Parameter(torch.randn(state_dim) * 0.1) if learn_initial else None

    def initial(self, batch: int) -> CoreState:
        """The state before the first glimpse."""
        zeros = self.cell.weight_hh.new_zeros(batch, self.state_dim)
        # A sum and not an expanded view: the FLOP counter cannot follow a view made in inference mode.
        output = zeros if self.initial_output is None else zeros + self.initial_output
        return (output, zeros) if self.kind == "lstm" else (output,)

    def forward(self, glimpse: Tensor, state: CoreState) -> CoreState:
        """Update the state with a glimpse vector (B, input_dim)."""
        if self.kind == "lstm":
            return self.cell(glimpse, state)
        return (self.cell(glimpse, state[0]),)


GLIMPSES: "Registry[Callable[..., PlaneGlimpses | GridGlimpses]]" = Registry("attention.kind")


@GLIMPSES.register("plane")
class PlaneGlimpses(nn.Module):
    """Glimpses at points of the plane; an attention can give a location further numbers than x and y."""

    on_plane: Literal[True] = True

    def __init__(self, *, sensor: Sensor, network: GlimpseNetwork, attention: LocationAttention):
        super().__init__()
        self.sensor = sensor
        self.network = network
        self.attention = attention
        self.location_dim = attention.location_dim

    def prepare(self, images: Tensor, *, num_reads: int, detach: bool = False) -> View:
        """Make the view of images (B, C, H, W) for a number of hard reads; `detach` has no effect here."""
        return self.sensor.view(images, num_reads)

    def attention_at(self, memory: View, location: Tensor) -> Gaussian:
        """The attention to a given location (B, P)."""
        return self.attention.at_fixed_std(location)

    def encode(self, reading: Reading[Gaussian]) -> Glimpse:
        """Encode the patches read, and their location."""
        location = reading.place
        return Glimpse(self.network(reading.context, location), location, reading.attention.std)

    def pixels_read(self, num_glimpses: int) -> int:
        """How many values a rollout reads per channel."""
        return num_glimpses * self.sensor.num_scales * self.sensor.patch_size**2

    def patches_read(self, view: View, glimpse: Glimpse, mode: ReadMode) -> Tensor:
        """The patches (B, K*C, G, G) that the glimpse encodes; soft: their expectation."""
        if mode == "hard":
            return view.at(glimpse.location)
        return view.expect(Gaussian(glimpse.location, glimpse.std))


@GLIMPSES.register("grid")
class GridGlimpses(nn.Module):
    """Glimpses at the cells of a grid: encoded once as annotations of the image, then read by attention."""

    on_plane: Literal[False] = False
    location_dim = 2  # x and y of a cell
    cells: Tensor

    def __init__(self, *, sensor: Sensor, network: GlimpseNetwork, attention: Attention, grid: tuple[int, int]):
        """Assemble the parts; `grid` is the number of rows and columns of cells, spread evenly over the image."""
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
        """Encode the glimpses at all L cells of images (B, C, H, W); `detach` the attention's keys from them."""
        batch, places = len(images), len(self.cells)
        view = self.sensor.view(images, places)
        patches = torch.stack([view.at(cell.expand(batch, 2)) for cell in self.cells], 1)  # (B, L, K*C, G, G)
        locations = self.cells.expand(batch, places, 2)
        encoded = self.network(patches.flatten(0, 1), locations.reshape(-1, 2))
        return self.attention.annotate(encoded.view(batch, places, -1), grid=self.grid, detach_keys=detach)

    def attention_at(self, memory: Annotations, location: Tensor) -> Categorical:
        """The attention to a given location (B, 2): all weight on the nearest cell."""
        cell = (location.unsqueeze(1) - self.cells).square().sum(-1).argmin(1)
        return Categorical.one_hot(cell, len(self.cells), memory.values.dtype)

    def encode(self, reading: Reading[Categorical]) -> Glimpse:
        """Make a glimpse of a reading, whose context vector is a glimpse vector already."""
        weights = reading.attention.weights
        mean = weights @ self.cells
        location = mean if reading.log_prob is None else self.cells[reading.place]
        std = (weights @ self.cells.square() - mean.square()).clamp(min=0).sqrt()
        return Glimpse(reading.context, location, std, weights)

    def pixels_read(self, num_glimpses: int) -> int:
        """How many values a rollout reads per channel: all cells, which are encoded before any is chosen."""
        return len(self.cells) * self.sensor.num_scales * self.sensor.patch_size**2

    def patches_read(self, view: View, glimpse: Glimpse, mode: ReadMode) -> Tensor:
        """The patches (B, K*C, G, G) that the glimpse encodes; soft: the mean over the cells by their weights."""
        if mode == "hard":
            return view.at(glimpse.location)
        patches = torch.stack([view.at(cell.expand(len(glimpse.location), 2)) for cell in self.cells], 1)
        return torch.einsum("bl,bl...->b...", glimpse.attention_weights, patches)


Glimpses = PlaneGlimpses | GridGlimpses
