"""Classifiers that look at a grid by the other scorers and through a window: trained, stopped, resumed, scored."""

import pytest
import torch
from support.runs import assert_same_run, at_step, new_engine, silent, tiny, train_main, train_tiny

from glimpse import build_data, load
from glimpse.attention.scorers import SCORERS
from glimpse.evaluation.classify import score
from glimpse.training.run import Run

KINDS = {
    "dot": {"attention.scorer": "dot"},
    "local": {"attention.scorer": "bilinear", "attention.window": 1},
    "local dot": {"attention.scorer": "dot", "attention.window": 1, "loss.reward_reaches_core": "false"},
}


def settings_of(kind, read, **others):
    grid = {"read": read, "attention.places": "grid", "attention.grid": [4, 5]}
    return {**grid, "train.epochs": 2, "train.limit": 128, **KINDS[kind], **others}


@pytest.mark.parametrize("read", ["hard", "soft"])
@pytest.mark.parametrize("kind", KINDS)
def test_stopped_and_resumed_is_the_same(kind, read, tmp_path, few_test_examples):
    settings = settings_of(kind, read)
    straight = train_tiny(tmp_path / "straight", settings)
    engine = new_engine(tmp_path / "stopped", settings)
    at_step(engine, 3, lambda terms: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        engine.train(silent)
    assert train_main(["--resume", str(engine.run.folder)]) == 0
    assert_same_run(engine.run, straight.run)
    attention = straight.task.model.glimpses.attention
    assert isinstance(attention.scorer, SCORERS[settings["attention.scorer"]])
    assert (attention.window is None) == (kind == "dot")


def test_a_run_through_a_window_is_scored_as_it_was_trained(tmp_path, few_test_examples):
    assert train_main([*tiny(settings_of("local", "hard")), f"--run_dir={tmp_path / 'run'}"]) == 0
    run = Run.open(tmp_path / "run")
    model, data = load(run.folder), build_data(run.config.data).test
    assert score(model, data, limit=few_test_examples).error == run.read_json("result.json")["test"]["error"]
    rollout = model(next(data.in_order(batch_size=50)).images, sample=False)
    chosen = rollout.attention_weights[:, 1:]  # the first glimpse is given
    rows, columns = (
        (chosen > 0).unflatten(-1, (4, 5)).any(-1).sum(-1),
        (chosen > 0).unflatten(-1, (4, 5)).any(-2).sum(-1),
    )
    assert rows.max() <= 3 and columns.max() <= 3 and torch.equal((chosen > 0).sum(-1), rows * columns)
