"""Where glimpses fall: maps of the places looked at over a whole data set, glimpse by glimpse.

Shapes: I images, M rollouts of each, T glimpses.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from torch import Tensor

from glimpse.classification import Outcome
from glimpse.view.drawing import line_style

# In pixels.
LEAST_WIDTH, MOST_WIDTH, SMALLEST_PANEL, LARGEST_PANEL, WIDE_PANEL = 800, 1200, 68, 240, 125
LEFT, RIGHT, TOP, GAP, NAME, TEXT, NOTE, LINES, AXIS = 64, 96, 8, 12, 28, 16, 36, 160, 64
DPI = 100
BINS = 31  # odd, so that the centre of the image, a common first glimpse, is the middle of a cell
COLOUR_MAP = "cividis"


def coverage(outcome: Outcome, *, bins: int = BINS) -> Tensor:
    """Map where the glimpses of a model are centred.

    Args:
        outcome: What the model did with the images.
        bins: Number of cells along each side of the image.

    Returns:
        (T, bins, bins): the share of glimpses t, of all images and rollouts, that is centred in the cell of a row, from
        the top, and a column, from the left. What is off the image is left out, so a map may sum to less than one.
        The right and bottom edges belong to the last cells.
    """
    steps = outcome.locations.shape[2]
    if steps == 0:
        raise ValueError("outcome must be of a model that looks, got one without glimpses")
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    places = outcome.locations.flatten(0, 1).double()  # (I*M, T, 2)
    inside = (places.abs() <= 1).all(-1)  # (I*M, T); not a number is nowhere
    cells = ((places + 1) / 2 * bins).nan_to_num(0).long().clamp(0, bins - 1)
    index = (torch.arange(steps) * bins + cells[..., 1]) * bins + cells[..., 0]
    counts = torch.bincount(index[inside], minlength=steps * bins**2)
    return counts.view(steps, bins, bins) / len(places)


def draw_coverage(outcomes: Mapping[str, Outcome], image_shape: Sequence[int]) -> Figure:
    """Draw the maps of models, a row for each, glimpse by glimpse; and how often glimpses are on a digit, if known.

    Args:
        outcomes: What each model did with the images, by its name.
        image_shape: (C, H, W) of the images.

    Returns:
        A figure 8 to 12 inches wide, or more for more than 13 glimpses.
    """
    if not outcomes:
        raise ValueError("outcomes must be of at least one model, got none")
    for name, outcome in outcomes.items():
        if outcome.locations.shape[2] == 0:
            raise ValueError(f"{name} sees the whole image: it has no glimpses to map")
    maps = {name: coverage(outcome) for name, outcome in outcomes.items()}
    known = {name: outcome.hit.double().mean((0, 1)) for name, outcome in outcomes.items() if outcome.hit is not None}

    steps = max(len(shares) for shares in maps.values())
    aspect = image_shape[1] / image_shape[2]
    room = (MOST_WIDTH - LEFT - RIGHT + GAP) / steps - GAP
    across = max(SMALLEST_PANEL, min(LARGEST_PANEL, LARGEST_PANEL / aspect, room))
    down = across * aspect
    pitch = across + GAP
    broken = across < WIDE_PANEL  # long lines of text do not fit
    above = TEXT * (1 + (1 + broken) * bool(known)) + 6
    row = NAME + above + down + TEXT * (1 + broken) + 12
    bottom = TOP + len(maps) * row  # of the maps
    width = max(LEAST_WIDTH, LEFT + steps * pitch - GAP + RIGHT)
    height = bottom + NOTE + (LINES + AXIS if known else 0)
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="white")

    def axes_at(left: float, top: float, across: float, down: float) -> Axes:
        return figure.add_axes((left / width, 1 - (top + down) / height, across / width, down / height))

    def write(y: float, text: str, **how: Any) -> None:
        figure.text(LEFT / width, 1 - y / height, text, va="baseline", parse_math=False, **how)

    space = "\n" if broken else " "
    for place, (name, shares) in enumerate(maps.items()):
        top = TOP + place * row
        write(top + 18, name, fontsize=11, weight="bold")
        for step, share in enumerate(shares):
            heading = f"glimpse {step + 1}"
            if name in known:
                heading += f"\non the digit{space}{100 * known[name][step]:.1f}%"
            fullest = f"fullest cell{space}{100 * share.max():.3g}%"
            _draw_map(axes_at(LEFT + step * pitch, top + NAME + above, across, down), share, heading, fullest)
        _draw_scale(axes_at(LEFT + len(shares) * pitch, top + NAME + above, 10, down))
    note = "Colour: the number of glimpses centred in a cell, in percent of that in the fullest cell of the map."
    write(bottom + 16, note, fontsize=8)
    if known:
        edge = 0.5 * across / pitch  # so that each glimpse is below its maps
        lines = axes_at(LEFT, bottom + NOTE + 12, steps * pitch - GAP, LINES)
        _draw_hits(lines, known, (1 - edge, steps + edge))
    return figure


def _draw_map(axes: Axes, share: Tensor, heading: str, fullest: str) -> None:
    norm = PowerNorm(0.5, 0, float(share.max()) or 1.0)  # by the root: so that the rare is seen beside the common
    axes.imshow(
        share.numpy(), cmap=COLOUR_MAP, norm=norm, aspect="auto", extent=(-1, 1, 1, -1), interpolation="nearest"
    )
    axes.set(xticks=[], yticks=[])
    axes.set_title(heading, fontsize=9)
    axes.set_xlabel(fullest, fontsize=8, labelpad=3)


def _draw_scale(axes: Axes) -> None:
    bar = axes.figure.colorbar(ScalarMappable(PowerNorm(0.5, 0, 1), COLOUR_MAP), cax=axes, ticks=[0, 0.1, 0.4, 1])
    bar.ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    bar.ax.tick_params(labelsize=8)


def _draw_hits(axes: Axes, known: Mapping[str, Tensor], limits: tuple[float, float]) -> None:
    for place, (name, rates) in enumerate(known.items()):
        axes.plot(
            range(1, len(rates) + 1),
            rates,
            label=name,
            markerfacecolor="white",
            linestyle="--" if place else "-",  # so that one line shows through another
            **line_style(place),
        )
    steps = max(len(rates) for rates in known.values())
    lowest = min(float(rates.min()) for rates in known.values())
    axes.set(xlim=limits, xticks=range(1, steps + 1), ylim=(max(0, lowest // 0.1 / 10 - 0.1), 1.02))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.tick_params(labelsize=8)
    axes.set_title("share of glimpses centred on the digit", fontsize=9, loc="left")
    axes.set_xlabel("glimpse", fontsize=8)
    axes.grid(axis="y", color="#E0E0E0", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    for text in axes.legend(fontsize=8, loc="best", frameon=False).get_texts():
        text.set_parse_math(False)
