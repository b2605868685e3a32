"""The decoder against its formulas, written out; teacher forcing against stepping; and gradient routing."""

import math

import pytest
import torch
from support.pairs import pairs
from support.tensors import assert_close, draw, reached, under
from torch import nn

from glimpse.attention.annotation import Attention
from glimpse.attention.distributions import Noise
from glimpse.attention.scorers import SCORERS
from glimpse.attention.self_attention import SelfAttentionStack
from glimpse.models.decoder import Decoder, DecoderState, expected_context
from glimpse.models.encoder_decoder import Captioner

BATCH, PLACES, SIZE, STATE, EMBED, WORDS = 3, 5, 4, 6, 7, 8


def make_decoder(*, mode="soft", scorer="additive", window=None, axes=1, seed=0, **options):
    torch.manual_seed(seed)
    state_dim = SIZE if scorer == "dot" else STATE
    attention = Attention(
        state_dim=state_dim, annotation_dim=SIZE, mode=mode, scorer=scorer, dim=3, window=window, axes=axes
    )
    sizes = {"vocabulary_size": WORDS, "embed_dim": EMBED, "state_dim": state_dim, "annotation_dim": SIZE}
    return Decoder(attention=attention, **sizes, **options).double()


def some_values(seed=0):
    return draw(BATCH, PLACES, SIZE, seed=seed, dtype=torch.float64) * 4 - 2


def some_mask():
    mask = torch.ones(BATCH, PLACES, dtype=torch.bool)
    mask[0, 3:] = False
    mask[2, 1] = False
    return mask


def some_words(length=5, seed=3):
    words = torch.randint(0, WORDS, (BATCH, length), generator=torch.Generator().manual_seed(seed))
    words[:, 0] = 1
    return words


class Halves(nn.Module):
    """An encoder for tests: each column of a picture with SIZE rows is an annotation."""

    out_dim = SIZE

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.5, dtype=torch.float64))

    def forward(self, images):
        return images[:, 0].transpose(1, 2) * self.scale

    def grid(self, height, width):
        return 1, width


def make_captioner(*, mixer=None, image_size=None, **options):
    return Captioner(encoder=Halves(), decoder=make_decoder(**options), mixer=mixer, image_size=image_size)


def some_images():
    return draw(BATCH, 1, SIZE, PLACES, dtype=torch.float64) * 4


def linear(layer, x):
    """A linear layer in Python floats."""
    bias = [0.0] * len(layer.weight) if layer.bias is None else layer.bias.tolist()
    return [
        sum(w * v for w, v in zip(row, x, strict=True)) + b for row, b in zip(layer.weight.tolist(), bias, strict=True)
    ]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def step_by_hand(decoder, word, hidden, cell, weights, values):
    """One step of one example by the formulas of the paper, from given attention weights: logits, h and c."""
    context = [sum(w * a[k] for w, a in zip(weights, values, strict=True)) for k in range(SIZE)]
    if decoder.gate is not None:
        (gate,) = linear(decoder.gate, hidden)
        context = [sigmoid(gate) * z for z in context]
    embedded = decoder.embed.weight[word].tolist()
    inputs = embedded + context
    lstm = decoder.cell
    gates = []
    for row in range(4 * STATE):
        total = sum(w * v for w, v in zip(lstm.weight_ih[row].tolist(), inputs, strict=True))
        total += sum(w * v for w, v in zip(lstm.weight_hh[row].tolist(), hidden, strict=True))
        gates.append(total + lstm.bias_ih[row].item() + lstm.bias_hh[row].item())
    enter, forget, new, out = (gates[i * STATE : (i + 1) * STATE] for i in range(4))
    cell = [sigmoid(f) * c + sigmoid(i) * math.tanh(g) for f, c, i, g in zip(forget, cell, enter, new, strict=True)]
    hidden = [sigmoid(o) * math.tanh(c) for o, c in zip(out, cell, strict=True)]
    joined = zip(embedded, linear(decoder.from_hidden, hidden), linear(decoder.from_context, context), strict=True)
    logits = linear(decoder.to_words, [sum(parts) for parts in joined])
    return [torch.tensor(result, dtype=torch.float64) for result in (logits, hidden, cell)]


@pytest.mark.parametrize("gate", [True, False])
@pytest.mark.parametrize("mode", ["soft", "hard"])
def test_one_step_by_hand(mode, gate):
    decoder, values = make_decoder(mode=mode, gate=gate), some_values()
    memory = decoder.attention.annotate(values, some_mask())
    state = DecoderState(draw(BATCH, STATE, seed=1).double() - 0.5, draw(BATCH, STATE, seed=2).double() - 0.5)
    word = torch.tensor([3, 0, 7])
    step = decoder.step(word, state, memory, noise=Noise(0))
    scorer = decoder.attention.scorer
    scores = scorer.score(torch.tanh(scorer.query(state.hidden).unsqueeze(1) + scorer.key(values))).squeeze(-1)
    weights = scores.masked_fill(~some_mask(), -torch.inf).softmax(-1)
    assert_close(step.reading.attention.weights, weights, 1e-12)
    if mode == "hard":
        assert_close(step.reading.log_prob, weights.gather(1, step.reading.place.unsqueeze(1)).squeeze(1).log(), 1e-12)
        weights = nn.functional.one_hot(step.reading.place, PLACES).double()
    for i in range(BATCH):
        logits, hidden, cell = step_by_hand(
            decoder, word[i].item(), *(part[i].tolist() for part in state), weights[i].tolist(), values[i].tolist()
        )
        assert_close(step.logits[i], logits, 1e-12)
        assert_close(step.state.hidden[i], hidden, 1e-12)
        assert_close(step.state.cell[i], cell, 1e-12)


def test_a_gate_is_one_number_for_each_example():
    assert make_decoder().gate.out_features == 1
    assert make_decoder(gate=False).gate is None


def test_the_initial_state_is_a_layer_of_the_mean_annotation():
    decoder, values, mask = make_decoder(), some_values(), some_mask()
    state = decoder.initial_state(decoder.attention.annotate(values, mask))
    means = [values[0, :3].mean(0), values[1].mean(0), (values[2].sum(0) - values[2, 1]) / 4]
    for i, mean in enumerate(means):
        assert_close(state.hidden[i], torch.tensor(linear(decoder.initial_hidden[0], mean.tolist())).tanh(), 1e-7)
        assert_close(state.cell[i], torch.tensor(linear(decoder.initial_cell[0], mean.tolist())).tanh(), 1e-7)
    unmasked = decoder.initial_state(decoder.attention.annotate(values, torch.ones_like(mask)))
    assert_close(decoder.initial_state(decoder.attention.annotate(values)).hidden, unmasked.hidden, 1e-12)


@pytest.mark.parametrize("mode", ["soft", "hard"])
def test_teacher_forcing_is_stepping(mode):
    decoder, words = make_decoder(mode=mode), some_words()
    memory = decoder.attention.annotate(some_values(), some_mask())
    output = decoder(memory, words, noise=Noise(5))
    state, noise = decoder.initial_state(memory), Noise(5)
    for t in range(4):
        step = decoder.step(words[:, t], state, memory, noise=noise)
        state = step.state
        assert_close(output.logits[:, t], step.logits, 1e-12)  # computed in one product, so equal up to rounding
        assert torch.equal(output.weights[:, t], step.reading.attention.weights)
        assert torch.equal(output.places[:, t], step.reading.place)
        assert torch.equal(output.entropies[:, t], step.reading.attention.entropy())
        if mode == "hard":
            assert torch.equal(output.log_probs[:, t], step.reading.log_prob)
    assert output.logits.shape == (BATCH, 4, WORDS) and output.weights.shape == (BATCH, 4, PLACES)
    assert output.places.dtype == torch.int64
    assert (output.log_probs is None) == (mode == "soft")


@pytest.mark.parametrize("gate", [True, False])
def test_the_output_may_have_another_context_than_the_recurrence(gate):
    """Hard in the recurrence, the expectation in the output."""
    decoder = make_decoder(mode="hard", gate=gate)
    memory = decoder.attention.annotate(some_values(), some_mask())
    word, state = torch.tensor([3, 0, 7]), decoder.initial_state(memory)
    hard = decoder.step(word, state, memory, noise=Noise(0))
    soft = decoder.step(word, state, memory, mode="soft")
    mixed = decoder.step(word, state, memory, noise=Noise(0), output_context=expected_context)
    assert hard.context is hard.output_context is hard.reading.context
    assert torch.equal(mixed.context, hard.context) and torch.equal(mixed.output_context, soft.context)
    for name in DecoderState._fields:
        assert torch.equal(getattr(mixed.state, name), getattr(hard.state, name))
    assert torch.equal(mixed.reading.place, hard.reading.place)
    scale = decoder.gate(state.hidden).sigmoid() if gate else 1
    other = scale * (soft.context - hard.context)
    assert_close(mixed.logits - hard.logits, decoder.from_context(other) @ decoder.to_words.weight.T, 1e-12)
    assert not reached(hard.logits.sum(), decoder) & under(decoder, "attention")
    assert reached(mixed.logits.sum(), decoder) >= under(decoder, "attention")
    words = some_words()
    mixed = make_captioner(mode="hard")(some_images(), words, noise=Noise(1), output_context=expected_context)
    plain = make_captioner(mode="hard")(some_images(), words, noise=Noise(1))
    assert torch.equal(mixed.places, plain.places) and not torch.equal(mixed.logits, plain.logits)


def test_the_last_word_is_a_target_only():
    decoder, words = make_decoder(), some_words()
    memory = decoder.attention.annotate(some_values())
    others = words.clone()
    others[:, -1] = (words[:, -1] + 1) % WORDS
    assert torch.equal(decoder(memory, words).logits, decoder(memory, others).logits)
    others[:, 2] = (words[:, 2] + 1) % WORDS
    changed = (decoder(memory, words).logits != decoder(memory, others).logits).any(-1)
    assert changed.tolist() == [[False, False, True, True]] * BATCH


def test_places():
    decoder, words = make_decoder(mode="hard"), some_words()
    memory = decoder.attention.annotate(some_values() * 5)
    greedy, soft = decoder(memory, words, sample=False), decoder(memory, words, mode="soft")
    assert torch.equal(greedy.places, greedy.weights.argmax(-1))
    assert torch.equal(soft.places, soft.weights.argmax(-1))
    chosen = greedy.weights.gather(2, greedy.places.unsqueeze(2)).squeeze(2)
    assert_close(greedy.log_probs, chosen.log(), 1e-12)
    sampled = {tuple(decoder(memory, words, noise=Noise(seed)).places.flatten().tolist()) for seed in range(4)}
    assert len(sampled) == 4


@pytest.mark.parametrize("scorer", SCORERS)
def test_soft_context_is_the_expectation_of_hard_ones(scorer):
    decoder = make_decoder(scorer=scorer)
    memory = decoder.attention.annotate(some_values(), some_mask())
    word, state = torch.tensor([1, 2, 3]), decoder.initial_state(memory)
    soft = decoder.step(word, state, memory, mode="soft").reading
    seen, total = torch.zeros(BATCH, PLACES), torch.zeros(BATCH, SIZE, dtype=torch.float64)
    for seed in range(200):
        hard = decoder.step(word, state, memory, mode="hard", noise=Noise(seed)).reading
        for i in range(BATCH):
            if not seen[i, hard.place[i]]:
                seen[i, hard.place[i]] = 1
                total[i] += hard.log_prob[i].exp() * hard.context[i]
    assert torch.equal(seen.bool(), some_mask())
    assert_close(total, soft.context, 1e-12)


def cross_entropy(output, words):
    return nn.functional.cross_entropy(output.logits.flatten(0, 1), words[:, 1:].flatten())


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("gate", [True, False])
def test_gradients_of_a_soft_captioner(scorer, gate):
    model, words = make_captioner(scorer=scorer, gate=gate), some_words()
    all_names = {name for name, _ in model.named_parameters()}
    assert reached(cross_entropy(model(some_images(), words), words), model) == all_names


@pytest.mark.parametrize(
    "scorer, scores",
    [("additive", ["query", "key", "score"]), ("dot", []), ("bilinear", ["query"]), ("scaled_dot", ["query", "key"])],
)
@pytest.mark.parametrize("window", [None, 1])
def test_gradients_of_a_hard_captioner(scorer, scores, window):
    model, words = make_captioner(mode="hard", scorer=scorer, window=window, axes=2), some_words()
    output = model(some_images(), words, noise=Noise(0))
    all_names = {name for name, _ in model.named_parameters()}
    where = under(model, "decoder.attention.window", *(f"decoder.attention.scorer.{part}" for part in scores))
    output_layers = under(model, "decoder.from_hidden", "decoder.from_context", "decoder.to_words")
    assert reached(cross_entropy(output, words), model) == all_names - where
    assert reached(output.log_probs.sum(), model) == all_names - output_layers
    assert bool(where) == (scorer != "dot" or window is not None)


def some_mixer():
    torch.manual_seed(1)
    return SelfAttentionStack(dim=SIZE, heads=2, num_layers=2).double()


def test_a_mixer_comes_between_encoder_and_decoder():
    """It applies to images and to cached annotations, and learns from both."""
    mixer, images, words = some_mixer(), some_images(), some_words()
    model = make_captioner(mixer=mixer)
    features = model.encoder(images)
    memory = model.annotate(images)
    assert_close(memory.values, mixer(features), 1e-12)
    assert not torch.allclose(memory.values, features)
    assert torch.equal(model(features, words).logits, model(images, words).logits)
    assert reached(model(features.detach(), words).logits.sum(), model) == under(model, "decoder", "mixer")
    all_names = {name for name, _ in model.named_parameters()}
    assert reached(cross_entropy(model(images, words), words), model) == all_names


def test_a_window_on_the_grid_of_the_encoder():
    """Cached annotations have the grid of the images they were made from, which all have one size."""
    model, images, words = make_captioner(window=1, axes=2, image_size=(SIZE, PLACES)), some_images(), some_words()
    memory = model.annotate(images)
    assert memory.positions[1].tolist() == [[i + 0.5, 0.5] for i in range(PLACES)]
    assert memory.extent.tolist() == [[PLACES, 1]] * BATCH
    output = model(images, words)
    assert torch.equal(model(model.encoder(images), words).logits, output.logits)
    assert (output.weights > 0).sum(-1).unique().tolist() == [2]  # of five, within 1 of a point near the middle
    unknown = make_captioner(window=1, axes=2)
    assert torch.equal(unknown.annotate(images).positions, memory.positions)
    with pytest.raises(ValueError, match="image_size must be given for a window over encoded images, got None"):
        unknown.annotate(model.encoder(images))


def test_padded_sentences_with_a_window_and_a_mixer():
    """The padding of a source sentence changes neither window nor words."""
    decoder, mixer, words = make_decoder(window=1), some_mixer(), some_words()
    mask = torch.arange(PLACES + 2).expand(BATCH, -1) < torch.tensor([[5], [1], [3]])
    values = torch.cat([some_values(), torch.full((BATCH, 2, SIZE), 7.0, dtype=torch.float64)], 1)
    padded = decoder(decoder.attention.annotate(mixer(values, mask), mask), words)
    for i, length in enumerate([5, 1, 3]):
        alone = decoder(decoder.attention.annotate(mixer(values[i : i + 1, :length])), words[i : i + 1])
        assert_close(padded.logits[i], alone.logits[0], 1e-12)
        assert_close(padded.weights[i, :, :length], alone.weights[0], 1e-12)


@pairs(mode=["soft", "hard"], window=[None, 1], mixer=[None, some_mixer()])
def test_one_example_alone(mode, window, mixer):
    model, images, words = make_captioner(mode=mode, window=window, axes=2, mixer=mixer), some_images(), some_words()
    together = model(images, words, sample=False)
    for i in range(BATCH):
        alone = model(images[i : i + 1], words[i : i + 1], sample=False)
        for one, all_ in zip(alone, together, strict=True):
            assert (one is None) == (all_ is None)
            if one is not None:
                assert_close(one[0], all_[i], 1e-12)


def test_padding_changes_nothing():
    decoder, values, words = make_decoder(), some_values(), some_words()
    mask = torch.arange(PLACES + 2).expand(BATCH, -1) < PLACES
    junk = torch.full((BATCH, 2, SIZE), 1e3, dtype=torch.float64)
    plain = decoder(decoder.attention.annotate(values), words)
    padded = decoder(decoder.attention.annotate(torch.cat([values, junk], 1), mask), words)
    assert_close(padded.logits, plain.logits, 1e-12)
    assert_close(padded.weights, torch.cat([plain.weights, torch.zeros(BATCH, 4, 2)], 2), 1e-12)
    longer = torch.cat([words, torch.zeros(BATCH, 2, dtype=torch.int64)], 1)
    assert torch.equal(decoder(decoder.attention.annotate(values), longer).logits[:, :4], plain.logits)


def test_images_may_come_encoded():
    model, images, words = make_captioner(), some_images(), some_words()
    expected = model(images, words).logits
    features = model.encoder(images)
    assert features.shape == (BATCH, PLACES, SIZE)
    assert torch.equal(model(features, words).logits, expected)
    assert torch.equal(model(model.annotate(images), words).logits, expected)
    assert reached(model(features.detach(), words).logits.sum(), model) == under(model, "decoder")


def test_dropout():
    decoder, words = make_decoder(dropout=0.5), some_words()
    memory = decoder.attention.annotate(some_values())
    one, same, other = (decoder(memory, words, noise=Noise(seed)).logits for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    decoder.eval()
    assert torch.equal(decoder(memory, words).logits, make_decoder().eval()(memory, words).logits)


def test_dropout_keeps_the_mean():
    decoder = make_decoder(dropout=0.25)
    dropped = decoder._drop(torch.ones(200, 200, dtype=torch.float64), Noise(0))
    assert dropped.unique().tolist() == [0, 1 / 0.75]
    assert_close(dropped.mean(), 1.0, 0.01)


def test_dropout_spares_the_state_and_the_attention():
    decoder, plain, words = make_decoder(dropout=0.5), make_decoder(), some_words()
    memory = decoder.attention.annotate(some_values())
    dropped, whole = decoder(memory, words), plain(memory, words)
    assert torch.equal(dropped.weights, whole.weights)
    assert not torch.equal(dropped.logits, whole.logits)


def test_attention_parameters_and_old_keywords():
    model = make_captioner()
    named = {id(parameter): name for name, parameter in model.named_parameters()}
    found = {named[id(parameter)] for parameter in model.attention_parameters()}
    assert found == under(model, "decoder.attention") and found
    for call, source in ((model, some_images()), (model.decoder, model.annotate(some_images()))):
        with pytest.raises(TypeError, match="^the argument how has been renamed to mode$"):
            call(source, some_words(), how="soft")


def test_invalid_arguments():
    for dropout in (-0.1, 1.0, float("nan")):
        with pytest.raises(ValueError, match=f"dropout must be at least 0 and less than 1, got {dropout}"):
            make_decoder(dropout=dropout)
    decoder = make_decoder()
    decoder.annotation_dim = 9
    with pytest.raises(
        ValueError, match="decoder.annotation_dim must be 4, the size of the encoder's annotations, got 9"
    ):
        Captioner(encoder=Halves(), decoder=decoder)
    with pytest.raises(ValueError, match="mode must be 'hard' or 'soft', got 'firm'"):
        make_captioner()(some_images(), some_words(), mode="firm")


@pytest.mark.parametrize("shape", [(2,), (3, 1), ()])
def test_invalid_word(shape):
    decoder = make_decoder()
    memory = decoder.attention.annotate(some_values())
    with pytest.raises(ValueError, match=r"word must have shape \(3,\), one for each example, got \("):
        decoder.step(torch.zeros(shape, dtype=torch.int64), decoder.initial_state(memory), memory)


@pytest.mark.parametrize("shape", [(3,), (2, 5), (3, 1), (3, 2, 1)])
def test_invalid_words(shape):
    with pytest.raises(ValueError, match=r"words must have shape \(3, N \+ 1\): START and at least one more word"):
        make_captioner()(some_images(), torch.zeros(shape, dtype=torch.int64))


@pytest.mark.parametrize(
    "images, message",
    [
        (torch.zeros(3, 5, 4, dtype=torch.uint8), r"got torch.uint8 \(3, 5, 4\)"),
        (torch.zeros(3, 5, 7), r"got torch.float32 \(3, 5, 7\)"),
        (torch.zeros(5, 4), r"got torch.float32 \(5, 4\)"),
    ],
)
def test_invalid_images(images, message):
    expected = r"images must have shape \(B, C, H, W\), or be encoded as floating point \(B, L, 4\), "
    with pytest.raises(ValueError, match=expected + message):
        make_captioner().annotate(images)
