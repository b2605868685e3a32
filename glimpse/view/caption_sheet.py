"""A still picture of captions: what was said of an image, and where the captioner looked for each word of it.

For an image each model has a row, the models one under the other. First its caption, and under the first of them what
others said of the image; then the image, and for each word a panel with the attention over the faded image. A long
caption goes on beneath, from the column of its first word on.
"""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from glimpse.view.drawing import draw_word, fit, show_image
from glimpse.view.lines import POINTS, QUIET, Line, height_of, wrapped, write_lines
from glimpse.view.told import Told, check_same_images

# In inches; the last two are between the models, and between the images.
PANEL, GAP, TITLE, MARGIN, NEAR, FAR = 1.3, 0.1, 0.25, 0.15, 0.15, 0.4
LEAST, MOST = 4, 8  # words side by side
REFERENCES = 2  # the most that are shown
NOTE = (
    "The more colour a place has, the more it weighs for the word, relative to the place that weighs most. "
    "Hard attention reads one place: the square."
)


class Block(NamedTuple):
    """What is shown of one caption."""

    told: Told
    row: int  # of the image
    lines: list[Line]  # above the panels
    gap: float  # below them, in inches

    @property
    def height(self) -> float:
        """The room it takes, in inches."""
        rows = max(-(-len(self.told.captions[self.row]) // MOST), 1)
        return height_of(self.lines) + rows * (TITLE + _panel_height(self.told)) + self.gap


def draw_captions(told: Sequence[Told]) -> Figure:
    """Draw what models said of the very same images.

    Raises:
        ValueError: If the images are not the same for all.
    """
    check_same_images(told)
    longest = max(len(caption) for its in told for caption in its.captions)
    columns = 1 + min(max(longest, LEAST), MOST)
    width = columns * (PANEL + GAP) - GAP
    blocks = [
        Block(its, row, _lines(its, row, width, with_references=place == 0), FAR if place == len(told) - 1 else NEAR)
        for row in range(len(told[0].images))
        for place, its in enumerate(told)
    ]
    note = wrapped(NOTE.split(), width, 8, color=QUIET)
    height = sum(block.height for block in blocks) + height_of(note)
    figure = Figure(figsize=(width + 2 * MARGIN, height + 2 * MARGIN))
    top = MARGIN
    for block in blocks:
        _draw_block(figure, top, block)
        top += block.height
    write_lines(figure, MARGIN, top, note)
    return figure


def _panel_height(told: Told) -> float:
    height, width = told.images.shape[2:]
    return PANEL * height / width


def _lines(told: Told, row: int, width: float, with_references: bool) -> list[Line]:
    """What is written above the panels of a caption."""
    lines = [Line(fit(f"{told.name}, {told.how} attention", POINTS * width, 9, "bold"), 9, {"weight": "bold"})]
    lines += wrapped(told.captions[row] or ["(no words)"], width, 11)
    for reference in told.references[row][:REFERENCES] if with_references else []:
        lines += wrapped(["reference:", *reference], width, 8, color=QUIET)
    return lines


def _draw_block(figure: Figure, top: float, block: Block) -> None:
    """Draw a caption and its panels, from `top` inches below the top of the figure on."""
    told, row, lines, _ = block
    width, height = figure.get_size_inches()
    top = write_lines(figure, MARGIN, top, lines)

    def axes_at(line: int, column: int) -> Axes:
        left, bottom = MARGIN + column * (PANEL + GAP), height - top - (line + 1) * (TITLE + _panel_height(told))
        return figure.add_axes((left / width, bottom / height, PANEL / width, _panel_height(told) / height))

    show_image(axes_at(0, 0), told.images[row])
    for index, word in enumerate(told.captions[row]):
        line, column = divmod(index, MOST)
        axes = axes_at(line, column + 1)
        draw_word(axes, told, row, index)
        axes.set_title(fit(word, POINTS * PANEL, 10), fontsize=10, pad=4.5, parse_math=False)
