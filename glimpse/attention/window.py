"""Local attention: a window around a point that the state predicts.

Effective Approaches to Attention-based Neural Machine Translation (arXiv:1508.04025), 3.2, predictive alignment
("local-p"): of S places of a sequence, those within D of p = S sigmoid(v . tanh(W h)) are attended to, with weights
multiplied by a Gaussian around p with std D / 2.

Departures. The paper multiplies the weights after the softmax, so that they no longer sum to 1. Here the logarithm of
the Gaussian is added to the scores before the softmax, which gives the same weights, renormalized: attention stays a
distribution that can be sampled, and the soft read stays the expectation of the hard read. Place s has the coordinate
s + 1/2, the center of its cell, so that some place is always within 1/2 of p and no window is empty. Places can lie on
a grid; then p has two coordinates, each predicted as above, and the window is a square.

As in the paper, the weight of a place drops to 0 where the place leaves the window, from at most exp(-2) of its weight
at p: weights are a smooth function of p except for these jumps, which have no gradient.

Shapes: B batch, L places, N axes (1 for a sequence, 2, x and y, for a grid), D state size, E hidden size.
"""

import math

import torch
from torch import Tensor, nn


def grid_centers(rows: int, columns: int, height: float = 1, width: float = 1) -> Tensor:
    """Return the centers (L, 2), x and y, of the cells of a grid, row by row, for cells of a height and width."""
    y, x = torch.meshgrid((torch.arange(rows) + 0.5) * height, (torch.arange(columns) + 0.5) * width, indexing="ij")
    return torch.stack([x, y], -1).view(-1, 2)


class Window(nn.Module):
    """Predicts a point from the state, and returns a logit for each place that decreases with its distance."""

    def __init__(self, *, state_dim: int, dim: int, radius: int, axes: int = 1):
        """Create the window.

        Args:
            state_dim: Size of the state.
            dim: Size E of the hidden layer of the prediction.
            radius: Radius of the window in places, D in the paper.
            axes: Number N of axes of the places, 1 or 2.
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
        """Return the point (B, N) that the state (B, D) predicts, from 0 to the extent (B, N) along each axis."""
        return extent * self.point(self.hidden(state).tanh()).sigmoid()

    def forward(self, state: Tensor, positions: Tensor, extent: Tensor) -> Tensor:
        """Return the logarithm (B, L) of the unnormalized Gaussian at the places; minus infinity outside the window.

        Args:
            state: (B, D).
            positions: (B, L, N), coordinates of the places; see `sequence_positions` and `grid_positions`.
            extent: (B, N), length of each axis.
        """
        distance = positions - self.center(state, extent).unsqueeze(1)  # (B, L, N)
        outside = (distance.abs() > self.radius).any(-1)
        return (-0.5 * (2 / self.radius * distance).square().sum(-1)).masked_fill(outside, -math.inf)


def sequence_positions(annotations: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the positions (B, L, 1) of annotations (B, L, A), and their extent (B, 1), the length of the sequence.

    Padding, where the mask (B, L) is false, is not counted.
    """
    if mask is None:
        mask = torch.ones(1, annotations.shape[1], dtype=torch.bool, device=annotations.device)
    count = mask.cumsum(1).to(annotations.dtype).expand(len(annotations), -1)  # places up to each one
    return (count - 0.5).unsqueeze(-1), count[:, -1:]


def grid_positions(annotations: Tensor, grid: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Return the positions (B, L, 2), x and y, of annotations (B, L, A), row by row, and the extent (B, 2)."""
    rows, columns = grid
    batch, places = annotations.shape[:2]
    if rows * columns != places:
        raise ValueError(f"grid must have {places} cells, one per annotation, got {rows} x {columns}")
    positions = grid_centers(rows, columns).to(annotations)
    return positions.expand(batch, -1, -1), annotations.new_tensor([columns, rows]).expand(batch, -1)
