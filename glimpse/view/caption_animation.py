"""An animation of captions: the caption of each model and its attention, word by word.

A frame has a column for each model: the image with the attention for the current word, and below it the words of the
caption so far. Each image is first shown alone, before the first word.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from glimpse.data.vocabulary import Tokens
from glimpse.evaluation.caption_traces import CaptionTrace, check_same_images
from glimpse.view.drawing import ATTENTION_COLOR, DPI, draw_image, draw_word_attention
from glimpse.view.text_layout import MUTED_COLOR, text_width, truncate_to_width, wrap_words
from glimpse.view.video import rasterize, write_frames

# In pixels, all even, as H.264 requires.
COLUMN, MARGIN, HEADING, LINE, FOOT = 384, 16, 40, 26, 40
SIZE = 12  # font size of the words, in points
POINTS_PER_PIXEL = 72 / DPI
WEIGHT_NOTE, HARD_NOTE = "Color: attention relative to its largest weight.", " Square: the place read."


def draw_caption_frame(traces: Sequence[CaptionTrace], row: int, step: int) -> Figure:
    """Draw one frame of an animation.

    Args:
        traces: One for each model, for the same images.
        row: Index of the image in the traces.
        step: 0: the image alone; n: the first n words. A model with fewer words stays at its last word.

    Returns:
        The figure. Its width depends on the number of models, its height on the images and the longest caption.
    """
    check_same_images(traces)
    image_height, image_width = traces[0].images.shape[2:]
    side = 2 * round(COLUMN * image_height / image_width / 2)
    max_lines = max(len(_wrap(caption)) for trace in traces for caption in trace.captions)
    width, height = MARGIN + len(traces) * (COLUMN + MARGIN), HEADING + side + max_lines * LINE + FOOT
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="white")

    def write(x: float, y: float, text: str, size: float, **style: Any) -> None:
        figure.text(x / width, 1 - y / height, text, fontsize=size, va="baseline", parse_math=False, **style)

    for column, trace in enumerate(traces):
        left = MARGIN + column * (COLUMN + MARGIN)
        title = truncate_to_width(f"{trace.name}, {trace.mode} attention", COLUMN * POINTS_PER_PIXEL, 11, "bold")
        write(left, 26, title, 11, weight="bold")
        axes = figure.add_axes((left / width, 1 - (HEADING + side) / height, COLUMN / width, side / height))
        words = trace.captions[row][:step]
        if words:
            draw_word_attention(axes, trace, row, len(words) - 1)
        else:
            draw_image(axes, trace.images[row])
        lines = _wrap(words)
        for number, line in enumerate(lines, 1):
            for count, word in enumerate(line):
                is_current = number == len(lines) and count == len(line) - 1
                style = {"bbox": {"facecolor": ATTENTION_COLOR, "edgecolor": "none", "pad": 2}} if is_current else {}
                before = text_width("".join(f"{other} " for other in line[:count]), SIZE) / POINTS_PER_PIXEL
                write(left + before, HEADING + side + number * LINE, word, SIZE, **style)
    note = WEIGHT_NOTE + (HARD_NOTE if any(trace.mode == "hard" for trace in traces) else "")
    write(MARGIN, height - 12, note, 8, color=MUTED_COLOR)
    return figure


def caption_frames(traces: Sequence[CaptionTrace]) -> Iterator[np.ndarray]:
    """Draw the frames (H, W, 3), uint8, image by image and word by word."""
    check_same_images(traces)
    for row, length in enumerate(_num_frames(traces)):
        for step in range(length):
            yield rasterize(draw_caption_frame(traces, row, step))


def save_caption_animation(
    path: str | Path, traces: Sequence[CaptionTrace], *, seconds: float = 0.8, hold: float = 1.6
) -> None:
    """Write an animation as a GIF, or as an MP4 video, which requires ffmpeg.

    Args:
        path: Output path, .gif or .mp4.
        traces: One for each model, for the same images.
        seconds: Duration of a word, rounded to hundredths of a second, as is `hold`.
        hold: Duration of the last word of an image.

    Raises:
        ConfigError: If the file type is not supported or the file cannot be written; an existing file is then kept.
        ValueError: If the traces are of different images.
    """
    check_same_images(traces)
    write_frames(path, caption_frames(traces), lengths=_num_frames(traces), seconds=seconds, hold=hold)


def _num_frames(traces: Sequence[CaptionTrace]) -> list[int]:
    """The number of frames of each image: the image alone, and one for each word of its longest caption."""
    return [1 + max(map(len, captions)) for captions in zip(*(trace.captions for trace in traces), strict=True)]


def _wrap(words: Tokens) -> list[list[str]]:
    return wrap_words(words, COLUMN * POINTS_PER_PIXEL, SIZE)
