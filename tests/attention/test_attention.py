"""Hard and soft reads of the same distribution, the scorers by their formulas, and which gradient goes where."""

import math

import pytest
import torch
from support.tensors import assert_close, draw, reached, sum_of_hard_contexts, under

from glimpse.attention.annotation import Attention
from glimpse.attention.distributions import Categorical, Gaussian, Noise
from glimpse.attention.reading import LocationAttention, read
from glimpse.attention.scorers import SCORERS
from glimpse.attention.sensor import Sensor

BATCH, PLACES, STATE, SIZE, DIM = 3, 4, 5, 6, 7


def make_attention(scorer="additive", mode="soft", **options):
    torch.manual_seed(0)
    state_dim = SIZE if scorer == "dot" else STATE
    return Attention(state_dim=state_dim, annotation_dim=SIZE, mode=mode, scorer=scorer, dim=DIM, **options).double()


def make_locations(**settings):
    torch.manual_seed(0)
    return LocationAttention(state_dim=STATE, **settings).double()


def some_state(scorer=None):
    return draw(BATCH, SIZE if scorer == "dot" else STATE, dtype=torch.float64) * 4 - 2


def some_annotations():
    return draw(BATCH, PLACES, SIZE, seed=1, dtype=torch.float64)


def some_mask():
    mask = torch.ones(BATCH, PLACES, dtype=torch.bool)
    mask[0, 1] = mask[2, 0] = mask[2, 3] = False
    return mask


def some_view():
    return Sensor(patch_size=3, num_scales=2).view(draw(BATCH, 1, 8, 9, seed=2, dtype=torch.float64))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("scorer", SCORERS)
def test_soft_context_is_the_weighted_sum_of_all_hard_contexts(scorer, masked):
    attention = make_attention(scorer)
    memory = attention.annotate(some_annotations(), some_mask() if masked else None)
    soft = attention(some_state(scorer), memory)
    assert_close(soft.context, sum_of_hard_contexts(soft.attention, memory), 1e-14)
    assert_close(soft.attention.weights.sum(1), torch.ones(BATCH), 1e-14)


def additive_score(scorer, state, annotation):
    weights = scorer.state_dict()
    query = weights["query.weight"] @ state + weights["query.bias"]
    return weights["score.weight"][0] @ torch.tanh(query + weights["key.weight"] @ annotation)


def dot_score(scorer, state, annotation):
    return sum(q * k for q, k in zip(state, annotation, strict=True))


def bilinear_score(scorer, state, annotation):
    return annotation @ (scorer.query.weight @ state)


def scaled_dot_score(scorer, state, annotation):
    return (scorer.query.weight @ state) @ (scorer.key.weight @ annotation) / math.sqrt(DIM)


FORMULAS = {
    "additive": additive_score,
    "dot": dot_score,
    "bilinear": bilinear_score,
    "scaled_dot": scaled_dot_score,
}


@pytest.mark.parametrize("scorer", SCORERS)
def test_scores_follow_the_formula(scorer):
    attention, state, annotations = make_attention(scorer), some_state(scorer), some_annotations()
    logits = attention.where(state, attention.annotate(annotations)).logits
    for b in range(BATCH):
        for place in range(PLACES):
            assert_close(logits[b, place], FORMULAS[scorer](attention.scorer, state[b], annotations[b, place]), 1e-12)


def test_values_are_the_annotations_or_their_projection():
    annotations = some_annotations()
    for scorer in ("additive", "dot", "bilinear"):
        assert torch.equal(make_attention(scorer).annotate(annotations).values, annotations)
    attention = make_attention("scaled_dot")
    assert_close(attention.annotate(annotations).values, annotations @ attention.scorer.value.weight.T, 1e-12)


@pytest.mark.parametrize("scorer", SCORERS)
def test_masked_annotations_are_as_if_they_were_not_there(scorer):
    attention, state, annotations, mask = make_attention(scorer), some_state(scorer), some_annotations(), some_mask()
    reading = attention(state, attention.annotate(annotations, mask))
    assert (reading.attention.weights[~mask] == 0).all() and (reading.attention.weights[mask] > 0).all()
    for b in range(BATCH):
        alone = attention(state[b : b + 1], attention.annotate(annotations[b : b + 1, mask[b]]))
        assert_close(reading.context[b], alone.context[0], 1e-14)
        assert_close(reading.attention.entropy()[b], alone.attention.entropy()[0], 1e-14)


@pytest.mark.parametrize("scorer", SCORERS)
def test_masked_annotations_are_never_picked(scorer):
    attention, mask = make_attention(scorer, "hard"), some_mask()
    memory = attention.annotate(some_annotations(), mask)
    for seed in range(100):
        place = attention(some_state(scorer), memory, noise=Noise(seed)).place
        assert mask[torch.arange(BATCH), place].all()


def test_soft_reading_of_annotations():
    attention = make_attention()
    memory = attention.annotate(some_annotations())
    reading = attention(some_state(), memory)
    assert reading.log_prob is None
    assert torch.equal(reading.place, reading.attention.weights.argmax(1))
    assert torch.equal(attention(some_state(), memory, sample=False).context, reading.context)
    assert attention(some_state(), memory, mode="hard").log_prob is not None


@pytest.mark.parametrize("sample", [True, False])
def test_hard_reading_of_annotations(sample):
    attention = make_attention(mode="hard")
    memory = attention.annotate(some_annotations())
    distribution = attention.where(some_state(), memory)
    expected = distribution.sample(Noise(4)) if sample else distribution.weights.argmax(1)
    reading = attention(some_state(), memory, sample=sample, noise=Noise(4))
    assert torch.equal(reading.place, expected)
    assert torch.equal(reading.attention.logits, distribution.logits)
    for b in range(BATCH):
        assert torch.equal(reading.context[b], some_annotations()[b, expected[b]])
        assert_close(reading.log_prob[b], distribution.weights[b, expected[b]].log(), 1e-12)


@pytest.mark.parametrize("sample", [True, False])
def test_hard_reading_of_the_plane(sample):
    attention, view = make_locations(std=0.4), some_view()
    mean, std = attention.where(some_state())
    expected = mean + std * Noise(4).normal(mean) if sample else mean
    reading = attention(some_state(), view, sample=sample, noise=Noise(4))
    assert torch.equal(reading.place, expected) and not reading.place.requires_grad
    assert torch.equal(reading.context, view.at(expected))
    assert_close(reading.log_prob, torch.distributions.Normal(mean, std).log_prob(expected).sum(1), 1e-12)


def test_soft_reading_of_the_plane():
    attention, view = make_locations(mode="soft", std=0.4), some_view()
    reading = attention(some_state(), view)
    assert reading.log_prob is None
    assert torch.equal(reading.place, attention.where(some_state()).mean)
    assert torch.equal(reading.context, view.expect(reading.attention))


def test_soft_read_of_the_plane_is_the_expectation_of_its_hard_reads():
    count, size = 20_000, 9
    attention = make_locations(std=0.25)
    image = draw(1, 1, 8, size, dtype=torch.float64)
    state = some_state()[:1]
    view = Sensor(patch_size=3, num_scales=2).view(image.expand(count, -1, -1, -1))
    with torch.no_grad():
        hard = attention(state.expand(count, -1), view, noise=Noise(6)).context
        soft = attention(state, Sensor(patch_size=3, num_scales=2).view(image), mode="soft").context[0]
    error = hard.std(0) / math.sqrt(count)
    assert error.max() > 1e-4
    assert ((hard.mean(0) - soft).abs() <= 5 * error + 1e-9).all()


def test_read_without_noise_follows_the_global_generator():
    attention, memory = Categorical(torch.zeros(50, 4)), make_attention().annotate(draw(50, 4, SIZE).double())
    with torch.random.fork_rng():
        torch.manual_seed(1)
        first = read(attention, memory, "hard").place
        torch.manual_seed(1)
        assert torch.equal(read(attention, memory, "hard").place, first)
        assert not torch.equal(read(attention, memory, "hard").place, first)


class Plane:
    """A memory in which a soft read finds, of each example, its mean times numbers of its own."""

    def __init__(self, own):
        self.own = own

    def expect(self, attention):
        return attention.mean * self.own

    def at(self, place):
        return place * self.own


OWN = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]], dtype=torch.float64)


def test_a_soft_read_clips_the_gradient_of_each_location_by_itself():
    """Of rows (3, 4), (0.3, 0.4) and (0, 0), each an example's own, a limit of 2 shortens the first alone."""
    attention = make_locations(tanh_mean=False, max_grad_norm=2.0)
    attention(some_state(), Plane(OWN), mode="soft").context.sum(1).mean().backward()
    clipped = torch.tensor([[1.2, 1.6], [0.3, 0.4], [0.0, 0.0]], dtype=torch.float64)
    assert_close(attention.head.bias.grad, clipped.mean(0), 1e-12)
    assert_close(attention.head.weight.grad, clipped.T @ some_state() / BATCH, 1e-12)


def test_the_estimator_of_a_hard_read_is_never_clipped():
    gradients = []
    for max_grad_norm in (None, 1e-6):
        attention = make_locations(max_grad_norm=max_grad_norm)
        attention(some_state(), Plane(OWN), mode="hard", noise=Noise(0)).log_prob.mean().backward()
        gradients.append(attention.head.weight.grad)
    assert gradients[0].norm() > 0.1 and torch.equal(*gradients)


def test_a_limit_changes_no_location_and_needs_no_gradient():
    state = some_state()
    with torch.no_grad():
        contexts = [
            make_locations(max_grad_norm=max_grad_norm)(state, Plane(OWN), mode="soft").context
            for max_grad_norm in (None, 0.1)
        ]
    assert torch.equal(*contexts)


def test_the_limit_of_the_gradient_must_be_positive():
    with pytest.raises(ValueError, match="max_grad_norm must be None or positive, got 0.0"):
        make_locations(max_grad_norm=0.0)


@pytest.mark.parametrize("tanh_mean", [True, False])
def test_mean_of_the_location(tanh_mean):
    attention, state = make_locations(tanh_mean=tanh_mean), some_state() * 10
    linear = state @ attention.head.weight.T + attention.head.bias
    assert linear.abs().max() > 1
    assert_close(attention.where(state).mean, linear.tanh() if tanh_mean else linear, 1e-12)


def test_fixed_std():
    attention = make_locations(std=0.25)
    assert attention.where(some_state()).std.tolist() == [[0.25, 0.25]] * BATCH
    attention.set_std(0.125)
    assert attention.where(some_state()).std.tolist() == [[0.125, 0.125]] * BATCH
    mean = some_state()[:, :2]
    assert torch.equal(attention.at_fixed_std(mean).mean, mean) and (attention.at_fixed_std(mean).std == 0.125).all()
    assert attention.state_dict()["std"] == 0.125
    other = make_locations(std=0.3)
    other.load_state_dict(attention.state_dict())
    assert (other.where(some_state()).std == 0.125).all()


def test_learned_std():
    attention = make_locations(std=0.3, learn_std=True, min_std=0.05)
    assert_close(attention.where(some_state()).std, [[0.3, 0.3]] * BATCH, 1e-6)
    with torch.no_grad():
        attention.std_head.weight.copy_(draw(2, STATE) - 0.5)
    raw = some_state() @ attention.std_head.weight.T + attention.std_head.bias
    assert_close(attention.where(some_state()).std, 0.05 + (1 + raw.exp()).log(), 1e-12)
    with torch.no_grad():
        attention.std_head.bias.fill_(-1000)
    assert_close(attention.where(some_state()).std, [[0.05, 0.05]] * BATCH, 1e-8)


@pytest.mark.parametrize("learn_std", [False, True])
def test_gradient_of_a_hard_read_of_the_plane(learn_std):
    attention, state = make_locations(learn_std=learn_std), some_state().requires_grad_()
    for sample in (True, False):
        reading = attention(state, some_view(), sample=sample, noise=Noise(1))
        assert not reading.context.requires_grad and not reading.place.requires_grad
    sampled = attention(state, some_view(), noise=Noise(1))
    assert reached(sampled.log_prob.sum(), attention) == under(attention, "head", "std_head")
    assert torch.autograd.grad(sampled.log_prob.sum(), state)[0].any()


@pytest.mark.parametrize("learn_std", [False, True])
def test_gradient_of_a_soft_read_of_the_plane(learn_std):
    attention, state = make_locations(mode="soft", learn_std=learn_std), some_state().requires_grad_()
    context = attention(state, some_view()).context
    assert reached(context.sum(), attention) == under(attention, "head", "std_head")
    assert torch.autograd.grad(context.sum(), state)[0].any()


@pytest.mark.parametrize("scorer", SCORERS)
def test_gradient_of_a_hard_read_of_annotations(scorer):
    attention, state = make_attention(scorer, "hard"), some_state(scorer).requires_grad_()
    reading = attention(state, attention.annotate(some_annotations().requires_grad_()), noise=Noise(1))
    assert reached(reading.context.sum(), attention) == under(attention, "scorer.value")
    assert torch.autograd.grad(reading.context.sum(), state, allow_unused=True)[0] is None
    assert reached(reading.log_prob.sum(), attention) == under(attention, "scorer") - under(attention, "scorer.value")
    assert torch.autograd.grad(reading.log_prob.sum(), state)[0].any()


@pytest.mark.parametrize("scorer", SCORERS)
def test_gradient_of_a_soft_read_of_annotations(scorer):
    attention, state = make_attention(scorer), some_state(scorer).requires_grad_()
    context = attention(state, attention.annotate(some_annotations())).context
    assert reached(context.sum(), attention) == under(attention, "scorer")
    assert torch.autograd.grad(context.sum(), state)[0].any()


def test_reinforce_and_soft_gradients_agree_for_a_linear_reward():
    """If the reward is linear in what is read, the soft gradient is the expectation of the hard one."""
    attention, state, direction = make_attention(mode="hard"), some_state(), draw(SIZE, dtype=torch.float64)
    memory = attention.annotate(some_annotations())
    soft = attention(state, memory, mode="soft").context @ direction
    distribution = attention.where(state, memory)
    estimate = 0
    for place in range(PLACES):
        places = torch.full((BATCH,), place)
        log_prob, reward = distribution.log_prob(places), (memory.at(places) @ direction).detach()
        estimate = estimate + (log_prob.detach().exp() * reward * log_prob).sum()
    weight = attention.scorer.query.weight
    assert_close(torch.autograd.grad(estimate, weight)[0], torch.autograd.grad(soft.sum(), weight)[0], 1e-14)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: make_attention(mode="firm"), "mode must be 'hard' or 'soft', got 'firm'"),
        (lambda: make_locations(mode="firm"), "mode must be 'hard' or 'soft', got 'firm'"),
        (lambda: make_attention("cosine"), "scorer must be one of additive, dot, bilinear, scaled_dot, got 'cosine'"),
        (
            lambda: Attention(state_dim=5, annotation_dim=6, scorer="dot"),
            "state_dim must be equal to annotation_dim with scorer dot, got 5 and 6; scorer bilinear takes any sizes",
        ),
        (lambda: make_locations(std=0.0), "std must be positive, got 0.0"),
        (lambda: make_locations(std=math.nan), "std must be positive, got nan"),
    ],
)
def test_impossible_attentions(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_wrong_annotations():
    attention = make_attention()
    with pytest.raises(ValueError, match=r"annotations must have shape \(B, L, A\), got \(3, 4\)"):
        attention.annotate(torch.zeros(3, 4))
    values = some_annotations()
    with pytest.raises(ValueError, match=r"mask must be bool of shape \(3, 4\), got torch.bool \(3, 5\)"):
        attention.annotate(values, torch.ones(3, 5, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"mask must be bool of shape \(3, 4\), got torch.float32 \(3, 4\)"):
        attention.annotate(values, torch.ones(3, 4))
    mask = some_mask()
    mask[1] = False
    with pytest.raises(ValueError, match="mask must be true for at least one annotation of each example"):
        attention.annotate(values, mask)


def test_an_unknown_read_mode_is_refused():
    attention, view = make_locations(), some_view()
    with pytest.raises(ValueError, match="mode must be 'hard' or 'soft', got 'firm'"):
        attention(some_state(), view, mode="firm")
    with pytest.raises(ValueError, match="mode must be 'hard' or 'soft', got 'firm'"):
        read(Gaussian(torch.zeros(BATCH, 2), torch.ones(BATCH, 2)), view, "firm")
