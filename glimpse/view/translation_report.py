"""A report of translations in one HTML file: tables, then what models wrote, with the source words of each word.

What the page shows is drawn in the browser (cards.html, cards.js, translation_report.js) from the numbers of `Aligned`,
written into it here.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.colors import to_rgb

from glimpse.view.aligned import Aligned, check_same_sentences
from glimpse.view.drawing import ATTENTION, READ
from glimpse.view.page import in_bytes, make_page
from glimpse.view.tables import Table

HELP = """
Point at a word that was written, or reach it with <kbd>Tab</kbd>, to see the source words that it was read from; a
click or a tap keeps it in view. The more colour a source word has, the more it weighs: full colour is a weight of one.
Soft attention reads all words by their weight; hard attention reads one, the one with a frame (in the heat map, a
disc), and the colour is how likely each was.
"""
MEANT = "The words that are meant are underlined; in the heat map, framed."
FILTERS = """
    <label>Sentence <select id="sentence-filter"></select></label>
    <label>Translations <select id="answer-filter"></select></label>
    <output id="count"></output>
  """


def make_translation_report(
    *, title: str, intro: str, aligned: Sequence[Aligned], indices: Sequence[int], tables: Sequence[Table]
) -> str:
    """Make the page; `report.write_report` writes it.

    Args:
        title: The heading.
        intro: What the reader should know first; a blank line separates paragraphs.
        aligned: What each model made of the same sentences; one without a choice of places has nothing to point at.
        indices: Of the sentences in their data set.
        tables: Shown with their notes.

    Returns:
        HTML.

    Raises:
        ValueError: If the sentences are not the same for all, or the indices are not as many.
    """
    check_same_sentences(aligned)
    first = aligned[0]
    if len(indices) != len(first.translations):
        raise ValueError(f"indices must be those of the {len(first.translations)} sentences, got {len(indices)}")
    known = any(one.pair.spans for one in first.translations)
    data = {
        "sentences": [
            {
                "index": int(index),
                "source": one.pair.source,
                "references": [first.script.join(words) for words in one.pair.references],
                "spans": one.pair.spans,
            }
            for index, one in zip(indices, first.translations, strict=True)
        ],
        "models": list(map(_model, aligned)),
        "verdicts": ["right", "wrong"] if known else ["exact", "not exact"],
        "colours": {"attention": " ".join(str(round(255 * part)) for part in to_rgb(ATTENTION)), "read": READ},
    }
    text = f"{HELP.strip()} {MEANT}" if known else HELP.strip()
    return make_page(
        "cards",
        ["cards", "translation_report"],
        title=title,
        intro=intro,
        tables=tables,
        data=data,
        help=text,
        filters=FILTERS,
    )


def _model(aligned: Aligned) -> dict[str, Any]:
    """All that is shown of one model; `translation_report.js` knows these names."""
    attends = aligned.how is not None
    rows = zip(aligned.translations, aligned.right, strict=True)
    return {
        "name": aligned.name,
        "how": aligned.how,
        "words": [one.words for one in aligned.translations],
        "maps": [in_bytes(one.weights) for one in aligned.translations] if attends else None,
        "places": [one.places.tolist() for one in aligned.translations] if attends else None,
        "right": [right if one.pair.references else None for one, right in rows],
    }
