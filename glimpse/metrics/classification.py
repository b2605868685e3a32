"""Scores of classification: error with its interval, certainty, and how often the glimpses hit.

Shapes: B batch, T glimpses, N boxes.
"""

from torch import Tensor

from glimpse.attention.sensor import to_pixels


def confidence(probabilities: Tensor, multi_label: bool = False) -> Tensor:
    """The probability of the most likely answer.

    Args:
        probabilities: (..., classes), probabilities.
        multi_label: Whether each class is a yes or no of its own: then an answer is right about all of them.

    Returns:
        (...).
    """
    return probabilities.maximum(1 - probabilities).prod(-1) if multi_label else probabilities.amax(-1)


def hits(locations: Tensor, boxes: Tensor, height: int, width: int) -> Tensor:
    """Whether the centre of each glimpse lies in the box of a digit.

    Args:
        locations: (B, T, 2).
        boxes: (B, N, 4): x0, y0, x1, y1 in pixels, half-open.
        height: Of the image, in pixels.
        width: Of the image, in pixels.

    Returns:
        (B, T), bool: in any of the N boxes.
    """
    points = to_pixels(locations, height, width).unsqueeze(2)  # (B, T, 1, 2)
    corners = boxes.unsqueeze(1)  # (B, 1, N, 4)
    inside = (points >= corners[..., :2]) & (points < corners[..., 2:])
    return inside.all(-1).any(-1)
