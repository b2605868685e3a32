"""A figure of glimpses: where the model looked at each image, what it read there and what it predicted.

A row shows one image: first the image with the trail of glimpses, then for each glimpse the prediction, the squares
that were read, and below them the patches that the network received, the finest scale first.
"""

from typing import Any

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from glimpse.evaluation.glimpse_traces import GlimpseTrace
from glimpse.view.drawing import CORRECT_COLOR, WRONG_COLOR, draw_glimpse, draw_image, draw_patches, draw_trail
from glimpse.view.text_layout import format_prediction, format_target, truncate

TITLE: dict[str, Any] = {"fontsize": 9, "parse_math": False}  # class names may contain dollar signs


def draw_sheet(trace: GlimpseTrace) -> Figure:
    """Draw a trace, with a row for each image and a column for each glimpse."""
    count, steps = trace.points.shape[:2]
    height, width = trace.images.shape[2:]
    scales = trace.patches.shape[2]
    aspect = height / width
    size = 1.35 * (steps + 1), count * (1.35 * aspect + 1.35 / scales + 0.3) + 0.2  # inches
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(h_pad=0.01, hspace=0.0))
    names = tuple(map(truncate, trace.class_names))
    multi_label = trace.targets.is_floating_point()
    grid = figure.add_gridspec(count * 2, steps + 1, height_ratios=[aspect, 1 / scales + 0.02] * count)
    for row in range(count):
        axes = figure.add_subplot(grid[2 * row, 0])
        draw_image(axes, trace.images[row])
        draw_trail(axes, trace.points[row])
        axes.set_title(_heading("image", row, format_target(trace.targets[row], names)), **TITLE)
        for step in range(steps):
            axes = figure.add_subplot(grid[2 * row, step + 1])
            draw_image(axes, trace.images[row])
            draw_glimpse(axes, trace, row, step)
            color = CORRECT_COLOR if trace.correct[row, step] else WRONG_COLOR
            prediction = format_prediction(trace.probabilities[row, step], names, multi_label=multi_label)
            axes.set_title(_heading(f"glimpse {step + 1}", row, prediction), color=color, **TITLE)
            # At the top of its cell, close to the image that the patches belong to.
            axes = figure.add_subplot(grid[2 * row + 1, step + 1], anchor="N")
            draw_patches(axes, trace.patches[row, step].numpy())
    return figure


def _heading(column: str, row: int, text: str) -> str:
    """The title of a panel, in the first row below the title of the column."""
    text = truncate(text, 20)
    return f"{column}\n{text}" if row == 0 else text
