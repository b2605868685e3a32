"""A report of classifiers in one HTML file: an interactive view of the glimpses of several models, tables and figures.

The browser draws the glimpses (pages/glimpse_report.html and .js) from the traces, which are embedded in the page.

Shapes: B images, T glimpses, K scales, G patch side, C channels, H x W image.
"""

import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
import torch
import torch.nn.functional as F
from markupsafe import Markup
from matplotlib.figure import Figure
from torch import Tensor

from glimpse.evaluation.glimpse_traces import GlimpseTrace
from glimpse.view.drawing import FOOTPRINT_COLOR, SCALE_COLORS, TRAIL_COLOR
from glimpse.view.page import data_uri, encode_bytes, reduced_size, render_page
from glimpse.view.tables import Table
from glimpse.view.text_layout import format_prediction, format_target

MAX_MODELS = 4  # panels side by side
MAX_CLASSES = 12  # largest number of bars of class probabilities
SALIENCY_SIDE = 96  # longer side of larger maps after downsampling, in pixels
WIDE_FIGURE = 7  # inches; wider figures get a row of their own
COLOR_MAP = "inferno"  # color-blind safe, and different from the colors of the glimpses


def make_report(
    *,
    title: str,
    intro: str,
    traces: Sequence[GlimpseTrace],
    indices: Sequence[int],
    sensitivity: Sequence[Tensor | None],
    saliency: tuple[str, Tensor] | None,
    tables: Sequence[Table],
    figures: Sequence[tuple[str, Figure]],
) -> str:
    """Make the page; `page.write_report` writes it.

    Args:
        title: Heading of the page.
        intro: Text below the heading; a blank line separates paragraphs.
        traces: One for each of 1 to 4 models, for the same B images.
        indices: Indices of the images in their data set.
        sensitivity: For each model, the sensitivity of its final prediction to each glimpse (B, T), from
            `saliency.sequential_jacobian`; None: not shown.
        saliency: Name of a whole-image network and its saliency maps (B, H, W) in [0, 1], from `saliency.saliency`;
            None: not shown.
        tables: Tables, shown with their notes.
        figures: Captions and figures. Black, matplotlib's default, is replaced by the text color of the page.

    Returns:
        HTML.
    """
    _check(traces, indices, sensitivity, saliency)
    first = traces[0]
    data = {
        "classNames": first.class_names,
        "size": first.images.shape[:1:-1],  # width, height
        "images": [
            {
                "index": int(index),
                "source": data_uri(image),
                "targets": _classes_of(target),
                "label": format_target(target, first.class_names),
            }
            for index, image, target in zip(indices, first.images, first.targets, strict=True)
        ],
        "models": [_model_data(*pair) for pair in zip(traces, sensitivity, strict=True)],
        "saliency": None if saliency is None else _saliency_data(*saliency),
        "colorMap": encode_bytes(torch.from_numpy(matplotlib.colormaps[COLOR_MAP](np.arange(256))[:, :3])),
        "colors": {"scales": SCALE_COLORS, "trail": TRAIL_COLOR, "footprint": FOOTPRINT_COLOR},
    }
    drawings = [
        {
            "svg": _svg(figure, caption, f"figure-{number}"),
            "caption": caption,
            "wide": figure.get_figwidth() > WIDE_FIGURE,
        }
        for number, (caption, figure) in enumerate(figures)
    ]
    return render_page("glimpse_report.html", title=title, intro=intro, tables=tables, data=data, figures=drawings)


def _check(
    traces: Sequence[GlimpseTrace],
    indices: Sequence[int],
    sensitivity: Sequence[Tensor | None],
    saliency: tuple[str, Tensor] | None,
) -> None:
    if not 1 <= len(traces) <= MAX_MODELS:
        raise ValueError(f"traces must be those of 1 to {MAX_MODELS} models, got {len(traces)}")
    first = traces[0]
    batch, _, height, width = first.images.shape
    if batch == 0:
        raise ValueError("traces must be of at least one image, got none")
    for trace in traces[1:]:
        same = torch.equal(trace.images, first.images) and torch.equal(trace.targets, first.targets)
        if not same or trace.class_names != first.class_names:
            raise ValueError(
                f"traces must be of the same images and classes, but those of {trace.name} and {first.name} differ"
            )
    if len(indices) != batch:
        raise ValueError(f"indices must be those of the {batch} images, got {len(indices)}")
    if len(sensitivity) != len(traces):
        raise ValueError(f"sensitivity must have an entry for each of the {len(traces)} models, got {len(sensitivity)}")
    for trace, norms in zip(traces, sensitivity, strict=True):
        steps = trace.points.shape[1]
        if norms is not None and norms.shape != (batch, steps):
            raise ValueError(
                f"sensitivity of {trace.name} must have shape ({batch}, {steps}), got {tuple(norms.shape)}"
            )
        numbers = [trace.probabilities, trace.points, trace.spread, *([] if norms is None else [norms])]
        if not all(number.isfinite().all() for number in numbers):
            raise ValueError(f"the trace and sensitivity of {trace.name} must be finite, got NaN or infinite numbers")
    if saliency is not None:
        name, maps = saliency
        if maps.shape != (batch, height, width):
            raise ValueError(f"saliency must have shape ({batch}, {height}, {width}), got {tuple(maps.shape)}")
        if not ((maps >= 0) & (maps <= 1)).all():
            raise ValueError(f"saliency of {name} must be in [0, 1], got {float(maps.min())} to {float(maps.max())}")


def _model_data(trace: GlimpseTrace, sensitivity: Tensor | None) -> dict[str, Any]:
    """The data of one model; `glimpse_report.js` reads these keys."""
    count, steps, scales, side, _, channels = trace.patches.shape
    weights = trace.weights if trace.mode == "soft" else None  # hard attention reads one cell, shown by its squares
    classes = _classes_shown(trace)  # (B, S)
    probabilities = trace.probabilities.gather(2, classes.unsqueeze(1).expand(-1, steps, -1))
    multi_label = trace.targets.is_floating_point()
    has_footprint = trace.mode == "soft" and weights is None
    return {
        "name": trace.name,
        "mode": trace.mode,
        "numGlimpses": steps,
        "numScales": scales,
        "patchSize": side,
        "channels": channels,
        "grid": None if weights is None else weights.shape[2:],  # rows, columns
        "centers": _rounded(trace.points, 2),
        "boxes": _rounded(trace.boxes, 2),
        "stds": _rounded(trace.spread, 2) if has_footprint else None,
        "patches": list(map(encode_bytes, trace.patches)),
        "weights": None if weights is None else list(map(encode_bytes, _relative_to_largest(weights, (2, 3)))),
        "classes": classes.tolist(),
        "probabilities": _rounded(probabilities, 4),
        "predictions": [
            [
                format_prediction(trace.probabilities[row, step], trace.class_names, multi_label=multi_label)
                for step in range(steps)
            ]
            for row in range(count)
        ],
        "correct": trace.correct.int().tolist(),
        "sensitivity": None if sensitivity is None else _rounded(_relative_to_largest(sensitivity, (1,)), 3),
    }


def _classes_shown(trace: GlimpseTrace) -> Tensor:
    """The classes (B, S) to show: if there are many, the true ones, then those most probable after any glimpse."""
    largest = trace.probabilities.amax(1)
    true = trace.targets if trace.targets.is_floating_point() else F.one_hot(trace.targets, largest.shape[1])
    return (largest + 2 * true).topk(min(MAX_CLASSES, largest.shape[1])).indices.sort().values


def _classes_of(target: Tensor) -> list[int]:
    return target.nonzero().flatten().tolist() if target.is_floating_point() else [int(target)]


def _saliency_data(name: str, maps: Tensor) -> dict[str, Any]:
    height, width = reduced_size(maps.shape[1:], SALIENCY_SIDE)
    maps = F.adaptive_max_pool2d(maps.unsqueeze(1), (height, width)).squeeze(1)  # keeps single strong pixels
    return {"name": name, "size": [width, height], "maps": list(map(encode_bytes, maps))}


def _rounded(values: Tensor, decimals: int) -> list[Any]:
    return np.round(values.double().numpy(), decimals).tolist()


def _relative_to_largest(values: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Divide non-negative numbers by their maximum over `dims`."""
    return values / values.amax(dims, keepdim=True).clamp(min=torch.finfo(values.dtype).tiny)


def _svg(figure: Figure, caption: str, name: str) -> Markup:
    """Convert a figure to an SVG element with the text color of the page; its ids begin with `name`."""
    buffer = io.StringIO()
    metadata: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))  # left out, for reproducibility
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "glimpse"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata=metadata)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].replace("*{", f"#{name} *{{", 1)
    # `transparent` does not apply to the frames of legends.
    svg = re.sub(r'(<g id="legend_\d+">\s*<g[^>]*>\s*<path[^>]*fill: )#ffffff', r"\1var(--page)", svg)

    def adapt(tag: re.Match[str]) -> str:
        text = re.sub(r'( id="|url\(#|href="#)', rf"\1{name}-", tag[0])
        return re.sub(r"(fill|stroke): #000000", r"\1: currentColor", text)

    svg = re.sub(r"<[^>]+>", adapt, svg)
    # Matplotlib leaves black out, so those elements inherit the color of this one.
    opening = Markup('<svg id="{}" role="img" aria-label="{}" fill="currentColor"').format(name, caption)
    return Markup(svg.replace("<svg", opening, 1))
