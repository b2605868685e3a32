"""A report of captions in one HTML file: tables, then what several models said of images, with the looks of each word.

What the page shows is drawn in the browser (cards.html, cards.js, caption_report.js) from the numbers of `Told`,
written into it here.
"""

from collections.abc import Sequence
from typing import Any

from glimpse.view.drawing import ATTENTION, OPACITY, READ
from glimpse.view.page import data_uri, in_bytes, make_page
from glimpse.view.tables import Table
from glimpse.view.told import Told, check_same_images

HELP = """
Point at a word, or reach it with <kbd>Tab</kbd>, to see where the model looked for it; a click or a tap keeps it in
view. The more colour a place has, the more it weighs for the word, relative to the place that weighs most. Soft
attention reads all places by their weight; hard attention reads one, the square, and the colour, which is fainter, is
how likely each was.
"""


def make_caption_report(
    *, title: str, intro: str, told: Sequence[Told], indices: Sequence[int], tables: Sequence[Table]
) -> str:
    """Make the page; `report.write_report` writes it.

    Args:
        title: The heading.
        intro: What the reader should know first; a blank line separates paragraphs.
        told: What each model said of the same B images; the references are those of the first.
        indices: Of the images in their data set.
        tables: Shown with their notes.

    Returns:
        HTML.

    Raises:
        ValueError: If the images are not the same for all, or the indices are not as many.
    """
    check_same_images(told)
    first = told[0]
    if len(indices) != len(first.images):
        raise ValueError(f"indices must be those of the {len(first.images)} images, got {len(indices)}")
    data = {
        "size": first.images.shape[:1:-1],  # width, height
        "images": [
            {"index": int(index), "source": data_uri(image), "references": [" ".join(words) for words in references]}
            for index, image, references in zip(indices, first.images, first.references, strict=True)
        ],
        "models": list(map(_model, told)),
        "colours": {"attention": ATTENTION, "read": READ},
    }
    return make_page(
        "cards",
        ["cards", "caption_report"],
        title=title,
        intro=intro,
        tables=tables,
        data=data,
        help=HELP.strip(),
        filters="",
    )


def _model(told: Told) -> dict[str, Any]:
    """All that is shown of one model; `caption_report.js` knows these names."""
    return {
        "name": told.name,
        "how": told.how,
        "opacity": OPACITY[told.how],
        "grid": told.grid,  # rows, columns
        "cell": [round(length, 4) for length in told.cell],  # height, width
        "captions": told.captions,
        "maps": [in_bytes(told.maps(row)) for row in range(len(told.captions))],
        "places": [places.tolist() for places in told.places],
    }
