"""The report of translations: its data and escaping."""

import re

import pytest
from support.pages import NASTY, Tags, data_of, decode
from support.tensors import assert_close
from support.translations import PAIRS, WORDS, make_translation_trace

from glimpse.data.dates import Dates
from glimpse.data.sentence_pairs import SentencePair
from glimpse.view.tables import Table
from glimpse.view.translation_report import make_translation_report


def report(traces, **changes):
    arguments = {"title": "A title", "intro": "Words.", "traces": traces}
    return make_translation_report(
        **{**arguments, "indices": range(len(traces[0].translations)), "tables": [], **changes}
    )


def test_the_data_is_that_of_the_traces():
    right = (PAIRS[0].references[0], WORDS[1])
    traces = [
        make_translation_trace("soft", tokenizer=Dates.tokenizer),
        make_translation_trace("hard", words=right, seed=1),
    ]
    html = report(traces, indices=[17, 4])
    data = data_of(html)
    assert [sentence["index"] for sentence in data["sentences"]] == [17, 4]
    assert [sentence["references"] for sentence in data["sentences"]] == [["05-3"], ["05"]]
    assert [sentence["spans"] for sentence in data["sentences"]] == [
        [list(span) for span in pair.alignment_spans] for pair in PAIRS
    ]
    assert [model["correct"] for model in data["models"]] == [[False, False], [True, False]]
    assert data["verdicts"] == ["correct", "wrong"] and "are underlined" in html
    for model, trace in zip(data["models"], traces, strict=True):
        assert (model["name"], model["mode"]) == (trace.name, trace.mode)
        for row, one in enumerate(trace.translations):
            assert data["sentences"][row]["source"] == list(one.pair.source)
            assert model["outputs"][row] == list(one.words) and model["places"][row] == one.places.tolist()
            assert_close(decode(model["weights"][row], *one.weights.shape) / 255, one.weights, atol=0.5001 / 255)


def test_without_attention_or_references_there_is_less():
    own = [SentencePair(pair.source, ()) for pair in PAIRS]
    html = report([make_translation_trace(None, pairs=own)])
    data = data_of(html)
    (model,) = data["models"]
    assert model["mode"] is model["weights"] is model["places"] is None and model["correct"] == [None, None]
    assert data["verdicts"] == ["exact", "not exact"] and "are underlined" not in html
    assert [sentence["references"] for sentence in data["sentences"]] == [[], []]


def test_texts_are_escaped():
    pairs = [SentencePair((NASTY,), ((NASTY,),))]
    trace = make_translation_trace(name=NASTY, pairs=pairs, words=[(NASTY,)])
    html = report([trace], title=NASTY + "{{data}}", intro=NASTY, tables=[Table(NASTY, [NASTY], [[NASTY]], [NASTY])])
    page = Tags(html)
    assert not {"b", "i"} & {tag for tag, _ in page.tags}
    assert data_of(html)["models"][0]["outputs"] == [[NASTY]]
    assert "".join(page.text).count(NASTY) == 7  # twice the title; intro; table: 4


def test_the_page_loads_nothing():
    html = report([make_translation_trace()])
    assert not re.findall(r"https?://", html) and "@import" not in html and "default-src 'none'" in html
    assert not [1 for _, attributes in Tags(html).tags if {"src", "href", "srcset"} & attributes.keys()]
    assert "{{" not in re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)


def test_invalid_arguments():
    with pytest.raises(ValueError, match="traces must be of at least one model, got none"):
        make_translation_report(title="", intro="", traces=[], indices=[], tables=[])
    with pytest.raises(ValueError, match="same sentences, but those of hard and soft differ"):
        report([make_translation_trace(), make_translation_trace("hard", pairs=PAIRS[::-1], words=WORDS[::-1])])
    with pytest.raises(ValueError, match="indices must be those of the 2 sentences, got 3"):
        report([make_translation_trace()], indices=[1, 2, 3])
