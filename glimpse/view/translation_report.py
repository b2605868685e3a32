"""A report of translations in one HTML file: tables, then the translations of models, with the attention for each word.

The browser draws the page (pages/translation_report.html and .js) from the numbers of the traces, which are part of it.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.colors import to_rgb

from glimpse.evaluation.translation_traces import TranslationTrace, check_same_sentences
from glimpse.view.drawing import ATTENTION_COLOR
from glimpse.view.page import encode_bytes, render_page
from glimpse.view.tables import Table


def make_translation_report(
    *, title: str, intro: str, traces: Sequence[TranslationTrace], indices: Sequence[int], tables: Sequence[Table]
) -> str:
    """Make the page, for `page.write_report` to write.

    Args:
        title: The heading.
        intro: Text below the heading; a blank line separates paragraphs.
        traces: Of each model, for the same sentences; of a model without attention only the output is shown.
        indices: Of the sentences in their data set.
        tables: Shown with their notes.

    Returns:
        HTML.

    Raises:
        ValueError: If the models did not translate the same sentences, or the number of indices is another.
    """
    check_same_sentences(traces)
    first = traces[0]
    if len(indices) != len(first.translations):
        raise ValueError(f"indices must be those of the {len(first.translations)} sentences, got {len(indices)}")
    has_spans = any(one.pair.alignment_spans for one in first.translations)
    data = {
        "sentences": [
            {
                "index": int(index),
                "source": one.pair.source,
                "references": [first.script.join(words) for words in one.pair.references],
                "spans": one.pair.alignment_spans,
            }
            for index, one in zip(indices, first.translations, strict=True)
        ],
        "models": list(map(_model_data, traces)),
        # Without spans several translations may be correct, of which the references are some.
        "verdicts": ["correct", "wrong"] if has_spans else ["exact", "not exact"],
        "colors": {"attention": " ".join(str(round(255 * part)) for part in to_rgb(ATTENTION_COLOR))},
    }
    return render_page(
        "translation_report.html", title=title, intro=intro, tables=tables, data=data, has_spans=has_spans
    )


def _model_data(trace: TranslationTrace) -> dict[str, Any]:
    """All that is shown of one model; `translation_report.js` reads these keys."""
    rows = zip(trace.translations, trace.correct, strict=True)
    return {
        "name": trace.name,
        "mode": trace.mode,
        "outputs": [one.words for one in trace.translations],
        "weights": [encode_bytes(one.weights) for one in trace.translations] if trace.attends else None,
        "places": [one.places.tolist() for one in trace.translations] if trace.attends else None,
        "correct": [correct if one.pair.references else None for one, correct in rows],
    }
