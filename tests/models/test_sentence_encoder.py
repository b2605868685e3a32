"""The sentence encoder against a loop, padding without effect, and the translator on the decoder of captions."""

import pytest
import torch
from support.tensors import assert_close, reached
from torch import nn

from glimpse.attention.annotation import Attention
from glimpse.attention.distributions import Noise
from glimpse.attention.self_attention import SelfAttentionStack
from glimpse.data.vocabulary import Vocabulary
from glimpse.models.decoder import Decoder
from glimpse.models.decoding import beam
from glimpse.models.encoder_decoder import Captioner, EncoderDecoder, Translator
from glimpse.models.sentence_encoder import SentenceEncoder, Sentences, encode_sentences

WORDS = torch.tensor([[4, 5, 6, 7], [8, 2, 0, 0], [5, 5, 4, 2]])
LENGTHS = torch.tensor([4, 1, 3])
SENTENCES = Sentences(WORDS, LENGTHS)


def make_encoder(**settings):
    torch.manual_seed(1)
    options = {"vocabulary_size": 9, "embed_dim": 3, "out_dim": 6, **settings}
    return SentenceEncoder(**options).double()


FORMS = {
    "words": {},
    "whole": {"whole": True},
    "window": {"window": 1},
    "mixed": {"layers": 2},
    "window, mixed": {"window": 2, "layers": 1},
}


def make_translator(mode="soft", *, window=None, layers=0, **settings):
    encoder = make_encoder(**settings)
    attention = Attention(state_dim=5, annotation_dim=6, mode=mode, dim=4, window=window)
    decoder = Decoder(attention=attention, vocabulary_size=8, embed_dim=3, state_dim=5, annotation_dim=6)
    mixer = SelfAttentionStack(dim=6, heads=2, num_layers=layers) if layers else None
    return Translator(encoder=encoder, decoder=decoder, mixer=mixer).double()


def alone(row):
    """A sentence by itself, without any padding."""
    return Sentences(WORDS[row : row + 1, : LENGTHS[row]], LENGTHS[row : row + 1])


def by_loop(encoder, words):
    """The forward and the backward state at each word of one sentence, step by step."""
    size = encoder.out_dim // 2
    found = []
    for suffix, order in (("", range(len(words))), ("_reverse", reversed(range(len(words))))):
        cell = nn.GRUCell(encoder.embed.embedding_dim, size).double()
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            getattr(cell, name).data = getattr(encoder.gru, f"{name}_l0{suffix}").data
        state, states = torch.zeros(1, size, dtype=torch.float64), {}
        for index in order:
            state = cell(encoder.embed(words[index : index + 1]), state)
            states[index] = state[0]
        found.append(torch.stack([states[index] for index in range(len(words))]))
    return torch.cat(found, 1)


def test_encode_is_literal():
    vocabulary = Vocabulary(("c", "a", "b"))
    words, lengths = encode_sentences(vocabulary, [("a", "b", "x"), ("c",)])
    assert words[0].tolist() == [5, 6, 3] and words[1, 0] == 4 and words.shape == (2, 3)
    assert lengths.tolist() == [3, 1]
    wide = encode_sentences(vocabulary, [("a", "b", "x"), ("c",)], width=5)
    assert wide.words.shape == (2, 5) and wide.words[:, :3].equal(words) and wide.lengths.equal(lengths)
    with pytest.raises(ValueError, match="width must be at least 3, the length of the longest sentence, got 2"):
        encode_sentences(vocabulary, [("a", "b", "x")], width=2)


def test_annotations_are_those_of_a_loop():
    encoder = make_encoder()
    annotations, mask = encoder(SENTENCES)
    assert mask.tolist() == [[True] * 4, [True, False, False, False], [True, True, True, False]]
    for row, length in enumerate(LENGTHS):
        assert_close(annotations[row, :length], by_loop(encoder, WORDS[row, :length]), 1e-12)


def test_one_annotation_for_the_whole_is_the_two_final_states():
    encoder = make_encoder(whole=True)
    annotations, mask = encoder(SENTENCES)
    assert annotations.shape == (3, 1, 6) and mask is None
    for row, length in enumerate(LENGTHS):
        states = by_loop(encoder, WORDS[row, :length])
        assert_close(annotations[row, 0], torch.cat([states[-1, :3], states[0, 3:]]), 1e-12)


@pytest.mark.parametrize("whole", [False, True])
def test_padding_has_no_effect(whole):
    """Neither its words nor its width; a sentence alone is as in a batch."""
    encoder = make_encoder(whole=whole)
    annotations, _ = encoder(SENTENCES)
    others = torch.where(torch.arange(4) < LENGTHS.unsqueeze(1), WORDS, 1)
    assert torch.equal(encoder(Sentences(others, LENGTHS))[0], annotations)
    wider = Sentences(nn.functional.pad(WORDS, (0, 3), value=7), LENGTHS)
    assert torch.equal(encoder(wider)[0][:, : annotations.shape[1]], annotations)
    for row, length in enumerate(LENGTHS):
        by_itself, _ = encoder(alone(row))
        assert_close(by_itself[0], annotations[row, : 1 if whole else length], 1e-12)
    encoder(Sentences(torch.where(others == 1, 3, others), LENGTHS))[0].sum().backward()
    assert not encoder.embed.weight.grad[3].any() and encoder.embed.weight.grad[8].any()


@pytest.mark.parametrize("mode", ["soft", "hard"])
@pytest.mark.parametrize("form", FORMS)
def test_a_translation_alone_is_as_in_a_batch(mode, form):
    model = make_translator(mode, **FORMS[form]).eval()
    targets = torch.tensor([[1, 4, 5, 2], [1, 6, 2, 0], [1, 7, 4, 2]])
    with torch.no_grad():
        output = model(SENTENCES, targets, sample=False)
        hypotheses = beam(model.decoder, model.annotate(SENTENCES), beam_width=3, max_length=5)
        for row in range(3):
            by_itself = model(alone(row), targets[row : row + 1], sample=False)
            length = by_itself.weights.shape[2]
            assert_close(by_itself.logits[0], output.logits[row], 1e-12)
            assert_close(by_itself.weights[0], output.weights[row, :, :length], 1e-12)
            assert not output.weights[row, :, length:].any()
            [expected] = beam(model.decoder, model.annotate(alone(row)), beam_width=3, max_length=5)
            assert expected.words == hypotheses[row].words
            assert expected.log_prob == pytest.approx(hypotheses[row].log_prob)


def test_hard_reads_never_fall_on_padding():
    model = make_translator("hard")
    targets = torch.tensor([[1, 4, 5, 6, 7, 4, 2]]).expand(3, -1)
    for seed in range(20):
        output = model(SENTENCES, targets, noise=Noise(seed))
        assert (output.places < LENGTHS.unsqueeze(1)).all()
    assert output.log_probs[1].tolist() == [0.0] * 6  # of one word, there is no choice


@pytest.mark.parametrize("mode", ["soft", "hard"])
@pytest.mark.parametrize("form", FORMS)
def test_gradients_reach_every_parameter(mode, form):
    model = make_translator(mode, **FORMS[form])
    output = model(SENTENCES, torch.tensor([[1, 4, 5, 2], [1, 6, 2, 0], [1, 7, 4, 2]]), noise=Noise(0))
    all_names = {name for name, _ in model.named_parameters()}
    scorer = {name for name in all_names if ".attention." in name and name.startswith("decoder.")}
    if mode == "soft":
        assert reached(output.logits.sum(), model) == all_names
    else:
        assert reached(output.logits.sum(), model) == all_names - scorer
        assert scorer <= reached(output.log_probs.sum(), model)


def test_all_weight_is_on_a_single_annotation():
    model = make_translator(whole=True)
    output = model(SENTENCES, torch.tensor([[1, 4, 5, 2]] * 3))
    assert output.weights.tolist() == [[[1.0]] * 3] * 3


# Dropout


def test_dropout_is_drawn_from_the_noise():
    encoder = make_encoder(dropout=0.5)
    first, again, other = (encoder(SENTENCES, noise=Noise(seed))[0] for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)
    dropped = first[0]
    assert 0 < (dropped == 0).sum() < dropped.numel()
    encoder.eval()
    assert torch.equal(encoder(SENTENCES, noise=Noise(0))[0], make_encoder().eval()(SENTENCES)[0])
    with torch.no_grad():
        words = nn.functional.pad(WORDS, (0, 96))
        encoder.train()
        drops = encoder(Sentences(words.expand(-1, -1), torch.full((3,), 100)), noise=Noise(2))[0]
    assert abs(float((drops == 0).double().mean()) - 0.5) < 4 * (0.25 / drops.numel()) ** 0.5


def test_processes_draw_the_same_noise_as_one():
    """Each with its rows, padded to the width of the whole batch."""
    model = make_translator("hard", dropout=0.3)
    words = torch.cat([WORDS, WORDS.flip(0)])
    lengths = torch.cat([LENGTHS, LENGTHS.flip(0)])
    targets = torch.tensor([[1, 4, 5, 2]]).expand(6, -1)
    whole = model(Sentences(words, lengths), targets, noise=Noise(5))
    for rank in range(2):
        rows = slice(3 * rank, 3 * rank + 3)
        noise = Noise(5, rank=rank, world_size=2)
        share = model(Sentences(words[rows], lengths[rows]), targets[rows], noise=noise)
        assert share.places.equal(whole.places[rows])
        assert_close(share.logits, whole.logits[rows], 1e-12)


# One class


def test_captioner_and_translator_share_all_but_the_encoder():
    assert issubclass(Captioner, EncoderDecoder) and issubclass(Translator, EncoderDecoder)
    assert Captioner.forward is Translator.forward is EncoderDecoder.forward
    model = make_translator()
    assert type(model.decoder) is Decoder and type(model.decoder.attention) is Attention


# Mistakes


def test_bad_sizes():
    with pytest.raises(ValueError, match="out_dim must be positive and even, a half for each direction, got 5"):
        make_encoder(out_dim=5)
    with pytest.raises(ValueError, match="out_dim must be positive and even, a half for each direction, got 0"):
        make_encoder(out_dim=0)
    with pytest.raises(ValueError, match="dropout must be at least 0 and less than 1, got 1.0"):
        make_encoder(dropout=1.0)
    with pytest.raises(
        ValueError, match="decoder.annotation_dim must be 8, the size of the encoder's annotations, got 6"
    ):
        make_translator(out_dim=8)


def test_bad_sentences():
    encoder = make_encoder()
    with pytest.raises(ValueError, match=r"shape \(B, L\) and lengths of shape \(B,\), got \(4,\) and \(3,\)"):
        encoder(Sentences(WORDS[0], LENGTHS))
    with pytest.raises(ValueError, match=r"got \(3, 4\) and \(2,\)"):
        encoder(Sentences(WORDS, LENGTHS[:2]))
    for wrong in (0, 5):
        with pytest.raises(ValueError, match=rf"lengths must be in 1\.\.4, the width of words, got \[4, {wrong}, 3\]"):
            encoder(Sentences(WORDS, torch.tensor([4, wrong, 3])))


def test_the_base_class_has_no_encoder():
    model = make_translator()
    with pytest.raises(NotImplementedError):
        EncoderDecoder.annotate(model, SENTENCES)
