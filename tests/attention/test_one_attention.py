"""The classifier on a grid and the captioner read through one and the same attention."""

import pytest
import torch
from support.tensors import assert_close, draw, tiny_model

from glimpse.attention.annotation import Attention
from glimpse.attention.distributions import Noise
from glimpse.attention.scorers import SCORERS
from glimpse.models.decoder import Decoder, DecoderState
from glimpse.models.glimpses import GridGlimpses

BATCH, SCORES = 4, 6


def every_scorer(test):
    """With and without a window, which on a grid of 2 x 3 cells leaves out one column or none."""
    return pytest.mark.parametrize("scorer", SCORERS)(pytest.mark.parametrize("window", [None, 1])(test))


def make_both(scorer, window):
    """The glimpses of a classifier, its annotations of some images, and a decoder whose attention has its weights."""
    options = ["--network.state_dim=12"] if scorer == "dot" else []
    window_option = f"--attention.window={'null' if window is None else window}"
    options = ["--attention.places=grid", *options, f"--attention.scorer={scorer}", window_option]
    model = tiny_model(*options).double()
    glimpses, state_dim = model.glimpses, model.core.state_dim
    with torch.no_grad():
        memory = glimpses.prepare(draw(BATCH, 1, 12, 14, dtype=torch.float64), num_reads=3)
        encoded = glimpses.network.out_dim
        attention = Attention(
            state_dim=state_dim, annotation_dim=encoded, scorer=scorer, dim=SCORES, window=window, axes=2
        )
        decoder = Decoder(
            attention=attention, vocabulary_size=5, embed_dim=3, state_dim=state_dim, annotation_dim=encoded
        ).double()
        for weights in glimpses.attention.parameters():
            weights *= 1 if scorer == "bilinear" else 3  # so that some places are much likelier than others
        decoder.attention.load_state_dict(glimpses.attention.state_dict())
    return glimpses, memory, decoder


def some_state(decoder):
    size, width = decoder.cell.hidden_size, 2 if list(decoder.attention.scorer.parameters()) else 0.5
    return DecoderState(*(width * (2 * draw(BATCH, size, seed=seed, dtype=torch.float64) - 1) for seed in (1, 2)))


@every_scorer
def test_both_hold_the_same_class(scorer, window):
    glimpses, _, decoder = make_both(scorer, window)
    assert type(glimpses) is GridGlimpses
    assert type(glimpses.attention) is type(decoder.attention) is Attention
    assert type(glimpses.attention.scorer) is type(decoder.attention.scorer) is SCORERS[scorer]


@pytest.mark.parametrize("mode, sample", [("soft", False), ("hard", False), ("hard", True)])
@every_scorer
def test_both_give_the_same_reading(scorer, window, mode, sample):
    """Of the same state and annotations, with the same noise: context, place, log-probability and distribution."""
    glimpses, memory, decoder = make_both(scorer, window)
    state, word = some_state(decoder), torch.arange(BATCH)
    looked = glimpses.attention(state.hidden, memory, mode=mode, sample=sample, noise=Noise(3))
    written = decoder.step(word, state, memory, mode=mode, sample=sample, noise=Noise(3)).reading
    assert torch.equal(looked.context, written.context)
    assert torch.equal(looked.place, written.place)
    assert torch.equal(looked.attention.logits, written.attention.logits)
    if mode == "soft":
        assert looked.log_prob is None and written.log_prob is None
    else:
        assert torch.equal(looked.log_prob, written.log_prob)
    assert len(set(looked.place.tolist())) > 1


@every_scorer
def test_both_annotate_alike(scorer, window):
    glimpses, memory, decoder = make_both(scorer, window)
    values = draw(*memory.values.shape, dtype=torch.float64)
    both = (attention.annotate(values, grid=(2, 3)) for attention in (glimpses.attention, decoder.attention))
    for one, other in zip(*both, strict=True):
        assert (one is None and other is None) or torch.equal(one, other)


@every_scorer
def test_the_soft_context_is_the_weighted_sum_of_all_hard_ones(scorer, window):
    """The contexts that sampling finds, each times its own probability: every place in sight has its turn."""
    glimpses, memory, decoder = make_both(scorer, window)
    state, word = some_state(decoder), torch.arange(BATCH)
    readers = (
        lambda **options: glimpses.attention(state.hidden, memory, **options),
        lambda **options: decoder.step(word, state, memory, **options).reading,
    )
    places = len(glimpses.cells)
    for read in readers:
        found = torch.zeros(BATCH, places, memory.values.shape[2], dtype=torch.float64)
        visited = read(mode="soft").attention.logits.isinf()  # places outside the window are never sampled
        assert visited.any() == (window is not None)
        for seed in range(2000):
            hard = read(mode="hard", noise=Noise(seed))
            rows = torch.arange(BATCH)
            found[rows, hard.place] = hard.log_prob.exp().unsqueeze(1) * hard.context
            visited[rows, hard.place] = True
            if visited.all():
                break
        assert visited.all()
        assert_close(found.sum(1), read(mode="soft").context, 1e-12)
        assert not torch.allclose(found.sum(1), memory.values.mean(1))  # which is no plain mean
