"""An animation of glimpses: what one model, or two beside each other, look at, see and answer, glimpse by glimpse.

A frame has a strip for each model: the image with the squares of this glimpse and the way so far, never a place not
looked at yet; the patches as the network got them, finest scale first; and how probable it holds the classes by now.

Shapes: B images, T glimpses.
"""

import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from glimpse.settings import ConfigError
from glimpse.view.drawing import (
    DPI,
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

# In pixels, all even, as H.264 wants them.
WIDTH, HEADING, SIDE, FOOT, MARGIN, GAP, PATCHES, WORDS = 800, 60, 270, 14, 16, 22, 86, 94
STRIP = HEADING + SIDE + FOOT
MOST_CLASSES = 10
PALE = "#B0B0B0"  # of the bars of classes that are not the answer
COLOURS, EXACT = 255, 32  # of a GIF: how many, and how many of them are not rounded
SAME = 255  # the colour left over marks in a GIF what stays as it was


def draw_frame(looks: Sequence[Looks], row: int, step: int) -> Figure:
    """Draw one moment of an animation.

    Args:
        looks: What each model did with the very same images.
        row: Which image.
        step: Which glimpse, from 0; a model that has fewer stays at its last.

    Returns:
        A figure of 800 pixels in width, whose height depends on the number of models alone.
    """
    _check(looks)
    figure = Figure(figsize=(WIDTH / DPI, len(looks) * STRIP / DPI), dpi=DPI, facecolor="white")
    for place, model_looks in enumerate(looks):
        _draw_strip(figure, place * STRIP, model_looks, row, min(step, model_looks.points.shape[1] - 1))
    return figure


def frames(looks: Sequence[Looks], *, rows: Iterable[int] | None = None) -> Iterator[np.ndarray]:
    """Draw the frames (H, W, 3), uint8, of all images, or of some rows, one after the other, glimpse by glimpse."""
    _check(looks)
    for row in range(len(looks[0].images)) if rows is None else rows:
        for step in range(_steps(looks)):
            yield rasterise(draw_frame(looks, row, step))


def save_animation(path: str | Path, looks: Sequence[Looks], *, seconds: float = 0.8, hold: float = 1.6) -> None:
    """Write an animation as a GIF, or as an MP4 video, for which ffmpeg is needed.

    Args:
        path: Where to; the suffix says which.
        looks: What each model did with the very same images.
        seconds: How long a glimpse is shown; both times are rounded to hundredths.
        hold: How long the last glimpse of an image is shown.

    Raises:
        ConfigError: If the file cannot be of this kind, or not be written; what was there before is still there then.
        ValueError: If the models did not look at the same images.
    """
    _check(looks)
    write_frames(path, frames(looks), lengths=[_steps(looks)] * len(looks[0].images), seconds=seconds, hold=hold)


def write_frames(
    path: str | Path, pictures: Iterable[np.ndarray], *, lengths: Sequence[int], seconds: float, hold: float
) -> None:
    """Write frames (H, W, 3), uint8, as a GIF or an MP4 video; for the rest see `save_animation`.

    Args:
        path: Where to.
        pictures: The frames, which are drawn only if they can be written.
        lengths: How many frames belong to each image; the last of them is held.
        seconds: How long a frame is shown.
        hold: How long the last frame of an image is shown.
    """
    path = Path(path)
    write = {".gif": _write_gif, ".mp4": _write_mp4}.get(path.suffix.lower())
    if write is None:
        raise ConfigError(f"an animation must be a .gif or an .mp4 file, got {path}")
    for name, value in (("seconds", seconds), ("hold", hold)):
        if not 0.02 <= value <= 60:
            raise ConfigError(f"{name} must be from 0.02 to 60, got {value}")
    times = [round(100 * value) for length in lengths for value in [seconds] * (length - 1) + [hold]]
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        temporary.touch()  # so that a wrong path is known before the work is done
        try:
            write(temporary, pictures, times)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot write the animation {path}: {error.strerror or error}") from error


def rasterise(figure: Figure) -> np.ndarray:
    """A figure as a frame (H, W, 3), uint8."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _check(looks: Sequence[Looks]) -> None:
    if not looks or not len(looks[0].images):
        raise ValueError("looks must be of at least one model and one image")
    for other in looks[1:]:
        if not (torch.equal(other.images, looks[0].images) and torch.equal(other.targets, looks[0].targets)):
            raise ValueError(f"looks must be of the same images, but those of {other.name} and {looks[0].name} differ")


def _steps(looks: Sequence[Looks]) -> int:
    return max(model_looks.points.shape[1] for model_looks in looks)


def _draw_strip(figure: Figure, top: int, looks: Looks, row: int, step: int) -> None:
    """Draw what one model does, in the strip that begins `top` pixels from the top of the figure."""
    height = figure.get_figheight() * DPI
    looks = looks._replace(class_names=tuple(map(short, looks.class_names)))

    def axes_at(left: int, width: int) -> Axes:
        bounds = left / WIDTH, 1 - (top + HEADING + SIDE) / height, width / WIDTH, SIDE / height
        return figure.add_axes(bounds, anchor="NW")

    def write(x: int, y: int, text: str, **how: str) -> None:
        figure.text(x / WIDTH, 1 - (top + y) / height, text, fontsize=11, va="baseline", parse_math=False, **how)

    patches = MARGIN + SIDE + GAP
    answers = patches + PATCHES + GAP
    bars = answers + 8 * max(map(len, looks.class_names)) + 8
    right = bool(looks.right[row, step])

    write(MARGIN, 27, f"{short(looks.name, 50)}, {looks.how} read", weight="bold")
    write(WIDTH - MARGIN, 27, f"glimpse {step + 1} of {looks.points.shape[1]}", ha="right", weight="bold")
    write(MARGIN, HEADING - 9, f"looks (true: {short(truth_of(looks.targets[row], looks.class_names), 18)})")
    write(patches, HEADING - 9, "sees")
    verdict = f"says {short(answer_of(looks, row, step).replace('  ', ', '), 24)}: {'right' if right else 'wrong'}"
    write(answers, HEADING - 9, verdict, color=RIGHT if right else WRONG, weight="bold")

    image = axes_at(MARGIN, SIDE)
    show_image(image, looks.images[row])
    draw_trail(image, looks.points[row, : step + 1])
    draw_attention(image, looks, row, step)
    draw_patches(axes_at(patches, PATCHES), looks.patches[row, step], vertical=True)
    _draw_bars(axes_at(bars, WIDTH - MARGIN - WORDS - bars), looks, row, step)


def _draw_bars(axes: Axes, looks: Looks, row: int, step: int) -> None:
    """Draw the probabilities of the classes, of many the highest, with the answer in colour and the truth marked."""
    answers, target = looks.answers[row, step], looks.targets[row]
    if target.is_floating_point():
        answered, true = answers > 0.5, target > 0
    else:
        classes = torch.arange(len(answers))
        answered, true = classes == answers.argmax(), classes == target
    shown = range(len(answers)) if len(answers) <= MOST_CLASSES else answers.topk(MOST_CLASSES).indices.tolist()
    colour = RIGHT if looks.right[row, step] else WRONG
    colours = [colour if answered[index] else PALE for index in shown]
    axes.barh(range(len(shown)), [float(answers[index]) for index in shown], height=0.72, color=colours)
    for y, index in enumerate(shown):
        answer = float(answers[index])
        how = {"va": "center", "weight": "bold" if true[index] else "normal", "parse_math": False}
        words = [f"{100 * answer:.0f}%"] if answer >= 0.005 else []
        words += ["◂ true"] if true[index] else []
        axes.text(-0.015, y, looks.class_names[index], ha="right", fontsize=10, **how)
        axes.text(answer + 0.015, y, " ".join(words), fontsize=9, **how)
    axes.plot([0, 0], [-0.5, len(shown) - 0.5], color="black", linewidth=0.8)
    axes.set(xlim=(0, 1), ylim=(max(len(shown), 6) - 0.5, -0.5))  # few bars do not grow thick
    axes.axis("off")


def _write_gif(path: Path, pictures: Iterable[np.ndarray], times: Sequence[int]) -> None:
    """Write a GIF that goes round for ever; `times` in hundredths of a second.

    All frames share one palette and nothing is dithered, so that what stays the same does not flicker.
    """
    coded = [picture @ np.array([65536, 256, 1], np.uint32) for picture in pictures]  # (H, W): a number for a colour
    palette, nearest = _palette(coded)
    images = [Image.fromarray(nearest[codes]) for codes in coded]
    for image in images:
        image.putpalette(palette)
    images[0].save(
        path,
        save_all=True,
        append_images=images[1:],
        duration=[10 * time for time in times],
        loop=0,
        palette=palette,
        transparency=SAME,
        optimize=True,
    )


def _palette(coded: Sequence[np.ndarray]) -> tuple[bytes, np.ndarray]:
    """Find the colours to show pictures with, and which of them is nearest to each colour there is.

    The most common colours are kept exactly. For the others median cut weighs a colour by the root of its area: by
    area itself, lines and letters would lose their colours; regardless of it, the grays of the images.
    """
    parts = [np.unique(codes, return_counts=True) for codes in coded]
    codes, place = np.unique(np.concatenate([part for part, _ in parts]), return_inverse=True)
    areas = np.bincount(place, np.concatenate([area for _, area in parts]))
    colours = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], -1).astype(np.uint8)  # (N, 3)
    order = np.argsort(-areas, kind="stable")
    exact, rest = order[:EXACT], order[EXACT:]
    palette = colours[exact]
    if len(rest):
        crowd = np.repeat(colours[rest], np.sqrt(areas[rest]).astype(int), axis=0)
        reduced = Image.fromarray(crowd[None]).quantize(COLOURS - EXACT, Image.Quantize.MEDIANCUT, kmeans=3)
        palette = np.concatenate([palette, np.array(reduced.getpalette(), np.uint8).reshape(-1, 3)])
    nearest = np.zeros(2**24, np.uint8)
    known = torch.from_numpy(palette).float()
    for part, there in zip(np.array_split(codes, 64), np.array_split(colours, 64), strict=True):
        nearest[part] = torch.cdist(torch.from_numpy(there).float(), known).argmin(1).numpy()
    return palette.tobytes().ljust(3 * 256, b"\0"), nearest


def _write_mp4(path: Path, pictures: Iterable[np.ndarray], times: Sequence[int]) -> None:
    """Write a video; `times` in hundredths of a second.

    The frame rate is the least, of ten a second and more, at which every picture takes a whole number of frames.
    """
    unit = math.gcd(10, *times)
    pictures = iter(pictures)
    first = next(pictures)
    height, width = first.shape[:2]
    command = [_ffmpeg(), "-loglevel", "error", "-y"]
    command += ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"100/{unit}", "-i", "-"]
    command += ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "18", "-movflags", "+faststart", f"file:{path}"]
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors) as process,
    ):
        try:
            with suppress(BrokenPipeError), process.stdin as pipe:  # broken if ffmpeg gives up; it says why
                for picture, time in zip(chain([first], pictures), times, strict=True):
                    pipe.writelines([picture.tobytes()] * (time // unit))
        except BaseException:
            process.kill()
            raise
        if process.wait():
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines() or ["it does not say why"]
            raise ConfigError(f"cannot write the animation: ffmpeg failed: {lines[-1]}")


def _ffmpeg() -> str:
    """Find ffmpeg: an installed program, or that of the package imageio-ffmpeg."""
    if program := shutil.which("ffmpeg"):
        return program
    try:
        import imageio_ffmpeg

        return imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError) as error:
        raise ConfigError(
            "an .mp4 file needs ffmpeg: install it, or `pip install imageio-ffmpeg`; a .gif file needs nothing"
        ) from error
