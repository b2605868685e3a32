"""Caption traces hold the words of the decoder steps and the attention of these steps."""

import pytest
import torch
from support.captions import box_by_hand, make_caption_trace
from support.tensors import assert_close, draw_bytes

from glimpse.attention.annotation import Attention
from glimpse.data.vocabulary import END, START, Vocabulary
from glimpse.evaluation.caption_traces import check_same_images, trace_captions
from glimpse.models.backbones import BackboneEncoder
from glimpse.models.decoder import Decoder
from glimpse.models.decoding import BeamSearch, beam, greedy
from glimpse.models.encoder_decoder import Captioner
from glimpse.models.image_encoders import SmallEncoder

VOCABULARY = Vocabulary(["a", "one", "two", "above"])


def make(mode="soft", encoder=None, seed=0, scale=5.0):
    """A captioner with captions of several words and a peaked attention."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = encoder or SmallEncoder(out_dim=8)
        attention = Attention(state_dim=6, annotation_dim=encoder.out_dim, mode=mode, scorer="additive", dim=5)
        model = Captioner(
            encoder=encoder,
            decoder=Decoder(
                attention=attention,
                vocabulary_size=len(VOCABULARY),
                embed_dim=6,
                state_dim=6,
                annotation_dim=encoder.out_dim,
                dropout=0.5,
            ),
        )
        for parameter in model.decoder.parameters():
            parameter.data.mul_(scale)
    model.decoder.to_words.bias.data[END] -= 5  # or captions would be short
    return model


@pytest.mark.parametrize("mode", ["soft", "hard"])
def test_trace_equals_the_decoder_steps(mode):
    model = make()
    images = draw_bytes(3, 1, 30, 40)
    trace = trace_captions(model, VOCABULARY, images, name="model", mode=mode, search=BeamSearch(max_length=6))
    assert model.training  # restored; the captions are made without dropout
    assert (trace.name, trace.mode, trace.grid, trace.cell) == ("model", mode, (3, 4), (12.0, 12.0))
    assert trace.images is images and trace.references == [[], [], []]
    assert max(map(len, trace.captions)) > 2 and len({place for row in trace.places for place in row.tolist()}) > 1
    model.eval()
    for row in range(3):
        annotations = model.annotate(images[row : row + 1])
        state, word = model.decoder.initial_state(annotations), torch.tensor([START])
        for token, weights, place in zip(trace.captions[row], trace.weights[row], trace.places[row], strict=True):
            step = model.decoder.step(word, state, annotations, mode=mode, sample=False)
            logits = step.logits.clone()
            logits[:, :2] = -torch.inf
            word, state = logits.argmax(1), step.state
            assert VOCABULARY.decode(word) == (token,)
            assert_close(weights.flatten(), step.reading.attention.weights[0])
            assert int(place) == int(step.reading.place) == int(weights.argmax())


def test_default_mode_and_beam_search():
    model, images = make("hard").eval(), draw_bytes(2, 1, 24, 24)
    assert trace_captions(model, VOCABULARY, images, name="").mode == "hard"
    annotations = model.annotate(images)
    for width in (1, 3):
        for length_penalty in (0.0, 1.0):
            search = BeamSearch(width, length_penalty, max_length=5)
            trace = trace_captions(model, VOCABULARY, images, name="", search=search)
            found = beam(model.decoder, annotations, **search._asdict())
            assert trace.captions == [VOCABULARY.decode(caption.words) for caption in found]
            for weights, caption in zip(trace.weights, found, strict=True):
                assert_close(weights.flatten(1), caption.weights)
    hypotheses = greedy(model.decoder, annotations, max_length=5)
    assert trace_captions(model, VOCABULARY, images, name="", search=BeamSearch(max_length=5)).captions == [
        VOCABULARY.decode(caption.words) for caption in hypotheses
    ]


def test_references_stay_with_their_images():
    references = [[("a",), ("one",)], []]
    trace = trace_captions(make(), VOCABULARY, draw_bytes(2, 1, 24, 24), name="", references=references)
    assert trace.references == references


def test_empty_captions():
    model = make()
    model.decoder.to_words.bias.data[END] += 1e4
    trace = trace_captions(model, VOCABULARY, draw_bytes(2, 1, 24, 36), name="")
    assert trace.captions == [(), ()] and trace.grid == (2, 3)
    assert trace.maps(1).shape == (0, 2, 3) and trace.places[1].shape == (0,)


def test_cells_of_a_backbone_divide_the_image():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        encoder = BackboneEncoder(name="squeezenet1_1")
    trace = trace_captions(
        make(encoder=encoder), VOCABULARY, draw_bytes(1, 3, 64, 96), name="", search=BeamSearch(max_length=3)
    )
    rows, columns = trace.grid
    assert (rows, columns) == encoder.grid(64, 96) and rows < columns
    assert trace.cell == pytest.approx((64 / rows, 96 / columns))
    assert trace.box(rows * columns - 1)[2:] == pytest.approx((96, 64))


def test_boxes_are_clipped_at_the_edge_of_the_image():
    trace = make_caption_trace()
    assert [trace.box(place) for place in range(6)] == [box_by_hand(place) for place in range(6)]
    assert trace.box(5) == (20, 12, 25, 20)


def test_maps_are_relative_to_the_largest_of_the_word():
    trace = make_caption_trace()
    weights = torch.tensor([[[0.1, 0.4, 0.1], [0.2, 0.1, 0.1]], [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]])
    trace = trace._replace(weights=[trace.weights[0], weights])
    assert_close(trace.maps(1)[0], [[0.25, 1.0, 0.25], [0.5, 0.25, 0.25]])
    assert_close(trace.maps(1)[1], [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])


def test_wrong_arguments_are_named():
    model = make()
    for images in (draw_bytes(1, 24, 24), torch.zeros(1, 1, 24, 24), draw_bytes(0, 1, 24, 24)):
        with pytest.raises(ValueError, match=r"images must be uint8 of shape \(B, C, H, W\), at least one, got torch"):
            trace_captions(model, VOCABULARY, images, name="")
    with pytest.raises(ValueError, match="references must have an entry for each of the 2 images, got 1"):
        trace_captions(model, VOCABULARY, draw_bytes(2, 1, 24, 24), name="", references=[[]])
    check_same_images([make_caption_trace("soft"), make_caption_trace("hard", seed=1)])
    with pytest.raises(ValueError, match="traces must be of at least one model, got none"):
        check_same_images([])
    with pytest.raises(ValueError, match="traces must show the same images, but those of other and soft differ"):
        check_same_images(
            [make_caption_trace(), make_caption_trace(name="other", images=draw_bytes(2, 1, 20, 25, seed=9))]
        )
