"""Early exit: the results of each threshold, the one picked, and predictions equal to those of the full rollout."""

import math

import pytest
import torch
from support.pairs import pairs
from support.tensors import assert_close, draw, draw_bytes, tiny_model

from glimpse.attention.distributions import Gaussian, Noise
from glimpse.attention.sensor import Sensor
from glimpse.evaluation.classify import ClassifierOutcome, evaluate_classifier
from glimpse.evaluation.early_exit import (
    MAX_ADDED_ERROR,
    THRESHOLDS,
    ExitPoint,
    exit_curve,
    exit_curves,
    exit_point,
    exit_step,
    pick_threshold,
    stopping_signals,
)
from glimpse.metrics.classification import confidence
from glimpse.metrics.statistics import wilson_interval
from glimpse.models.early_exit import stop_early
from glimpse.tasks.classification import ClassificationTask
from glimpse.tasks.classification_commands import load_runs
from glimpse.training.load import load, open_runs
from glimpse.view.early_exit import early_exit_lines

SUMMARY = {"by": "confidence", "interval": [0.0, 1.0]} | dict.fromkeys(
    ("error", "glimpses", "valid_error", "valid_glimpses", "valid_full_error"), 0.5
)

SIGNAL = torch.tensor([[0.9, 0.2, 0.3], [0.5, 0.6, 0.4], [0.1, 0.2, 0.95], [0.3, 0.8, 0.9]])
CORRECT = torch.tensor([[True, False, False], [False, True, True], [False, False, True], [True, False, True]])


def outcome(probabilities, correct, halt_probabilities=None, targets=None):
    images, steps = correct.shape
    targets = torch.zeros(images, dtype=torch.long) if targets is None else targets
    return ClassifierOutcome(
        probabilities, targets, correct, torch.zeros(images, 1, steps, 2), None, halt_probabilities
    )


def make_outcome(seed, images=200, steps=5, halting=True):
    """Predictions that are the more often correct the higher their confidence."""
    probabilities = (draw(images, steps, 3, seed=seed) * 8).softmax(-1)
    correct = draw(images, steps, seed=seed + 1) < probabilities.amax(-1)
    return outcome(probabilities, correct, draw(images, steps, seed=seed + 2) if halting else None)


# Thresholds


def test_exit_points_by_hand():
    assert exit_step(SIGNAL, 0.55).tolist() == [1, 2, 3, 2]
    assert exit_step(SIGNAL, 0.6).tolist() == [1, 3, 3, 2]  # it must exceed the threshold
    assert exit_point(SIGNAL, CORRECT, 0.55) == ExitPoint(0.55, 0.25, 2.0, (0.25, 0.5, 0.25))
    assert exit_point(SIGNAL, CORRECT, 0.0) == ExitPoint(0.0, 0.5, 1.0, (1.0, 0.0, 0.0))
    assert exit_point(SIGNAL, CORRECT, 1.0) == ExitPoint(1.0, 0.25, 3.0, (0.0, 0.0, 1.0))


def test_a_threshold_of_one_never_stops():
    assert exit_step(torch.ones(1, 3), 1.0).tolist() == [3]
    assert exit_step(torch.full((1, 3), 1e-30), 0.0).tolist() == [1]


def slow_curve(signal, correct):
    for threshold in THRESHOLDS:
        wrong, counts = 0, [0] * signal.shape[1]
        for row, corrects in zip(signal.tolist(), correct.tolist(), strict=True):
            step = next((t for t, value in enumerate(row) if value > threshold), len(row) - 1)
            wrong += not corrects[step]
            counts[step] += 1
        images = len(signal)
        mean = sum((t + 1) * count for t, count in enumerate(counts)) / images
        yield threshold, wrong / images, mean, tuple(count / images for count in counts)


def test_exit_curve_equals_a_slow_loop():
    result = make_outcome(1)
    for signal in stopping_signals(result).values():
        points = exit_curve(signal.double(), result.correct)
        assert points == list(slow_curve(signal.double(), result.correct))
        glimpses = [point.glimpses for point in points]
        assert glimpses == sorted(glimpses) and glimpses[0] == 1 and glimpses[-1] == 5
        assert len(set(glimpses)) > 10
        wrong = (~result.correct).double().mean(0).tolist()
        assert (points[0].error, points[-1].error) == pytest.approx((wrong[0], wrong[-1]))


def test_thresholds_are_evenly_spaced_in_log_odds():
    assert THRESHOLDS[0] == 0 and THRESHOLDS[-1] == 1 and list(THRESHOLDS) == sorted(set(THRESHOLDS))
    texts = {early_exit_lines([{**SUMMARY, "threshold": value}]).split(":")[0] for value in THRESHOLDS}
    assert len(texts) == len(THRESHOLDS) and "early exit by confidence above 1" in texts  # the one that never stops
    odds = [math.log(value / (1 - value)) for value in THRESHOLDS[1:-1]]
    assert_close(torch.tensor(odds).diff(), torch.full((len(odds) - 1,), 0.25), 1e-4)


def points(*pairs):
    return [ExitPoint(index / 10, error, glimpses, ()) for index, (error, glimpses) in enumerate(pairs)]


def test_pick_threshold_by_hand():
    assert MAX_ADDED_ERROR == 0.001
    assert pick_threshold(points((0.3, 1.0), (0.0211, 2.0), (0.0209, 2.5), (0.02, 4.0), (0.02, 6.0))) == 2
    assert pick_threshold(points((0.3, 1.0), (0.0211, 2.0), (0.0209, 2.5), (0.02, 6.0)), max_added_error=0.01) == 1
    assert pick_threshold(points((0.3, 1.0), (0.03, 2.0), (0.02, 6.0))) == 2  # early exit would add too much error
    assert pick_threshold(points((0.0205, 2.0), (0.0201, 2.0), (0.02, 6.0))) == 1
    assert pick_threshold(points((0.01, 1.5), (0.005, 3.0), (0.02, 6.0))) == 0  # more glimpses may increase the error


def test_thresholds_are_picked_on_validation_images():
    valid, one, other = make_outcome(1), make_outcome(10, images=150), make_outcome(20, images=150)
    for curve, other_curve in zip(exit_curves(valid, one), exit_curves(valid, other), strict=True):
        assert curve.picked == other_curve.picked and curve.valid == other_curve.valid
        assert curve.scored != other_curve.scored and curve.images == 150
        assert curve.picked == pick_threshold(exit_curve(stopping_signals(valid)[curve.signal], valid.correct))
        assert curve.chosen == exit_point(stopping_signals(one)[curve.signal], one.correct, THRESHOLDS[curve.picked])
    picks = {seed: [curve.picked for curve in exit_curves(make_outcome(seed), one)] for seed in range(1, 40, 3)}
    assert len({picked[0] for picked in picks.values()}) > 1


def test_summary():
    valid, scored = make_outcome(1), make_outcome(10)
    curves = exit_curves(valid, scored)
    assert [curve.signal for curve in curves] == ["confidence", "halting"]
    summary = curves[1].summary()
    point = curves[1].chosen
    assert (summary["threshold"], summary["error"], summary["glimpses"]) == point[:3]
    assert summary["interval"] == pytest.approx(wilson_interval(round(200 * point.error), 200))
    assert summary["full_error"] == float((~scored.correct[:, -1]).double().mean())
    assert summary["valid_full_error"] == float((~valid.correct[:, -1]).double().mean())
    assert summary["valid_error"] == curves[1].valid[curves[1].picked].error
    assert sum(summary["shares"]) == pytest.approx(1)
    assert [curve.signal for curve in exit_curves(make_outcome(1, halting=False), make_outcome(2, halting=False))] == [
        "confidence"
    ]
    assert exit_curves(make_outcome(1, steps=1), make_outcome(2, steps=1)) == []


def test_confidence():
    probabilities = torch.tensor([[0.2, 0.5, 0.3], [0.9, 0.1, 0.0]])
    assert_close(confidence(probabilities), [0.5, 0.9])
    assert_close(confidence(probabilities, multi_label=True), [0.8 * 0.5 * 0.7, 0.9 * 0.9])
    targets = torch.tensor([[1.0, 0, 0], [1, 0, 1]])
    result = outcome(probabilities.unsqueeze(1), torch.ones(2, 1, dtype=torch.bool), targets=targets)
    assert_close(stopping_signals(result)["confidence"].squeeze(1), [0.28, 0.81])


# Rollouts with early exit

IMAGES = draw_bytes(12, 1, 12, 14)
BOXES = torch.tensor([[[3.0, 3, 9, 9]]]).expand(12, 1, 4)
CASES = {
    "hard": (),
    "soft": ("--read=soft",),
    "lstm with memory": ("--network.core=lstm", "--network.readout=attend"),
    "grid": ("--attention.places=grid", "--network.readout=attend"),
    "grid, soft": ("--attention.places=grid", "--read=soft"),
    "random first": ("--attention.first=random",),
    "learned first": ("--attention.first=learned",),
    "random control": ("--attention.policy=random",),
    "oracle": ("--attention.policy=oracle",),
    "table": ("--sensor.background=0.5",),
    "crop": ("--network.what=conv",),
}


def make(*options):
    """A model with a halting unit, whose predictions change from glimpse to glimpse."""
    model = tiny_model("--network.halt=true", "--num_glimpses=4", *options).eval()
    with torch.no_grad():
        model.classify.weight.mul_(20)
        model.halt[2].weight.mul_(20)
    return model


def threshold_between(values):
    """The middle of the widest gap near the median, so that rounding does not matter."""
    values = values.detach().sort().values
    middle = values[len(values) // 3 : -len(values) // 3]
    gap = int(middle.diff().argmax())
    return float(middle[gap : gap + 2].mean())


@pairs(signal=["confidence", "halting"], sample=[False, True], case=CASES)
def test_early_exit_equals_the_full_rollout_truncated(case, sample, signal):
    model = make(*CASES[case])
    if case in ("table", "crop"):
        model.glimpses.sensor.plan = case
    options = {"boxes": BOXES} if case == "oracle" else {}
    with torch.no_grad():
        rollout = model(IMAGES, sample=sample, noise=Noise(4), **options)
    signal_values = rollout.halt_logits.sigmoid() if signal == "halting" else rollout.logits.softmax(-1).amax(-1)
    threshold = threshold_between(signal_values[:, 0])
    early = stop_early(model, IMAGES, threshold=threshold, signal=signal, sample=sample, noise=Noise(4), **options)
    exits = exit_step(signal_values, threshold)
    assert early.num_glimpses.tolist() == exits.tolist()
    assert len(exits.unique()) > 1
    assert_close(early.logits, rollout.logits[torch.arange(12), exits - 1], 1e-4)
    assert not early.logits.requires_grad


@pytest.mark.parametrize("threshold, number", [(0.0, 1), (1.0, 4)])
def test_the_extreme_thresholds(threshold, number):
    model = make()
    early = stop_early(model, IMAGES, threshold=threshold)
    assert early.num_glimpses.tolist() == [number] * 12
    assert_close(early.logits, model(IMAGES, sample=False).logits[:, number - 1], 1e-4)


def test_stopped_images_are_not_computed():
    model, seen = make(), []
    model.glimpses.network.register_forward_hook(lambda module, inputs, output: seen.append(len(output)))
    signal_values = model(IMAGES, sample=False).logits.softmax(-1).amax(-1)
    threshold = threshold_between(signal_values[:, 0])
    seen.clear()
    early = stop_early(model, IMAGES, threshold=threshold)
    assert seen == [int((early.num_glimpses >= number).sum()) for number in range(1, int(early.num_glimpses.max()) + 1)]
    assert sum(seen) == int(early.num_glimpses.sum()) < 48


def test_several_labels():
    model = make()
    probabilities = model(IMAGES, sample=False).logits.sigmoid()
    signal_values = confidence(probabilities, multi_label=True)
    threshold = threshold_between(signal_values[:, 0])
    early = stop_early(model, IMAGES, threshold=threshold, multi_label=True)
    assert early.num_glimpses.tolist() == exit_step(signal_values, threshold).tolist()


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"threshold": 1.1}, r"threshold must be in \[0, 1\], got 1.1"),
        ({"threshold": math.nan}, r"threshold must be in \[0, 1\], got nan"),
        ({"threshold": 0.5, "signal": "luck"}, "signal must be one of confidence, halting, got 'luck'"),
        ({"threshold": 0.5, "signal": "halting"}, "signal must be 'confidence' for a model without a halting unit"),
    ],
)
def test_invalid_arguments(settings, message):
    with pytest.raises(ValueError, match=message):
        stop_early(tiny_model(), IMAGES, **settings)


def test_a_shipped_model_with_an_old_config():
    """Its config lacks newer settings; early exit gives the results that its threshold is picked by."""
    [loaded], splits = load_runs(ClassificationTask, open_runs(["cluttered60-hard"]))
    config = (loaded.run.folder / "config.yaml").read_text()
    assert "readout" not in config and "halt" not in config and "glimpse_cost" not in config
    model = load("cluttered60-hard")
    assert model.recall is None and model.halt is None
    outcome = evaluate_classifier(model, splits.test, limit=100)
    [curve] = exit_curves(outcome, outcome)
    batch = splits.test.select(list(range(100)))
    early = stop_early(model, batch.images, threshold=0.97)
    expected = exit_point(stopping_signals(outcome)["confidence"], outcome.correct, 0.97)
    wrong = early.logits.argmax(-1) != batch.targets
    assert float(wrong.double().mean()) == pytest.approx(expected.error, abs=0.0101)  # rounding may change one image
    assert float(early.num_glimpses.double().mean()) == pytest.approx(expected.glimpses, abs=0.0501)
    assert 1 < expected.glimpses < 4 and curve.signal == "confidence"


# Rows of views and of noise


@pytest.mark.parametrize("plan, size", [("table", (12, 14)), ("crop", (12, 14)), ("crop", (90, 80))])
@pytest.mark.parametrize("background", [0.0, 0.3])
def test_rows_of_a_view(plan, size, background):
    """Hard and soft reads of selected images, also off the edge, and of a selection of those."""
    images, sensor = draw_bytes(6, 2, *size), Sensor(patch_size=4, num_scales=2, plan=plan, background=background)
    view, index = sensor.view(images, 3), torch.tensor([5, 0, 2])
    places = draw(6, 2, seed=1) * 3 - 1.5
    assert torch.equal(view.rows(index).at(places[index]), view.at(places)[index])
    again = view.rows(index).rows(torch.tensor([2, 0]))
    assert torch.equal(again.at(places[[2, 5]]), view.at(places)[[2, 5]])
    soft = view.expect(Gaussian(places, torch.full_like(places, 0.2)))
    found = view.rows(index).expect(Gaussian(places[index], torch.full((3, 2), 0.2)))
    assert_close(found, soft[index], 1e-6)
    assert len(view.images) == 6


@pytest.mark.parametrize("rank, world_size", [(0, 1), (1, 2)])
def test_rows_of_noise(rank, world_size):
    def noise():
        return Noise(7, rank=rank, world_size=world_size)

    whole, some, index = noise(), noise(), torch.tensor([4, 1])
    assert torch.equal(some.normal(torch.zeros(5, 2)), whole.normal(torch.zeros(5, 2)))
    some = some.rows(index, 5)
    expected = whole.uniform(torch.zeros(5, 2))
    fork = some.fork()
    assert torch.equal(some.uniform(torch.zeros(2, 2)), expected[index])
    assert torch.equal(fork.uniform(torch.zeros(2, 2)), expected[index])
    one = some.rows(torch.tensor([1]), 2)
    assert torch.equal(one.normal(torch.zeros(1, 3)), whole.normal(torch.zeros(5, 3))[[1]])
