"""What all reports share: rendering their templates, writing the file, and images and numbers as text.

A page is a single file that loads nothing else, so it works without a network. Templates, scripts and styles are in
`pages/`; whatever is given to a template is escaped, unless it is `Markup`.

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

IMAGE_SIDE = 320  # larger images are reduced to this length of their longer side, in pixels
JPEG_SIDE = 128  # from this length on, photographs may be JPEG; on smaller images, shown enlarged, its blocks show
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
        template: File name of a template in `pages/` that extends `page.html`.
        title: Title and heading.
        intro: Text below the heading; a blank line separates paragraphs.
        tables: Shown with their notes.
        data: What the script of the template gets as `data`.
        context: Other variables of the template.

    Returns:
        HTML.
    """
    paragraphs = [text for text in re.split(r"\n\s*\n", intro.strip()) if text]
    return (
        _environment()
        .get_template(template)
        .render(title=title, intro=paragraphs, tables=tables, data=data, colors=COLORS, **context)
    )


def write_report(path: str | Path, html: str) -> None:
    """Write a report.

    Raises:
        ConfigError: If the file cannot be written.
    """
    try:
        write_atomically(Path(path), html.encode())
    except OSError as error:
        raise ConfigError(f"cannot write the report {path}: {error.strerror}") from error


def data_uri(image: Tensor) -> str:
    """An image (C, H, W) as a PNG, or as a JPEG if it is a photograph and the JPEG is smaller."""
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
    """Height and width, reduced if the longer side has more than `max_side` pixels."""
    factor = min(1, max_side / max(shape))
    return [max(1, round(length * factor)) for length in shape]


def encode_bytes(values: Tensor) -> str:
    """Encode numbers in [0, 1] as bytes in base64."""
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
    # The filter tojson writes <, >, & and ' as \u003c and so on, so that no string can end the script element.
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment
