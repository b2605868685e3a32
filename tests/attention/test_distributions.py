"""Distributions over places against torch's own, and the noise that picks from them."""

import math

import pytest
import torch
from support.tensors import assert_close, draw

from glimpse.attention.distributions import Categorical, Gaussian, Noise


def some_gaussian(batch=6):
    return Gaussian(draw(batch, 2, dtype=torch.float64) * 2 - 1, draw(batch, 2, seed=1, dtype=torch.float64) + 0.01)


def some_logits(batch=6, places=5):
    return draw(batch, places, dtype=torch.float64) * 6 - 3


def masked_logits():
    return torch.tensor([0.5, -math.inf, 2.0, -math.inf])


def test_gaussian_is_that_of_torch():
    gaussian = some_gaussian()
    reference = torch.distributions.Independent(torch.distributions.Normal(*gaussian), 1)
    for places in (gaussian.mean, draw(6, 2, seed=2, dtype=torch.float64) * 8 - 4):
        assert_close(gaussian.log_prob(places), reference.log_prob(places), 1e-12)
    assert_close(gaussian.entropy(), reference.entropy(), 1e-12)


def test_gaussian_literal_density():
    gaussian = Gaussian(torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.5]]))
    # -1/2 for x, -2 for y (two stds away), less log(0.5) and twice log(sqrt(2 pi)).
    expected = -0.5 - 2 + math.log(2) - math.log(2 * math.pi)
    assert_close(gaussian.log_prob(torch.tensor([[1.0, 0.0]])), [expected])
    assert gaussian.mode().tolist() == [[0, 1]]


def test_gaussian_samples_have_its_mean_and_std():
    count = 40_000
    mean, std = torch.tensor([0.3, -2.0]), torch.tensor([0.1, 1.5])
    samples = Gaussian(mean.expand(count, 2), std.expand(count, 2)).sample(Noise(1))
    assert ((samples.mean(0) - mean).abs() < 5 * std / math.sqrt(count)).all()
    assert ((samples.std(0) / std - 1).abs() < 5 / math.sqrt(2 * count)).all()
    assert abs(torch.corrcoef(samples.T)[0, 1]) < 5 / math.sqrt(count)


def test_gaussian_scores_the_raw_sample():
    """Samples off the image are neither clipped nor squashed, and their density is the plain normal's."""
    gaussian = Gaussian(torch.full((50, 2), 0.95), torch.full((50, 2), 0.5))
    samples = gaussian.sample(Noise(3))
    assert torch.equal(samples, gaussian.mean + gaussian.std * Noise(3).normal(gaussian.mean))
    assert (samples > 1).any()
    assert_close(gaussian.log_prob(samples), torch.distributions.Normal(0.95, 0.5).log_prob(samples).sum(1), 1e-5)


def test_categorical_is_that_of_torch():
    categorical = Categorical(some_logits())
    reference = torch.distributions.Categorical(logits=categorical.logits)
    assert_close(categorical.weights, reference.probs, 1e-12)
    assert_close(categorical.entropy(), reference.entropy(), 1e-12)
    for place in range(5):
        places = torch.full((6,), place)
        assert_close(categorical.log_prob(places), reference.log_prob(places), 1e-12)
    assert torch.equal(categorical.mode(), reference.probs.argmax(1))


def test_categorical_literal_values():
    categorical = Categorical(torch.tensor([[0.5, 0.25, 0.25]]).log())
    assert_close(categorical.weights, [[0.5, 0.25, 0.25]])
    assert_close(categorical.log_prob(torch.tensor([1])), [-math.log(4)])
    assert_close(categorical.entropy(), [1.5 * math.log(2)])


def test_categorical_samples_with_its_frequencies():
    count, probabilities = 40_000, torch.tensor([0.02, 0.6, 0.08, 0.3])
    samples = Categorical(probabilities.log().expand(count, 4)).sample(Noise(1))
    expected = probabilities * count
    chi_square = ((torch.bincount(samples, minlength=4) - expected).square() / expected).sum()
    assert chi_square < 22  # of 3 degrees of freedom: one in ten thousand


def test_masked_places():
    count, logits = 5000, masked_logits()
    categorical = Categorical(logits.expand(count, 4))
    assert set(categorical.sample(Noise(2)).tolist()) == {0, 2}
    assert categorical.weights[0, [1, 3]].tolist() == [0, 0]
    assert categorical.log_prob(torch.full((count,), 1))[0] == -math.inf
    unmasked = Categorical(logits[[0, 2]].unsqueeze(0))
    assert_close(categorical.entropy()[:1], unmasked.entropy())


def test_gradients_ignore_masked_places():
    logits = masked_logits().requires_grad_()
    short = masked_logits()[[0, 2]].requires_grad_()
    for ask in (lambda c: c.log_prob(torch.tensor([0])), lambda c: c.weights[:, 0], lambda c: c.entropy()):
        gradient = torch.autograd.grad(ask(Categorical(logits.unsqueeze(0))).sum(), logits)[0]
        expected = torch.autograd.grad(ask(Categorical(short.unsqueeze(0))).sum(), short)[0]
        assert_close(gradient[[0, 2]], expected)
        assert gradient[[1, 3]].tolist() == [0, 0]


def test_entropy_has_a_gradient_where_a_probability_vanishes():
    logits = torch.tensor([[0.0, 1.0, -200.0]], requires_grad=True)  # exp(-200) is zero in single precision
    gradient = torch.autograd.grad(Categorical(logits).entropy().sum(), logits)[0]
    assert gradient.isfinite().all()


def test_one_hot():
    categorical = Categorical.one_hot(torch.tensor([2, 0]), 3, torch.float64)
    assert categorical.weights.tolist() == [[0, 0, 1], [1, 0, 0]]
    assert categorical.mode().tolist() == categorical.sample(Noise(0)).tolist() == [2, 0]
    assert categorical.entropy().tolist() == categorical.log_prob(torch.tensor([2, 0])).tolist() == [0, 0]


@pytest.mark.parametrize("distribution", [some_gaussian(), Categorical(some_logits())])
def test_samples_carry_no_graph_but_their_log_probability_does(distribution):
    attention = type(distribution)(*(parameter.clone().requires_grad_() for parameter in distribution))
    sample = attention.sample(Noise(0))
    assert not sample.requires_grad
    log_prob = attention.log_prob(sample)
    assert log_prob.shape == (6,)
    assert all(gradient.any() for gradient in torch.autograd.grad(log_prob.sum(), list(attention)))


def test_same_seed_same_numbers():
    like = torch.zeros(4, 3)
    one, two = Noise(7), Noise(7)
    for kind in ("normal", "uniform", "normal"):
        assert torch.equal(getattr(one, kind)(like), getattr(two, kind)(like))
    assert not torch.equal(Noise(7).normal(like), Noise(8).normal(like))
    stream = Noise(7)
    assert not torch.equal(stream.normal(like), stream.normal(like))


def test_seeded_noise_leaves_the_global_generator_alone():
    like = torch.zeros(5)
    before = torch.get_rng_state()
    first = Noise(7).uniform(like)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    assert torch.equal(Noise(7).uniform(like), first)
    torch.set_rng_state(before)


def test_noise_without_a_seed_follows_the_global_generator():
    with torch.random.fork_rng():
        torch.manual_seed(3)
        expected = torch.rand(5)
        torch.manual_seed(3)
        assert torch.equal(Noise().uniform(torch.zeros(5)), expected)


@pytest.mark.parametrize("world_size", [2, 3])
def test_shares_of_the_noise_make_the_whole(world_size):
    whole, share = torch.zeros(12, 2), torch.zeros(12 // world_size, 2)
    one = Noise(5)
    many = [Noise(5, rank=rank, world_size=world_size) for rank in range(world_size)]
    for kind in ("normal", "uniform", "normal"):
        shares = [getattr(noise, kind)(share) for noise in many]
        assert torch.equal(torch.cat(shares), getattr(one, kind)(whole))


def test_noise_has_the_type_of_the_tensor_given():
    like = torch.zeros(1000, 3, dtype=torch.float64)
    uniform = Noise(1).uniform(like)
    assert uniform.dtype == torch.float64 and uniform.shape == (1000, 3)
    assert 0 <= uniform.min() < 0.01 and 0.99 < uniform.max() < 1


def test_a_fork_draws_the_same_numbers():
    like = torch.zeros(4, 3)
    for noise in (Noise(7), Noise(7, rank=1, world_size=2), Noise()):
        noise.normal(like)
        twin = noise.fork()
        first = twin.uniform(like)
        twin.normal(like)  # has no effect on the other
        assert torch.equal(noise.uniform(like), first)
        assert not torch.equal(noise.uniform(like), first)


def test_dropout_keeps_the_mean():
    """A part becomes zero, the rest grows, by the same numbers as `uniform`; nothing is drawn if nothing is dropped."""
    x = draw(50, 40) + 1
    dropped = Noise(3).dropout(x, 0.25)
    kept = Noise(3).uniform(x) >= 0.25
    assert_close(dropped, torch.where(kept, x / 0.75, 0))
    assert abs(float(kept.double().mean()) - 0.75) < 4 * (0.1875 / x.numel()) ** 0.5
    noise = Noise(3)
    assert noise.dropout(x, 0.0) is x and torch.equal(noise.uniform(x), Noise(3).uniform(x))
