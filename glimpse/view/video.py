"""Writes frames as GIF and MP4 files."""

import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from glimpse.errors import ConfigError

NUM_COLORS, NUM_EXACT = 255, 32  # palette size of a GIF, and how many of the colors are kept exactly
TRANSPARENT = 255  # palette index of pixels that do not change from one frame to the next


def write_frames(
    path: str | Path, frames: Iterable[np.ndarray], *, lengths: Sequence[int], seconds: float, hold: float
) -> None:
    """Write frames (H, W, 3), uint8, as a GIF or an MP4 video.

    Args:
        path: Output path, .gif or .mp4.
        frames: The frames; not consumed if the file cannot be written.
        lengths: Number of frames of each image.
        seconds: Duration of a frame, rounded to hundredths of a second, as is `hold`.
        hold: Duration of the last frame of an image.
    """
    path = Path(path)
    write = {".gif": _write_gif, ".mp4": _write_mp4}.get(path.suffix.lower())
    if write is None:
        raise ConfigError(f"an animation must be a .gif or an .mp4 file, got {path}")
    for name, value in (("seconds", seconds), ("hold", hold)):
        if not 0.02 <= value <= 60:
            raise ConfigError(f"{name} must be in [0.02, 60], got {value}")
    times = [round(100 * value) for length in lengths for value in [seconds] * (length - 1) + [hold]]
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        temporary.touch()  # fails for an invalid path before the frames are drawn
        try:
            write(temporary, frames, times)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot write the animation {path}: {error.strerror or error}") from error


def rasterize(figure: Figure) -> np.ndarray:
    """Convert a figure to a frame (H, W, 3), uint8."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _write_gif(path: Path, frames: Iterable[np.ndarray], times: Sequence[int]) -> None:
    """Write a GIF that loops forever; `times` is in hundredths of a second.

    All frames share one palette without dithering, so that constant pixels do not flicker.
    """
    coded = [frame @ np.array([65536, 256, 1], np.uint32) for frame in frames]  # (H, W): a color as one integer
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
        transparency=TRANSPARENT,
        optimize=True,
    )


def _palette(coded: Sequence[np.ndarray]) -> tuple[bytes, np.ndarray]:
    """Choose the colors of the palette, and find the nearest of them for each color of the frames.

    The most common colors are kept exactly. For the others, median cut weights a color by the square root of its area:
    weighting by area loses the colors of lines and letters, equal weights lose the grays of the images.
    """
    counts = [np.unique(codes, return_counts=True) for codes in coded]
    codes, inverse = np.unique(np.concatenate([codes for codes, _ in counts]), return_inverse=True)
    areas = np.bincount(inverse, np.concatenate([area for _, area in counts]))
    colors = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], -1).astype(np.uint8)  # (N, 3)
    order = np.argsort(-areas, kind="stable")
    exact, rest = order[:NUM_EXACT], order[NUM_EXACT:]
    palette = colors[exact]
    if len(rest):
        weighted = np.repeat(colors[rest], np.sqrt(areas[rest]).astype(int), axis=0)
        reduced = Image.fromarray(weighted[None]).quantize(NUM_COLORS - NUM_EXACT, Image.Quantize.MEDIANCUT, kmeans=3)
        palette = np.concatenate([palette, np.array(reduced.getpalette(), np.uint8).reshape(-1, 3)])
    nearest = np.zeros(2**24, np.uint8)
    candidates = torch.from_numpy(palette).float()
    for chunk, rgb in zip(np.array_split(codes, 64), np.array_split(colors, 64), strict=True):
        nearest[chunk] = torch.cdist(torch.from_numpy(rgb).float(), candidates).argmin(1).numpy()
    return palette.tobytes().ljust(3 * 256, b"\0"), nearest


def _write_mp4(path: Path, frames: Iterable[np.ndarray], times: Sequence[int]) -> None:
    """Write a video; `times` is in hundredths of a second.

    The frame rate is the lowest, of at least 10 per second, at which every duration is a whole number of video frames.
    """
    unit = math.gcd(10, *times)
    frames = iter(frames)
    first = next(frames)
    height, width = first.shape[:2]
    command = [_ffmpeg(), "-loglevel", "error", "-y"]
    command += ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"100/{unit}", "-i", "-"]
    command += ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "18", "-movflags", "+faststart", f"file:{path}"]
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors) as process,
    ):
        try:
            assert process.stdin is not None
            with (
                suppress(BrokenPipeError),
                process.stdin as pipe,
            ):  # broken if ffmpeg fails, see below
                for frame, time in zip(chain([first], frames), times, strict=True):
                    pipe.writelines([frame.tobytes()] * (time // unit))
        except BaseException:
            process.kill()
            raise
        if process.wait():
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines() or ["no error message"]
            raise ConfigError(f"cannot write the animation: ffmpeg failed: {lines[-1]}")


def _ffmpeg() -> str:
    """Find ffmpeg: an installed program, or the one of the package imageio-ffmpeg."""
    if program := shutil.which("ffmpeg"):
        return program
    try:
        import imageio_ffmpeg

        return imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError) as error:
        raise ConfigError(
            "an .mp4 file requires ffmpeg: install it, or `pip install imageio-ffmpeg`; a .gif file does not"
        ) from error
