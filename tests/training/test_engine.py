"""The training loop: arithmetic, metrics and checkpoints, and that a stopped and resumed run equals an unbroken one."""

import math
import os

import pytest
import torch
from support.runs import (
    assert_same_run,
    at_step,
    make_engine,
    new_engine,
    resumed,
    rows_without_time,
    silent,
    tiny_config,
    train_tiny,
)
from support.tensors import ALONE

from glimpse import load
from glimpse.errors import NonFiniteError, RunError
from glimpse.evaluation.classify import ClassificationScores
from glimpse.training.engine import RunningMeans
from glimpse.training.optimizer import learning_rate
from glimpse.training.run import BEST, LAST, Run

STEPS = 4  # in an epoch of the tiny run
ONE_STEP = {"train.epochs": 1, "train.limit": 64, "train.schedule": "constant", "train.lr": 0.01}


class Stop(BaseException):
    """Ends a training as abruptly as an exception can."""


def stop(*arguments):
    raise Stop


def stop_in_second_epoch(folder, settings=None):
    engine = new_engine(folder, settings)
    at_step(engine, STEPS + 2, stop)
    with pytest.raises(Stop):
        engine.train(silent)
    return engine.run


# Arithmetic


@pytest.mark.parametrize(
    ("schedule", "progress", "warmup", "expected"),
    [
        ("one_cycle", 0.0, 0.1, 0.04),
        ("one_cycle", 0.05, 0.1, 0.52),
        ("one_cycle", 0.1, 0.1, 1.0),
        ("one_cycle", 0.25, 0.1, 0.9330127),
        ("one_cycle", 0.55, 0.1, 0.5),
        ("one_cycle", 1.0, 0.1, 0.0),
        ("one_cycle", 0.2, 0.4, 0.52),
        ("cosine", 0.0, 0.1, 1.0),
        ("cosine", 1 / 3, 0.1, 0.75),
        ("cosine", 1.0, 0.1, 0.0),
        ("linear", 0.0, 0.1, 1.0),
        ("linear", 0.25, 0.1, 0.75),
        ("linear", 1.0, 0.1, 0.0),
        ("constant", 0.0, 0.1, 1.0),
        ("constant", 1.0, 0.1, 1.0),
    ],
)
def test_learning_rate(schedule, progress, warmup, expected):
    assert learning_rate(schedule, progress, warmup) == pytest.approx(expected, abs=1e-7)


def one_step(folder, settings):
    """The weights before and after a single step, and the gradient in between."""
    engine = new_engine(folder, {**ONE_STEP, **settings})
    assert engine.task.steps_per_epoch == 1
    parameters = list(engine.task.model.parameters())
    before = torch.cat([p.detach().flatten() for p in parameters])
    terms = engine.task.loss_terms(engine.task.model, next(engine.task.batches(0)), engine.task.noise(0, 0))
    gradients = torch.autograd.grad(sum(weight * value for weight, value in terms.values()), parameters)
    engine.train(silent)
    after = torch.cat([p.detach().flatten() for p in parameters])
    return before, after, torch.cat([gradient.flatten() for gradient in gradients])


UPDATES = {
    "sgd": lambda w, g: w - 0.01 * (g + 0.5 * w),
    "adam": lambda w, g: w - 0.01 * (g + 0.5 * w) / ((g + 0.5 * w).abs() + 1e-8),
    "adamw": lambda w, g: w * (1 - 0.01 * 0.5) - 0.01 * g / (g.abs() + 1e-8),
}


@pytest.mark.parametrize("optimizer", UPDATES)
def test_first_step_of_the_optimizers(optimizer, tmp_path):
    settings = {"train.optimizer": optimizer, "train.weight_decay": 0.5, "train.clip": 1e9}
    before, after, gradient = one_step(tmp_path, settings)
    torch.testing.assert_close(after, UPDATES[optimizer](before, gradient), rtol=1e-4, atol=1e-5)
    assert (after - before).abs().max() > 1e-3


@pytest.mark.parametrize("places", ["plane", "grid"])
def test_learning_rate_multiplier_of_the_attention(places, tmp_path):
    settings = {"train.optimizer": "sgd", "train.weight_decay": 0, "train.clip": 1e9, "attention.places": places}
    engines = [new_engine(tmp_path / str(k), {**ONE_STEP, **settings, "train.places_lr": k}) for k in (1, 0.25)]
    moves = []
    for engine in engines:
        before = {name: weight.detach().clone() for name, weight in engine.task.model.named_parameters()}
        engine.train(silent)
        moves.append({name: weight.detach() - before[name] for name, weight in engine.task.model.named_parameters()})
    full, reduced = moves
    slower = {name for name in full if name.startswith("glimpses.attention.")}
    assert slower and any(full[name].any() for name in slower)
    for name in full:
        torch.testing.assert_close(reduced[name], full[name] * (0.25 if name in slower else 1), rtol=1e-3, atol=1e-6)


def test_momentum(tmp_path):
    settings = {"train.optimizer": "sgd", "train.momentum": 0.7, "train.weight_decay": 0, "train.clip": 1e9}
    engine = new_engine(tmp_path, {**ONE_STEP, "train.limit": 128, **settings})
    weight = engine.task.model.classify.weight
    weights, gradients = [], []
    loss_terms = engine.task.loss_terms

    def watched(*arguments):
        weights.append(weight.detach().clone())
        return loss_terms(*arguments)

    engine.task.loss_terms = watched
    weight.register_hook(lambda gradient: gradients.append(gradient.clone()))
    engine.train(silent)
    first, second = gradients
    torch.testing.assert_close(weights[1], weights[0] - 0.01 * first)
    torch.testing.assert_close(weight.detach(), weights[1] - 0.01 * (0.7 * first + second))


def test_clip_bounds_the_norm_of_the_whole_gradient(tmp_path):
    settings = {"train.optimizer": "sgd", "train.weight_decay": 0, "train.clip": 0.125}
    before, after, gradient = one_step(tmp_path, settings)
    assert gradient.norm() > 0.25
    assert (after - before).norm() == pytest.approx(0.01 * 0.125, rel=1e-3)
    torch.testing.assert_close(after, before - 0.01 * 0.125 * gradient / gradient.norm(), rtol=1e-4, atol=1e-6)


def test_rows(tmp_path):
    """A row every `log_every` steps and at the end of each epoch, with means since the previous row."""
    every_step = train_tiny(tmp_path / "1", {"train.log_every": 1}).run.rows()
    every_three = train_tiny(tmp_path / "3", {"train.log_every": 3}).run.rows()
    steps = [(row["step"], row["epoch"]) for row in every_three if "lr" in row]
    assert steps == [(3, 1), (4, 1), (7, 2), (8, 2), (11, 3), (12, 3)]
    losses = [row["train/loss"] for row in every_step if "lr" in row]
    assert len(losses) == 3 * STEPS
    expected = [mean for e in range(3) for mean in (sum(losses[4 * e : 4 * e + 3]) / 3, losses[4 * e + 3])]
    assert [row["train/loss"] for row in every_three if "lr" in row] == pytest.approx(expected)
    epochs = [row for row in every_three if "lr" not in row]
    assert [(row["step"], row["epoch"]) for row in epochs] == [(4, 1), (8, 2), (12, 3)]
    assert [row["epoch/loss"] for row in epochs] == pytest.approx(
        [sum(losses[4 * e : 4 * e + 4]) / 4 for e in range(3)]
    )
    assert [row["seconds"] for row in epochs] == sorted(row["seconds"] for row in epochs)
    rates = [0.003 * learning_rate("one_cycle", step / 12, 0.1) for step in range(12)]
    assert [row["lr"] for row in every_step if "lr" in row] == pytest.approx(rates)


def test_loss_is_the_weighted_sum_of_its_terms(tmp_path):
    settings = {"loss.reinforce": 0.3, "loss.baseline_weight": 0.7, "loss.entropy": 0.2, "train.epochs": 1}
    row = train_tiny(tmp_path, settings).run.rows()[0]
    weights = {"cross_entropy": 1, "reinforce": 0.3, "baseline": 0.7, "neg_entropy": 0.2, "error": 0, "reward": 0}
    assert {key.removeprefix("train/") for key in row if key.startswith("train/")} == {"loss", *weights}
    total = sum(weight * row[f"train/{name}"] for name, weight in weights.items())
    assert row["train/loss"] == pytest.approx(total, rel=1e-5)


def test_best_is_the_epoch_with_the_lowest_validation_error(tmp_path):
    engine = new_engine(tmp_path, {"train.epochs": 5})
    weights, errors, lines = [], [0.5, 0.25, 0.375, 0.25, 0.75], []

    def validate():
        weights.append({key: value.clone() for key, value in engine.task.model.state_dict().items()})
        return ClassificationScores(images=8, error=[0.875, errors[len(weights) - 1]], interval=[(0.0, 1.0)] * 2)

    engine.task.validate = validate
    engine.train(lines.append)
    tensors, state = engine.run.load(BEST)
    assert engine.best == state == {"epoch": 2, "error": 0.25, "errors": [0.875, 0.25], "hits": None}
    assert tensors.keys() == {f"model.{key}" for key in weights[1]}
    assert all(torch.equal(tensors[f"model.{key}"], value) for key, value in weights[1].items())
    assert not all(torch.equal(tensors[f"model.{key}"], value) for key, value in weights[3].items())
    assert ["best" in line for line in lines] == [True, True, False, False, False]
    assert [row["valid/error"] for row in engine.run.rows() if "valid/error" in row] == errors


def test_tensorboard_has_the_values_of_the_rows(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    engine = train_tiny(tmp_path, {"train.epochs": 1, "train.tensorboard": "true"})
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    rows = engine.run.rows()
    for tag in ("train/loss", "lr", "valid/error", "epoch/loss"):
        expected = [(row["step"], row[tag]) for row in rows if tag in row]
        found = [(event.step, event.value) for event in events.Scalars(tag)]
        assert [step for step, _ in found] == [step for step, _ in expected]
        assert [value for _, value in found] == pytest.approx([value for _, value in expected], rel=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"read": "soft"},
        {"num_glimpses": 1},
        {"num_glimpses": 1, "attention.first": "learned"},
        {"loss.baseline": "none"},
        {"loss.reinforce": 0},
        {"loss.baseline_weight": 0},
        {"attention.learn_std": "true"},
        {"attention.places": "grid"},
        {"read": "soft", "attention.places": "grid"},
        {"read": "soft", "attention.learn_std": "true"},
        {"network.readout": "attend", "network.halt": "true"},
        {"network.readout": "attend", "network.halt": "true", "loss.classify": "last", "num_glimpses": 2},
        {"network.halt": "true", "loss.mix": 1, "loss.mix_end": 0},
        {"read": "soft", "network.halt": "true", "loss.glimpse_cost": 0},
        {"network.readout": "attend", "num_glimpses": 1},
    ],
    ids=lambda settings: " ".join(f"{key}={value}" for key, value in settings.items()) or "default",
)
def test_every_parameter_has_gradient_is_true_only_if_so(settings, tmp_path):
    """Several processes wait for each other's gradients, so they must know if some parameters have none."""
    task = new_engine(tmp_path, settings).task
    terms = task.loss_terms(task.model, next(task.batches(0)), task.noise(0, 0))
    sum(weight * value for weight, value in terms.values() if weight).backward()
    without = [name for name, parameter in task.model.named_parameters() if parameter.grad is None]
    assert not (task.every_parameter_has_gradient and without), without


def test_fewer_images_than_a_batch():
    with pytest.raises(ValueError, match=r"train.batch_size must be at most 10 \(train.limit\), got 64"):
        make_engine(Run(".", tiny_config({"train.limit": 10})))


# Resuming

RESUMED = {
    "hard adamw": {},
    "hard adam": {"train.optimizer": "adam"},
    "hard sgd": {"train.optimizer": "sgd", "train.lr": 0.1},
    "std shrinks": {"attention.std": 0.4, "attention.std_end": 0.05, "attention.std_until": 0.8},
    "learned std": {"attention.learn_std": "true", "attention.std_end": 0.05},
    "random first": {"attention.first": "random"},
    "learned first": {"attention.first": "learned"},
    "several rollouts": {"loss.rollouts": 2, "loss.baseline": "leave_one_out"},
    "grid": {"attention.places": "grid"},
    "places slower": {"train.places_lr": 0.3},
    "soft start": {"loss.mix": 0.9, "loss.mix_end": 0, "loss.mix_until": 0.6},
    "memory and halting": {"network.readout": "attend", "network.halt": "true", "train.places_lr": 0.3},
    "soft": {"read": "soft"},
    "soft to hard": {"read": "soft", "score.read": "hard", "attention.std_end": 0.02},
}


@pytest.mark.parametrize("case", RESUMED)
def test_resumed_run_equals_the_unbroken_run(case, tmp_path):
    settings = {**RESUMED[case], "train.log_every": 2}
    straight = train_tiny(tmp_path / "straight", settings)
    run = stop_in_second_epoch(tmp_path / "stopped", settings)
    assert run.rows()[-1]["step"] == STEPS + 2
    torch.manual_seed(1234)  # nothing may depend on the global generator
    engine = resumed(run)
    assert engine.epoch == 1 and engine.step == STEPS and engine.seconds > 0
    assert all(row["step"] <= STEPS for row in run.rows())
    engine.train(silent)
    assert_same_run(run, straight.run)
    state, other = (e.optimizer.state_dict()["state"] for e in (engine, straight))
    assert state.keys() == other.keys() and len(state) > 0
    for index in state:
        assert state[index].keys() == other[index].keys()
        assert all(torch.equal(torch.as_tensor(v), torch.as_tensor(other[index][k])) for k, v in state[index].items())


def test_different_seeds_are_different_runs(tmp_path):
    """Otherwise the comparisons above would prove nothing."""
    runs = [train_tiny(tmp_path / str(seed), {"seed": seed, "train.epochs": 1}).run for seed in (0, 1)]
    assert rows_without_time(runs[0]) != rows_without_time(runs[1])


def test_std_is_restored(tmp_path):
    settings = {"attention.std": 0.4, "attention.std_end": 0.1, "attention.std_until": 0.5, "train.epochs": 2}
    run = stop_in_second_epoch(tmp_path, settings)
    glimpses = make_engine(run).task.model.glimpses
    assert glimpses.attention.std.flatten()[0] == pytest.approx(0.4)
    # The last step of the first epoch is the fourth of eight; the final std is reached after half of them.
    glimpses = resumed(run).task.model.glimpses
    assert glimpses.attention.std.flatten()[0] == pytest.approx(0.4 * (0.1 / 0.4) ** (3 / 8 / 0.5))
    run.write_json("meta.json", {"image_shape": [1, 60, 60], "class_names": list("0123456789")})
    assert load(tmp_path).glimpses.attention.std.flatten()[0] == pytest.approx(0.4 * 0.25**0.75)


def test_stop_in_the_first_epoch(tmp_path):
    straight = train_tiny(tmp_path / "straight")
    engine = new_engine(tmp_path / "stopped")
    at_step(engine, 1, stop)
    with pytest.raises(Stop):
        engine.train(silent)
    again = resumed(engine.run)
    assert again.epoch == 0
    again.train(silent)
    assert_same_run(again.run, straight.run)


@pytest.mark.parametrize("when", ["before", "after"])
def test_stop_at_any_write(when, tmp_path, monkeypatch):
    """Stopped before or after each renaming of a file in turn, a run can always be resumed."""
    settings = {"train.epochs": 2, "train.limit": 128}
    straight = train_tiny(tmp_path / "straight", settings)
    replace = os.replace
    for moment in range(100):
        engine = new_engine(tmp_path / f"{moment}", settings)
        remaining = moment

        def counted(*arguments):
            nonlocal remaining
            remaining -= 1
            if remaining == -1 and when == "before":
                raise Stop
            replace(*arguments)
            if remaining == -1:
                raise Stop

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", counted)
            try:
                engine.train(silent)
                break
            except Stop:
                pass
        if (engine.run.folder / LAST).exists():
            again = resumed(engine.run)
            again.train(silent)
            assert_same_run(again.run, straight.run)
        else:
            assert (when, moment) == ("before", 0)
    assert 4 <= moment < 99  # the first checkpoint, and after each epoch the state and perhaps the best weights


def test_finished_run_has_nothing_left_to_do(tmp_path):
    run = train_tiny(tmp_path).run
    before = (tmp_path / LAST).read_bytes()
    engine = resumed(run)
    assert engine.epoch == 3 and engine.best == run.load(LAST)[1]["best"]
    at_step(engine, 0, stop)
    engine.train(silent)
    assert (tmp_path / LAST).read_bytes() == before


# NaN and infinity


def _spoil(name):
    return lambda terms: {**terms, name: (terms[name][0], terms[name][1] * float("nan"))}


def _spoil_gradient(terms):
    weight, value = terms["cross_entropy"]
    return {**terms, "cross_entropy": (weight, value + (value * 0).sqrt())}  # same value, infinite gradient


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_spoil("cross_entropy"), "cross_entropy nan, "),
        (_spoil("reinforce"), "reinforce nan, "),
        (_spoil("reward"), "reward nan, "),
        (_spoil_gradient, "norm of the gradient (nan|inf)"),
    ],
    ids=["loss", "policy", "logged only", "gradient"],
)
def test_non_finite_numbers_stop_the_training(spoil, message, tmp_path):
    engine = new_engine(tmp_path)
    at_step(engine, STEPS + 2, spoil)
    at_step(engine, STEPS, lambda terms: (kept.append((tmp_path / LAST).read_bytes()), terms)[1])
    kept = []
    with pytest.raises(NonFiniteError, match=rf"in epoch 2, step 3 of {STEPS}: .*{message}") as caught:
        engine.train(silent)
    assert str(tmp_path / LAST) in str(caught.value)
    assert isinstance(caught.value, RunError)
    assert [(tmp_path / LAST).read_bytes()] == kept
    assert all(math.isfinite(value) for row in engine.run.rows() for value in row.values() if type(value) is float)


def test_run_with_a_non_finite_gradient_can_be_resumed(tmp_path):
    straight = train_tiny(tmp_path / "straight")
    engine = new_engine(tmp_path / "spoiled")
    at_step(engine, STEPS + 2, _spoil_gradient)
    with pytest.raises(NonFiniteError):
        engine.train(silent)
    again = resumed(engine.run)
    again.train(silent)
    assert_same_run(again.run, straight.run)


def test_means_are_over_the_steps_that_have_a_term():
    means = RunningMeans()
    for values in ({"loss": 1.0, "reward": 4.0}, {"loss": 2.0}, {"loss": 6.0, "reward": 2.0}):
        for name, value in values.items():
            means.add(name, torch.tensor(value))
    assert means.values(ALONE) == {"loss": 3.0, "reward": 3.0}
