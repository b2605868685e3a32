"""Heat maps of translations: for each word that was written, which source words were attended to.

For a sentence each model has a panel, the models side by side: a row for each word written, from the top down, and a
column for each word of the source. Beneath are the references.

Shapes: N words written, L source words.
"""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from glimpse.data.captions import Words
from glimpse.view.aligned import Aligned, check_same_sentences
from glimpse.view.drawing import ATTENTION, READ, RIGHT, WRONG, fit, text_width
from glimpse.view.lines import POINTS, QUIET, Line, height_of, wrapped, write_lines

# In inches: side of a cell, longest label, between labels and cells, around all; between panels that are side by side,
# between those that are not, between sentences.
CELL, LABEL, PAD, MARGIN, GAP, NEAR, FAR = 0.23, 1.1, 0.06, 0.2, 0.35, 0.15, 0.45
NARROWEST, WIDEST = 2.6, 18.0  # a panel, and all panels side by side
SCALE = 0.2  # the height of the scale of shades
SIZE = 9  # of labels, in points
REFERENCES = 2  # the most that are shown
SHADES = LinearSegmentedColormap.from_list("attention", ["#ffffff", ATTENTION, "#4d2600"])
SHADE_NOTE = "The darker a cell, the more its column weighs for its row."
HARD_NOTE = "Hard attention reads one word: the disc. "
SPAN_NOTE = "Framed: the words that are meant. "


class Labels(NamedTuple):
    """The words along an axis of a map, cut if they are too long."""

    words: list[str]
    room: float  # that the widest takes, in inches

    @classmethod
    def of(cls, words: Words) -> "Labels":
        """Cut words to the length of a label."""
        short = [fit(word, POINTS * LABEL, SIZE) for word in words]
        return cls(short, max((text_width(word, SIZE) / POINTS for word in short), default=0.0))


class Map(NamedTuple):
    """A map of attention with words on both of its axes: where its cells begin, and how large all of it is."""

    weights: Tensor  # (rows, columns)
    rows: Labels
    columns: Labels

    @property
    def left(self) -> float:
        """The room for the words beside the rows, in inches."""
        return self.rows.room + PAD

    @property
    def top(self) -> float:
        """The room for the words above the columns, which stand upright if they are too wide for one."""
        return max(self.columns.room, SIZE / 72) + PAD

    @property
    def width(self) -> float:
        """Of all of it."""
        return self.left + CELL * len(self.columns.words)

    @property
    def height(self) -> float:
        """Of all of it."""
        return self.top + CELL * len(self.rows.words)

    def draw(self, figure: Figure, left: float, top: float) -> Axes:
        """Draw it so many inches from the left and the top of a figure."""
        width, height = figure.get_size_inches()
        rows, columns = len(self.rows.words), len(self.columns.words)
        bottom = height - top - self.height
        axes = figure.add_axes(
            ((left + self.left) / width, bottom / height, CELL * columns / width, CELL * rows / height)
        )
        axes.imshow(self.weights.numpy(), cmap=SHADES, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        axes.set_xticks(range(columns), self.columns.words, fontsize=SIZE)
        axes.set_yticks(range(rows), self.rows.words, fontsize=SIZE)
        axes.set_xticks([column - 0.5 for column in range(1, columns)], minor=True)
        axes.set_yticks([row - 0.5 for row in range(1, rows)], minor=True)
        axes.grid(which="minor", color="#dddddd", linewidth=0.5)
        axes.tick_params(which="both", length=0, pad=72 * PAD / 2, top=True, labeltop=True, labelbottom=False)
        axes.spines[:].set_color("#aaaaaa")
        for text, word in zip(axes.get_xticklabels(), self.columns.words, strict=True):
            text.set_rotation(0 if text_width(word, SIZE) <= 0.8 * POINTS * CELL else 90)
        for text in (*axes.get_xticklabels(), *axes.get_yticklabels()):
            text.set_parse_math(False)
        return axes


class Panel(NamedTuple):
    """What is shown of one translation."""

    aligned: Aligned
    row: int
    map: Map | None  # None if nothing was written
    lines: list[Line]  # above the map

    @property
    def width(self) -> float:
        """In inches."""
        return NARROWEST if self.map is None else max(self.map.width, NARROWEST)

    @property
    def height(self) -> float:
        """In inches."""
        return height_of(self.lines) + (0.0 if self.map is None else PAD + self.map.height)


class Block(NamedTuple):
    """What is shown of one sentence."""

    source: Words
    shelves: list[list[Panel]]  # panels side by side, one row of them below the other
    references: list[str]

    def above(self, width: float) -> list[Line]:
        """The source."""
        return wrapped(self.source, width, 11)

    def below(self, width: float) -> list[Line]:
        """The references."""
        return [
            line for text in self.references for line in wrapped(["reference:", *text.split()], width, 9, color=QUIET)
        ]

    def height(self, width: float) -> float:
        """In inches, if the figure has so many from side to side."""
        shelves = sum(max(panel.height for panel in shelf) + NEAR for shelf in self.shelves)
        return height_of(self.above(width)) + PAD + shelves + height_of(self.below(width))


def draw_alignments(aligned: Sequence[Aligned]) -> Figure:
    """Draw which source words models attended to, for each word that they wrote.

    Weights are drawn as they are, from 0 to 1. Of a hard read a disc marks the word that was read. Where the data knows
    which source words a word of the reference is from, they are framed in the row of the word written in its place.

    Args:
        aligned: Of each model the translations of the very same sentences.

    Raises:
        ValueError: If the sentences are not the same for all, or a model has no choice of places.
    """
    check_same_sentences(aligned)
    if idle := [its.name for its in aligned if its.how is None]:
        raise ValueError(f"aligned must be of models that attend to words, but {idle[0]} has one place to look at")
    blocks = [_block(aligned, row) for row in range(len(aligned[0].translations))]
    width = max(_width(shelf) for block in blocks for shelf in block.shelves)
    notes = wrapped(_note(aligned).split(), width, 8, color=QUIET)
    height = sum(block.height(width) + FAR for block in blocks) + height_of(notes) + SCALE
    figure = Figure(figsize=(width + 2 * MARGIN, height + 2 * MARGIN))
    top = MARGIN
    for block in blocks:
        _draw_block(figure, top, block, width)
        top += block.height(width) + FAR
    draw_scale(figure, write_lines(figure, MARGIN, top, notes))
    return figure


def draw_scale(figure: Figure, top: float) -> None:
    """Draw the shades from 0 to 1, so many inches from the top of a figure."""
    width, height = figure.get_size_inches()
    middle = 1 - (top + SCALE / 2) / height
    axes = figure.add_axes(((MARGIN + 0.15) / width, middle - 0.05 / height, 1 / width, 0.1 / height))
    axes.imshow([[shade / 255 for shade in range(256)]], cmap=SHADES, vmin=0, vmax=1, aspect="auto")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_color("#aaaaaa")
    for left, text in ((0.0, "0"), (1.2, "1")):
        figure.text((MARGIN + left) / width, middle, text, fontsize=8, color=QUIET, va="center")


def _block(aligned: Sequence[Aligned], row: int) -> Block:
    pair = aligned[0].translations[row].pair
    shelves: list[list[Panel]] = [[]]
    for its in aligned:
        panel = _panel(its, row)
        if shelves[-1] and _width([*shelves[-1], panel]) > WIDEST:
            shelves.append([])
        shelves[-1].append(panel)
    references = [aligned[0].script.join(words) for words in pair.references[:REFERENCES]]
    return Block(pair.source, shelves, references)


def _panel(aligned: Aligned, row: int) -> Panel:
    one = aligned.translations[row]
    drawn = Map(one.weights, Labels.of(one.words), Labels.of(one.pair.source)) if one.words else None
    width = Panel(aligned, row, drawn, []).width
    title = Line(fit(f"{aligned.name}, {aligned.how} attention", POINTS * width, 9, "bold"), 9, {"weight": "bold"})
    said = aligned.script.join(one.words).split() or ["(no words)"]
    style = {}
    if one.pair.spans:  # right or wrong; of other data, a translation may be right in other words
        style = {"color": RIGHT if aligned.right[row] else WRONG}
        said += ["(right)" if aligned.right[row] else "(wrong)"]
    return Panel(aligned, row, drawn, [title, *wrapped(said, width, 10, **style)])


def _width(panels: Sequence[Panel]) -> float:
    return sum(panel.width + GAP for panel in panels) - GAP


def _draw_block(figure: Figure, top: float, block: Block, width: float) -> None:
    top = write_lines(figure, MARGIN, top, block.above(width)) + PAD
    for shelf in block.shelves:
        left = MARGIN
        for panel in shelf:
            below = write_lines(figure, left, top, panel.lines)
            if panel.map is not None:
                _mark(panel.map.draw(figure, left, below + PAD), panel)
            left += panel.width + GAP
        top += max(panel.height for panel in shelf) + NEAR
    write_lines(figure, MARGIN, top, block.below(width))


def _mark(axes: Axes, panel: Panel) -> None:
    """Mark what was read (hard), and what is meant, where that is known."""
    one = panel.aligned.translations[panel.row]
    for word, (start, stop) in enumerate(one.pair.spans[: len(one.words)]):
        if stop > start:
            style = {"fill": False, "edgecolor": RIGHT, "linewidth": 1.6, "zorder": 3, "clip_on": False}
            axes.add_patch(Rectangle((start - 0.5, word - 0.5), stop - start, 1, **style))
    if panel.aligned.how == "hard":
        style = {"color": READ, "markeredgecolor": "black", "markeredgewidth": 0.8, "markersize": 6}
        axes.plot(one.places.tolist(), range(len(one.words)), "o", zorder=4, **style)


def _note(aligned: Sequence[Aligned]) -> str:
    hard = any(its.how == "hard" for its in aligned)
    spans = any(one.pair.spans for one in aligned[0].translations)
    return (HARD_NOTE if hard else "") + (SPAN_NOTE if spans else "") + SHADE_NOTE
