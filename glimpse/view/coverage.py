"""Coverage maps: histograms of glimpse locations over a data set, one for each glimpse.

Shapes: I images, M rollouts per image, T glimpses.
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

from glimpse.evaluation.classify import ClassifierOutcome
from glimpse.view.drawing import line_style

# In pixels.
MIN_WIDTH, MAX_WIDTH, MIN_PANEL, MAX_PANEL, MIN_PANEL_OF_ONE_LINE = 800, 1200, 68, 240, 125
LEFT, RIGHT, TOP, GAP, NAME, TEXT, NOTE, LINES, AXIS = 64, 96, 8, 12, 28, 16, 36, 160, 64
DPI = 100
BINS = 31  # odd, so that the center of the image, a common first location, is the center of a cell
COLOR_MAP = "cividis"


def coverage(outcome: ClassifierOutcome, *, bins: int = BINS) -> Tensor:
    """Compute histograms of the glimpse centers of a model.

    Args:
        outcome: Evaluation of the model on the images.
        bins: Number of cells along each side of the image.

    Returns:
        (T, bins, bins): for step t, the share of the glimpses of all images and rollouts whose center is in each cell;
        rows from the top, columns from the left. Centers outside the image are not counted, so a map may sum to less
        than one. The right and bottom edges belong to the last cells.
    """
    steps = outcome.locations.shape[2]
    if steps == 0:
        raise ValueError("outcome must be of a model with glimpses, got one without")
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    locations = outcome.locations.flatten(0, 1).double()  # (I*M, T, 2)
    inside = (locations.abs() <= 1).all(-1)  # (I*M, T); False for NaN
    cells = ((locations + 1) / 2 * bins).nan_to_num(0).long().clamp(0, bins - 1)
    index = (torch.arange(steps) * bins + cells[..., 1]) * bins + cells[..., 0]
    counts = torch.bincount(index[inside], minlength=steps * bins**2)
    return counts.view(steps, bins, bins) / len(locations)


def draw_coverage(outcomes: Mapping[str, ClassifierOutcome], image_shape: Sequence[int]) -> Figure:
    """Draw the coverage maps of models, a row for each, and the share of glimpses on a digit, if known.

    Args:
        outcomes: Evaluation of each model on the images, by the name of the model.
        image_shape: (C, H, W) of the images.

    Returns:
        The figure, 8 to 12 inches wide, or wider for more than 13 glimpses.
    """
    if not outcomes:
        raise ValueError("outcomes must be of at least one model, got none")
    for name, outcome in outcomes.items():
        if outcome.locations.shape[2] == 0:
            raise ValueError(f"{name} is a whole-image network and has no glimpses to map")
    maps = {name: coverage(outcome) for name, outcome in outcomes.items()}
    on_target = {
        name: outcome.on_target.double().mean((0, 1))
        for name, outcome in outcomes.items()
        if outcome.on_target is not None
    }

    steps = max(len(shares) for shares in maps.values())
    aspect = image_shape[1] / image_shape[2]
    panel_width = (MAX_WIDTH - LEFT - RIGHT + GAP) / steps - GAP
    across = max(MIN_PANEL, min(MAX_PANEL, MAX_PANEL / aspect, panel_width))
    down = across * aspect
    pitch = across + GAP
    two_lines = across < MIN_PANEL_OF_ONE_LINE  # long headings do not fit above a map
    above = TEXT * (1 + (1 + two_lines) * bool(on_target)) + 6
    row = NAME + above + down + TEXT * (1 + two_lines) + 12
    bottom = TOP + len(maps) * row  # bottom of the maps
    width = max(MIN_WIDTH, LEFT + steps * pitch - GAP + RIGHT)
    height = bottom + NOTE + (LINES + AXIS if on_target else 0)
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="white")

    def axes_at(left: float, top: float, across: float, down: float) -> Axes:
        return figure.add_axes((left / width, 1 - (top + down) / height, across / width, down / height))

    def write(y: float, text: str, **style: Any) -> None:
        figure.text(LEFT / width, 1 - y / height, text, va="baseline", parse_math=False, **style)

    space = "\n" if two_lines else " "
    for number, (name, shares) in enumerate(maps.items()):
        top = TOP + number * row
        write(top + 18, name, fontsize=11, weight="bold")
        for step, share in enumerate(shares):
            heading = f"glimpse {step + 1}"
            if name in on_target:
                heading += f"\non the digit{space}{100 * on_target[name][step]:.1f}%"
            fullest = f"fullest cell{space}{100 * share.max():.3g}%"
            _draw_map(axes_at(LEFT + step * pitch, top + NAME + above, across, down), share, heading, fullest)
        _draw_color_bar(axes_at(LEFT + len(shares) * pitch, top + NAME + above, 10, down))
    note = "Color: number of glimpses centered in a cell, in percent of the fullest cell of the map."
    write(bottom + 16, note, fontsize=8)
    if on_target:
        edge = 0.5 * across / pitch  # aligns each glimpse of the line plot with its maps
        lines = axes_at(LEFT, bottom + NOTE + 12, steps * pitch - GAP, LINES)
        _draw_on_target(lines, on_target, (1 - edge, steps + edge))
    return figure


def _draw_map(axes: Axes, share: Tensor, heading: str, fullest: str) -> None:
    norm = PowerNorm(0.5, 0, float(share.max()) or 1.0)  # the square root keeps rare cells visible
    axes.imshow(share.numpy(), cmap=COLOR_MAP, norm=norm, aspect="auto", extent=(-1, 1, 1, -1), interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.set_title(heading, fontsize=9)
    axes.set_xlabel(fullest, fontsize=8, labelpad=3)


def _draw_color_bar(axes: Axes) -> None:
    bar = axes.figure.colorbar(ScalarMappable(PowerNorm(0.5, 0, 1), COLOR_MAP), cax=axes, ticks=[0, 0.1, 0.4, 1])
    bar.ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    bar.ax.tick_params(labelsize=8)


def _draw_on_target(axes: Axes, on_target: Mapping[str, Tensor], limits: tuple[float, float]) -> None:
    for index, (name, rates) in enumerate(on_target.items()):
        axes.plot(
            range(1, len(rates) + 1),
            rates,
            label=name,
            markerfacecolor="white",
            linestyle="--" if index else "-",  # lines that coincide stay visible
            **line_style(index),
        )
    steps = max(len(rates) for rates in on_target.values())
    lowest = min(float(rates.min()) for rates in on_target.values())
    axes.set(xlim=limits, xticks=range(1, steps + 1), ylim=(max(0, lowest // 0.1 / 10 - 0.1), 1.02))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.tick_params(labelsize=8)
    axes.set_title("share of glimpses centered on the digit", fontsize=9, loc="left")
    axes.set_xlabel("glimpse", fontsize=8)
    axes.grid(axis="y", color="#E0E0E0", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    for text in axes.legend(fontsize=8, loc="best", frameon=False).get_texts():
        text.set_parse_math(False)
