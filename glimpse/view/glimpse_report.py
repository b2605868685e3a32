"""A report in one HTML file: an explorer of glimpses, several models side by side, then tables and figures.

What the page shows is drawn in the browser (report.html, report.js) from the numbers of `Looks`, written into it here.

Shapes: B images, T glimpses, K scales, G patch side, C channels, H x W image.
"""

import io
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor

from glimpse.runs import write_atomically
from glimpse.settings import ConfigError
from glimpse.view.drawing import FOOTPRINT, SCALE_COLOURS, TRAIL, answer_of, truth_of
from glimpse.view.looks import Looks
from glimpse.view.page import data_uri, in_bytes, make_page, reduced
from glimpse.view.tables import Table

MOST_MODELS = 4  # side by side
MOST_BARS = 12  # of class probabilities
MAP_SIDE = 96  # the longer side of larger ones is reduced to this, in pixels
WIDE_FIGURE = 7  # inches; from here on a figure has a line of its own
RAMP = "inferno"  # matplotlib's, which the colour-blind can read, and unlike the colours of the glimpses


def make_report(
    *,
    title: str,
    intro: str,
    looks: Sequence[Looks],
    indices: Sequence[int],
    sensitivity: Sequence[Tensor | None],
    salient: tuple[str, Tensor] | None,
    tables: Sequence[Table],
    figures: Sequence[tuple[str, Figure]],
) -> str:
    """Make the page.

    Args:
        title: The heading.
        intro: What the reader should know first; a blank line separates paragraphs.
        looks: Of 1 to 4 models, at the same B images.
        indices: Of the images in their data set.
        sensitivity: For each model, how strongly its final answer depends on each glimpse (B, T), by
            `saliency.sequential_jacobian`.
        salient: The name of a network that sees the whole image, and what its answers depend on (B, H, W) in [0, 1],
            by `saliency.saliency`.
        tables: Shown with their notes.
        figures: With their captions. What is drawn in matplotlib's default black takes the colour of the page's text,
            dark or light; any other colour stays.

    Returns:
        HTML.
    """
    _check(looks, indices, sensitivity, salient)
    first = looks[0]
    data = {
        "classNames": first.class_names,
        "size": first.images.shape[:1:-1],  # width, height
        "images": [
            {
                "index": int(index),
                "source": data_uri(image),
                "targets": _classes_of(target),
                "label": truth_of(target, first.class_names),
            }
            for index, image, target in zip(indices, first.images, first.targets, strict=True)
        ],
        "models": [_model(*pair) for pair in zip(looks, sensitivity, strict=True)],
        "salient": None if salient is None else _salient(*salient),
        "ramp": in_bytes(torch.from_numpy(matplotlib.colormaps[RAMP](np.arange(256))[:, :3])),
        "colours": {"scales": SCALE_COLOURS, "trail": TRAIL, "footprint": FOOTPRINT},
    }
    return make_page(
        "report",
        ["report"],
        title=title,
        intro=intro,
        tables=tables,
        data=data,
        figures="".join(_figure_html(*pair, f"figure-{n}") for n, pair in enumerate(figures)),
    )


def write_report(path: str | Path, html: str) -> None:
    """Write a report.

    Raises:
        ConfigError: If it cannot be written there.
    """
    try:
        write_atomically(Path(path), html.encode())
    except OSError as error:
        raise ConfigError(f"cannot write the report {path}: {error.strerror}") from error


def _check(
    looks: Sequence[Looks],
    indices: Sequence[int],
    sensitivity: Sequence[Tensor | None],
    salient: tuple[str, Tensor] | None,
) -> None:
    if not 1 <= len(looks) <= MOST_MODELS:
        raise ValueError(f"looks must be those of 1 to {MOST_MODELS} models, got {len(looks)}")
    first = looks[0]
    batch, _, height, width = first.images.shape
    if batch == 0:
        raise ValueError("looks must be at one image at least, got none")
    for one in looks[1:]:
        same = torch.equal(one.images, first.images) and torch.equal(one.targets, first.targets)
        if not same or one.class_names != first.class_names:
            raise ValueError(
                f"looks must be at the same images, of the same classes: those of {one.name} are not "
                f"those of {first.name}"
            )
    if len(indices) != batch:
        raise ValueError(f"indices must be those of the {batch} images, got {len(indices)}")
    if len(sensitivity) != len(looks):
        raise ValueError(f"sensitivity must have an entry for each of the {len(looks)} models, got {len(sensitivity)}")
    for one, norms in zip(looks, sensitivity, strict=True):
        steps = one.points.shape[1]
        if norms is not None and norms.shape != (batch, steps):
            raise ValueError(f"sensitivity of {one.name} must have shape ({batch}, {steps}), got {tuple(norms.shape)}")
        numbers = [one.answers, one.points, one.spread, *([] if norms is None else [norms])]
        if not all(number.isfinite().all() for number in numbers):
            raise ValueError(f"the looks of {one.name} must be finite: there are infinite numbers or nan among them")
    if salient is not None:
        name, maps = salient
        if maps.shape != (batch, height, width):
            raise ValueError(f"salient must have shape ({batch}, {height}, {width}), got {tuple(maps.shape)}")
        if not ((maps >= 0) & (maps <= 1)).all():
            raise ValueError(f"salient of {name} must be in [0, 1], got {float(maps.min())} to {float(maps.max())}")


def _model(looks: Looks, sensitivity: Tensor | None) -> dict[str, Any]:
    """All that is shown of one model; `report.js` knows these names."""
    count, steps, scales, side, _, channels = looks.patches.shape
    weights = looks.weights if looks.how == "soft" else None  # a hard read looks at one cell, and shows its squares
    classes = _classes_shown(looks)  # (B, S)
    answers = looks.answers.gather(2, classes.unsqueeze(1).expand(-1, steps, -1))
    gaussian = looks.how == "soft" and weights is None
    return {
        "name": looks.name,
        "how": looks.how,
        "steps": steps,
        "scales": scales,
        "side": side,
        "channels": channels,
        "grid": None if weights is None else weights.shape[2:],  # rows, columns
        "points": _rounded(looks.points, 2),
        "boxes": _rounded(looks.boxes, 2),
        "spread": _rounded(looks.spread, 2) if gaussian else None,
        "patches": list(map(in_bytes, looks.patches)),
        "weights": None if weights is None else list(map(in_bytes, _to_largest(weights, (2, 3)))),
        "classes": classes.tolist(),
        "answers": _rounded(answers, 4),
        "said": [[answer_of(looks, row, step) for step in range(steps)] for row in range(count)],
        "right": looks.right.int().tolist(),
        "sensitivity": None if sensitivity is None else _rounded(_to_largest(sensitivity, (1,)), 3),
    }


def _classes_shown(looks: Looks) -> Tensor:
    """The classes whose probabilities are shown (B, S): of many, those that are there, then the likeliest ever."""
    likely = looks.answers.amax(1)
    there = looks.targets if looks.targets.is_floating_point() else F.one_hot(looks.targets, likely.shape[1])
    return (likely + 2 * there).topk(min(MOST_BARS, likely.shape[1])).indices.sort().values


def _classes_of(target: Tensor) -> list[int]:
    return target.nonzero().flatten().tolist() if target.is_floating_point() else [int(target)]


def _salient(name: str, maps: Tensor) -> dict[str, Any]:
    height, width = reduced(maps.shape[1:], MAP_SIDE)
    maps = F.adaptive_max_pool2d(maps.unsqueeze(1), (height, width)).squeeze(1)  # a single strong pixel stays
    return {"name": name, "size": [width, height], "maps": list(map(in_bytes, maps))}


def _rounded(values: Tensor, decimals: int) -> list:
    return np.round(values.double().numpy(), decimals).tolist()


def _to_largest(values: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Numbers that are not negative, relative to the largest of them."""
    return values / values.amax(dims, keepdim=True).clamp(min=torch.finfo(values.dtype).tiny)


def _figure_html(caption: str, figure: Figure, name: str) -> str:
    kind = ' class="wide"' if figure.get_figwidth() > WIDE_FIGURE else ""
    return f"<figure{kind}>{_svg(figure, caption, name)}<figcaption>{escape(caption)}</figcaption></figure>\n"


def _svg(figure: Figure, caption: str, name: str) -> str:
    """A figure as an SVG element with the colours of the page and ids that no other figure has."""
    buffer = io.StringIO()
    nobody = dict.fromkeys(("Creator", "Date", "Format", "Type"))  # else matplotlib signs and dates it
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "glimpse"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata=nobody)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].replace("*{", f"#{name} *{{", 1)
    # The frame of a legend was made before it was to be transparent.
    svg = re.sub(r'(<g id="legend_\d+">\s*<g[^>]*>\s*<path[^>]*fill: )#ffffff', r"\1var(--page)", svg)

    def adapt(tag: re.Match[str]) -> str:
        text = re.sub(r'( id="|url\(#|href="#)', rf"\1{name}-", tag[0])
        return re.sub(r"(fill|stroke): #000000", r"\1: currentColor", text)

    svg = re.sub(r"<[^>]+>", adapt, svg)
    label = escape(caption)
    # What has no colour is black to matplotlib, and inherits this one.
    return svg.replace("<svg", f'<svg id="{name}" role="img" aria-label="{label}" fill="currentColor"', 1)
