"""Lines of text on a figure, one below the other, whose room is known before anything is drawn."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from glimpse.view.drawing import wrap

POINTS = 0.95 * 72  # to an inch, with some room: how wide a letter is depends on the dots per inch
QUIET = "#666666"


class Line(NamedTuple):
    """A line of text."""

    text: str
    size: float  # in points
    style: dict[str, Any]

    @property
    def height(self) -> float:
        """The room it takes, in inches."""
        return 1.4 * self.size / 72


def wrapped(words: Sequence[str], width: float, size: float, **style: Any) -> list[Line]:
    """Words in as many lines as they need, of at most so many inches."""
    return [Line(" ".join(line), size, style) for line in wrap(words, POINTS * width, size)]


def height_of(lines: Sequence[Line]) -> float:
    """The room that lines take, in inches."""
    return sum(line.height for line in lines)


def write_lines(figure: Figure, left: float, top: float, lines: Sequence[Line]) -> float:
    """Write lines from so many inches from the left, and from the top, of a figure on; returns where they end."""
    width, height = figure.get_size_inches()
    for text, size, style in lines:
        figure.text(left / width, 1 - top / height, text, fontsize=size, va="top", parse_math=False, **style)
        top += Line(text, size, style).height
    return top
