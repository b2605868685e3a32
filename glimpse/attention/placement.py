"""Rules that place glimpses: controls without a learned policy, and the first glimpse of a learned policy.

A recurrent attention model whose glimpses are placed by a rule is trained and scored like any other; the difference to
a learned policy is what the policy contributes.

A rule is a function of the index of the glimpse, from 0, and of the scene, that returns locations (B, P). To add one,
register a function here under its name in configs. The settings import this module, so it does not import torch.

Shapes: B batch, T glimpses, P numbers of a location: x, y and, with some kinds of attention, further ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from glimpse.config.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

    from glimpse.models.rollout import Scene


@dataclass(frozen=True)
class PlacementRule:
    """A function that places glimpses, with its requirements."""

    name: str
    place: Callable[[int, Scene], Tensor]
    needs_boxes: bool = False  # needs the bounding boxes of the digits
    is_random: bool = False  # draws random numbers, in a greedy or soft rollout too

    def __call__(self, t: int, scene: Scene) -> Tensor:
        """Return the location (B, P) of glimpse t, from 0."""
        return self.place(t, scene)


RULES: Registry[PlacementRule] = Registry("attention.policy")


def _rule(
    name: str, *, needs_boxes: bool = False, is_random: bool = False
) -> Callable[[Callable[[int, Scene], Tensor]], Callable[[int, Scene], Tensor]]:
    """Register the decorated function as a rule of this name."""

    def register(place: Callable[[int, Scene], Tensor]) -> Callable[[int, Scene], Tensor]:
        RULES.register(name)(PlacementRule(name, place, needs_boxes, is_random))
        return place

    return register


@_rule("center")
def center(t: int, scene: Scene) -> Tensor:
    """Place every glimpse at the center of the image; further numbers of a location are 0."""
    return _zeros(scene)


@_rule("random", is_random=True)
def uniform(t: int, scene: Scene) -> Tensor:
    """Sample locations uniformly over the image; further numbers of a location are uniform in [-1, 1] too."""
    return scene.noise.uniform(_zeros(scene)) * 2 - 1


@_rule("raster")
def raster_scan(t: int, scene: Scene) -> Tensor:
    """Scan a grid row by row; further numbers of a location are 0."""
    return _extend(raster(scene.num_glimpses)[t].expand(len(scene.images), 2), scene)


@_rule("oracle", needs_boxes=True)
def oracle(t: int, scene: Scene) -> Tensor:
    """Place each glimpse at the center of a digit's box; several digits take turns.

    Further numbers of a location are 0.
    """
    from glimpse.attention.sensor import from_pixels

    if scene.boxes is None or scene.boxes.shape[1] == 0:
        raise ValueError("boxes must be (B, N, 4) with N >= 1 for the rule oracle, got none")
    corners = scene.boxes[:, t % scene.boxes.shape[1]].to(device=scene.images.device, dtype=scene.dtype)
    return _extend(from_pixels((corners[:, :2] + corners[:, 2:]) / 2, *scene.images.shape[2:]), scene)


def _zeros(scene: Scene) -> Tensor:
    return scene.images.new_zeros(len(scene.images), scene.location_dim, dtype=scene.dtype)


def _extend(points: Tensor, scene: Scene) -> Tensor:
    """Return the locations (B, P) with x and y of the points (B, 2) and zeros."""
    from torch.nn.functional import pad

    points = points.to(device=scene.images.device, dtype=scene.dtype)
    return pad(points, (0, scene.location_dim - points.shape[1]))


def raster(num_glimpses: int) -> Tensor:
    """Return the locations (T, 2) of a raster: the first T cell centers, row by row, of the squarest sufficient grid.

    Six glimpses are two rows of three; seven are two rows of three and a third row with one.
    """
    import torch

    rows = round(math.sqrt(num_glimpses))
    columns = math.ceil(num_glimpses / rows)
    index = torch.arange(num_glimpses)
    x, y = (2 * (index % columns) + 1) / columns - 1, (2 * (index // columns) + 1) / rows - 1
    return torch.stack([x, y], -1)
