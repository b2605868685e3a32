"""A report of translations in one HTML file: tables, then the translations of each model, with their attention.

The browser draws the attention (pages/translation_report.html and .js) from the traces, which are embedded in the page.
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
    """Make the page; `page.write_report` writes it.

    Args:
        title: Heading of the page.
        intro: Text below the heading; a blank line separates paragraphs.
        traces: One for each model, for the same sentences; without attention, only the output is shown.
        indices: Indices of the sentences in their data set.
        tables: Tables, shown with their notes.

    Returns:
        HTML.

    Raises:
        ValueError: If the traces are of different sentences, or there is not one index for each sentence.
    """
    check_same_sentences(traces)
    first = traces[0]
    if len(indices) != len(first.translations):
        raise ValueError(f"indices must be those of the {len(first.translations)} sentences, got {len(indices)}")
    has_spans = any(translation.pair.alignment_spans for translation in first.translations)
    data = {
        "sentences": [
            {
                "index": int(index),
                "source": translation.pair.source,
                "references": [first.tokenizer.detokenize(words) for words in translation.pair.references],
                "spans": translation.pair.alignment_spans,
            }
            for index, translation in zip(indices, first.translations, strict=True)
        ],
        "models": list(map(_model_data, traces)),
        # Without spans, a translation that differs from the references may be correct too.
        "verdicts": ["correct", "wrong"] if has_spans else ["exact", "not exact"],
        "colors": {"attention": " ".join(str(round(255 * part)) for part in to_rgb(ATTENTION_COLOR))},
    }
    return render_page(
        "translation_report.html", title=title, intro=intro, tables=tables, data=data, has_spans=has_spans
    )


def _model_data(trace: TranslationTrace) -> dict[str, Any]:
    """The data of one model; `translation_report.js` reads these keys."""
    rows = zip(trace.translations, trace.correct, strict=True)
    return {
        "name": trace.name,
        "mode": trace.mode,
        "outputs": [translation.words for translation in trace.translations],
        "weights": [encode_bytes(translation.weights) for translation in trace.translations] if trace.attends else None,
        "places": [translation.places.tolist() for translation in trace.translations] if trace.attends else None,
        "correct": [correct if translation.pair.references else None for translation, correct in rows],
    }
