"""What every picture shares: colours, and how an image, its glimpses and its patches are drawn on axes."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse, Rectangle
from torch import Tensor

from glimpse.view.looks import Looks

# Okabe and Ito's colours, which the colour-blind can tell apart; one for each scale.
SCALE_COLOURS = ("#56B4E9", "#E69F00", "#CC79A7", "#F0E442")
RIGHT, WRONG, TRAIL, FOOTPRINT = "#009E73", "#D55E00", "#56B4E9", "#F0E442"
# For lines on a white or a dark ground; with a marker each, so that colour is not all that tells them apart.
LINE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C", "#6A3D9A")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def show_image(axes: Axes, image: Tensor) -> None:
    """Show an image (C, H, W) with a pixel as the unit of both axes."""
    channels, height, width = image.shape
    pixels = image.permute(1, 2, 0).cpu().numpy()
    if pixels.dtype == np.uint8:
        pixels = pixels / 255
    axes.imshow(pixels if channels == 3 else pixels[..., 0], cmap="gray", vmin=0, vmax=1, extent=(0, width, height, 0))
    axes.set(xticks=[], yticks=[], xlim=(0, width), ylim=(height, 0))


def draw_trail(axes: Axes, points: Tensor) -> None:
    """Draw the way from the first glimpse (a disc) to the last (a square); points (T, 2) in pixels."""
    x, y = points.unbind(-1)
    axes.plot(x, y, color=TRAIL, linewidth=1)
    axes.plot(x[:1], y[:1], "o", color=TRAIL, markersize=4)
    axes.plot(x[-1:], y[-1:], "s", color=TRAIL, markersize=4)


def draw_attention(axes: Axes, looks: Looks, row: int, step: int) -> None:
    """Draw where one glimpse was: its squares; soft, also the footprint of the Gaussian, or the weights of the grid."""
    height, width = looks.images.shape[2:]
    if looks.how == "soft" and looks.weights is not None:
        weights = looks.weights[row, step].numpy()
        axes.imshow(weights, cmap="viridis", alpha=0.55, extent=(0, width, height, 0), interpolation="nearest")
        return
    for box, colour in zip(looks.boxes[row, step].tolist(), SCALE_COLOURS * 9, strict=False):
        x0, y0, x1, y1 = box
        axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor=colour, linewidth=1.2))
    if looks.how == "soft":
        for deviations in (1, 2):
            size = (2 * deviations * looks.spread[row, step]).tolist()
            style = {
                "facecolor": (1, 1, 1, 0.25),
                "edgecolor": FOOTPRINT,
                "linewidth": 1,
                "zorder": 3,
            }  # above the trail
            axes.add_patch(Ellipse(looks.points[row, step].tolist(), *size, **style))


def draw_patches(axes: Axes, patches: Tensor, vertical: bool = False) -> None:
    """Draw the patches (K, G, G, C) of one glimpse side by side, or one below the other, each framed in its colour."""
    scales, size, _, channels = patches.shape
    pitch = size + max(1, size // 8)
    length = scales * pitch - (pitch - size)
    canvas = np.ones((length, size, 4) if vertical else (size, length, 4))
    canvas[..., 3] = 0  # the gaps let the background through
    for scale, patch in enumerate(patches.numpy()):
        top, left = (scale * pitch, 0) if vertical else (0, scale * pitch)
        canvas[top : top + size, left : left + size, :3] = patch if channels == 3 else np.repeat(patch[..., :1], 3, -1)
        canvas[top : top + size, left : left + size, 3] = 1
        colour = SCALE_COLOURS[scale % len(SCALE_COLOURS)]
        axes.add_patch(Rectangle((left - 0.5, top - 0.5), size, size, fill=False, edgecolor=colour, linewidth=1.2))
    axes.imshow(canvas, interpolation="nearest")
    axes.axis("off")


def answer_of(looks: Looks, row: int, step: int) -> str:
    """The answer after a glimpse in words, with its probability if it is one class."""
    answers = looks.answers[row, step]
    if looks.targets.is_floating_point():
        return truth_of((answers > 0.5).to(looks.targets.dtype), looks.class_names)
    best = int(answers.argmax())
    return f"{looks.class_names[best]}  {100 * float(answers[best]):.0f}%"


def short(text: str, most: int = 14) -> str:
    """A text of so many letters at most."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def truth_of(target: Tensor, class_names: tuple[str, ...]) -> str:
    """A target in words."""
    if target.is_floating_point():
        return ", ".join(name for name, there in zip(class_names, target, strict=True) if there) or "none"
    return class_names[int(target)]
