"""Scores of classification: confidence, and whether glimpses are on target.

Shapes: B batch, T glimpses, N boxes.
"""

from torch import Tensor

from glimpse.attention.sensor import to_pixels


def confidence(probabilities: Tensor, multi_label: bool = False) -> Tensor:
    """Probability of the most likely prediction.

    Args:
        probabilities: (..., classes), class probabilities.
        multi_label: Whether each class is an independent binary label; a prediction is then one set of labels.

    Returns:
        (...).
    """
    return probabilities.maximum(1 - probabilities).prod(-1) if multi_label else probabilities.amax(-1)


def on_target(locations: Tensor, boxes: Tensor, height: int, width: int) -> Tensor:
    """Whether the center of each glimpse lies in the box of a digit.

    Args:
        locations: (B, T, 2), in [-1, 1].
        boxes: (B, N, 4): x0, y0, x1, y1 in pixels, half-open.
        height: Height of the image in pixels.
        width: Width of the image in pixels.

    Returns:
        (B, T), bool: in any of the N boxes.
    """
    points = to_pixels(locations, height, width).unsqueeze(2)  # (B, T, 1, 2)
    corners = boxes.unsqueeze(1)  # (B, 1, N, 4)
    inside = (points >= corners[..., :2]) & (points < corners[..., 2:])
    return inside.all(-1).any(-1)
