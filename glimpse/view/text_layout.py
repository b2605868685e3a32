"""Predictions and targets as text, and lines of text whose size is known before they are drawn."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from torch import Tensor

from glimpse.view.drawing import DPI

# Points per inch of width, less a margin, as letter widths vary slightly with the resolution.
POINTS_PER_INCH = 0.95 * 72
MUTED_COLOR = "#666666"


class Line(NamedTuple):
    """A line of text."""

    text: str
    size: float  # font size in points
    style: dict[str, Any]

    @property
    def height(self) -> float:
        """Height with line spacing, in inches."""
        return 1.4 * self.size / 72


def make_lines(words: Sequence[str], width: float, size: float, **style: Any) -> list[Line]:
    """Wrap words into lines of at most `width` inches."""
    return [Line(" ".join(line), size, style) for line in wrap_words(words, POINTS_PER_INCH * width, size)]


def total_height(lines: Sequence[Line]) -> float:
    """Return the height of all lines, in inches."""
    return sum(line.height for line in lines)


def write_lines(figure: Figure, left: float, top: float, lines: Sequence[Line]) -> float:
    """Write lines `left` and `top` inches from the edges of the figure; return the bottom of the last one."""
    width, height = figure.get_size_inches()
    for line in lines:
        x, y = left / width, 1 - top / height
        figure.text(x, y, line.text, fontsize=line.size, va="top", parse_math=False, **line.style)
        top += line.height
    return top


def truncate(text: str, max_length: int = 14) -> str:
    """Shorten a text to `max_length` characters, ending in an ellipsis."""
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


@cache
def text_width(text: str, size: float, weight: str = "normal") -> float:
    """Return the width of a line of text in points at `DPI`; at other resolutions it differs slightly."""
    font = FontProperties(size=size, weight=weight)
    return RendererAgg(1, 1, DPI).get_text_width_height_descent(text, font, ismath=False)[0] * 72 / DPI


def truncate_to_width(text: str, width: float, size: float, weight: str = "normal") -> str:
    """Shorten a text to at most `width` points."""
    while text_width(text, size, weight) > width:
        text = truncate(text, len(text) - 1)
    return text


def wrap_words(words: Sequence[str], width: float, size: float) -> list[list[str]]:
    """Wrap words into lines of at most `width` points; wider words are truncated."""
    lines: list[list[str]] = []
    for word in (truncate_to_width(word, width, size) for word in words):
        if lines and text_width(" ".join([*lines[-1], word]), size) <= width:
            lines[-1].append(word)
        else:
            lines.append([word])
    return lines


def format_prediction(probabilities: Tensor, class_names: Sequence[str], *, multi_label: bool) -> str:
    """Format the predicted class with its probability; multi-label: the classes with probabilities above one half.

    Args:
        probabilities: (classes,).
        class_names: Names of the classes.
        multi_label: Whether an image may have several classes.
    """
    if multi_label:
        return format_target((probabilities > 0.5).to(probabilities.dtype), class_names)
    best = int(probabilities.argmax())
    return f"{class_names[best]}  {100 * float(probabilities[best]):.0f}%"


def format_target(target: Tensor, class_names: Sequence[str]) -> str:
    """Format a class index by its name, or a multi-hot target (classes,) of floats by its names."""
    if target.is_floating_point():
        return ", ".join(name for name, present in zip(class_names, target, strict=True) if present) or "none"
    return class_names[int(target)]
