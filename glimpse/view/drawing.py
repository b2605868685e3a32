"""Colors, and functions that draw images, glimpse squares, trails, attention maps, patches and probabilities on axes.

The functions compose: first `draw_image`, then overlays. All coordinates are in pixels of the image.

Images are PIL images, arrays of shape (H, W), (H, W, 1) or (H, W, 3), or tensors of shape (C, H, W) with one or three
channels; arrays and tensors are uint8, or floats in [0, 1].

Shapes: T glimpses, K scales, G patch side, C channels, H x W image.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Ellipse, Rectangle
from matplotlib.patheffects import withStroke
from PIL import Image
from torch import Tensor

from glimpse.evaluation.caption_traces import CaptionTrace
from glimpse.evaluation.glimpse_traces import GlimpseTrace
from glimpse.moved import moved_name

ImageLike = Image.Image | np.ndarray | Tensor
ArrayLike = np.ndarray | Tensor | Sequence[float] | Sequence[Sequence[float]]

# The color-blind safe palette of Okabe and Ito; one color for each scale.
SCALE_COLORS = ("#56B4E9", "#E69F00", "#CC79A7", "#F0E442")
CORRECT_COLOR, WRONG_COLOR, TRAIL_COLOR, FOOTPRINT_COLOR = "#009E73", "#D55E00", "#56B4E9", "#F0E442"
ATTENTION_COLOR, READ_COLOR = "#E69F00", "#56B4E9"  # of attention maps, and of the place read by hard attention
OTHER_BAR_COLOR = "#B0B0B0"  # of bars of classes that are not predicted
# Opacity of the largest weight of an attention map; fainter for hard attention, where a square marks the place read.
MAP_OPACITY = {"soft": 0.7, "hard": 0.35}
FADED_BRIGHTNESS = 0.6  # brightness of the gray image below an attention map
# For lines on a white or a dark background. Lines also differ by marker; as there is one marker more than there are
# colors, their combinations repeat only after 90 lines.
LINE_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C", "#6A3D9A", "#999933")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "p", "<")
DPI = 100  # of rasterized figures
MIN_PERCENT = 0.01  # replaces an error of zero on a logarithmic axis
MAX_BARS = 10  # largest number of bars of class probabilities
__getattr__ = partial(moved_name, __name__)


def to_percent(shares: Sequence[float]) -> list[float]:
    """Convert shares to percent for a logarithmic axis, at least `MIN_PERCENT`."""
    return [max(100 * share, MIN_PERCENT) for share in shares]


def line_style(index: int) -> dict[str, Any]:
    """Return color and marker of line number `index`, as keyword arguments of `Axes.plot`."""
    return {"color": LINE_COLORS[index % len(LINE_COLORS)], "marker": MARKERS[index % len(MARKERS)]}


def scale_color(scale: int) -> str:
    """Return the color of the squares and patches of a scale; colors repeat after the fourth."""
    return SCALE_COLORS[scale % len(SCALE_COLORS)]


def to_array(image: ImageLike) -> np.ndarray:
    """Convert an image to floats in [0, 1] of shape (H, W) if it is gray, else (H, W, 3).

    Raises:
        ValueError: If the shape, type or range is not that of an image.
    """
    if isinstance(image, Image.Image):
        pixels = np.asarray(image.convert("L" if image.mode in ("1", "L") else "RGB"))
    elif isinstance(image, Tensor):
        pixels = image.detach().cpu().numpy()
        if pixels.ndim != 3 or pixels.shape[0] not in (1, 3):
            raise ValueError(f"an image tensor must have shape (C, H, W) with 1 or 3 channels, got {pixels.shape}")
        pixels = np.moveaxis(pixels, 0, -1)
    else:
        pixels = image
        if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] not in (1, 3)):
            raise ValueError(f"an image array must have shape (H, W), (H, W, 1) or (H, W, 3), got {pixels.shape}")
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    if pixels.dtype == np.uint8:
        return pixels / 255
    if not np.issubdtype(pixels.dtype, np.floating):
        raise ValueError(f"an image must be uint8, or floats in [0, 1], got {pixels.dtype}")
    if pixels.size and not (pixels.min() >= 0 and pixels.max() <= 1):
        raise ValueError(f"an image of floats must be in [0, 1], got {pixels.min():g} to {pixels.max():g}")
    pixels = pixels.astype(np.float64)
    levels = np.round(255 * pixels) / 255
    # In float32, v / 255 may fall just below level v and would be drawn as v - 1.
    return np.where(np.abs(pixels - levels) < 1e-6, levels, pixels)


def fade(image: ImageLike) -> np.ndarray:
    """Convert an image to dark gray (H, W), so that colors drawn over it stand out."""
    pixels = to_array(image)
    return FADED_BRIGHTNESS * (pixels.mean(-1) if pixels.ndim == 3 else pixels)


def draw_image(axes: Axes, image: ImageLike) -> None:
    """Draw an image; the unit of both axes is one pixel."""
    pixels = to_array(image)
    height, width = pixels.shape[:2]
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=1, extent=(0, width, height, 0))
    axes.set(xticks=[], yticks=[], xlim=(0, width), ylim=(height, 0))


def draw_trail(axes: Axes, centers: ArrayLike) -> None:
    """Draw the path through the centers (T, 2) of glimpses, from the first (a disc) to the last (a square)."""
    x, y = _to_array(centers).T
    axes.plot(x, y, color=TRAIL_COLOR, linewidth=1)
    axes.plot(x[:1], y[:1], "o", color=TRAIL_COLOR, markersize=4)
    axes.plot(x[-1:], y[-1:], "s", color=TRAIL_COLOR, markersize=4)


def draw_boxes(axes: Axes, boxes: ArrayLike, linewidth: float = 1.2) -> None:
    """Draw the squares (K, 4) of a glimpse, as (x0, y0, x1, y1), each in the color of its scale."""
    for scale, (x0, y0, x1, y1) in enumerate(_to_array(boxes).tolist()):
        square = Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor=scale_color(scale), linewidth=linewidth)
        axes.add_patch(square)


def draw_footprint(axes: Axes, center: ArrayLike, std: ArrayLike) -> None:
    """Draw a Gaussian with center (2,) and std (2,), in x and y, as ellipses at one and two standard deviations."""
    x, y = _to_array(center).tolist()
    for deviations in (1, 2):
        width, height = (2 * deviations * _to_array(std)).tolist()
        ellipse = Ellipse((x, y), width, height, facecolor=(1, 1, 1, 0.25), edgecolor=FOOTPRINT_COLOR, linewidth=1)
        ellipse.set_zorder(3)  # above the trail
        axes.add_patch(ellipse)


def draw_weights(axes: Axes, weights: ArrayLike, size: Sequence[int]) -> None:
    """Draw attention weights (rows, columns) over the whole image of `size` (H, W)."""
    height, width = size
    extent = (0.0, float(width), float(height), 0.0)
    axes.imshow(_to_array(weights), cmap="viridis", alpha=0.55, extent=extent, interpolation="nearest")


def draw_cells(axes: Axes, weights: ArrayLike, cell: tuple[float, float], *, opacity: float) -> None:
    """Draw an attention map; the opacity of a cell is proportional to its weight.

    Args:
        axes: Axes with an image.
        weights: (rows, columns).
        cell: Height and width of a cell in pixels; the last row and column may extend beyond the image.
        opacity: Opacity of the cell with the largest weight.
    """
    values = _to_array(weights)
    rows, columns = values.shape
    height, width = cell
    colors = np.empty((rows, columns, 4))
    colors[..., :3] = to_rgb(ATTENTION_COLOR)
    colors[..., 3] = opacity * (values / values.max())
    axes.imshow(colors, extent=(0, columns * width, rows * height, 0), interpolation="nearest")


def draw_read_box(axes: Axes, box: Sequence[float]) -> None:
    """Draw a square (x0, y0, x1, y1) around the place that hard attention read, visible on any background."""
    x0, y0, x1, y1 = box
    square = Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor=READ_COLOR, linewidth=1.6, clip_on=False)
    square.set_path_effects([withStroke(linewidth=3, foreground="black")])
    axes.add_patch(square)


def draw_patches(axes: Axes, patches: Sequence[ImageLike] | np.ndarray, vertical: bool = False) -> None:
    """Draw the patches of one glimpse in a row or a column, each framed in the color of its scale.

    Args:
        axes: Axes to draw on.
        patches: K images of one size, such as an array (K, G, G, C); the finest scale first.
        vertical: Whether to draw them in a column.
    """
    images = [to_array(patch) for patch in patches]
    height, width = images[0].shape[:2]
    if any(image.shape[:2] != (height, width) for image in images):
        raise ValueError(f"patches must have the same size, got {', '.join(str(image.shape[:2]) for image in images)}")
    gap = max(1, width // 8)
    down, right = (height + gap, 0) if vertical else (0, width + gap)
    last = len(images) - 1
    canvas = np.ones((height + last * down, width + last * right, 4))
    canvas[..., 3] = 0  # the gaps are transparent
    for scale, image in enumerate(images):
        top, left = scale * down, scale * right
        canvas[top : top + height, left : left + width, :3] = image if image.ndim == 3 else image[..., None]
        canvas[top : top + height, left : left + width, 3] = 1
        corner = (left - 0.5, top - 0.5)
        axes.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=scale_color(scale), linewidth=1.2))
    axes.imshow(canvas, interpolation="nearest")
    axes.axis("off")


def draw_probabilities(
    axes: Axes,
    probabilities: ArrayLike,
    class_names: Sequence[str],
    *,
    predicted: Sequence[int],
    true: Sequence[int],
    correct: bool,
) -> None:
    """Draw the class probabilities as bars; if there are more than `MAX_BARS` classes, of the most probable ones.

    Args:
        axes: Axes to draw on.
        probabilities: (classes,).
        class_names: Names of the classes.
        predicted: Indices of the predicted classes, whose bars are colored.
        true: Indices of the true classes, which are marked.
        correct: Whether the prediction is correct; selects the color.
    """
    values = _to_array(probabilities)
    order = range(len(values)) if len(values) <= MAX_BARS else np.argsort(-values, kind="stable")[:MAX_BARS]
    shown = [int(index) for index in order]
    color = CORRECT_COLOR if correct else WRONG_COLOR
    colors = [color if index in predicted else OTHER_BAR_COLOR for index in shown]
    axes.barh(range(len(shown)), [float(values[index]) for index in shown], height=0.72, color=colors)
    for y, index in enumerate(shown):
        value, is_true = float(values[index]), index in true
        words = ([f"{100 * value:.0f}%"] if value >= 0.005 else []) + (["◂ true"] if is_true else [])
        style: dict[str, Any] = {"va": "center", "weight": "bold" if is_true else "normal", "parse_math": False}
        axes.text(-0.015, y, class_names[index], ha="right", fontsize=10, **style)
        axes.text(value + 0.015, y, " ".join(words), fontsize=9, **style)
    axes.plot([0, 0], [-0.5, len(shown) - 0.5], color="black", linewidth=0.8)
    axes.set(xlim=(0, 1), ylim=(max(len(shown), 6) - 0.5, -0.5))  # limits the thickness of few bars
    axes.axis("off")


def draw_glimpse(axes: Axes, trace: GlimpseTrace, row: int, step: int) -> None:
    """Draw where a glimpse was read: its squares, if soft also its Gaussian; if soft on a grid, its weights.

    A cross marks the center of a glimpse whose finest square is wider than the image.
    """
    if trace.mode == "soft" and trace.weights is not None:
        draw_weights(axes, trace.weights[row, step], trace.images.shape[2:])
        return
    boxes = trace.boxes[row, step]
    draw_boxes(axes, boxes)
    x0, _, x1, _ = boxes[0].tolist()
    if x1 - x0 > trace.images.shape[3]:  # a frame around the image does not show the location
        axes.plot(*trace.points[row, step].tolist(), "+", color=scale_color(0), markersize=10, markeredgewidth=1.5)
    if trace.mode == "soft":
        draw_footprint(axes, trace.points[row, step], trace.spread[row, step])


def draw_word_attention(axes: Axes, trace: CaptionTrace, row: int, word: int) -> None:
    """Draw the attention map of one word of a caption over the faded image; if hard, also the place that was read."""
    draw_image(axes, fade(trace.images[row]))
    draw_cells(axes, trace.weights[row][word], trace.cell, opacity=MAP_OPACITY[trace.mode])
    if trace.mode == "hard":
        draw_read_box(axes, trace.box(int(trace.places[row][word])))


def _to_array(values: ArrayLike) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
