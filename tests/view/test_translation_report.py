"""The page of translations holds what was written and read, and escapes what it is given."""

import re

import pytest
from support.pages import NASTY, Tags, data_of, decode
from support.tensors import assert_close
from support.translations import PAIRS, WORDS, some_aligned

from glimpse.data.dates import Dates
from glimpse.data.sentence_pairs import SentencePair
from glimpse.view.tables import Table
from glimpse.view.translation_report import make_translation_report


def report(aligned, **changes):
    arguments = {"title": "A title", "intro": "Words.", "traces": aligned}
    return make_translation_report(
        **{**arguments, "indices": range(len(aligned[0].translations)), "tables": [], **changes}
    )


def test_the_data_is_what_was_written_and_read():
    right = (PAIRS[0].references[0], WORDS[1])
    aligned = [some_aligned("soft", script=Dates.script), some_aligned("hard", words=right, seed=1)]
    html = report(aligned, indices=[17, 4])
    data = data_of(html)
    assert [sentence["index"] for sentence in data["sentences"]] == [17, 4]
    assert [sentence["references"] for sentence in data["sentences"]] == [["05-3"], ["05"]]
    assert [sentence["spans"] for sentence in data["sentences"]] == [
        [list(span) for span in pair.alignment_spans] for pair in PAIRS
    ]
    assert [model["correct"] for model in data["models"]] == [[False, False], [True, False]]
    assert data["verdicts"] == ["correct", "wrong"] and "are underlined" in html
    for model, its in zip(data["models"], aligned, strict=True):
        assert (model["name"], model["mode"]) == (its.name, its.mode)
        for row, one in enumerate(its.translations):
            assert data["sentences"][row]["source"] == list(one.pair.source)
            assert model["outputs"][row] == list(one.words) and model["places"][row] == one.places.tolist()
            assert_close(decode(model["weights"][row], *one.weights.shape) / 255, one.weights, atol=0.5001 / 255)


def test_without_attention_or_references_there_is_less():
    own = [SentencePair(pair.source, ()) for pair in PAIRS]
    html = report([some_aligned(None, pairs=own)])
    data = data_of(html)
    (model,) = data["models"]
    assert model["mode"] is model["weights"] is model["places"] is None and model["correct"] == [None, None]
    assert data["verdicts"] == ["exact", "not exact"] and "are underlined" not in html
    assert [sentence["references"] for sentence in data["sentences"]] == [[], []]


def test_nothing_given_becomes_markup():
    pairs = [SentencePair((NASTY,), ((NASTY,),))]
    aligned = some_aligned(name=NASTY, pairs=pairs, words=[(NASTY,)])
    html = report([aligned], title=NASTY + "{{data}}", intro=NASTY, tables=[Table(NASTY, [NASTY], [[NASTY]], [NASTY])])
    page = Tags(html)
    assert not {"b", "i"} & {tag for tag, _ in page.tags}
    assert data_of(html)["models"][0]["outputs"] == [[NASTY]]
    assert "".join(page.text).count(NASTY) == 7  # twice the title; intro; table: 4


def test_the_page_asks_nobody_for_anything():
    html = report([some_aligned()])
    assert not re.findall(r"https?://", html) and "@import" not in html and "default-src 'none'" in html
    assert not [1 for _, attributes in Tags(html).tags if {"src", "href", "srcset"} & attributes.keys()]
    assert "{{" not in re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="traces must be of at least one model, got none"):
        make_translation_report(title="", intro="", traces=[], indices=[], tables=[])
    with pytest.raises(ValueError, match="same sentences, but those of hard and soft differ"):
        report([some_aligned(), some_aligned("hard", pairs=PAIRS[::-1], words=WORDS[::-1])])
    with pytest.raises(ValueError, match="indices must be those of the 2 sentences, got 3"):
        report([some_aligned()], indices=[1, 2, 3])
