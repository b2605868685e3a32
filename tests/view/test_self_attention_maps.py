"""Maps of self-attention show the weights of each layer and head."""

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from support.sentences import untrained
from support.tensors import assert_close, draw

from glimpse.models.sentence_encoder import encode_sentences
from glimpse.tasks.translation import TranslationTask
from glimpse.training.run import Run
from glimpse.view.self_attention_maps import SelfAttentionMaps, draw_self_attention, trace_self_attention

SENTENCES = (("3", "/", "5", "/", "9", "8"), ("may", "3", ",", "1", "9", "9", "8"))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "mixed"
    untrained(folder, encoder__self_attention=2, encoder__heads=3)
    return TranslationTask.load(Run.open(folder))


def test_maps_are_those_of_the_layers(loaded):
    found = trace_self_attention(loaded, SENTENCES)
    assert [its.source for its in found] == list(SENTENCES)
    # By hand, in one batch, where the shorter sentence is padded.
    model = loaded.model
    annotations, mask = model.encoder(encode_sentences(loaded.source_vocabulary, SENTENCES))
    for layer, block in enumerate(model.mixer.layers):
        normed = block.attention_norm(annotations)
        for head in range(3):
            part = slice(4 * head, 4 * head + 4)
            queries, keys = block.attention.query(normed)[..., part], block.attention.key(normed)[..., part]
            logits = (queries @ keys.transpose(1, 2) / 2).masked_fill(~mask.unsqueeze(1), -torch.inf)
            for row, (its, words) in enumerate(zip(found, SENTENCES, strict=True)):
                expected = logits[row].softmax(-1)[: len(words), : len(words)]
                assert its.weights.shape == (2, 3, len(words), len(words))
                assert_close(its.weights[layer, head], expected.detach(), atol=1e-5)
        annotations = block(annotations, mask).annotations


def test_each_panel_is_of_its_layer_and_head():
    maps = [
        SelfAttentionMaps(words, draw(2, 3, len(words), len(words), seed=row)) for row, words in enumerate(SENTENCES)
    ]
    figure = draw_self_attention(maps)
    *panels, scale = figure.axes
    panels = iter(panels)
    for its in maps:
        for layer in range(2):
            for head in range(3):
                axes = next(panels)
                assert_close(torch.tensor(axes.images[0].get_array().data), its.weights[layer, head])
                for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
                    assert [text.get_text() for text in labels] == list(its.source)
    assert next(panels, None) is None and scale.images[0].get_array().shape == (1, 256)
    headings = [f"layer {layer}, head {head}" for layer in (1, 2) for head in (1, 2, 3)]
    texts = [text.get_text() for text in figure.texts]
    assert texts[:7] == ["3 / 5 / 9 8", *headings] and texts[7:14] == ["may 3 , 1 9 9 8", *headings]
    FigureCanvasAgg(figure).draw()
    boxes = [axes.get_window_extent() for axes in figure.axes] + [text.get_window_extent() for text in figure.texts]
    assert not [(i, j) for i in range(len(boxes)) for j in range(i) if boxes[i].overlaps(boxes[j])]


def test_invalid_arguments(loaded):
    with pytest.raises(ValueError, match="maps must be of at least one sentence, got none"):
        draw_self_attention([])
    alone = loaded._replace(model=type(loaded.model)(encoder=loaded.model.encoder, decoder=loaded.model.decoder))
    with pytest.raises(ValueError, match="loaded must have self-attention, but .*mixed has none"):
        trace_self_attention(alone, SENTENCES)
