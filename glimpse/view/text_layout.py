"""Predictions and targets as text, and lines of text on a figure whose height is known before anything is drawn."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from torch import Tensor

from glimpse.view.drawing import DPI

# Points per inch of width, less a margin: the width of a letter varies a little with the dots per inch.
POINTS_PER_INCH = 0.95 * 72
MUTED_COLOR = "#666666"


class Line(NamedTuple):
    """A line of text."""

    text: str
    size: float  # in points
    style: dict[str, Any]

    @property
    def height(self) -> float:
        """Height with spacing, in inches."""
        return 1.4 * self.size / 72


def make_lines(words: Sequence[str], width: float, size: float, **style: Any) -> list[Line]:
    """Break words into lines of at most `width` inches."""
    return [Line(" ".join(line), size, style) for line in wrap_words(words, POINTS_PER_INCH * width, size)]


def total_height(lines: Sequence[Line]) -> float:
    """Height of all lines, in inches."""
    return sum(line.height for line in lines)


def write_lines(figure: Figure, left: float, top: float, lines: Sequence[Line]) -> float:
    """Write lines one below the other, `left` and `top` inches from the edges; returns where they end."""
    width, height = figure.get_size_inches()
    for line in lines:
        x, y = left / width, 1 - top / height
        figure.text(x, y, line.text, fontsize=line.size, va="top", parse_math=False, **line.style)
        top += line.height
    return top


def truncate(text: str, max_length: int = 14) -> str:
    """Shorten a text to `max_length` characters, the last of which is then an ellipsis."""
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


@cache
def text_width(text: str, size: float, weight: str = "normal") -> float:
    """Width of a line of text in points, as it is at `DPI`; at others, letters are rounded otherwise."""
    font = FontProperties(size=size, weight=weight)
    return RendererAgg(1, 1, DPI).get_text_width_height_descent(text, font, ismath=False)[0] * 72 / DPI


def truncate_to_width(text: str, width: float, size: float, weight: str = "normal") -> str:
    """Shorten a text until it is at most `width` points wide."""
    while text_width(text, size, weight) > width:
        text = truncate(text, len(text) - 1)
    return text


def wrap_words(words: Sequence[str], width: float, size: float) -> list[list[str]]:
    """Break words into lines of at most `width` points; a word wider than that is shortened."""
    lines: list[list[str]] = []
    for word in (truncate_to_width(word, width, size) for word in words):
        if lines and text_width(" ".join([*lines[-1], word]), size) <= width:
            lines[-1].append(word)
        else:
            lines.append([word])
    return lines


def format_prediction(probabilities: Tensor, class_names: Sequence[str], *, multi_label: bool) -> str:
    """The predicted class with its probability; of a multi-label model, the classes above one half.

    Args:
        probabilities: (classes,).
        class_names: Their names.
        multi_label: Whether an image may have several classes.
    """
    if multi_label:
        return format_target((probabilities > 0.5).to(probabilities.dtype), class_names)
    best = int(probabilities.argmax())
    return f"{class_names[best]}  {100 * float(probabilities[best]):.0f}%"


def format_target(target: Tensor, class_names: Sequence[str]) -> str:
    """The name of a class index, or the names that a multi-hot target (classes,) of floats marks."""
    if target.is_floating_point():
        return ", ".join(name for name, marked in zip(class_names, target, strict=True) if marked) or "none"
    return class_names[int(target)]
