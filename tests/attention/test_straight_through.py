"""Straight-through reads: forward the hard read, backward the soft one, and the bias that this has."""

import pytest
import torch
from support.tensors import assert_close, draw, draw_bytes, reached, tiny_model, under

from glimpse import losses
from glimpse.attention.annotation import Annotations, Attention
from glimpse.attention.distributions import Categorical, Gaussian, Noise
from glimpse.attention.reading import LocationAttention, read
from glimpse.attention.sensor import Sensor
from glimpse.models.decoder import Decoder
from glimpse.models.encoder_decoder import Captioner, Translator
from glimpse.models.image_encoders import SmallEncoder
from glimpse.models.sentence_encoder import SentenceEncoder, Sentences

BATCH, PLACES, SIZE = 3, 4, 5
MEMORIES = ("table", "crop", "annotations")


def leaf(*shape, seed):
    return (2 * draw(*shape, seed=seed, dtype=torch.float64) - 1).requires_grad_()


def some_read(kind):
    """A distribution, what can be read under it, and the tensors that both are made of."""
    if kind == "annotations":
        logits, values = leaf(BATCH, PLACES, seed=1), leaf(BATCH, PLACES, SIZE, seed=2)
        return Categorical(logits), Annotations(values, values, None), (logits, values)
    mean, std, images = leaf(BATCH, 2, seed=1), leaf(BATCH, 2, seed=2), leaf(BATCH, 1, 8, 9, seed=3)
    sensor = Sensor(patch_size=3, num_scales=2, background=0.2, plan=kind)
    return Gaussian(mean, 0.3 + 0.1 * std), sensor.view(images), (mean, std, images)


def gradients(kind, of, **options):
    attention, memory, tensors = some_read(kind)
    reading = read(attention, memory, **options)
    weights = draw(*reading.context.shape, seed=7, dtype=torch.float64)
    loss = (of(reading) * weights).sum() if of is context_of else of(reading).square().sum()
    return torch.autograd.grad(loss, tensors, allow_unused=True)


def context_of(reading):
    return reading.context


@pytest.mark.parametrize("sample", [True, False])
@pytest.mark.parametrize("kind", MEMORIES)
def test_what_is_read_is_the_hard_read_bit_for_bit(kind, sample):
    attention, memory, _ = some_read(kind)
    for seed in range(20):
        hard = read(attention, memory, "hard", sample=sample, noise=Noise(seed))
        through = read(attention, memory, "hard", sample=sample, noise=Noise(seed), straight_through=True)
        assert torch.equal(hard.context, through.context) and torch.equal(hard.place, through.place)
        assert torch.equal(hard.log_prob, through.log_prob)


@pytest.mark.parametrize("kind", MEMORIES)
def test_the_gradient_is_that_of_the_soft_read(kind):
    """To the distribution, and to what can be read: annotations and pixels."""
    soft = gradients(kind, context_of, mode="soft")
    for seed in range(3):
        through = gradients(kind, context_of, mode="hard", noise=Noise(seed), straight_through=True)
        for expected, found in zip(soft, through, strict=True):
            assert expected.any() and torch.equal(expected, found)


@pytest.mark.parametrize("kind", MEMORIES)
def test_the_log_probability_is_that_of_the_hard_read(kind):
    """It is there, and its gradient does not go through the place."""

    def log_prob_of(reading):
        return reading.log_prob

    hard, through = (
        gradients(kind, log_prob_of, mode="hard", noise=Noise(3), straight_through=flag) for flag in (False, True)
    )
    for expected, found in zip(hard, through, strict=True):
        assert (expected is None and found is None) or torch.equal(expected, found)


def test_a_point_of_the_plane_moves_with_the_mean():
    attention, memory, (mean, std, _) = some_read("crop")
    place = read(attention, memory, "hard", noise=Noise(0), straight_through=True).place
    found = torch.autograd.grad(place.sum(), (mean, std), allow_unused=True)
    assert torch.equal(found[0], torch.ones_like(mean)) and found[1] is None
    assert not read(attention, memory, "hard", noise=Noise(0)).place.requires_grad


@pytest.mark.parametrize("kind", MEMORIES)
def test_a_soft_read_stays_what_it_is(kind):
    attention, memory, _ = some_read(kind)
    one, other = (read(attention, memory, "soft", straight_through=flag) for flag in (False, True))
    assert torch.equal(one.context, other.context) and other.log_prob is None


class Pick:
    """Noise under which a categorical distribution gives a certain place."""

    def __init__(self, place):
        self.place = place

    def uniform(self, like):
        numbers = torch.full_like(like, 1e-30)
        numbers[:, self.place] = 1 - 1e-12
        return numbers


def enumerated(loss):
    """The gradient of E[loss(read)] to the logits, and the expectation of its straight-through estimate, exactly."""
    logits = torch.tensor([[0.3, -0.5, 1.1]], dtype=torch.float64, requires_grad=True)
    values = torch.tensor([[[2.0], [-1.0], [0.5]]], dtype=torch.float64)
    attention, memory = Categorical(logits), Annotations(values, values, None)
    exact = torch.autograd.grad((attention.weights * loss(values.squeeze(-1))).sum(), logits)[0]
    expected = torch.zeros_like(logits)
    for place, weight in enumerate(attention.weights[0].tolist()):
        reading = read(attention, memory, "hard", noise=Pick(place), straight_through=True)
        assert reading.place.tolist() == [place]
        expected += weight * torch.autograd.grad(loss(reading.context).sum(), logits)[0]
    return exact, expected, attention.weights.detach()[0], values[0, :, 0]


def test_no_bias_where_the_loss_is_linear():
    exact, expected, *_ = enumerated(lambda context: 3 * context - 1)
    assert exact.abs().max() > 0.1
    assert_close(expected, exact, 1e-14)


def test_bias_where_the_loss_is_quadratic():
    """Of v^2: minus p_i times by how much the squared deviation of place i exceeds the variance."""
    exact, expected, weights, values = enumerated(torch.square)
    deviation = (values - weights @ values).square()
    bias = -weights * (deviation - weights @ deviation)
    assert bias.abs().max() > 0.1
    assert_close((expected - exact)[0], bias, 1e-14)


def test_the_gradient_of_a_location_is_clipped_as_in_a_soft_read():
    state = draw(BATCH, SIZE, seed=5, dtype=torch.float64)
    found = {}
    for limit in (None, 1e-3):
        for mode in ("soft", "hard"):
            torch.manual_seed(0)
            attention = LocationAttention(state_dim=SIZE, std=0.3, max_grad_norm=limit).double()
            _, view, _ = some_read("crop")
            reading = attention(state, view, mode=mode, noise=Noise(1), straight_through=True)
            reading.context.sum().backward()
            found[limit, mode] = attention.head.weight.grad
    assert torch.equal(found[None, "soft"], found[None, "hard"])
    assert torch.equal(found[1e-3, "soft"], found[1e-3, "hard"])
    assert found[1e-3, "hard"].norm() < 0.1 * found[None, "hard"].norm()


# Models

IMAGES, TARGETS = draw_bytes(5, 1, 12, 14), torch.arange(5) % 3


@pytest.mark.parametrize("core_gets_it", ["true", "false"])
@pytest.mark.parametrize("places", ["plane", "grid"])
def test_the_cross_entropy_alone_trains_the_attention_of_a_recurrent_model(places, core_gets_it):
    model = tiny_model(f"--attention.places={places}", f"--loss.reward_reaches_core={core_gets_it}")
    hard, through = (model(IMAGES, noise=Noise(2), straight_through=flag) for flag in (False, True))
    for name, expected, found in zip(hard._fields, hard, through, strict=True):
        assert (expected is None and found is None) or torch.equal(expected, found), name
    answers = losses.cross_entropy(through.logits, TARGETS)
    rest = under(model, "glimpses.network", "core", "classify")
    assert reached(losses.cross_entropy(hard.logits, TARGETS), model) == rest
    assert reached(answers, model) == rest | under(model, "glimpses.attention")
    assert through.log_probs is not None


def test_the_first_glimpse_is_placed_by_a_rule_and_has_no_gradient():
    model = tiny_model("--num_glimpses=1")
    rollout = model(IMAGES, noise=Noise(2), straight_through=True)
    assert reached(rollout.logits.sum(), model) == under(model, "glimpses.network", "core", "classify")


def make_decoder(annotation_dim):
    torch.manual_seed(0)
    attention = Attention(state_dim=6, annotation_dim=annotation_dim, mode="hard", dim=5)
    return Decoder(attention=attention, vocabulary_size=9, embed_dim=4, state_dim=6, annotation_dim=annotation_dim)


def encoder_decoders():
    """A captioner, a translator and a decoder, each with what it writes about."""
    captioner = Captioner(encoder=SmallEncoder(out_dim=8, channels=2), decoder=make_decoder(8))
    encoder = SentenceEncoder(vocabulary_size=7, embed_dim=3, out_dim=8)
    translator = Translator(encoder=encoder, decoder=make_decoder(8))
    decoder = make_decoder(8)
    sentences = Sentences(torch.tensor([[4, 5, 6], [6, 5, 4]]), torch.tensor([3, 2]))
    memory = decoder.attention.annotate(draw(2, 4, 8))
    return (captioner, draw_bytes(2, 1, 36, 36)), (translator, sentences), (decoder, memory)


@pytest.mark.parametrize("which", range(3), ids=["captioner", "translator", "decoder"])
def test_the_cross_entropy_alone_trains_the_attention_of_a_decoder(which):
    model, source = encoder_decoders()[which]
    words = torch.tensor([[1, 4, 5, 2], [1, 6, 2, 0]])
    hard, through = (model(source, words, noise=Noise(0), straight_through=flag) for flag in (False, True))
    for name, expected, found in zip(hard._fields, hard, through, strict=True):
        assert torch.equal(expected, found), name
    attention = {name for name, p in model.named_parameters() if any(p is own for own in model.attention_parameters())}
    assert attention
    assert reached(hard.logits.sum(), model) & attention == set()
    everything = {name for name, _ in model.named_parameters()}
    assert reached(through.logits.sum(), model) == everything


def test_one_step_of_a_decoder():
    decoder, memory = encoder_decoders()[2]
    word, state = torch.tensor([1, 1]), decoder.initial_state(memory)
    hard, through = (decoder.step(word, state, memory, noise=Noise(0), straight_through=flag) for flag in (False, True))
    assert torch.equal(hard.logits, through.logits)
    assert not reached(hard.logits.sum(), decoder.attention) and reached(through.logits.sum(), decoder.attention)
    assert torch.equal(hard.reading.log_prob, through.reading.log_prob)
