"""Local attention: its window against a slow loop and numbers by hand; never empty; smooth in the place predicted."""

import math

import pytest
import torch
from support.tensors import assert_close, draw, reached, sum_of_hard_contexts, under

from glimpse.attention.annotation import Annotations, Attention
from glimpse.attention.distributions import Noise
from glimpse.attention.scorers import SCORERS
from glimpse.attention.window import Window, grid_positions, sequence_positions

BATCH, PLACES, SIZE, DIM = 3, 6, 5, 4
MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 1], [1, 0, 0, 0, 0, 0]], dtype=torch.bool)
every_scorer = pytest.mark.parametrize("scorer", SCORERS)


def make_attention(scorer="additive", *, window=1, axes=1, mode="soft", sharpness=1.0):
    torch.manual_seed(0)
    attention = Attention(
        state_dim=SIZE, annotation_dim=SIZE, mode=mode, scorer=scorer, dim=DIM, window=window, axes=axes
    ).double()
    with torch.no_grad():
        attention.window.point.weight *= sharpness
    return attention


def some_state(batch=BATCH):
    return draw(batch, SIZE, dtype=torch.float64) * 4 - 2


def some_annotations():
    return draw(BATCH, PLACES, SIZE, seed=1, dtype=torch.float64)


def layouts(attention):
    """Annotations in a row, with holes, at whose end there is padding, or on a grid."""
    if attention.window.axes == 2:
        return [attention.annotate(some_annotations(), grid=grid) for grid in [(2, 3), (3, 2), (1, 6), (6, 1)]]
    padding = torch.arange(PLACES) < torch.tensor([[6], [4], [1]])
    return [attention.annotate(some_annotations(), mask) for mask in (None, MASK, padding)]


# The formula


def test_by_hand():
    """Five places at 0.5 ... 4.5, D = 2 and so a std of 1: p is 5 sigmoid(log 3) = 3.75."""
    window = Window(state_dim=1, dim=1, radius=2)
    with torch.no_grad():
        window.hidden.weight.fill_(1)
        window.point.weight.fill_(math.log(3) / math.tanh(0.5))
    state, positions, extent = torch.tensor([[0.5]]), *sequence_positions(torch.zeros(1, 5, 1), None)
    assert_close(window.center(state, extent), [[3.75]])
    expected = [[-math.inf, -math.inf, -0.78125, -0.03125, -0.28125]]  # (2.5 - 3.75)^2 / 2, and so on
    assert_close(window(state, positions, extent), expected)


def test_a_square_by_hand():
    """A grid of 2 rows and 4 columns; the point is at x 2, y 1, so that two columns are in sight, half a cell away."""
    window = Window(state_dim=1, dim=1, radius=1, axes=2)
    logs = window(torch.zeros(1, 1), *grid_positions(torch.zeros(1, 8, 1), (2, 4)))
    row = [-math.inf, -1.0, -1.0, -math.inf]  # 2 * (0.25 + 0.25), as the std is one half
    assert_close(logs, [row + row])


def test_positions():
    annotations = some_annotations()
    positions, extent = sequence_positions(annotations, MASK)
    assert positions[0, :, 0].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
    assert positions[1, MASK[1], 0].tolist() == [0.5, 1.5, 2.5, 3.5]
    assert extent.tolist() == [[6], [4], [1]]
    positions, extent = grid_positions(annotations, (2, 3))
    assert positions[2].tolist() == [[x + 0.5, y + 0.5] for y in range(2) for x in range(3)]
    assert extent.tolist() == [[3, 2]] * BATCH
    assert positions.dtype == extent.dtype == torch.float64


@torch.no_grad()
def slow_weights(attention, state, memory):
    """Weights by a loop over examples and places: the softmax of the scores, times the Gaussian, over their sum."""
    reach, weights = attention.window.radius, torch.zeros(BATCH, PLACES, dtype=torch.float64)
    scores = attention.scorer(state, memory.keys)
    for b in range(BATCH):
        there = range(PLACES) if memory.mask is None else memory.mask[b].nonzero().flatten().tolist()
        hidden = [math.tanh(row @ state[b]) for row in attention.window.hidden.weight]
        point = [
            float(extent) / (1 + math.exp(-sum(v * h for v, h in zip(row, hidden, strict=True))))
            for row, extent in zip(attention.window.point.weight.tolist(), memory.extent[b], strict=True)
        ]
        total = sum(math.exp(scores[b, place]) for place in there)
        for place in there:
            distances = [float(s) - p for s, p in zip(memory.positions[b, place], point, strict=True)]
            if all(abs(distance) <= reach for distance in distances):
                gaussian = math.exp(-sum(distance**2 for distance in distances) / (2 * (reach / 2) ** 2))
                weights[b, place] = math.exp(scores[b, place]) / total * gaussian
    return weights / weights.sum(1, keepdim=True)


@every_scorer
@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("reach", [1, 2])
def test_weights_by_a_loop(scorer, axes, reach):
    attention = make_attention(scorer, window=reach, axes=axes, sharpness=3)
    for memory in layouts(attention):
        weights = attention.where(some_state(), memory).weights
        assert_close(weights, slow_weights(attention, some_state(), memory), 1e-12)


# Hard and soft


@every_scorer
@pytest.mark.parametrize("axes", [1, 2])
def test_soft_context_is_the_weighted_sum_of_all_hard_contexts(scorer, axes):
    attention = make_attention(scorer, axes=axes)
    for memory in layouts(attention):
        soft = attention(some_state(), memory)
        assert_close(soft.context, sum_of_hard_contexts(soft.attention, memory), 1e-14)
        assert_close(soft.attention.weights.sum(1), torch.ones(BATCH), 1e-14)
        assert (soft.attention.weights == 0).any() and soft.attention.entropy().isfinite().all()


def test_hard_reads_stay_in_the_window():
    attention = make_attention(mode="hard", sharpness=5)
    memory = attention.annotate(some_annotations(), MASK)
    likely = attention.where(some_state(), memory).weights > 0
    found = torch.zeros_like(likely)
    for seed in range(100):
        found[torch.arange(BATCH), attention(some_state(), memory, noise=Noise(seed)).place] = True
    assert torch.equal(found, likely)


@every_scorer
def test_one_example_alone_is_as_in_a_padded_batch(scorer):
    """And as without those that are not there in between: what counts is the number of those that are."""
    attention, state, annotations = make_attention(scorer, sharpness=3), some_state(), some_annotations()
    together = attention(state, attention.annotate(annotations, MASK))
    for b in range(BATCH):
        alone = attention(state[b : b + 1], attention.annotate(annotations[b : b + 1, MASK[b]]))
        assert_close(together.context[b], alone.context[0], 1e-13)
        assert_close(together.attention.weights[b, MASK[b]], alone.attention.weights[0], 1e-13)
        assert (together.attention.weights[b, ~MASK[b]] == 0).all()


# Never empty


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_window_is_never_empty(dtype):
    """Wherever the point is, the ends included, which large states reach by rounding, and however long the row."""
    window = Window(state_dim=1, dim=1, radius=1).to(dtype)
    with torch.no_grad():
        window.hidden.weight.fill_(1)
        window.point.weight.fill_(1000)
    state = torch.cat([torch.linspace(-0.02, 0.02, 401), torch.tensor([-50.0, 50.0])]).to(dtype).unsqueeze(1)
    for length in [*range(1, 40), 1000, 99_999]:
        positions, extent = sequence_positions(torch.zeros(1, length, 1, dtype=dtype), None)
        center = window.center(state, extent)
        assert center.min() == 0 and center.max() == length
        for rows in state.split(40):
            logs = window(rows, positions, extent)
            assert logs.max(1).values.min() >= -0.5 - 1e-3  # within half a place, which is one std
            assert ((logs > -math.inf).sum(1) <= 3).all()


def test_a_single_place_is_certain():
    attention = make_attention()
    for annotations, mask in [(some_annotations()[:, :1], None), (some_annotations(), torch.arange(PLACES) < 1)]:
        mask = None if mask is None else mask.expand(BATCH, -1)
        weights = attention.where(some_state(), attention.annotate(annotations, mask)).weights
        assert weights[:, 0].tolist() == [1.0] * BATCH


def test_a_square_window_is_never_empty():
    attention = make_attention(axes=2, sharpness=1000)
    state = draw(500, SIZE, dtype=torch.float64) * 2 - 1
    for grid in [(1, 1), (1, 6), (3, 2), (6, 1), (5, 7)]:
        memory = attention.annotate(draw(1, math.prod(grid), SIZE, dtype=torch.float64).expand(500, -1, -1), grid=grid)
        assert_close(attention.where(state, memory).weights.sum(1), torch.ones(500), 1e-12)


# Gradients


@pytest.mark.parametrize("axes", [1, 2])
def test_gradient_of_the_place_predicted(axes):
    attention = make_attention(window=2, axes=axes)
    memory = layouts(attention)[1]

    def weights_of(hidden, point, state):
        parameters = {"window.hidden.weight": hidden, "window.point.weight": point}
        logits = torch.func.functional_call(attention, parameters, (state, memory), {"mode": "soft"}).attention
        return logits.weights

    inputs = [weight.detach().clone() for weight in attention.window.parameters()] + [some_state()]
    assert torch.autograd.gradcheck(weights_of, [each.requires_grad_() for each in inputs])


@every_scorer
def test_which_gradient_goes_where(scorer):
    attention, state = make_attention(scorer), some_state().requires_grad_()
    memory = attention.annotate(some_annotations().requires_grad_())
    soft, hard = (attention(state, memory, mode=mode, noise=Noise(1)) for mode in ("soft", "hard"))
    everything, values = under(attention, "scorer", "window"), under(attention, "scorer.value")
    assert reached(soft.context.sum(), attention) == everything
    assert reached(hard.context.sum(), attention) == values
    assert reached(hard.log_prob.sum(), attention) == everything - values


def test_the_point_moves_towards_what_is_sought():
    """Trained to read place 2 of 12 for one state and place 9 for another, the window finds both, by either read."""
    target = torch.tensor([2, 9])
    state = torch.eye(2, SIZE, dtype=torch.float64)
    for mode in ("soft", "hard"):
        attention = make_attention("dot", window=2, mode=mode)
        memory = attention.annotate(torch.zeros(2, 12, SIZE, dtype=torch.float64))  # of which no scorer can tell
        optimizer = torch.optim.Adam(attention.parameters(), lr=0.03)
        distance = (torch.arange(12) - target.unsqueeze(1)).abs().double()
        for step in range(300):
            reading = attention(state, memory, noise=Noise(step))
            if mode == "soft":
                loss = (reading.attention.weights * distance).sum()
            else:
                reward = -distance.gather(1, reading.place.unsqueeze(1)).squeeze(1)
                loss = -((reward - reward.mean().clamp(max=-2)) * reading.log_prob).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert torch.equal(attention(state, memory, sample=False).place, target), mode


# Invalid arguments


@pytest.mark.parametrize(
    "options, message",
    [
        ({"window": 0}, "radius must be at least 1, got 0"),
        ({"window": 1, "axes": 3}, "axes must be 1 or 2, got 3"),
    ],
)
def test_impossible_windows(options, message):
    with pytest.raises(ValueError, match=message):
        Attention(state_dim=2, annotation_dim=3, **options)


def test_annotations_that_do_not_suit_a_window():
    attention, annotations = make_attention(axes=2), some_annotations()
    with pytest.raises(ValueError, match="must be None, for a window along 2 axes, got no grid"):
        attention.annotate(annotations)
    with pytest.raises(ValueError, match="must be None, for a window along 2 axes, got a mask"):
        attention.annotate(annotations, MASK, grid=(2, 3))
    with pytest.raises(ValueError, match="grid must have 6 cells, one per annotation, got 2 x 4"):
        attention.annotate(annotations, grid=(2, 4))
    with pytest.raises(ValueError, match="memory must have positions for a window, got none: use `annotate`"):
        attention(some_state(), Annotations(annotations, attention.scorer.key(annotations), None))
