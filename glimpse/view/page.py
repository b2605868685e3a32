"""What the pages of all reports share: their frame (page.html, page.js, report.css), tables, images and numbers.

A page holds all it needs and asks no one for anything, so it opens from a disk without a network.

Shapes: C channels, H x W image.
"""

import base64
import io
import json
import re
from collections.abc import Sequence
from html import escape
from importlib import resources
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from glimpse.view.drawing import FADED, RIGHT, TRAIL, WRONG
from glimpse.view.tables import Table

IMAGE_SIDE = 320  # the longer side of larger images is reduced to this, in pixels
PHOTOGRAPH_SIDE = 128  # from here on JPEG may be used: on small images, shown enlarged, its blocks would be seen


def make_page(
    body: str,
    scripts: Sequence[str],
    *,
    title: str,
    intro: str,
    tables: Sequence[Table],
    data: dict[str, Any],
    **parts: str,
) -> str:
    """Make a page of a body, BODY.html, and scripts, SCRIPT.js each.

    Args:
        body: Name of the file of the body.
        scripts: Names of those of the scripts, in their order.
        title: The heading.
        intro: What the reader should know first; a blank line separates paragraphs.
        tables: Shown with their notes where the body has {{tables}}.
        data: What the scripts get as `data`.
        parts: HTML for other such places in the body.

    Returns:
        HTML.
    """
    colours = f":root {{ --right: {RIGHT}; --wrong: {WRONG}; --trail: {TRAIL}; --faded: {FADED} }}\n"
    parts |= {
        "title": escape(title),
        "intro": "".join(f"<p>{escape(text)}</p>" for text in re.split(r"\n\s*\n", intro.strip()) if text),
        "style": colours + _template("report.css"),
        "tables": "".join(map(_table_html, tables)),
        # A "<" could end the element; in JSON it can only be inside a string.
        "data": json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        "script": "\n".join(_template(f"{name}.js") for name in ("page", *scripts)),
    }
    frame = _template("page.html").replace("{{body}}\n", _template(f"{body}.html"))
    # In one pass, so that nothing in a title can be taken for a place to fill.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], frame)


def data_uri(image: Tensor) -> str:
    """An image (C, H, W) as PNG, or as JPEG if it is a photograph and that is smaller."""
    channels, *shape = image.shape
    pixels = image.permute(1, 2, 0).numpy()
    picture = Image.fromarray(pixels if channels == 3 else pixels[..., 0])
    height, width = reduced(shape, IMAGE_SIDE)
    picture = picture.resize((width, height), Image.Resampling.BOX) if [height, width] != shape else picture
    kinds = {"png": {"optimize": True}}
    if channels == 3 and max(height, width) >= PHOTOGRAPH_SIDE:
        kinds["jpeg"] = {"quality": 88}
    files = {}
    for kind, options in kinds.items():
        buffer = io.BytesIO()
        picture.save(buffer, kind, **options)
        files[kind] = buffer.getvalue()
    kind = min(files, key=lambda kind: len(files[kind]))
    return f"data:image/{kind};base64,{base64.b64encode(files[kind]).decode()}"


def reduced(shape: Sequence[int], most: int) -> list[int]:
    """The height and width of something whose longer side may have so many pixels."""
    factor = min(1, most / max(shape))
    return [max(1, round(length * factor)) for length in shape]


def in_bytes(values: Tensor) -> str:
    """Numbers in [0, 1] as bytes, in base64."""
    return base64.b64encode((values * 255).round().to(torch.uint8).numpy().tobytes()).decode()


def _table_html(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.header)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
        for name, *cells in table.rows
    )
    notes = "".join(f"<p>{escape(note)}</p>" for note in table.notes)
    title = escape(table.title)
    return (
        f'<section class="table"><h2>{title}</h2>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{title}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{notes}</section>\n"
    )


def _template(name: str) -> str:
    return resources.files("glimpse.view").joinpath(name).read_text("utf-8")
