"""A still picture of glimpses: what the image is, where the model looked, and what it saw there.

A row is an image. First the image with the trail of glimpses; then, glimpse by glimpse, the squares that were read and
beneath them the patches as the network got them, finest scale first; and what the model would answer by then.
"""

from matplotlib.figure import Figure

from glimpse.view.drawing import (
    RIGHT,
    WRONG,
    answer_of,
    draw_attention,
    draw_patches,
    draw_trail,
    short,
    show_image,
    truth_of,
)
from glimpse.view.looks import Looks

TITLE = {"fontsize": 9, "parse_math": False}  # a class may have a name with dollars


def draw_sheet(looks: Looks) -> Figure:
    """Draw looks as a figure with a row per image and a column per glimpse."""
    count, steps = looks.points.shape[:2]
    height, width = looks.images.shape[2:]
    scales = looks.patches.shape[2]
    aspect = height / width
    size = 1.35 * (steps + 1), count * (1.35 * aspect + 1.35 / scales + 0.3) + 0.2  # inches
    figure = Figure(figsize=size, layout="constrained")
    figure.get_layout_engine().set(h_pad=0.01, hspace=0.0)
    looks = looks._replace(class_names=tuple(map(short, looks.class_names)))
    grid = figure.add_gridspec(count * 2, steps + 1, height_ratios=[aspect, 1 / scales + 0.02] * count)
    for row in range(count):
        axes = figure.add_subplot(grid[2 * row, 0])
        show_image(axes, looks.images[row])
        draw_trail(axes, looks.points[row])
        axes.set_title(_heading("image", row, short(truth_of(looks.targets[row], looks.class_names), 20)), **TITLE)
        for step in range(steps):
            axes = figure.add_subplot(grid[2 * row, step + 1])
            show_image(axes, looks.images[row])
            draw_attention(axes, looks, row, step)
            colour = RIGHT if looks.right[row, step] else WRONG
            heading = _heading(f"glimpse {step + 1}", row, short(answer_of(looks, row, step), 20))
            axes.set_title(heading, color=colour, **TITLE)
            draw_patches(figure.add_subplot(grid[2 * row + 1, step + 1]), looks.patches[row, step])
    return figure


def _heading(column: str, row: int, text: str) -> str:
    return f"{column}\n{text}" if row == 0 else text
