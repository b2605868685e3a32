"""An animation of captions: what one model, or several beside each other, say of an image and look at, word by word.

A frame has a column for each model: the image with the attention for the current word, and under it the caption so
far, never a word that has not been said yet. Each image begins as it is, before the first word.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from glimpse.data.captions import Words
from glimpse.view.animation import rasterise, write_frames
from glimpse.view.drawing import ATTENTION, DPI, draw_word, fit, show_image, text_width, wrap
from glimpse.view.told import Told, check_same_images

# In pixels, all even, as H.264 wants them.
COLUMN, MARGIN, HEADING, LINE, FOOT = 384, 16, 40, 26, 40
SIZE = 12  # of the words, in points
POINTS = 72 / DPI  # to a pixel
NOTE = "Colour: attention, relative to its greatest. Square: the place read."


def draw_caption_frame(told: Sequence[Told], row: int, step: int) -> Figure:
    """Draw one moment of an animation.

    Args:
        told: What each model said of the very same images.
        row: Which image.
        step: 0 is the image alone, then which word, from 1; a model that has said all of them stays at its last.

    Returns:
        A figure whose width depends on the number of models, and its height on the images and the longest caption.
    """
    check_same_images(told)
    image_height, image_width = told[0].images.shape[2:]
    side = 2 * round(COLUMN * image_height / image_width / 2)
    lines = max(len(_lines(caption)) for its in told for caption in its.captions)
    width, height = MARGIN + len(told) * (COLUMN + MARGIN), HEADING + side + lines * LINE + FOOT
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="white")

    def write(x: float, y: float, text: str, size: float, **style: object) -> None:
        figure.text(x / width, 1 - y / height, text, fontsize=size, va="baseline", parse_math=False, **style)

    for place, its in enumerate(told):
        left = MARGIN + place * (COLUMN + MARGIN)
        write(left, 26, fit(f"{its.name}, {its.how} attention", COLUMN * POINTS, 11, "bold"), 11, weight="bold")
        axes = figure.add_axes((left / width, 1 - (HEADING + side) / height, COLUMN / width, side / height))
        words = its.captions[row][:step]
        if words:
            draw_word(axes, its, row, len(words) - 1)
        else:
            show_image(axes, its.images[row])
        lines = _lines(words)
        for number, line in enumerate(lines, 1):
            for count, word in enumerate(line):
                is_last = number == len(lines) and count == len(line) - 1
                style = {"bbox": {"facecolor": ATTENTION, "edgecolor": "none", "pad": 2}} if is_last else {}
                before = "".join(f"{other} " for other in line[:count])
                write(left + text_width(before, SIZE) / POINTS, HEADING + side + number * LINE, word, SIZE, **style)
    write(MARGIN, height - 12, NOTE, 8, color="#666666")
    return figure


def caption_frames(told: Sequence[Told]) -> Iterator[np.ndarray]:
    """Draw the frames (H, W, 3), uint8, of all images, one after the other, word by word."""
    check_same_images(told)
    for row, length in enumerate(_lengths(told)):
        for step in range(length):
            yield rasterise(draw_caption_frame(told, row, step))


def save_caption_animation(path: str | Path, told: Sequence[Told], *, seconds: float = 0.8, hold: float = 1.6) -> None:
    """Write an animation as a GIF, or as an MP4 video, for which ffmpeg is needed.

    Args:
        path: Where to; the suffix says which.
        told: What each model said of the very same images.
        seconds: How long a word is shown; both times are rounded to hundredths.
        hold: How long the last word of an image is shown.

    Raises:
        ConfigError: If the file cannot be of this kind, or not be written; what was there before is still there then.
        ValueError: If the models did not speak of the same images.
    """
    check_same_images(told)
    write_frames(path, caption_frames(told), lengths=_lengths(told), seconds=seconds, hold=hold)


def _lengths(told: Sequence[Told]) -> list[int]:
    """The number of frames of each image: one alone, and one for each word of its longest caption."""
    return [1 + max(map(len, captions)) for captions in zip(*(its.captions for its in told), strict=True)]


def _lines(words: Words) -> list[list[str]]:
    return wrap(words, COLUMN * POINTS, SIZE)
