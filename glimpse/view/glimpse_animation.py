"""An animation of glimpses: where each model looks, what it reads and what it predicts, glimpse by glimpse.

A frame has a strip for each model: the image with the squares of the current glimpse and the trail of the glimpses so
far; the patches that the network received, the finest scale first; and the class probabilities.

Shapes: B images, T glimpses.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from glimpse.evaluation.glimpse_traces import GlimpseTrace
from glimpse.view.drawing import (
    CORRECT_COLOR,
    DPI,
    WRONG_COLOR,
    draw_glimpse,
    draw_image,
    draw_patches,
    draw_probabilities,
    draw_trail,
)
from glimpse.view.text_layout import format_prediction, format_target, truncate
from glimpse.view.video import rasterize, write_frames

# In pixels, all even, as H.264 requires. NUMBERS is the width to the right of the bars.
WIDTH, HEADING, SIDE, FOOT, MARGIN, GAP, PATCHES, NUMBERS = 800, 60, 270, 14, 16, 22, 86, 94
STRIP = HEADING + SIDE + FOOT


def draw_frame(traces: Sequence[GlimpseTrace], row: int, step: int, *, verdict: str | None = None) -> Figure:
    """Draw one frame of an animation.

    Args:
        traces: One for each model, for the same images.
        row: Index of the image in the traces.
        step: Index of the glimpse; a model with fewer glimpses stays at its last one.
        verdict: Text above the probabilities; None: the prediction, and whether it is correct.

    Returns:
        The figure, 800 pixels wide; its height depends only on the number of models.
    """
    _check(traces)
    figure = Figure(figsize=(WIDTH / DPI, len(traces) * STRIP / DPI), dpi=DPI, facecolor="white")
    for number, trace in enumerate(traces):
        _draw_strip(figure, number * STRIP, trace, row, min(step, trace.points.shape[1] - 1), verdict)
    return figure


def frames(traces: Sequence[GlimpseTrace], *, rows: Iterable[int] | None = None) -> Iterator[np.ndarray]:
    """Draw the frames (H, W, 3), uint8, image by image and glimpse by glimpse; `rows` selects images."""
    _check(traces)
    for row in range(len(traces[0].images)) if rows is None else rows:
        for step in range(_max_steps(traces)):
            yield rasterize(draw_frame(traces, row, step))


def save_animation(
    path: str | Path, traces: Sequence[GlimpseTrace], *, seconds: float = 0.8, hold: float = 1.6
) -> None:
    """Write an animation as a GIF, or as an MP4 video, which requires ffmpeg.

    Args:
        path: Output path, .gif or .mp4.
        traces: One for each model, for the same images.
        seconds: Duration of a glimpse, rounded to hundredths of a second, as is `hold`.
        hold: Duration of the last glimpse of an image.

    Raises:
        ConfigError: If the file type is not supported or the file cannot be written; an existing file is then kept.
        ValueError: If the traces are of different images.
    """
    _check(traces)
    write_frames(path, frames(traces), lengths=[_max_steps(traces)] * len(traces[0].images), seconds=seconds, hold=hold)


def _check(traces: Sequence[GlimpseTrace]) -> None:
    if not traces or not len(traces[0].images):
        raise ValueError("traces must be of at least one model and one image")
    first = traces[0]
    for other in traces[1:]:
        if not (torch.equal(other.images, first.images) and torch.equal(other.targets, first.targets)):
            raise ValueError(f"traces must be of the same images, but those of {other.name} and {first.name} differ")


def _max_steps(traces: Sequence[GlimpseTrace]) -> int:
    return max(trace.points.shape[1] for trace in traces)


def _draw_strip(figure: Figure, top: int, trace: GlimpseTrace, row: int, step: int, verdict: str | None) -> None:
    """Draw the strip of one model, `top` pixels below the top of the figure."""
    height = figure.get_figheight() * DPI
    names = tuple(map(truncate, trace.class_names))
    probabilities, target = trace.probabilities[row, step], trace.targets[row]
    multi_label = target.is_floating_point()
    correct = bool(trace.correct[row, step])

    def axes_at(left: int, width: int) -> Axes:
        bounds = left / WIDTH, 1 - (top + HEADING + SIDE) / height, width / WIDTH, SIDE / height
        return figure.add_axes(bounds, anchor="NW")

    def write(x: int, y: int, text: str, **style: Any) -> None:
        figure.text(x / WIDTH, 1 - (top + y) / height, text, fontsize=11, va="baseline", parse_math=False, **style)

    patches_left = MARGIN + SIDE + GAP
    names_left = patches_left + PATCHES + GAP
    bars_left = names_left + 8 * max(map(len, names)) + 8

    write(MARGIN, 27, f"{truncate(trace.name, 50)}, {trace.mode} attention", weight="bold")
    write(WIDTH - MARGIN, 27, f"glimpse {step + 1} of {trace.points.shape[1]}", ha="right", weight="bold")
    write(MARGIN, HEADING - 9, f"image (true: {truncate(format_target(target, names), 18)})")
    write(patches_left, HEADING - 9, "patches")
    if verdict is None:
        prediction = format_prediction(probabilities, names, multi_label=multi_label).replace("  ", ", ")
        text = f"predicts {truncate(prediction, 24)}: {'correct' if correct else 'wrong'}"
        write(names_left, HEADING - 9, text, color=CORRECT_COLOR if correct else WRONG_COLOR, weight="bold")
    else:
        write(names_left, HEADING - 9, verdict, weight="bold")

    image = axes_at(MARGIN, SIDE)
    draw_image(image, trace.images[row])
    draw_trail(image, trace.points[row, : step + 1])
    draw_glimpse(image, trace, row, step)
    draw_patches(axes_at(patches_left, PATCHES), trace.patches[row, step].numpy(), vertical=True)
    draw_probabilities(
        axes_at(bars_left, WIDTH - MARGIN - NUMBERS - bars_left),
        probabilities,
        names,
        predicted=(probabilities > 0.5).nonzero().flatten().tolist() if multi_label else [int(probabilities.argmax())],
        true=target.nonzero().flatten().tolist() if multi_label else [int(target)],
        correct=correct,
    )
