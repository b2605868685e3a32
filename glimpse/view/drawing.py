"""What every picture shares: colours, how images, glimpses, patches and attention are drawn on axes, and words."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.colors import to_rgb
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Ellipse, Rectangle
from matplotlib.patheffects import withStroke
from torch import Tensor

from glimpse.view.looks import Looks
from glimpse.view.told import Told

# Okabe and Ito's colours, which the colour-blind can tell apart; one for each scale.
SCALE_COLOURS = ("#56B4E9", "#E69F00", "#CC79A7", "#F0E442")
RIGHT, WRONG, TRAIL, FOOTPRINT = "#009E73", "#D55E00", "#56B4E9", "#F0E442"
ATTENTION, READ = "#E69F00", "#56B4E9"  # of a map of attention, and of the place that a hard read read
# Of a map where attention is greatest; faint where a place was picked from it, which has a square.
OPACITY = {"soft": 0.7, "hard": 0.35}
FADED = 0.6  # the brightness of the grey image beneath a map
# For lines on a white or a dark ground; with a marker each, so that colour is not all that tells them apart. One marker
# more than colours: after the last colour the first comes with another marker.
LINE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C", "#6A3D9A", "#999933")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "p", "<")
DPI = 100  # of what is drawn as pixels
LEAST = 0.01  # percent: what no error is too, on a logarithmic axis


def percents(shares: Sequence[float]) -> list[float]:
    """Shares in percent, for a logarithmic axis."""
    return [max(100 * share, LEAST) for share in shares]


def line_style(index: int) -> dict[str, str]:
    """Colour and marker of the line of this number, as options of `Axes.plot`."""
    return {"color": LINE_COLOURS[index % len(LINE_COLOURS)], "marker": MARKERS[index % len(MARKERS)]}


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


def draw_word(axes: Axes, told: Told, row: int, word: int) -> None:
    """Draw the attention for a word of an image's caption over the faded image; hard, also a square: the place read.

    A place is drawn as the cell that it is, the more opaque the more it weighs, relative to the largest weight.
    """
    grey = told.images[row].float().mean(0, keepdim=True) / 255
    show_image(axes, FADED * grey)
    rows, columns = told.grid
    height, width = told.cell
    cells = np.empty((rows, columns, 4))
    cells[..., :3] = to_rgb(ATTENTION)
    cells[..., 3] = OPACITY[told.how] * told.maps(row)[word]
    axes.imshow(cells, extent=(0, columns * width, rows * height, 0), interpolation="nearest")
    if told.how == "hard":
        x0, y0, x1, y1 = told.box(int(told.places[row][word]))
        edge = [withStroke(linewidth=3, foreground="black")]
        style = {"fill": False, "edgecolor": READ, "linewidth": 1.6, "clip_on": False, "path_effects": edge}
        axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, **style))


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


@cache
def text_width(text: str, size: float, weight: str = "normal") -> float:
    """The width of a line of text, in points; with other dots per inch letters are rounded to others."""
    font = FontProperties(size=size, weight=weight)
    return RendererAgg(1, 1, DPI).get_text_width_height_descent(text, font, ismath=False)[0] * 72 / DPI


def fit(text: str, width: float, size: float, weight: str = "normal") -> str:
    """A text that is at most so many points wide."""
    while text_width(text, size, weight) > width:
        text = short(text, len(text) - 1)
    return text


def wrap(words: Sequence[str], width: float, size: float) -> list[list[str]]:
    """Break words into lines of at most so many points; a word wider than that is shortened."""
    lines: list[list[str]] = []
    for word in (fit(word, width, size) for word in words):
        if lines and text_width(" ".join([*lines[-1], word]), size) <= width:
            lines[-1].append(word)
        else:
            lines.append([word])
    return lines


def truth_of(target: Tensor, class_names: tuple[str, ...]) -> str:
    """A target in words."""
    if target.is_floating_point():
        return ", ".join(name for name, there in zip(class_names, target, strict=True) if there) or "none"
    return class_names[int(target)]
