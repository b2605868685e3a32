"""A figure of captions: the caption of each model, and its attention for each word.

For each image, the models have a row each. A row has the caption, the references (first row only), the image, and for
each word a panel with the attention over the faded image. The panels of a long caption wrap to the next line.
"""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from glimpse.evaluation.caption_traces import CaptionTrace, check_same_images
from glimpse.view.drawing import draw_image, draw_word_attention
from glimpse.view.text_layout import (
    MUTED_COLOR,
    POINTS_PER_INCH,
    Line,
    make_lines,
    total_height,
    truncate_to_width,
    write_lines,
)

# In inches; the last two are the gaps between models and between images.
PANEL, GAP, TITLE, MARGIN, MODEL_GAP, IMAGE_GAP = 1.3, 0.1, 0.25, 0.15, 0.15, 0.4
MIN_COLUMNS, MAX_COLUMNS = 4, 8  # words per line
MAX_REFERENCES = 2
WEIGHT_NOTE = (
    "The stronger the color of a place, the larger its attention weight, relative to the largest for the word."
)
HARD_NOTE = " Square: the place that hard attention read."


class CaptionRow(NamedTuple):
    """One caption with its panels."""

    trace: CaptionTrace
    row: int  # index of the image
    lines: list[Line]  # text above the panels
    gap: float  # below the panels, in inches

    @property
    def height(self) -> float:
        """Height in inches, with the gap."""
        rows = max(-(-len(self.trace.captions[self.row]) // MAX_COLUMNS), 1)
        return total_height(self.lines) + rows * (TITLE + _panel_height(self.trace)) + self.gap


def draw_captions(traces: Sequence[CaptionTrace]) -> Figure:
    """Draw the captions of models for the same images.

    Raises:
        ValueError: If the traces are of different images.
    """
    check_same_images(traces)
    longest = max(len(caption) for trace in traces for caption in trace.captions)
    columns = 1 + min(max(longest, MIN_COLUMNS), MAX_COLUMNS)
    width = columns * (PANEL + GAP) - GAP
    last = len(traces) - 1
    rows = [
        CaptionRow(
            trace,
            row,
            _lines(trace, row, width, with_references=number == 0),
            IMAGE_GAP if number == last else MODEL_GAP,
        )
        for row in range(len(traces[0].images))
        for number, trace in enumerate(traces)
    ]
    note = WEIGHT_NOTE + (HARD_NOTE if any(trace.mode == "hard" for trace in traces) else "")
    notes = make_lines(note.split(), width, 8, color=MUTED_COLOR)
    height = sum(row.height for row in rows) + total_height(notes)
    figure = Figure(figsize=(width + 2 * MARGIN, height + 2 * MARGIN))
    top = MARGIN
    for caption_row in rows:
        _draw_row(figure, top, caption_row)
        top += caption_row.height
    write_lines(figure, MARGIN, top, notes)
    return figure


def _panel_height(trace: CaptionTrace) -> float:
    height, width = trace.images.shape[2:]
    return PANEL * height / width


def _lines(trace: CaptionTrace, row: int, width: float, with_references: bool) -> list[Line]:
    """The lines above the panels of a caption."""
    title = truncate_to_width(f"{trace.name}, {trace.mode} attention", POINTS_PER_INCH * width, 9, "bold")
    lines = [Line(title, 9, {"weight": "bold"})]
    lines += make_lines(trace.captions[row] or ["(no words)"], width, 11)
    for reference in trace.references[row][:MAX_REFERENCES] if with_references else []:
        lines += make_lines(["reference:", *reference], width, 8, color=MUTED_COLOR)
    return lines


def _draw_row(figure: Figure, top: float, caption_row: CaptionRow) -> None:
    """Draw a caption and its panels, `top` inches below the top of the figure."""
    trace, row = caption_row.trace, caption_row.row
    width, height = figure.get_size_inches()
    top = write_lines(figure, MARGIN, top, caption_row.lines)

    def axes_at(line: int, column: int) -> Axes:
        left, bottom = MARGIN + column * (PANEL + GAP), height - top - (line + 1) * (TITLE + _panel_height(trace))
        return figure.add_axes((left / width, bottom / height, PANEL / width, _panel_height(trace) / height))

    draw_image(axes_at(0, 0), trace.images[row])
    for index, word in enumerate(trace.captions[row]):
        line, column = divmod(index, MAX_COLUMNS)
        axes = axes_at(line, column + 1)
        draw_word_attention(axes, trace, row, index)
        title = truncate_to_width(word, POINTS_PER_INCH * PANEL, 10)
        axes.set_title(title, fontsize=10, pad=4.5, parse_math=False)
