"""Controls: where each rule places the glimpses, that they are read there, and that nothing about it is learned."""

import re
from itertools import product
from math import sqrt

import pytest
import torch
from support import tensors
from support.pairs import pairs
from support.runs import REPOSITORY, assert_same_run, at_step, new_engine, resumed, silent, train_main
from support.runs import tiny as tiny_options
from support.tensors import TinyData, assert_close, draw_bytes, reached, tiny_model, under

from glimpse import losses
from glimpse.attention.distributions import Gaussian, Noise
from glimpse.attention.placement import RULES as REGISTRY
from glimpse.attention.placement import raster
from glimpse.attention.sensor import to_pixels
from glimpse.errors import ConfigError
from glimpse.evaluation.classify import evaluate_classifier
from glimpse.models.recurrent_attention import RecurrentAttention
from glimpse.models.rollout import Scene
from glimpse.tasks.build import make_model
from glimpse.tasks.settings import load_config
from glimpse.training.run import BEST, LAST

RULES = ("center", "random", "raster", "oracle")
READS, PLACES = ("hard", "soft"), ("plane", "grid")
HEIGHT, WIDTH = 12, 14
# Of six images, one box each; with centers that differ from image to image and lie off the middle.
BOXES = torch.tensor(
    [[0, 0, 4, 6], [10, 6, 14, 12], [2, 1, 8, 7], [5, 5, 6, 6], [7, 0, 14, 3], [0, 9, 3, 12]], dtype=torch.float32
).unsqueeze(1)
# Their centers in pixels are (2, 3), (12, 9), (5, 4), (5.5, 5.5), (10.5, 1.5) and (1.5, 10.5); half the image is 7 x 6.
CENTRES = torch.tensor(
    [[-5 / 7, -3 / 6], [5 / 7, 3 / 6], [-2 / 7, -2 / 6], [-1.5 / 7, -0.5 / 6], [3.5 / 7, -4.5 / 6], [-5.5 / 7, 4.5 / 6]]
)


def every(names, *values):
    """Parametrizes a test with all combinations."""
    return pytest.mark.parametrize(names, list(product(*values)))


def some_images(batch=6, channels=1):
    return draw_bytes(batch, channels, HEIGHT, WIDTH)


def control(rule, read="hard", places="plane", *options, **settings):
    return tiny_model(
        f"--attention.policy={rule}", f"--read={read}", f"--attention.places={places}", *options, **settings
    )


def placed(rule, step, num_glimpses=3, batch=6, boxes=None, noise=None, like=torch.zeros(1), **more):  # noqa: B008
    noise = noise or Noise(0)
    scene = Scene(some_images(batch), None, num_glimpses, like.dtype, "hard", True, False, noise, boxes, **more)
    return REGISTRY[rule](step, scene)


def roll(model, seed=0, boxes=BOXES, images=None, **settings):
    return model(some_images() if images is None else images, noise=Noise(seed), boxes=boxes, **settings)


# Where the rules place them


@pytest.mark.parametrize(
    "num_glimpses, rows",
    [
        (1, [[0]]),
        (2, [[-1 / 2, 1 / 2]]),
        (3, [[-1 / 2, 1 / 2], [-1 / 2]]),
        (4, [[-1 / 2, 1 / 2], [-1 / 2, 1 / 2]]),
        (5, [[-2 / 3, 0, 2 / 3], [-2 / 3, 0]]),
        (6, [[-2 / 3, 0, 2 / 3], [-2 / 3, 0, 2 / 3]]),
        (7, [[-2 / 3, 0, 2 / 3], [-2 / 3, 0, 2 / 3], [-2 / 3]]),
    ],
)
def test_raster_line_by_line(num_glimpses, rows):
    heights = {1: [0], 2: [-1 / 2, 1 / 2], 3: [-2 / 3, 0, 2 / 3]}[len(rows)]
    expected = [[x, y] for y, row in zip(heights, rows, strict=True) for x in row]
    assert_close(raster(num_glimpses), expected)
    for step in range(num_glimpses):
        assert_close(placed("raster", step, num_glimpses, batch=2), [expected[step]] * 2)


def test_every_raster_covers_the_image_evenly():
    for count in range(1, 60):
        places = raster(count)
        assert places.shape == (count, 2) and places.abs().max() < 1
        lines, columns = places[:, 1].unique(), places[:, 0].unique()
        order = [(y, x) for x, y in places.tolist()]
        assert order == sorted(set(order))  # distinct, and in the order in which one reads
        assert abs(len(lines) - len(columns)) <= 1 and len(lines) * len(columns) - count < len(columns)
        for found in (lines, columns):  # as wide a margin as half the distance between two
            assert_close(found, (torch.arange(len(found)) + 0.5) * 2 / len(found) - 1)


def test_center():
    for step in range(3):
        assert placed("center", step).tolist() == [[0, 0]] * 6


def test_oracle_is_in_the_middle_of_the_box():
    for step in range(3):
        assert_close(placed("oracle", step, boxes=BOXES), CENTRES)


def test_oracle_visits_several_boxes_in_turn():
    boxes = torch.cat([BOXES, BOXES.flip(0)], 1)  # (6, 2, 4)
    for step in range(5):
        assert_close(placed("oracle", step, boxes=boxes), CENTRES.flip(0) if step % 2 else CENTRES)


def test_random_is_uniform_over_the_image():
    size = 20_000
    found = placed("random", 0, batch=size, noise=Noise(7))
    assert found.min() >= -1 and found.max() <= 1
    assert_close(found.mean(0), [0.0, 0.0], 5 * sqrt(1 / 3 / size))
    assert_close(found.square().mean(0), [1 / 3, 1 / 3], 5 * sqrt(4 / 45 / size))
    assert_close(found.prod(1).mean(), 0.0, 5 / 3 / sqrt(size))  # x tells nothing about y
    bins = ((found + 1) * 2).long().clamp(max=3)
    counts = torch.bincount(bins[:, 0] * 4 + bins[:, 1], minlength=16) / size
    assert_close(counts, torch.full((16,), 1 / 16), 5 * sqrt(1 / 16 / size))


def test_random_places_differ_between_images_and_glimpses_and_depend_on_the_noise_alone():
    noise = Noise(3)
    found = torch.stack([placed("random", step, noise=noise) for step in range(4)])
    assert len(found.view(-1, 2).unique(dim=0)) == 24
    noise = Noise(3)
    with torch.random.fork_rng():
        torch.manual_seed(9)
        again = torch.stack([placed("random", step, noise=noise) for step in range(4)])
    assert torch.equal(found, again)
    assert not torch.equal(found[0], placed("random", 0, noise=Noise(4)))


@pytest.mark.parametrize("rule", RULES)
def test_further_numbers_of_a_location(rule):
    found, flat = placed(rule, 1, boxes=BOXES, location_dim=4), placed(rule, 1, boxes=BOXES)
    assert found.shape == (6, 4) and found.abs().max() <= 1
    if rule == "random":
        assert len(found.unique()) == 24 and found.min() < -0.5 and found.max() > 0.5
    else:
        assert torch.equal(found[:, :2], flat) and not found[:, 2:].any()


def test_random_places_of_two_processes_are_those_of_one():
    shares = [placed("random", 0, batch=3, noise=Noise(5, rank=rank, world_size=2)) for rank in (0, 1)]
    assert torch.equal(torch.cat(shares), placed("random", 0, noise=Noise(5)))


@pytest.mark.parametrize("rule", RULES)
def test_places_are_of_the_type_asked_for_and_have_no_gradient(rule):
    like = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    found = placed(rule, 1, boxes=BOXES, like=like)
    assert found.dtype == torch.float64 and found.shape == (6, 2) and not found.requires_grad
    assert_close(found.float(), placed(rule, 1, boxes=BOXES))


def test_unknown_rules():
    assert tuple(REGISTRY) == RULES and all(REGISTRY[name].name == name for name in RULES)
    with pytest.raises(
        ConfigError,
        match="attention.policy must be one of center, random, raster, oracle, got 'corner'; did you mean center",
    ):
        placed("corner", 0)


@pytest.mark.parametrize("boxes", [None, torch.zeros(6, 0, 4)], ids=["missing", "empty"])
def test_oracle_needs_boxes(boxes):
    message = r"boxes must be \(B, N, 4\) with N >= 1 for the rule oracle, got none"
    with pytest.raises(ValueError, match=message):
        placed("oracle", 0, boxes=boxes)
    with pytest.raises(ValueError, match=message):
        roll(control("oracle"), boxes=boxes)


# That they are looked at


def expected_places(rule, num_glimpses=3, seed=0):
    noise = Noise(seed)
    return torch.stack([placed(rule, t, num_glimpses, boxes=BOXES, noise=noise) for t in range(num_glimpses)], 1)


@pairs(rule=RULES, read=READS, first=["center", "random", "learned"])
def test_a_rule_places_all_glimpses_and_ignores_the_first_of_a_learned_policy(rule, read, first):
    model = control(rule, read, "plane", f"--attention.first={first}")
    for sample in (True, False):
        rollout = roll(model, seed=2, sample=sample)
        assert torch.equal(rollout.locations, expected_places(rule, seed=2))
        assert_close(rollout.stds, torch.full((6, 3, 2), 0.1))


@every("rule, read", RULES, READS)
def test_logits_follow_from_the_patches_at_the_places(rule, read):
    """The logits, from patches read afresh at the places of the rule."""
    model, images = control(rule, read, image_shape=(3, HEIGHT, WIDTH)), some_images(channels=3)
    rollout = roll(model, images=images)
    view, state = model.glimpses.sensor.view(images), model.core.initial(6)
    for t, location in enumerate(expected_places(rule).unbind(1)):
        patches = (
            view.at(location) if read == "hard" else view.expect(Gaussian(location, torch.full_like(location, 0.1)))
        )
        glimpse = model.glimpses.network(patches, location)
        assert_close(glimpse, rollout.glimpse_vectors[:, t])
        state = model.core(glimpse, state)
        assert_close(model.classify(state[0]), rollout.logits[:, t])


def test_oracle_reads_the_digit():
    """A bright box on black, of the size of the finest square: the oracle sees nothing but it."""
    model = control("oracle")
    images = torch.zeros(3, 1, 20, 30, dtype=torch.uint8)
    boxes = torch.tensor([[[2.0, 3, 6, 7]], [[20, 1, 24, 5]], [[11, 15, 15, 19]]])
    for image, ((x0, y0, x1, y1),) in zip(images, boxes.int().tolist(), strict=True):
        image[:, y0:y1, x0:x1] = 255
    rollout = roll(model, images=images, boxes=boxes)
    assert_close(to_pixels(rollout.locations, 20, 30)[:, 1], [[4.0, 5], [22, 3], [13, 17]], 1e-5)
    for t in range(3):
        finest = model.glimpses.sensor.view(images).at(rollout.locations[:, t])[:, 0]
        assert_close(finest, torch.ones(3, 4, 4))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("read", READS)
def test_on_a_grid_the_cell_next_to_the_place_is_read(rule, read):
    model = control(rule, read, "grid")
    cells, rollout = model.glimpses.cells, roll(model)
    for t in range(3):
        for b, (x, y) in enumerate(expected_places(rule)[:, t].tolist()):
            distances = [(x - cx) ** 2 + (y - cy) ** 2 for cx, cy in cells.tolist()]
            best = distances.index(min(distances))
            assert rollout.attention_weights[b, t].tolist() == [float(cell == best) for cell in range(6)]
            assert_close(rollout.locations[b, t], cells[best])
    assert_close(rollout.stds, torch.zeros(6, 3, 2), 1e-3)


def test_raster_of_six_visits_every_cell_of_its_own_grid():
    model = control("raster", "hard", "grid", "--num_glimpses=6", "--attention.grid=[2, 3]")
    assert_close(roll(model).locations[0], model.glimpses.cells)


@pairs(rule=RULES, read=READS, places=PLACES)
def test_rollouts_depend_on_the_seed_of_the_noise_alone(rule, read, places):
    model = control(rule, read, places)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        one = roll(model, seed=3)
        torch.manual_seed(2)
        two = roll(model, seed=3)
    for name, a, b in zip(one._fields, one, two, strict=True):
        assert (a is None and b is None) or torch.equal(a, b), name
    assert torch.equal(one.locations, roll(model, seed=4).locations) == (rule != "random")


@pairs(policy=("learned", "center", "random", "raster"), read=READS, places=PLACES)
def test_boxes_have_no_effect_without_the_oracle(policy, read, places):
    model = control(policy, read, places)
    with_boxes, without = roll(model, boxes=BOXES), roll(model, boxes=None)
    for name, a, b in zip(with_boxes._fields, with_boxes, without, strict=True):
        assert (a is None and b is None) or torch.equal(a, b), name
    assert not model.needs_boxes


@pytest.mark.parametrize("policy", ["oracle", "random", "learned", "cnn"])
def test_only_the_oracle_is_given_boxes(policy):
    """A model that does not need the boxes does not get them."""
    model = tiny_model("--model=cnn") if policy == "cnn" else control(policy)
    calls, forward = [], model.forward
    model.forward = lambda images, **options: calls.append(options) or forward(images, **options)
    evaluate_classifier(model, TinyData(some_images(), torch.zeros(6, dtype=torch.int64), BOXES), batch_size=4)
    assert model.needs_boxes == (policy == "oracle")
    given = [call.get("boxes") for call in calls]
    if policy == "oracle":
        assert torch.equal(torch.cat(given), BOXES)
    else:
        assert calls and given == [None] * len(calls)


# Nothing is chosen, and nothing about choosing learned


@pairs(rule=RULES, places=PLACES, first=["center", "learned"])
def test_nothing_is_chosen(rule, places, first):
    model = control(rule, "hard", places, f"--attention.first={first}")
    assert model.num_choices == 0 and model.baseline is None
    rollout = roll(model)
    assert rollout.log_probs.shape == rollout.entropies.shape == (6, 0)
    assert rollout.baselines is None and rollout.logits.shape == (6, 3, 3)
    soft = roll(model, mode="soft")
    assert soft.log_probs is None and soft.entropies.shape == (6, 0)


def test_number_of_choices():
    assert control("learned").num_choices == 2
    assert control("learned", "hard", "plane", "--attention.first=random").num_choices == 2
    assert control("learned", "hard", "plane", "--attention.first=learned").num_choices == 3
    assert control("learned", "soft", "grid", "--num_glimpses=1").num_choices == 0


def make_task(*options):
    return tensors.make_task(*options, data=TinyData(some_images(), torch.arange(6) % 3, BOXES))


def terms_of(task):
    return task.loss_terms(task.model, next(iter(task.batches(0))), Noise(5))


@pairs(rule=RULES, read=READS, places=PLACES)
def test_all_but_the_attention_learns_from_cross_entropy_alone(rule, read, places):
    task = make_task(
        f"--attention.policy={rule}", f"--read={read}", f"--attention.places={places}", "--loss.entropy=0.1"
    )
    terms, model = terms_of(task), task.model
    assert terms.keys() == {"cross_entropy", "error"}
    assert (terms["cross_entropy"][0], terms["error"][0]) == (1.0, 0.0)
    rollout = roll(model, seed=5, images=some_images()[:4], boxes=BOXES[:4])
    assert_close(terms["cross_entropy"][1], losses.cross_entropy(rollout.logits, torch.tensor([0, 1, 2, 0])))
    found = reached(terms["cross_entropy"][1], model)
    assert found == under(model, "") - under(model, "glimpses.attention")
    assert under(model, "glimpses.attention")
    assert not task.every_parameter_has_gradient


@pytest.mark.parametrize("baseline", ["none", "self_critical", "leave_one_out"])
def test_estimators_have_nothing_to_estimate(baseline):
    options = ("--attention.policy=oracle", "--loss.rollouts=2", f"--loss.baseline={baseline}")
    terms = terms_of(make_task(*options))
    assert terms.keys() == {"cross_entropy", "error"}
    # Each image twice, with its own box each time: the same as once.
    assert_close(terms["cross_entropy"][1], terms_of(make_task("--attention.policy=oracle"))["cross_entropy"][1])


@pytest.mark.parametrize("kind", ["cnn", "fc"])
def test_all_parameters_of_a_network_of_the_whole_image_are_used(kind):
    assert make_task(f"--model={kind}").every_parameter_has_gradient


@pytest.mark.parametrize("rule", RULES)
def test_traces_of_controls_have_the_places_of_the_rule(rule):
    data = TinyData(some_images(), torch.arange(6) % 3, BOXES)
    outcome = evaluate_classifier(control(rule), data, batch_size=6)
    assert outcome.locations.shape == (6, 1, 3, 2)
    if rule == "oracle":
        assert_close(outcome.locations[:, 0], CENTRES.unsqueeze(1).expand(6, 3, 2))
        assert outcome.on_target.all()
        assert_close(evaluate_classifier(control(rule), data, batch_size=4).probabilities, outcome.probabilities)
    elif rule != "random":
        assert_close(outcome.locations[:, 0], expected_places(rule))


@pytest.mark.parametrize("policy, places", [("oracle", "plane"), ("random", "grid")])
def test_training_moves_everything_but_the_attention(policy, places, tmp_path):
    settings = {"attention.policy": policy, "attention.places": places, "train.epochs": 1, "train.limit": 128}
    engine = new_engine(tmp_path / "run", {**settings, "train.weight_decay": 0.1})
    before = {name: value.clone() for name, value in engine.task.model.named_parameters()}
    engine.train(silent)
    moved = {name for name, value in engine.task.model.named_parameters() if not torch.equal(value, before[name])}
    assert moved == under(engine.task.model, "") - under(engine.task.model, "glimpses.attention")
    row = engine.run.rows()[-1]
    assert not {"epoch/reinforce", "epoch/baseline", "epoch/reward"} & row.keys()
    assert (row["valid/hits"] == [1.0, 1.0, 1.0]) == (policy == "oracle")


@pytest.mark.parametrize("settings", [{"attention.policy": "random"}, {"model": "cnn"}], ids=["random", "cnn"])
def test_stopped_controls_end_like_undisturbed_ones(settings, tmp_path):
    settings = {**settings, "train.epochs": 2, "train.limit": 128, "score.limit": 100}
    straight = new_engine(tmp_path / "straight", settings)
    straight.train(silent)
    stopped = new_engine(tmp_path / "stopped", settings)
    at_step(stopped, 3, lambda terms: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        stopped.train(silent)
    again = resumed(stopped.run)
    assert again.epoch == 1
    again.train(silent)
    assert_same_run(again.run, straight.run)
    moments = {key for key in straight.run.load(LAST)[0] if key.startswith("optimizer.")}
    assert moments and not any("glimpses.attention" in key for key in moments)


def test_a_control_can_begin_from_the_weights_of_a_learned_policy(tmp_path):
    source = new_engine(tmp_path / "source", {"train.epochs": 1, "train.limit": 64, "score.limit": 50})
    source.train(silent)
    model = new_engine(tmp_path / "run", {"init_from": source.run.folder, "attention.policy": "raster"}).task.model
    saved, _ = source.run.load(BEST)
    assert "model.baseline.weight" in saved and model.baseline is None
    assert all(torch.equal(value, saved[f"model.{name}"]) for name, value in model.named_parameters())


# Settings


@pytest.mark.parametrize("rule", RULES)
def test_config_files_of_controls(rule):
    config = load_config(file=REPOSITORY / "configs" / f"cluttered60_{rule}.yaml".replace("center", "centre"))
    model = make_model(config, image_shape=(1, 60, 60), num_classes=10)
    assert isinstance(model, RecurrentAttention)
    assert (model.policy.name, model.mode, model.num_glimpses, model.num_choices) == (rule, "hard", 6, 0)
    # All else is as in the model it is a control of, whose weights it could have but for the baseline.
    learned = make_model(
        load_config(file=REPOSITORY / "configs" / "cluttered60_hard.yaml"), image_shape=(1, 60, 60), num_classes=10
    )
    extra = learned.state_dict().keys() - model.state_dict().keys()
    assert extra == {"baseline.weight", "baseline.bias"}
    shapes = {key: value.shape for key, value in model.state_dict().items()}
    assert shapes == {key: value.shape for key, value in learned.state_dict().items() if key not in extra}


def test_oracle_needs_data_that_knows_where_the_digits_are(capsys, tmp_path):
    arguments = ["--attention.policy", "oracle", "--data.kind", "folder", f"--run_dir={tmp_path / 'run'}"]
    assert train_main(arguments) == 2
    message = "must be .*cluttered.* with attention.policy oracle, which needs the boxes of the digits, got 'folder'"
    assert re.fullmatch(f"train.py: error: data.kind {message}\n", capsys.readouterr().err)
    assert not (tmp_path / "run").exists()


def test_help_names_the_rules_and_the_networks(capsys):
    assert train_main(["--help-all"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--attention.policy" in text and "--model" in text
    assert "learned,center,random,raster,oracle" in text.replace(", ", ",")
    assert "recurrent_attention" in text


def test_unknown_policies(capsys):
    assert train_main([*tiny_options({"attention.policy": "corner"})]) == 2
    assert "attention.policy" in capsys.readouterr().err
