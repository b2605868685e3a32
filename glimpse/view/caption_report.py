"""A report of captions in one HTML file: tables, then the captions of each model, with the attention for each word.

The browser draws the attention (pages/caption_report.html and .js) from the traces, which are embedded in the page.
"""

from collections.abc import Sequence
from typing import Any

from glimpse.evaluation.caption_traces import CaptionTrace, check_same_images
from glimpse.view.drawing import ATTENTION_COLOR, MAP_OPACITY, READ_COLOR
from glimpse.view.page import data_uri, encode_bytes, render_page
from glimpse.view.tables import Table


def make_caption_report(
    *, title: str, intro: str, traces: Sequence[CaptionTrace], indices: Sequence[int], tables: Sequence[Table]
) -> str:
    """Make the page; `page.write_report` writes it.

    Args:
        title: Heading of the page.
        intro: Text below the heading; a blank line separates paragraphs.
        traces: One for each model, for the same B images; the references are taken from the first.
        indices: Indices of the images in their data set.
        tables: Tables, shown with their notes.

    Returns:
        HTML.

    Raises:
        ValueError: If the traces are of different images, or there is not one index for each image.
    """
    check_same_images(traces)
    first = traces[0]
    if len(indices) != len(first.images):
        raise ValueError(f"indices must be those of the {len(first.images)} images, got {len(indices)}")
    data = {
        "size": first.images.shape[:1:-1],  # width, height
        "images": [
            {"index": int(index), "source": data_uri(image), "references": [" ".join(words) for words in references]}
            for index, image, references in zip(indices, first.images, first.references, strict=True)
        ],
        "models": list(map(_model_data, traces)),
        "colors": {"attention": ATTENTION_COLOR, "read": READ_COLOR},
    }
    return render_page("caption_report.html", title=title, intro=intro, tables=tables, data=data)


def _model_data(trace: CaptionTrace) -> dict[str, Any]:
    """The data of one model; `caption_report.js` reads these keys."""
    return {
        "name": trace.name,
        "mode": trace.mode,
        "opacity": MAP_OPACITY[trace.mode],
        "grid": trace.grid,  # rows, columns
        "cell": [round(length, 4) for length in trace.cell],  # height, width
        "captions": trace.captions,
        "maps": [encode_bytes(trace.maps(row)) for row in range(len(trace.captions))],  # relative to the largest weight
        "places": [places.tolist() for places in trace.places],
    }
