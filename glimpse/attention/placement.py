"""Rules that place glimpses: controls, to know what choosing places is worth, and the first glimpse of a model.

A recurrent attention model whose glimpses are placed by one of these rules is trained and scored like any other, but
has no policy to learn. The first glimpse of an ordinary model is placed by one of them too.

A rule is a function of the number of the glimpse, from 0, and of the scene, that returns locations (B, 2). Adding one
takes a function here, registered by the name that a config gives. This module is imported with the settings, so it does
not import torch.

Shapes: B batch, T glimpses.
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
    """A function that places glimpses, and what it needs."""

    name: str
    place: Callable[[int, Scene], Tensor]
    needs_boxes: bool = False  # of the digits: it is an oracle
    is_random: bool = False  # draws random numbers, even where nothing else is sampled

    def __call__(self, t: int, scene: Scene) -> Tensor:
        """Where glimpse t, from 0, lies: (B, 2)."""
        return self.place(t, scene)


RULES: Registry[PlacementRule] = Registry("attention.policy")


def _rule(
    name: str, *, needs_boxes: bool = False, is_random: bool = False
) -> Callable[[Callable[[int, Scene], Tensor]], Callable[[int, Scene], Tensor]]:
    """Decorate a function to make it a rule of this name."""

    def register(place: Callable[[int, Scene], Tensor]) -> Callable[[int, Scene], Tensor]:
        RULES.register(name)(PlacementRule(name, place, needs_boxes, is_random))
        return place

    return register


@_rule("center")
def center(t: int, scene: Scene) -> Tensor:
    """In the middle of the image."""
    return _zeros(scene)


@_rule("random", is_random=True)
def uniform(t: int, scene: Scene) -> Tensor:
    """Uniformly anywhere on the image."""
    return scene.noise.uniform(_zeros(scene)) * 2 - 1


@_rule("raster")
def raster_scan(t: int, scene: Scene) -> Tensor:
    """On a grid, line by line."""
    places = raster(scene.num_glimpses).to(device=scene.images.device, dtype=scene.dtype)
    return places[t].expand(len(scene.images), 2)


@_rule("oracle", needs_boxes=True)
def oracle(t: int, scene: Scene) -> Tensor:
    """In the middle of the digit, of several digits on one after the other."""
    from glimpse.attention.sensor import from_pixels

    if scene.boxes is None or scene.boxes.shape[1] == 0:
        raise ValueError("an oracle needs boxes (B, N, 4) of the digits, got none")
    corners = scene.boxes[:, t % scene.boxes.shape[1]].to(device=scene.images.device, dtype=scene.dtype)
    return from_pixels((corners[:, :2] + corners[:, 2:]) / 2, *scene.images.shape[2:])


def _zeros(scene: Scene) -> Tensor:
    return scene.images.new_zeros(len(scene.images), 2, dtype=scene.dtype)


def raster(num_glimpses: int) -> Tensor:
    """The places (T, 2) of a raster: centers of the first T cells, in reading order, of the squarest grid that has T.

    Of six glimpses three lie in each of two rows; of seven, the last row of three has one.
    """
    import torch

    rows = round(math.sqrt(num_glimpses))
    columns = math.ceil(num_glimpses / rows)
    index = torch.arange(num_glimpses)
    x, y = (2 * (index % columns) + 1) / columns - 1, (2 * (index // columns) + 1) / rows - 1
    return torch.stack([x, y], -1)
