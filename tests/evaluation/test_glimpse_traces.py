"""Glimpse traces equal the rollout: entry t of every field belongs to glimpse t."""

import math
from itertools import pairwise, product

import pytest
import torch
from support.tensors import assert_close, draw_bytes, tiny_model

from glimpse.attention.distributions import Gaussian, Noise
from glimpse.attention.sensor import to_pixels
from glimpse.data import Batch
from glimpse.evaluation.glimpse_traces import patches_read, trace_glimpses, trace_of_rollout

HEIGHT, WIDTH, CHANNELS = 12, 20, 3
NAMES = ("a", "b", "c")
TARGETS = torch.tensor([0, 1, 2, 0])
BOXES = torch.tensor([[[0.0, 0, 4, 6]], [[14, 6, 20, 12]], [[2, 1, 8, 7]], [[7, 0, 14, 3]]])
BATCH = Batch(draw_bytes(4, CHANNELS, HEIGHT, WIDTH), TARGETS, BOXES)
# Read mode, kind of attention, policy.
CASES = list(product(("hard", "soft"), ("plane", "grid"), ("learned", "raster", "oracle")))


def make(read="hard", places="plane", policy="learned", *options):
    """A model whose glimpses lie far apart, with different patches."""
    model = tiny_model(
        f"--read={read}",
        f"--attention.places={places}",
        f"--attention.policy={policy}",
        *options,
        image_shape=(CHANNELS, HEIGHT, WIDTH),
    )
    if places == "plane":
        with torch.no_grad():
            model.glimpses.attention.head.weight.mul_(8)
    return model


def trace_of(model, batch=BATCH, **settings):
    return trace_glimpses(model, batch, name="model", class_names=NAMES, **settings)


def rollout_of(model, seed=0, sample=False, **settings):
    boxes = {"boxes": BOXES} if model.needs_boxes else {}
    with torch.no_grad():
        return model(BATCH.images, noise=Noise(seed), sample=sample, **boxes, **settings)


@pytest.mark.parametrize("read, places, policy", CASES)
def test_entries_belong_to_their_glimpse(read, places, policy):
    model = make(read, places, policy)
    trace, rollout, sensor = trace_of(model), rollout_of(model), model.glimpses.sensor
    assert (trace.name, trace.mode, trace.class_names) == ("model", read, NAMES)
    assert torch.equal(trace.images, BATCH.images) and torch.equal(trace.targets, TARGETS)
    for name, field, expected in zip(rollout._fields, trace.rollout, rollout, strict=True):
        assert (field is None and expected is None) or torch.equal(field, expected), name
    assert trace.points.shape == trace.spread.shape == (4, 3, 2)
    assert trace.boxes.shape == (4, 3, 2, 4) and trace.patches.shape == (4, 3, 2, 4, 4, CHANNELS)
    assert trace.probabilities.shape == (4, 3, 3) and trace.correct.shape == (4, 3)
    for b, t in product(range(4), range(3)):
        x, y = rollout.locations[b, t].tolist()
        assert_close(trace.points[b, t], [(x + 1) * 10, (y + 1) * 6], 1e-5)
        assert torch.equal(trace.boxes[b, t], sensor.boxes(rollout.locations[b, t], HEIGHT, WIDTH))
        std_x, std_y = rollout.stds[b, t].tolist()
        assert_close(trace.spread[b, t], [std_x * 10, std_y * 6], 1e-5)
        assert_close(trace.probabilities[b, t], rollout.logits[b, t].softmax(-1), 1e-6)
        assert trace.correct[b, t] == (rollout.logits[b, t].argmax() == TARGETS[b])


def read_again(model, rollout, mode, step):
    """The patches (B, K, G, G, C) of one glimpse, read again at its location."""
    view, location = model.glimpses.sensor.view(BATCH.images), rollout.locations[:, step]
    if mode == "hard":
        patches = view.at(location)
    elif rollout.attention_weights is None:
        patches = view.expect(Gaussian(location, rollout.stds[:, step]))
    else:
        every = [view.at(cell.expand(4, 2)) for cell in model.glimpses.cells]
        weights = rollout.attention_weights[:, step].unbind(1)
        patches = sum(weight.view(4, 1, 1, 1) * patch for weight, patch in zip(weights, every, strict=True))
    return patches.unflatten(1, (2, CHANNELS)).permute(0, 1, 3, 4, 2)


@pytest.mark.parametrize("read, places, policy", CASES)
def test_patches_are_read_at_their_own_glimpse_and_not_at_the_next(read, places, policy):
    model = make(read, places, policy)
    trace, rollout = trace_of(model), rollout_of(model)
    expected = [read_again(model, rollout, read, step) for step in range(3)]
    for step in range(3):
        assert_close(trace.patches[:, step], expected[step], 1e-5)
    if policy == "raster" or (policy, places) == ("learned", "plane"):  # else two glimpses may have the same place
        assert all((one - other).abs().max() > 0.05 for one, other in pairwise(expected))


def test_patches_are_the_input_of_the_glimpse_network():
    """The glimpse network maps patches and locations to the glimpse vectors of the rollout."""
    for read in ("hard", "soft"):
        model = make(read)
        trace = trace_of(model)
        for step in range(3):
            patches = trace.patches[:, step].permute(0, 1, 4, 2, 3).flatten(1, 2)
            with torch.inference_mode():
                glimpse = model.glimpses.network(patches, trace.rollout.locations[:, step])
            assert_close(glimpse, trace.rollout.glimpse_vectors[:, step], 1e-5)


def test_finest_patches_are_the_pixels_in_the_finest_boxes():
    """The finest patch of a glimpse is the image within the finest square, where that lies on the image."""
    trace, compared = trace_of(make("hard", "plane", "raster", "--num_glimpses=6")), 0
    for b, t in product(range(4), range(6)):
        x0, y0, x1, y1 = trace.boxes[b, t, 0].int().tolist()
        if x0 >= 0 and y0 >= 0 and x1 <= WIDTH and y1 <= HEIGHT:
            compared += 1
            pixels = BATCH.images[b, :, y0:y1, x0:x1].permute(1, 2, 0) / 255
            assert_close(trace.patches[b, t, 0], pixels, 1e-5)
    assert compared >= 4


def test_oracle_gets_the_boxes_of_the_batch():
    trace = trace_of(make("hard", "plane", "oracle"))
    centers = (BOXES[:, 0, :2] + BOXES[:, 0, 2:]) / 2
    assert_close(trace.points, centers.unsqueeze(1).expand(4, 3, 2), 1e-5)


def trace_with(model, **changes):
    return trace_of_rollout(
        model, BATCH, rollout_of(model)._replace(**changes), name="model", class_names=NAMES, mode=model.mode
    )


def test_probabilities_and_correctness_after_each_glimpse():
    classes = torch.tensor([[0, 1, 0], [0, 1, 1], [2, 2, 2], [1, 2, 1]])  # of 0, 1, 2, 0
    trace = trace_with(make(), logits=torch.nn.functional.one_hot(classes, 3) * torch.tensor(2.0).log())
    assert trace.correct.tolist() == [[True, False, True], [False, True, True], [True] * 3, [False] * 3]
    assert_close(trace.probabilities[0, 1], [0.25, 0.5, 0.25])
    assert trace.probabilities.argmax(-1).equal(classes)


def test_probabilities_of_several_labels():
    targets = torch.tensor([[1.0, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]])
    model = make()
    yes, no = math.log(2), -math.log(3)
    logits = torch.tensor([[yes, no, yes], [no, no, no], [yes, yes, yes]]).expand(4, 3, 3)
    trace = trace_of_rollout(
        model,
        BATCH._replace(targets=targets),
        rollout_of(model)._replace(logits=logits),
        name="model",
        class_names=NAMES,
        mode="hard",
    )
    assert_close(trace.probabilities[0, 0], [2 / 3, 1 / 4, 2 / 3], 1e-6)
    assert trace.correct.tolist() == [
        [True, False, False],
        [False, True, False],
        [False, False, True],
        [False, False, False],
    ]


def test_spread_is_in_pixels_of_its_own_axis():
    trace = trace_with(make("soft"), stds=torch.tensor([0.1, 0.5]).expand(4, 3, 2))
    assert_close(trace.spread, torch.tensor([1.0, 3.0]).expand(4, 3, 2))  # half the image is 10 x 6


def test_weights_of_a_grid_have_its_rows_and_columns():
    model = make("soft", "grid")  # of 2 rows and 3 columns
    for cell, (row, column) in enumerate(product(range(2), range(3))):
        weights = torch.zeros(4, 3, 6)
        weights[..., cell] = 1
        trace = trace_with(model, attention_weights=weights, locations=(weights @ model.glimpses.cells))
        assert trace.weights.shape == (4, 3, 2, 3)
        assert trace.weights[0, 0].nonzero().tolist() == [[row, column]]
        # A third of 20 pixels wide, a half of 12 high: the weight lies where its patches were read.
        assert_close(trace.points[0, 0], [(column + 0.5) * 20 / 3, (row + 0.5) * 6], 1e-5)
        view = model.glimpses.sensor.view(BATCH.images)
        patches = view.at(model.glimpses.cells[cell].expand(4, 2)).unflatten(1, (2, CHANNELS)).permute(0, 1, 3, 4, 2)
        assert_close(trace.patches[:, 0], patches, 1e-6)
    assert trace_of(make("hard", "plane")).weights is None


@pytest.mark.parametrize("places", ["plane", "grid"])
def test_sampled_traces_depend_on_the_seed(places):
    model = make("hard", places, "learned", "--attention.std=0.5")
    one, again, other = (trace_of(model, sample=True, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one.points, again.points) and torch.equal(one.patches, again.patches)
    assert not torch.equal(one.points, other.points)
    greedy, other_seed = trace_of(model, seed=1), trace_of(model, seed=2)
    assert torch.equal(greedy.points, other_seed.points) and not torch.equal(greedy.points, one.points)
    assert torch.equal(one.rollout.locations, rollout_of(model, seed=1, sample=True).locations)


@pytest.mark.parametrize("places", ["plane", "grid"])
def test_the_other_read_mode(places):
    model = make("hard", places)
    trace = trace_of(model, mode="soft")
    assert trace.mode == "soft" and trace.rollout.log_probs is None
    rollout = rollout_of(model, mode="soft")
    assert_close(trace.patches[:, 1], read_again(model, rollout, "soft", 1), 1e-5)
    assert torch.equal(trace.points, to_pixels(rollout.locations, HEIGHT, WIDTH))


def test_patches_are_clamped():
    """A background outside of [0, 1] is read as it is, and clamped in the trace."""
    model = make("hard", "plane", "learned", "--sensor.background=-0.5")
    far = rollout_of(model)._replace(locations=torch.full((4, 3, 2), 9.0))
    assert patches_read(model, BATCH.images, far, "hard").unique().tolist() == [-0.5]
    assert trace_of_rollout(model, BATCH, far, name="", class_names=NAMES, mode="hard").patches.unique().tolist() == [0]


def test_traces_have_no_gradient():
    trace = trace_of(make("soft"))
    assert not any(value.requires_grad for value in (*trace, *trace.rollout) if isinstance(value, torch.Tensor))
