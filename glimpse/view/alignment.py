"""Heat maps of translations: the attention weights of the source words for each word of the output.

For each sentence, the models have a panel each, side by side, with a row for each output word and a column for each
source word. The references are below.

Shapes: N output words, L source words.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from glimpse.data.vocabulary import Tokens
from glimpse.evaluation.translation_traces import TranslationTrace, check_same_sentences
from glimpse.moved import moved_name
from glimpse.view.drawing import ATTENTION_COLOR, CORRECT_COLOR, READ_COLOR, WRONG_COLOR
from glimpse.view.text_layout import (
    MUTED_COLOR,
    POINTS_PER_INCH,
    Line,
    make_lines,
    text_width,
    total_height,
    truncate_to_width,
    write_lines,
)

# In inches: side of a cell, longest label, gap between labels and cells, margin of the figure, and the gaps between
# panels side by side, between rows of panels and between sentences.
CELL, LABEL, PAD, MARGIN, GAP, ROW_GAP, SENTENCE_GAP = 0.23, 1.1, 0.06, 0.2, 0.35, 0.15, 0.45
MIN_WIDTH, MAX_WIDTH = 2.6, 18.0  # smallest width of a panel, largest width of panels side by side
COLOR_BAR = 0.2  # height of the color bar
SIZE = 9  # font size of labels, in points
MAX_REFERENCES = 2
COLOR_MAP = LinearSegmentedColormap.from_list("attention", ["#ffffff", ATTENTION_COLOR, "#4d2600"])
WEIGHT_NOTE = "The darker a cell, the larger the attention weight of the source word for the output word."
HARD_NOTE = "Disc: the word that hard attention read. "
SPAN_NOTE = "Frame: the source words that the output word is aligned with. "
__getattr__ = partial(moved_name, __name__)


class AxisLabels(NamedTuple):
    """The words along an axis of a heat map, truncated to the length of a label."""

    words: list[str]
    width: float  # of the widest word, in inches

    @classmethod
    def of(cls, words: Tokens) -> "AxisLabels":
        """Truncate words to the length of a label."""
        labels = [truncate_to_width(word, POINTS_PER_INCH * LABEL, SIZE) for word in words]
        return cls(labels, max((text_width(label, SIZE) / POINTS_PER_INCH for label in labels), default=0.0))


class Heatmap(NamedTuple):
    """Attention weights with words along both axes; all sizes are in inches."""

    weights: Tensor  # (rows, columns)
    rows: AxisLabels
    columns: AxisLabels

    @property
    def left(self) -> float:
        """Width of the row labels."""
        return self.rows.width + PAD

    @property
    def top(self) -> float:
        """Height of the column labels, of which those that are wider than a cell are vertical."""
        return max(self.columns.width, SIZE / 72) + PAD

    @property
    def width(self) -> float:
        """Width with labels."""
        return self.left + CELL * len(self.columns.words)

    @property
    def height(self) -> float:
        """Height with labels."""
        return self.top + CELL * len(self.rows.words)

    def draw(self, figure: Figure, left: float, top: float) -> Axes:
        """Draw the heat map, `left` and `top` inches from the edges of the figure."""
        width, height = figure.get_size_inches()
        rows, columns = len(self.rows.words), len(self.columns.words)
        bottom = height - top - self.height
        axes = figure.add_axes(
            ((left + self.left) / width, bottom / height, CELL * columns / width, CELL * rows / height)
        )
        axes.imshow(self.weights.numpy(), cmap=COLOR_MAP, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        axes.set_xticks(range(columns), self.columns.words, fontsize=SIZE)
        axes.set_yticks(range(rows), self.rows.words, fontsize=SIZE)
        axes.set_xticks([column - 0.5 for column in range(1, columns)], minor=True)
        axes.set_yticks([row - 0.5 for row in range(1, rows)], minor=True)
        axes.grid(which="minor", color="#dddddd", linewidth=0.5)
        axes.tick_params(which="both", length=0, pad=72 * PAD / 2, top=True, labeltop=True, labelbottom=False)
        axes.spines[:].set_color("#aaaaaa")
        for text, word in zip(axes.get_xticklabels(), self.columns.words, strict=True):
            text.set_rotation(0 if text_width(word, SIZE) <= 0.8 * POINTS_PER_INCH * CELL else 90)
        for text in (*axes.get_xticklabels(), *axes.get_yticklabels()):
            text.set_parse_math(False)
        return axes


class HeatmapPanel(NamedTuple):
    """One translation: a title, the text of the output, and the heat map."""

    trace: TranslationTrace
    row: int  # index of the sentence
    heatmap: Heatmap | None  # None for an empty output
    lines: list[Line]

    @property
    def width(self) -> float:
        """Width in inches."""
        return MIN_WIDTH if self.heatmap is None else max(self.heatmap.width, MIN_WIDTH)

    @property
    def height(self) -> float:
        """Height in inches."""
        return total_height(self.lines) + (0.0 if self.heatmap is None else PAD + self.heatmap.height)


class SentenceRow(NamedTuple):
    """One sentence: the source, the panels of all models and the references."""

    source: Tokens
    panel_rows: list[list[HeatmapPanel]]  # rows of panels
    references: list[str]

    def source_lines(self, width: float) -> list[Line]:
        """The lines above the panels."""
        return make_lines(self.source, width, 11)

    def reference_lines(self, width: float) -> list[Line]:
        """The lines below the panels."""
        return [
            line
            for text in self.references
            for line in make_lines(["reference:", *text.split()], width, 9, color=MUTED_COLOR)
        ]

    def height(self, width: float) -> float:
        """Height in inches, if the figure has `width` inches between its margins."""
        panels = sum(max(panel.height for panel in row) + ROW_GAP for row in self.panel_rows)
        text = total_height(self.source_lines(width)) + total_height(self.reference_lines(width))
        return text + PAD + panels


def draw_alignments(traces: Sequence[TranslationTrace]) -> Figure:
    """Draw the attention weights of translations.

    The color scale is fixed, from 0 to 1. For hard attention, a disc marks the word that was read. Where the data has
    alignments, the source words that an output word is aligned with are framed.

    Args:
        traces: One for each model, for the same sentences.

    Raises:
        ValueError: If the traces are of different sentences, or a model has no attention.
    """
    check_same_sentences(traces)
    if without := [trace.name for trace in traces if not trace.attends]:
        raise ValueError(f"traces must be of models with attention, but {without[0]} has none")
    sentences = [_sentence_row(traces, row) for row in range(len(traces[0].translations))]
    width = max(_width(row) for sentence in sentences for row in sentence.panel_rows)
    notes = make_lines(_note(traces).split(), width, 8, color=MUTED_COLOR)
    height = sum(sentence.height(width) + SENTENCE_GAP for sentence in sentences) + total_height(notes) + COLOR_BAR
    figure = Figure(figsize=(width + 2 * MARGIN, height + 2 * MARGIN))
    top = MARGIN
    for sentence in sentences:
        _draw_sentence(figure, top, sentence, width)
        top += sentence.height(width) + SENTENCE_GAP
    draw_color_bar(figure, write_lines(figure, MARGIN, top, notes))
    return figure


def draw_color_bar(figure: Figure, top: float) -> None:
    """Draw the color scale from 0 to 1, `top` inches below the top of the figure."""
    width, height = figure.get_size_inches()
    middle = 1 - (top + COLOR_BAR / 2) / height
    axes = figure.add_axes(((MARGIN + 0.15) / width, middle - 0.05 / height, 1 / width, 0.1 / height))
    axes.imshow([[shade / 255 for shade in range(256)]], cmap=COLOR_MAP, vmin=0, vmax=1, aspect="auto")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_color("#aaaaaa")
    for left, text in ((0.0, "0"), (1.2, "1")):
        figure.text((MARGIN + left) / width, middle, text, fontsize=8, color=MUTED_COLOR, va="center")


def _sentence_row(traces: Sequence[TranslationTrace], row: int) -> SentenceRow:
    pair = traces[0].translations[row].pair
    panel_rows: list[list[HeatmapPanel]] = [[]]
    for trace in traces:
        panel = _panel(trace, row)
        if panel_rows[-1] and _width([*panel_rows[-1], panel]) > MAX_WIDTH:
            panel_rows.append([])
        panel_rows[-1].append(panel)
    references = [traces[0].tokenizer.detokenize(words) for words in pair.references[:MAX_REFERENCES]]
    return SentenceRow(pair.source, panel_rows, references)


def _panel(trace: TranslationTrace, row: int) -> HeatmapPanel:
    translation = trace.translations[row]
    heatmap = None
    if translation.words:
        rows, columns = AxisLabels.of(translation.words), AxisLabels.of(translation.pair.source)
        heatmap = Heatmap(translation.weights, rows, columns)
    width = HeatmapPanel(trace, row, heatmap, []).width
    title = truncate_to_width(f"{trace.name}, {trace.mode} attention", POINTS_PER_INCH * width, 9, "bold")
    output = trace.tokenizer.detokenize(translation.words).split() or ["(no words)"]
    style = {}
    if translation.pair.alignment_spans:  # other data has more correct translations than references
        style = {"color": CORRECT_COLOR if trace.correct[row] else WRONG_COLOR}
        output += ["(correct)" if trace.correct[row] else "(wrong)"]
    lines = [Line(title, 9, {"weight": "bold"}), *make_lines(output, width, 10, **style)]
    return HeatmapPanel(trace, row, heatmap, lines)


def _width(panels: Sequence[HeatmapPanel]) -> float:
    return sum(panel.width + GAP for panel in panels) - GAP


def _draw_sentence(figure: Figure, top: float, sentence: SentenceRow, width: float) -> None:
    top = write_lines(figure, MARGIN, top, sentence.source_lines(width)) + PAD
    for row in sentence.panel_rows:
        left = MARGIN
        for panel in row:
            below = write_lines(figure, left, top, panel.lines)
            if panel.heatmap is not None:
                _draw_marks(panel.heatmap.draw(figure, left, below + PAD), panel)
            left += panel.width + GAP
        top += max(panel.height for panel in row) + ROW_GAP
    write_lines(figure, MARGIN, top, sentence.reference_lines(width))


def _draw_marks(axes: Axes, panel: HeatmapPanel) -> None:
    """Frame the aligned words, if known, and mark the words that hard attention read."""
    translation = panel.trace.translations[panel.row]
    for word, (start, stop) in enumerate(translation.pair.alignment_spans[: len(translation.words)]):
        if stop > start:
            corner = (start - 0.5, word - 0.5)
            axes.add_patch(
                Rectangle(
                    corner, stop - start, 1, fill=False, edgecolor=CORRECT_COLOR, linewidth=1.6, zorder=3, clip_on=False
                )
            )
    if panel.trace.mode == "hard":
        axes.plot(
            translation.places.tolist(),
            range(len(translation.words)),
            "o",
            zorder=4,
            color=READ_COLOR,
            markeredgecolor="black",
            markeredgewidth=0.8,
            markersize=6,
        )


def _note(traces: Sequence[TranslationTrace]) -> str:
    has_hard = any(trace.mode == "hard" for trace in traces)
    has_spans = any(translation.pair.alignment_spans for translation in traces[0].translations)
    return (HARD_NOTE if has_hard else "") + (SPAN_NOTE if has_spans else "") + WEIGHT_NOTE
