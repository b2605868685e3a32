"""The report of captions: its data, escaping, and size."""

import base64
import json
import re

import pytest
import torch
from support.captions import CAPTIONS, make_caption_trace
from support.pages import NASTY, Tags, data_of, decode, picture_of
from support.tensors import assert_close, draw_bytes

from glimpse.view.caption_report import make_caption_report
from glimpse.view.tables import Table


def report(traces, **changes):
    arguments = {"title": "A title", "intro": "Words.", "traces": traces, "indices": range(len(traces[0].images))}
    return make_caption_report(**{**arguments, "tables": [], **changes})


@pytest.mark.parametrize("channels", [1, 3])
def test_the_data_is_that_of_the_traces(channels):
    references = [[("a", "dog"), ("one",)], []]
    traces = [
        make_caption_trace("soft", channels=channels, references=references),
        make_caption_trace("hard", channels=channels, seed=1),
    ]
    data = data_of(report(traces, indices=[17, 4]))
    assert data["size"] == [25, 20]
    assert [image["index"] for image in data["images"]] == [17, 4]
    assert [image["references"] for image in data["images"]] == [["a dog", "one"], []]
    for image, pixels in zip(data["images"], traces[0].images, strict=True):
        kind, picture = picture_of(image["source"])
        assert kind == "png" and torch.equal(picture.view(20, 25, channels), pixels.permute(1, 2, 0))
    for model, trace in zip(data["models"], traces, strict=True):
        assert (model["name"], model["mode"]) == (trace.name, trace.mode)
        assert model["grid"] == [2, 3] and model["cell"] == [12, 10]
        assert model["captions"] == [list(caption) for caption in CAPTIONS]
        assert model["places"] == [places.tolist() for places in trace.places]
        for row, text in enumerate(model["maps"]):
            weights = trace.weights[row]
            relative = weights / weights.amax((1, 2), keepdim=True)
            assert_close(decode(text, len(CAPTIONS[row]), 2, 3) / 255, relative, atol=0.5001 / 255)


def test_photographs_are_jpeg_and_empty_captions_have_no_maps():
    data = data_of(report([make_caption_trace(captions=((), ("a",)), images=draw_bytes(2, 3, 200, 250))]))
    assert [picture_of(image["source"])[0] for image in data["images"]] == ["jpeg", "jpeg"]
    (model,) = data["models"]
    assert model["captions"] == [[], ["a"]] and model["maps"][0] == "" and model["places"][0] == []
    assert len(base64.b64decode(model["maps"][1])) == 6


def test_texts_are_escaped():
    trace = make_caption_trace(captions=((NASTY,), ("a",)), name=NASTY, references=[[(NASTY,)], []])
    html = report([trace], title=NASTY + "{{data}}", intro=NASTY, tables=[Table(NASTY, [NASTY], [[NASTY]], [NASTY])])
    page = Tags(html)
    assert not {"b", "i"} & {tag for tag, _ in page.tags}
    assert [attributes for tag, attributes in page.tags if tag == "script"] == [
        {"type": "application/json", "id": "data"},
        {},
    ]
    data = data_of(html)
    assert data["models"][0]["captions"][0] == data["images"][0]["references"] == [NASTY]
    assert "".join(page.text).count(NASTY) == 7  # twice the title; intro; table: 4


def test_the_page_loads_nothing():
    html = report([make_caption_trace()])
    assert not re.findall(r"https?://", html) and "@import" not in html and "default-src 'none'" in html
    assert not [1 for _, attributes in Tags(html).tags if {"src", "href", "srcset"} & attributes.keys()]


def test_tables_come_before_the_captions():
    table = Table("Scores", ["", "soft"], [["BLEU-4", "64.9"]], ["A note."])
    html = report([make_caption_trace()], tables=[table])
    assert '<tr><th scope="row">BLEU-4</th><td>64.9</td></tr>' in html and "<p>A note.</p>" in html
    assert html.index("<h2>Scores</h2>") < html.index("Word by word")
    assert "{{" not in re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)


def test_a_hundred_images_are_small():
    captions = (("a", "word") * 6,) * 100
    traces = [
        make_caption_trace(mode, captions=captions, images=draw_bytes(100, 1, 20, 25)) for mode in ("soft", "hard")
    ]
    maps = torch.rand(12, 14, 14, generator=torch.Generator().manual_seed(0))
    traces = [trace._replace(weights=[maps] * 100) for trace in traces]
    assert len(report(traces)) < 1_000_000
    assert len(json.dumps(data_of(report(traces))["models"])) < 750_000


def test_invalid_arguments():
    trace = make_caption_trace()
    with pytest.raises(ValueError, match="traces must be of at least one model, got none"):
        make_caption_report(title="", intro="", traces=[], indices=[], tables=[])
    with pytest.raises(ValueError, match="same images, but those of other and soft differ"):
        report([trace, make_caption_trace(name="other", images=draw_bytes(2, 1, 20, 25, seed=9))])
    with pytest.raises(ValueError, match="indices must be those of the 2 images, got 3"):
        report([trace], indices=[1, 2, 3])
