"""The rollout: what it holds, that it matches a replay, and which gradient goes where."""

from itertools import product

import pytest
import torch
from support.pairs import pairs
from support.tensors import assert_close, draw, draw_bytes, reached, tiny_config, tiny_model, under

from glimpse import losses
from glimpse.attention.annotation import Attention
from glimpse.attention.distributions import Gaussian, Noise
from glimpse.attention.scorers import SCORERS
from glimpse.attention.sensor import Sensor
from glimpse.models.glimpses import GlimpseNetwork, GridGlimpses, RecurrentCore
from glimpse.models.recurrent_attention import LearnedPolicy, RecurrentAttention

BATCH, CLASSES = 5, 3
READS, PLACES, FIRSTS, CORES = (
    ("hard", "soft"),
    ("plane", "grid"),
    ("center", "random", "learned"),
    ("rnn", "gru", "lstm"),
)
ATTENTION, REST = ("glimpses.attention",), ("glimpses.network", "core", "classify")


def every(names, *values):
    """Parametrizes a test with all combinations."""
    return pytest.mark.parametrize(names, list(product(*values)))


def some_images(batch=BATCH, channels=1):
    return draw_bytes(batch, channels, 12, 14)


def some_targets(batch=BATCH):
    return torch.arange(batch) % CLASSES


def make(read="hard", places="plane", *options, **settings):
    return tiny_model(f"--read={read}", f"--attention.places={places}", *options, **settings)


def scorer_options(scorer):
    """The options of a scorer; dot needs a state of the size of a glimpse vector."""
    return (*(["--network.state_dim=12"] if scorer == "dot" else []), f"--attention.scorer={scorer}")


def spread_out(model):
    """Scale the location head so that glimpses lie far apart."""
    with torch.no_grad():
        model.glimpses.attention.head.weight.mul_(5)
    return model


@pairs(read=READS, places=PLACES, first=FIRSTS, num_glimpses=[1, 2, 4])
def test_shapes(read, places, first, num_glimpses):
    model = make(read, places, f"--attention.first={first}", f"--num_glimpses={num_glimpses}", image_shape=(3, 12, 14))
    rollout = model(some_images(channels=3), noise=Noise(0))
    chosen = num_glimpses if first == "learned" else num_glimpses - 1
    assert rollout.logits.shape == (BATCH, num_glimpses, CLASSES)
    assert rollout.locations.shape == rollout.stds.shape == (BATCH, num_glimpses, 2)
    assert rollout.entropies.shape == (BATCH, chosen)
    if read == "soft":
        assert rollout.log_probs is None and rollout.baselines is None
    else:
        assert rollout.log_probs.shape == rollout.baselines.shape == (BATCH, chosen)
    if places == "plane":
        assert rollout.attention_weights is None
    else:
        assert rollout.attention_weights.shape == (BATCH, num_glimpses, 6)


@pytest.mark.parametrize("read", READS)
def test_first_glimpse_at_the_center(read):
    rollout = make(read)(some_images(), noise=Noise(0))
    assert rollout.locations[:, 0].tolist() == [[0, 0]] * BATCH
    assert rollout.locations[:, 1:].any(-1).all()


@every("read, places", READS, PLACES)
def test_random_first_glimpse_lies_on_the_image_and_is_seeded(read, places):
    model, images = make(read, places, "--attention.first=random", "--num_glimpses=1"), some_images(400)
    first, again, other = (model(images, noise=Noise(seed)).locations[:, 0] for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert -1 <= first.min() < -0.4 and 0.4 < first.max() <= 1
    if places == "grid":
        counts = (first.unsqueeze(1) == model.glimpses.cells).all(-1).sum(0)
        assert counts.sum() == 400 and counts.min() > 30  # 67 of each of the 6 cells are expected
    else:
        assert (first.mean(0).abs() < 5 / (3 * 400) ** 0.5).all() and len(first.unique(dim=0)) == 400


@pairs(read=READS, places=PLACES, first=FIRSTS)
def test_rollouts_depend_on_the_seed_of_the_noise_alone(read, places, first):
    model = make(read, places, f"--attention.first={first}")
    with torch.random.fork_rng():
        torch.manual_seed(1)
        one = model(some_images(), noise=Noise(3))
        torch.manual_seed(2)
        two = model(some_images(), noise=Noise(3))
    for name, a, b in zip(one._fields, one, two, strict=True):
        assert (a is None and b is None) or torch.equal(a, b), name
    if read == "hard":
        assert not torch.equal(model(some_images(), noise=Noise(4)).locations, one.locations)


def test_samples_surround_the_greedy_place_with_the_std():
    model = make("hard", "plane", "--attention.std=0.2", "--num_glimpses=2")
    images = some_images(1).expand(4000, -1, -1, -1)
    greedy = model(images[:1], sample=False)
    sampled = model(images, noise=Noise(0)).locations[:, 1]
    assert_close(sampled.mean(0), greedy.locations[0, 1], 5 * 0.2 / 4000**0.5)
    assert_close(sampled.std(0), [0.2, 0.2], 5 * 0.2 / 8000**0.5)
    assert_close(greedy.stds, torch.full((1, 2, 2), 0.2))


@pairs(read=READS, places=PLACES, core=CORES)
def test_one_image_alone_equals_it_in_a_batch(read, places, core):
    model, images = make(read, places, f"--network.core={core}", "--network.what=conv"), some_images()
    batch = model(images, sample=False)
    for i in range(BATCH):
        alone = model(images[i : i + 1], sample=False)
        for together, single in zip(batch, alone, strict=True):
            if together is not None:
                assert_close(single[0], together[i], 1e-5)


def replay_plane(model, images, rollout, mode):
    """Logits (B, T, classes) and distributions, from the reported locations and the parts of the model."""
    view = model.glimpses.sensor.view(images, model.num_glimpses)
    state, logits, attentions = model.core.initial(len(images)), [], []
    for location, std in zip(rollout.locations.unbind(1), rollout.stds.unbind(1), strict=True):
        attentions.append(model.glimpses.attention.where(state[0]))
        patches = view.at(location) if mode == "hard" else view.expect(Gaussian(location, std))
        state = model.core(model.glimpses.network(patches, location), state)
        logits.append(model.classify(state[0]))
    return torch.stack(logits, 1), attentions


@pairs(first=FIRSTS, core=CORES, sample=[True, False])
def test_reported_locations_were_read(first, core, sample):
    model = spread_out(make("hard", "plane", f"--attention.first={first}", f"--network.core={core}"))
    images = some_images()
    rollout = model(images, sample=sample, noise=Noise(2))
    logits, attentions = replay_plane(model, images, rollout, "hard")
    assert torch.equal(logits, rollout.logits)
    chosen = range(0 if first == "learned" else 1, 3)
    log_probs = torch.stack([attentions[t].log_prob(rollout.locations[:, t]) for t in chosen], 1)
    assert torch.equal(log_probs, rollout.log_probs)
    assert torch.equal(torch.stack([attentions[t].entropy() for t in chosen], 1), rollout.entropies)


@every("first, learn_std", FIRSTS, ["false", "true"])
def test_reported_gaussians_were_averaged_over(first, learn_std):
    options = (f"--attention.first={first}", f"--attention.learn_std={learn_std}")
    model, images = spread_out(make("soft", "plane", *options)), some_images()
    rollout = model(images, noise=Noise(2))
    logits, attentions = replay_plane(model, images, rollout, "soft")
    assert_close(logits, rollout.logits, 1e-6)
    for t in range(0 if first == "learned" else 1, 3):
        assert_close(attentions[t].mean, rollout.locations[:, t], 1e-6)
        assert_close(attentions[t].std, rollout.stds[:, t], 1e-6)


@pairs(first=FIRSTS, scorer=SCORERS, window=["null", 1])
def test_reported_cells_were_read(first, scorer, window):
    options = (f"--attention.first={first}", f"--attention.window={window}")
    model = make("hard", "grid", *options, *scorer_options(scorer))
    images, glimpses = some_images(), model.glimpses
    rollout = model(images, noise=Noise(2))
    state, view = model.core.initial(BATCH), glimpses.sensor.view(images)
    for t, location in enumerate(rollout.locations.unbind(1)):
        encoded = glimpses.network(view.at(location), location)
        state = model.core(glimpses.attention.scorer.value(encoded), state)
        assert_close(model.classify(state[0]), rollout.logits[:, t], 1e-6)
        cells = (location.unsqueeze(1) == glimpses.cells).all(-1).double().argmax(1)
        picked = rollout.attention_weights[torch.arange(BATCH), t, cells]
        if t > 0 or first == "learned":
            assert_close(picked.log(), rollout.log_probs[:, t - (first != "learned")], 1e-5)
        else:
            assert_close(picked, torch.ones(BATCH))


@pytest.mark.parametrize("first", FIRSTS)
def test_soft_grid_reads_the_weighted_sum_of_all_cells(first):
    model, images = make("soft", "grid", f"--attention.first={first}"), some_images()
    glimpses, cells = model.glimpses, model.glimpses.cells
    rollout = model(images, noise=Noise(2))
    assert_close(rollout.attention_weights.sum(-1), torch.ones(BATCH, 3))
    assert_close(rollout.locations, rollout.attention_weights @ cells)
    variance = rollout.attention_weights @ cells.square() - rollout.locations.square()
    assert_close(rollout.stds.square(), variance, 1e-6)
    view = glimpses.sensor.view(images)
    encoded = [glimpses.network(view.at(cell.expand(BATCH, 2)), cell.expand(BATCH, 2)) for cell in cells]
    state = model.core.initial(BATCH)
    for t in range(3):
        context = sum(rollout.attention_weights[:, t, n].unsqueeze(1) * encoded[n] for n in range(6))
        state = model.core(context, state)
        assert_close(model.classify(state[0]), rollout.logits[:, t], 1e-5)


@pairs(read=READS, places=PLACES, first=FIRSTS, core=CORES)
def test_logits_follow_from_the_glimpse_vectors_alone(read, places, first, core):
    model = make(read, places, f"--attention.first={first}", f"--network.core={core}")
    rollout = model(some_images(), noise=Noise(2))
    assert rollout.glimpse_vectors.shape == (BATCH, 3, 12)
    assert torch.equal(model.classify_glimpses(rollout.glimpse_vectors), rollout.logits)
    assert_close(
        model.classify_glimpses(rollout.glimpse_vectors[:, :2]), rollout.logits[:, :2]
    )  # no step depends on later glimpses
    assert_close(model.classify_glimpses(rollout.glimpse_vectors[1:2]), rollout.logits[1:2], 1e-5)
    vectors = draw(BATCH, 3, 12)
    assert not torch.allclose(
        model.classify_glimpses(vectors)[:, -1], model.classify_glimpses(vectors.flip(1))[:, -1], atol=1e-4
    )


@pytest.mark.parametrize("read", READS)
def test_glimpse_vectors_are_those_of_the_reported_places(read):
    model, images = spread_out(make(read)), some_images()
    rollout = model(images, noise=Noise(2))
    view = model.glimpses.sensor.view(images, 3)
    for t, (location, std) in enumerate(zip(rollout.locations.unbind(1), rollout.stds.unbind(1), strict=True)):
        patches = view.at(location) if read == "hard" else view.expect(Gaussian(location, std))
        assert_close(model.glimpses.network(patches, location), rollout.glimpse_vectors[:, t], 1e-6)


def make_grid(rows, columns):
    sensor, size = Sensor(patch_size=2), 4
    network = GlimpseNetwork(in_channels=1, patch_size=2, what_dim=4, where_dim=4, out_dim=size)
    attention = Attention(state_dim=size, annotation_dim=size, mode="hard", dim=4)
    return GridGlimpses(sensor=sensor, network=network, attention=attention, grid=(rows, columns))


def test_cells_of_the_grid():
    thirds = [-2 / 3, 0, 2 / 3]
    assert_close(make_grid(2, 3).cells, [[x, y] for y in (-0.5, 0.5) for x in thirds], 1e-6)
    assert_close(make_grid(1, 1).cells, [[0.0, 0.0]])


@pytest.mark.parametrize(
    "rows, columns, center", [(3, 3, (0, 0)), (3, 5, (0, 0)), (1, 1, (0, 0)), (2, 2, None), (4, 3, None)]
)
def test_centre_of_the_grid_is_the_cell_next_to_it(rows, columns, center):
    glimpses = make_grid(rows, columns)
    memory = glimpses.prepare(some_images(2), num_reads=1)
    place = glimpses.attention_at(memory, torch.zeros(2, 2)).mode()
    cells = glimpses.cells[place]
    assert place[0] == place[1]
    assert_close(cells.square().sum(1), glimpses.cells.square().sum(1).min().expand(2))
    if center is not None:
        assert_close(cells, [center, center])


def test_soft_with_a_tiny_std_is_hard_and_greedy():
    model, images = spread_out(make("hard", "plane", "--attention.std=1.0e-6")), some_images()
    greedy, soft = model(images, sample=False), model(images, mode="soft")
    assert_close(soft.logits, greedy.logits, 1e-5)
    assert_close(soft.locations, greedy.locations, 1e-5)
    model.glimpses.attention.set_std(0.3)
    assert not torch.allclose(model(images, mode="soft").logits, greedy.logits, atol=1e-3)
    assert_close(
        model(images, sample=False).logits[:, 0], greedy.logits[:, 0]
    )  # a greedy read does not depend on the std


@pytest.mark.parametrize("places", PLACES)
def test_a_model_of_one_kind_can_read_the_other_way(places):
    hard, soft = make("hard", places), make("soft", places)
    assert (hard.mode, soft.mode) == READS
    soft.load_state_dict(hard.state_dict(), strict=False)
    assert torch.equal(hard(some_images(), mode="soft").logits, soft(some_images()).logits)
    other = soft(some_images(), mode="hard", noise=Noise(1))
    assert torch.equal(hard(some_images(), noise=Noise(1)).logits, other.logits)
    assert other.log_probs is not None and other.baselines is None


@pairs(read=READS, places=PLACES, first=FIRSTS)
def test_double_precision(read, places, first):
    model = make(read, places, f"--attention.first={first}").double()
    images = some_images().double() / 255
    assert model(images, noise=Noise(0)).logits.dtype == torch.float64


@every("places, dtype", PLACES, [torch.float16, torch.float64])
def test_images_of_another_precision_are_read_in_that_of_the_model(places, dtype):
    model = make("hard", places)
    images = (some_images() / 255).to(dtype)
    found, expected = (model(these, sample=False, noise=Noise(0)).logits for these in (images, images.float()))
    assert torch.equal(found, expected)


# Gradients


def reinforce(rollout):
    return losses.reinforce(rollout.log_probs, torch.ones_like(rollout.log_probs))


@every("places, first", PLACES, FIRSTS)
def test_cross_entropy_does_not_reach_hard_attention(places, first):
    model = make("hard", places, f"--attention.first={first}")
    rollout = model(some_images(), noise=Noise(0))
    assert reached(losses.cross_entropy(rollout.logits, some_targets()), model) == under(model, *REST)
    assert reached(reinforce(rollout), model) >= under(model, *ATTENTION)


@every("places, first", PLACES, FIRSTS)
def test_cross_entropy_reaches_soft_attention(places, first):
    model = make("soft", places, f"--attention.first={first}")
    rollout = model(some_images(), noise=Noise(0))
    assert reached(losses.cross_entropy(rollout.logits, some_targets()), model) == under(model, *ATTENTION, *REST)


def test_locations_of_a_hard_rollout_have_no_gradient():
    for places in PLACES:
        rollout = make("hard", places)(some_images(), noise=Noise(0))
        assert not rollout.locations.requires_grad and rollout.log_probs.requires_grad


@every("places, first", PLACES, FIRSTS)
def test_reward_reaches_the_core(places, first):
    model = make("hard", places, f"--attention.first={first}")
    found = reached(reinforce(model(some_images(), noise=Noise(0))), model)
    assert found == under(model, *ATTENTION, "core", "glimpses.network")


@every("places, first", PLACES, FIRSTS)
def test_reward_stops_at_the_attention_if_set_so(places, first):
    model = make("hard", places, f"--attention.first={first}", "--loss.reward_reaches_core=false")
    rollout = model(some_images(), noise=Noise(0))
    assert reached(reinforce(rollout), model) == under(model, *ATTENTION)
    assert reached(rollout.entropies.sum(), model) <= under(model, *ATTENTION)
    assert reached(losses.cross_entropy(rollout.logits, some_targets()), model) == under(model, *REST)


@pytest.mark.parametrize("places", PLACES)
def test_detaching_the_state_changes_no_value(places):
    joined = make("hard", places)(some_images(), noise=Noise(0))
    cut = make("hard", places, "--loss.reward_reaches_core=false")(some_images(), noise=Noise(0))
    assert torch.equal(joined.logits, cut.logits) and torch.equal(joined.log_probs, cut.log_probs)


@every("places, first", PLACES, FIRSTS)
def test_error_of_the_baseline_reaches_the_baseline_alone(places, first):
    model = make("hard", places, f"--attention.first={first}")
    baselines = model(some_images(), noise=Noise(0)).baselines
    assert reached(losses.baseline_error(baselines, torch.ones_like(baselines)), model) == under(model, "baseline")


def test_baseline_predicts_from_the_state_before_the_choice():
    model = make("hard", "plane", "--num_glimpses=2")
    images = some_images()
    one, two = (model(images, noise=Noise(seed)) for seed in (1, 2))
    assert not torch.equal(one.locations, two.locations)
    assert torch.equal(one.baselines, two.baselines)  # independent of the choice itself
    state = model.core.initial(BATCH)
    view = model.glimpses.sensor.view(images, 2)
    location = torch.zeros(BATCH, 2)
    state = model.core(model.glimpses.network(view.at(location), location), state)
    assert_close(one.baselines, model.baseline(state[0]))


@pairs(read=READS, places=PLACES, first=FIRSTS, core=CORES)
def test_under_the_total_loss_every_parameter_has_a_gradient(read, places, first, core):
    model = make(read, places, f"--attention.first={first}", f"--network.core={core}", "--network.what=conv")
    rollout = model(some_images(), noise=Noise(0))
    total = losses.cross_entropy(rollout.logits, some_targets())
    if read == "hard":
        total = total + reinforce(rollout) + losses.baseline_error(rollout.baselines, rollout.baselines.detach() + 1)
    total.backward()
    missing = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert missing == []
    dead = {name for name, p in model.named_parameters() if not p.grad.any()}
    assert {name for name in dead if name.endswith("weight")} == set()


@every("read, scorer", READS, SCORERS)
def test_every_scorer_a_window_and_a_learned_std_have_gradients(read, scorer):
    for options in (["plane", "--attention.learn_std=true"], ["grid"], ["grid", "--attention.window=1"]):
        model = make(read, *options, *scorer_options(scorer))
        rollout = model(some_images(), noise=Noise(0))
        total = losses.cross_entropy(rollout.logits, some_targets())
        if read == "hard":
            total = total + reinforce(rollout) + rollout.baselines.sum()
        assert reached(total, model) == under(model, "")


# Invalid arguments


def parts(**settings):
    model = make()
    core = RecurrentCore(kind="gru", input_dim=12, state_dim=10)
    if "policy" in settings:
        attention = (model if settings["policy"] == "chosen" else make()).glimpses.attention
        settings["policy"] = LearnedPolicy(attention, None)
    return {"glimpses": model.glimpses, "core": core, "num_classes": CLASSES, "num_glimpses": 2} | settings


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"num_glimpses": 0}, "num_glimpses must be at least 1, got 0"),
        ({"policy": "chosen"}, "core must have learn_initial=True if the policy learns the first location, got False"),
        ({"policy": "another's"}, "a learned policy must use the attention of the model's own glimpses"),
    ],
)
def test_invalid_models(settings, message):
    with pytest.raises(ValueError, match=message):
        RecurrentAttention(**parts(**settings))


def test_model_without_baseline():
    rollout = RecurrentAttention(**parts(baseline=False))(some_images(), noise=Noise(0))
    assert rollout.baselines is None and rollout.log_probs.shape == (BATCH, 1)
    assert tiny_config().estimator.baseline == "learned" and make("soft").baseline is None
