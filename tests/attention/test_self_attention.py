"""Self-attention against torch's own, against a slow loop, and what it does not know: where annotations are."""

import math

import pytest
import torch
from support.tensors import assert_close, draw, reached
from torch.nn import functional

from glimpse.attention.scorers import ScaledDotScorer, scaled_dot
from glimpse.attention.self_attention import SelfAttention, SelfAttentionStack

SIZE = 12
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 0, 1, 1, 0], [0, 0, 1, 0, 0]], dtype=torch.bool)
every_head = pytest.mark.parametrize("heads", [1, 3, 12])
masked_or_not = pytest.mark.parametrize("mask", [None, MASK], ids=["all", "masked"])


def make(heads=3):
    torch.manual_seed(0)
    return SelfAttention(dim=SIZE, heads=heads).double()


def make_mixer(heads=3, num_layers=2):
    torch.manual_seed(0)
    return SelfAttentionStack(dim=SIZE, heads=heads, num_layers=num_layers).double()


def some_annotations(batch=3, places=5, seed=0):
    return draw(batch, places, SIZE, seed=seed, dtype=torch.float64) * 6 - 3


def parts(attention, annotations):
    """Queries, keys and values, (B, H, L, E) each, as anyone would write them."""
    batch, places = annotations.shape[:2]
    layers = (attention.query, attention.key, attention.value)
    return [layer(annotations).view(batch, places, attention.heads, -1).permute(0, 2, 1, 3) for layer in layers]


@every_head
@masked_or_not
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("batch", [3, 1])
def test_is_torchs_own(heads, mask, need_weights, batch):
    attention, annotations = make(heads), some_annotations()[:batch].requires_grad_()
    mask = None if mask is None else mask[:batch]
    expanded = None if mask is None else mask.view(batch, 1, 1, 5).expand(batch, heads, 5, 5)
    read = functional.scaled_dot_product_attention(*parts(attention, annotations), attn_mask=expanded)
    expected = attention.join(read.permute(0, 2, 1, 3).reshape(batch, 5, SIZE))
    found = attention(annotations, mask, need_weights=need_weights).annotations
    assert_close(found, expected, 1e-13)
    inputs, weights = [annotations, *attention.parameters()], some_annotations(batch, seed=3)
    gradients = [torch.autograd.grad((output * weights).sum(), inputs) for output in (found, expected)]
    for one, other in zip(*gradients, strict=True):
        assert_close(one, other, 1e-11)
        assert other.any()


@every_head
@masked_or_not
@torch.no_grad()
def test_weights_by_a_loop(heads, mask):
    attention, annotations = make(heads), some_annotations()
    mixed = attention(annotations, mask, need_weights=True)
    queries, keys, values = parts(attention, annotations)
    read = torch.zeros(3, 5, SIZE, dtype=torch.float64)
    for b in range(3):
        there = range(5) if mask is None else mask[b].nonzero().flatten().tolist()
        for head in range(heads):
            for i in range(5):
                scores = {j: math.exp(queries[b, head, i] @ keys[b, head, j] / math.sqrt(SIZE / heads)) for j in there}
                weights = [scores.get(j, 0) / sum(scores.values()) for j in range(5)]
                assert_close(mixed.weights[b, head, i], torch.tensor(weights, dtype=torch.float64), 1e-13)
                size = SIZE // heads
                read[b, i, head * size : (head + 1) * size] = sum(w * values[b, head, j] for j, w in enumerate(weights))
    assert_close(mixed.annotations, read @ attention.join.weight.T, 1e-12)
    assert_close(mixed.weights.sum(-1), torch.ones(3, heads, 5), 1e-13)
    assert attention(annotations, mask).weights is None


def test_one_head_is_the_scorer_of_a_decoder_with_many_queries():
    attention, annotations = make(1), some_annotations()
    scorer = ScaledDotScorer(state_dim=SIZE, annotation_dim=SIZE, dim=SIZE).double()
    for part in ("query", "key", "value"):
        getattr(scorer, part).load_state_dict(getattr(attention, part).state_dict())
    scores = scaled_dot(attention.query(annotations), attention.key(annotations))
    weights = attention(annotations, need_weights=True).weights[:, 0]
    for place in range(5):
        asked = scorer(annotations[:, place], scorer.key(annotations))
        assert_close(asked, scores[:, place], 1e-13)
        assert_close(weights[:, place], asked.softmax(-1), 1e-13)


@pytest.mark.parametrize("of", [lambda x: make()(x).annotations, make_mixer()])
def test_it_is_equivariant_to_permutations(of):
    """Annotations in another order give the same in that order."""
    annotations, order = some_annotations(), torch.tensor([3, 0, 4, 1, 2])
    assert_close(of(annotations[:, order]), of(annotations)[:, order], 1e-12)
    assert not torch.allclose(of(annotations)[:, order], of(annotations))


@pytest.mark.parametrize("mixer", [make_mixer(), make_mixer(heads=1, num_layers=1)])
def test_one_example_alone_is_as_in_a_padded_batch(mixer):
    annotations = some_annotations()
    annotations[~MASK] = 1e3
    together, maps = mixer(annotations, MASK), mixer.attention_maps(annotations, MASK)
    for b in range(3):
        alone = annotations[b : b + 1, MASK[b]]
        assert_close(together[b, MASK[b]], mixer(alone)[0], 1e-12)
        assert_close(maps[:, b][..., MASK[b], :][..., MASK[b]], mixer.attention_maps(alone)[:, 0], 1e-12)
        assert not maps[:, b][..., ~MASK[b]].any()


def test_a_layer_by_hand():
    mixer, x = make_mixer(num_layers=1), some_annotations()
    [layer] = mixer.layers

    def normed(values):
        mean, variance = values.mean(-1, keepdim=True), values.var(-1, correction=0, keepdim=True)
        return (values - mean) / (variance + 1e-5).sqrt()

    expected = x + layer.attention(normed(x)).annotations
    _, first, _, second = layer.layers
    hidden = (normed(expected) @ first.weight.T + first.bias).clamp(min=0)
    expected = expected + hidden @ second.weight.T + second.bias
    assert hidden.shape[-1] == 4 * SIZE
    assert_close(mixer(x), expected, 1e-12)


def test_maps_are_those_of_each_layer():
    mixer, x = make_mixer(), some_annotations()
    maps = mixer.attention_maps(x, MASK)
    assert maps.shape == (2, 3, 3, 5, 5)
    for layer, found in zip(mixer.layers, maps, strict=True):
        assert_close(found, layer.attention(layer.attention_norm(x), MASK, need_weights=True).weights, 1e-12)
        x = layer(x, MASK).annotations
    assert_close(mixer(some_annotations(), MASK), x, 1e-12)


def test_everything_learns():
    mixer = make_mixer()
    assert reached(mixer(some_annotations(), MASK)[MASK].sum(), mixer) == {name for name, _ in mixer.named_parameters()}


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: SelfAttention(dim=12, heads=5), "heads must be a divisor of dim 12, got 5"),
        (lambda: SelfAttention(dim=12, heads=0), "heads must be a divisor of dim 12, got 0"),
        (lambda: SelfAttentionStack(dim=12, num_layers=0), "num_layers must be at least 1, got 0"),
        (lambda: make_mixer()(some_annotations(), MASK[:2]), r"mask must be bool of shape \(3, 5\), got torch.bool"),
        (lambda: make_mixer()(some_annotations(), MASK & False), "mask must be true for at least one annotation"),
    ],
)
def test_invalid_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
