"""A window on the places: attention only to what is near a point that the state predicts.

Effective Approaches to Attention-based Neural Machine Translation (arXiv:1508.04025), 3.2, predictive alignment
("local-p"): of S places in a row, those within D of p = S sigmoid(v . tanh(W h)) are attended to, the nearer the more,
by a Gaussian around p whose std is D / 2.

Departures. The paper multiplies the weights by the Gaussian after the softmax, and they no longer add up to 1. Here its
logarithm is added to the scores before the softmax: the same weights over their sum. So attention stays a distribution
that can be sampled, and the soft read stays the expectation of the hard one. Place s is at s + 1/2, its center, so that
both ends are alike and a place is always within 1/2 of p: a window is never empty. And places may lie on a grid: then p
is a point, each coordinate predicted as above, and the window is the square around it.

As in the paper, a place that leaves the window loses the weight it has left, at most exp(-2) of what it would have at
p: weights are smooth in p but for these jumps, which have no gradient.

Shapes: B batch, L places, N axes (1 for a row of places, 2, x and y, for a grid), D state size, E hidden size.
"""

import math

import torch
from torch import Tensor, nn


def grid_centers(rows: int, columns: int, height: float = 1, width: float = 1) -> Tensor:
    """The centers (L, 2), x and y, of the cells of a grid, row by row, each so high and so wide."""
    y, x = torch.meshgrid((torch.arange(rows) + 0.5) * height, (torch.arange(columns) + 0.5) * width, indexing="ij")
    return torch.stack([x, y], -1).view(-1, 2)


class Window(nn.Module):
    """Predicts a point among the places, and says what being far from it costs each of them."""

    def __init__(self, *, state_dim: int, dim: int, radius: int, axes: int = 1):
        """Create the window.

        Args:
            state_dim: Size of the state that decides where the window is.
            dim: Size E of the hidden layer of the prediction.
            radius: How many places the window reaches to either side, the D of the paper.
            axes: Number N of axes along which the places lie, 1 or 2.
        """
        super().__init__()
        if radius < 1:
            raise ValueError(f"radius must be at least 1, got {radius}")
        if axes not in (1, 2):
            raise ValueError(f"axes must be 1 or 2, got {axes}")
        self.radius = radius
        self.axes = axes
        self.hidden = nn.Linear(state_dim, dim, bias=False)
        self.point = nn.Linear(dim, axes, bias=False)

    def center(self, state: Tensor, extent: Tensor) -> Tensor:
        """The point (B, N) that the state (B, D) predicts, from 0 to the extent (B, N) along each axis."""
        return extent * self.point(self.hidden(state).tanh()).sigmoid()

    def forward(self, state: Tensor, positions: Tensor, extent: Tensor) -> Tensor:
        """The logarithm (B, L) of the Gaussian at the places; minus infinity outside of the window.

        Args:
            state: (B, D).
            positions: (B, L, N), of the places, as by `sequence_positions` and `grid_positions`.
            extent: (B, N), of all of them.
        """
        distance = positions - self.center(state, extent).unsqueeze(1)  # (B, L, N)
        outside = (distance.abs() > self.radius).any(-1)
        return (-0.5 * (2 / self.radius * distance).square().sum(-1)).masked_fill(outside, -math.inf)


def sequence_positions(annotations: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """The positions (B, L, 1) of annotations (B, L, A), and their extent (B, 1), the number of them.

    Only those count that are there by the mask (B, L), so that padding changes nothing.
    """
    if mask is None:
        mask = torch.ones(1, annotations.shape[1], dtype=torch.bool, device=annotations.device)
    count = mask.cumsum(1).to(annotations.dtype).expand(len(annotations), -1)  # of those up to here
    return (count - 0.5).unsqueeze(-1), count[:, -1:]


def grid_positions(annotations: Tensor, grid: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """The positions (B, L, 2), x and y, of annotations (B, L, A) of a grid, row by row, and their extent (B, 2)."""
    rows, columns = grid
    batch, places = annotations.shape[:2]
    if rows * columns != places:
        raise ValueError(f"grid must have as many places as there are annotations, {places}, got {rows} x {columns}")
    positions = grid_centers(rows, columns).to(annotations)
    return positions.expand(batch, -1, -1), annotations.new_tensor([columns, rows]).expand(batch, -1)
