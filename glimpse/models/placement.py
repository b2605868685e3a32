"""Controls: places that nobody chose, to know what choosing them is worth.

A recurrent attention model whose glimpses are placed by one of these rules is trained and scored like any other, but
has no policy to learn. The first glimpse of an ordinary model is placed by one of them too.

Shapes: B batch, T glimpses, N boxes.
"""

import math
from typing import Literal, get_args

import torch
from torch import Tensor

from glimpse.places import Noise
from glimpse.sensor import from_pixels

Rule = Literal["centre", "random", "raster", "oracle"]


def check_rule(rule: str, *others: str) -> None:
    """Refuse an unknown rule."""
    if rule not in (valid := (*get_args(Rule), *others)):
        raise ValueError(f"the rule must be one of {', '.join(valid)}, got {rule!r}")


def place(
    rule: Rule, step: int, num_glimpses: int, like: Tensor, images: Tensor, boxes: Tensor | None, noise: Noise
) -> Tensor:
    """Where glimpse `step` of `num_glimpses` lies, by a rule.

    Args:
        rule: "centre": in the middle of the image. "random": uniformly anywhere on it. "raster": on a grid, line by
            line. "oracle": in the middle of the digit, of several digits on one after the other.
        step: Number of the glimpse, from 0.
        num_glimpses: Number T of glimpses.
        like: A tensor of the type and device to return.
        images: (B, C, H, W).
        boxes: (B, N, 4), of the digits, in pixels; only the oracle is told.
        noise: The chance of "random".

    Returns:
        (B, 2).
    """
    check_rule(rule)
    batch, _, height, width = images.shape
    if rule == "oracle":
        if boxes is None or boxes.shape[1] == 0:
            raise ValueError("an oracle needs boxes (B, N, 4) of the digits, got none")
        corners = boxes[:, step % boxes.shape[1]].to(like)
        return from_pixels((corners[:, :2] + corners[:, 2:]) / 2, height, width)
    if rule == "random":
        return noise.uniform(like.new_zeros(batch, 2)) * 2 - 1
    if rule == "raster":
        return raster(num_glimpses)[step].to(like).expand(batch, 2)
    return like.new_zeros(batch, 2)


def raster(num_glimpses: int) -> Tensor:
    """The places (T, 2) of a raster: centres of the first T cells, in reading order, of the squarest grid that has T.

    Of six glimpses three lie in each of two rows; of seven, the last row of three has one.
    """
    rows = round(math.sqrt(num_glimpses))
    columns = math.ceil(num_glimpses / rows)
    index = torch.arange(num_glimpses)
    x, y = (2 * (index % columns) + 1) / columns - 1, (2 * (index // columns) + 1) / rows - 1
    return torch.stack([x, y], -1)
