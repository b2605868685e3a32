"""Shared code of the HTML reports: template rendering, writing the file, and encoding images and numbers as text.

A page is a single file that loads nothing, so it works offline. Templates, scripts and styles are in `pages/`; template
variables are escaped unless they are `Markup`.

Shapes: C channels, H x W image.
"""

import base64
import io
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from jinja2 import Environment, PackageLoader, StrictUndefined
from PIL import Image
from torch import Tensor

from glimpse.errors import ConfigError
from glimpse.files import write_atomically
from glimpse.view.drawing import CORRECT_COLOR, FADED_BRIGHTNESS, TRAIL_COLOR, WRONG_COLOR
from glimpse.view.tables import Table

IMAGE_SIDE = 320  # longer side of larger images after downsampling, in pixels
JPEG_SIDE = 128  # smallest side of JPEGs; smaller images are shown enlarged, where JPEG blocks would be visible
COLORS = {
    "correct": CORRECT_COLOR,
    "wrong": WRONG_COLOR,
    "trail": TRAIL_COLOR,
    "faded_brightness": FADED_BRIGHTNESS,
}


def render_page(
    template: str, *, title: str, intro: str, tables: Sequence[Table], data: dict[str, Any], **context: Any
) -> str:
    """Render a report.

    Args:
        template: File name in `pages/` of a template that extends `page.html`.
        title: Title and heading.
        intro: Text below the heading; a blank line separates paragraphs.
        tables: Tables, shown with their notes.
        data: JSON data; the constant `data` of the script.
        **context: Other variables of the template.

    Returns:
        HTML.
    """
    paragraphs = [text for text in re.split(r"\n\s*\n", intro.strip()) if text]
    return (
        _environment()
        .get_template(template)
        .render(title=title, intro=paragraphs, tables=tables, data=data, colors=COLORS, **context)
    )


def write_page(path: str | Path, html: str) -> None:
    """Write a report.

    Raises:
        ConfigError: If the file cannot be written.
    """
    try:
        write_atomically(Path(path), html.encode())
    except OSError as error:
        raise ConfigError(f"cannot write the report {path}: {error.strerror}") from error


def data_uri(image: Tensor) -> str:
    """Encode an image (C, H, W) as a PNG data URI, or as a JPEG for large color images if that is smaller."""
    channels, *shape = image.shape
    pixels = image.permute(1, 2, 0).numpy()
    picture = Image.fromarray(pixels if channels == 3 else pixels[..., 0])
    height, width = reduced_size(shape, IMAGE_SIDE)
    if [height, width] != shape:
        picture = picture.resize((width, height), Image.Resampling.BOX)
    formats: dict[str, dict[str, Any]] = {"png": {"optimize": True}}
    if channels == 3 and max(height, width) >= JPEG_SIDE:
        formats["jpeg"] = {"quality": 88}
    files = {}
    for name, options in formats.items():
        buffer = io.BytesIO()
        picture.save(buffer, name, **options)
        files[name] = buffer.getvalue()
    smallest = min(files, key=lambda name: len(files[name]))
    return f"data:image/{smallest};base64,{base64.b64encode(files[smallest]).decode()}"


def reduced_size(shape: Sequence[int], max_side: int) -> list[int]:
    """Scale a height and width down if the longer side exceeds `max_side` pixels."""
    factor = min(1, max_side / max(shape))
    return [max(1, round(length * factor)) for length in shape]


def encode_bytes(values: Tensor) -> str:
    """Encode numbers in [0, 1] as bytes, in base64."""
    return base64.b64encode((values * 255).round().to(torch.uint8).numpy().tobytes()).decode()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("glimpse.view", "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # The filter tojson escapes <, >, & and ' (as \u003c, ...), so no string can end the script element.
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment
