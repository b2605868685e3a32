"""The networks between the sensor and the answer: glimpse network and recurrent core.

Recurrent Models of Visual Attention (arXiv:1406.6247), the design of its experiments. The glimpse network joins what
was seen and where: g = relu(Linear(what) + Linear(where)) with what = relu(Linear(patches)) and where =
relu(Linear(location)); the core is h_t = relu(Linear(h_tm1) + Linear(g_t)). Departures, by choice of the user: a
convolutional "what" path, and GRU and LSTM cores.

Shapes: B batch, K scales, C channels, G patch side, P numbers of a location (2 on the plane), D state size.
"""

from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

What = Literal["fc", "conv"]
Core = Literal["rnn", "gru", "lstm"]
CoreState = tuple[Tensor, ...]  # the first is the output h (B, D); an LSTM has a cell beside it


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
