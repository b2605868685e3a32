"""Glimpses: where they can be, the networks that make vectors of them, and the core that takes these in.

Recurrent Models of Visual Attention (arXiv:1406.6247), the design of its experiments. The glimpse network joins what
was seen and where: g = relu(Linear(what) + Linear(where)) with what = relu(Linear(patches)) and where =
relu(Linear(location)); the core is h_t = relu(Linear(h_tm1) + Linear(g_t)). Departures, by choice of the user: a
convolutional "what" path, and GRU and LSTM cores.

A glimpse is at a point of the plane, or at a cell of a grid. Both have the same methods: `prepare` makes images ready,
`attention` chooses a place, `attention_at` is the attention to a given place, `encode` makes a glimpse vector of what
was read, `pixels_read` and `patches_read` say what was seen.

Shapes: B batch, L cells of the grid, K scales, C channels, G patch side, P numbers of a location (2 on the plane),
D state size.
"""

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

What = Literal["fc", "conv"]
Core = Literal["rnn", "gru", "lstm"]


def what_path(
    kind: What, *, in_channels: int, patch_size: int, out_dim: int, conv_channels: int = 32, conv_layers: int = 2
) -> nn.Sequential:
    """Build the network from patches (B, K*C, G, G) to features (B, out_dim).

    "fc" is the paper's single layer. "conv" is two or more 3 x 3 convolutions, the second of stride 2, before it.
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
    raise ValueError(f"what must be 'fc' or 'conv', got {kind!r}")


def initialize(network: nn.Module) -> None:
    """Draw the weights of layers that ReLUs follow so that signals keep their size (He et al., arXiv:1502.01852).

    torch's own initial weights shrink what passes each layer, so that at first all glimpses look nearly alike.
    """
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


class GlimpseNetwork(nn.Module):
    """Joins what was seen and where it was seen into one vector."""

    pixel_mean: Tensor
    pixel_std: Tensor

    def __init__(
        self,
        *,
        in_channels: int,
        patch_size: int,
        what: What = "fc",
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
            in_channels: Channels of a glimpse: number of scales times channels of the image.
            patch_size: Side G of a patch.
            what: Kind of the "what" path.
            what_dim: Size of the "what" features.
            where_dim: Size of the "where" features.
            out_dim: Size of the glimpse vector.
            conv_channels: Channels of the last convolution of a convolutional "what" path.
            conv_layers: Number of its convolutions.
            location_dim: Numbers P of a location.
            pixel_mean: Subtracted from the patches. Normalizing after reading keeps the background the background.
            pixel_std: Divides the patches.
        """
        super().__init__()
        self.out_dim = out_dim
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
        """Encode patches (B, K*C, G, G) seen at location (B, P) as a glimpse vector (B, out_dim)."""
        what = self.what((patches - self.pixel_mean) / self.pixel_std)
        return torch.relu(self.join_what(what) + self.join_where(self.where(location)))


class RecurrentCore(nn.Module):
    """Takes in one glimpse vector at a time; its state is all that is remembered."""

    initial_output: nn.Parameter | None

    def __init__(self, *, kind: Core = "gru", input_dim: int, state_dim: int, learn_initial: bool = False):
        """Create the core.

        Args:
            kind: "rnn" (with ReLU, the paper's), "gru" or "lstm".
            input_dim: Size of the glimpse vector.
            state_dim: Size D of the state.
            learn_initial: Whether h_0 is learned (else zero), so that the first place to look can be.
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
        """Return the state before anything was seen."""
        zeros = self.cell.weight_hh.new_zeros(batch, self.state_dim)
        # A sum, not a view of the parameter: counting multiply-adds cannot follow a view made in inference mode.
        output = zeros if self.initial_output is None else zeros + self.initial_output
        return (output, zeros) if self.kind == "lstm" else (output,)

    def forward(self, glimpse: Tensor, state: CoreState) -> CoreState:
        """Take in a glimpse vector (B, input_dim)."""
        if self.kind == "lstm":
            return self.cell(glimpse, state)
        return (self.cell(glimpse, state[0]),)


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
