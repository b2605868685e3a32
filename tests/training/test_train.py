"""Training from a config to a finished run folder: what is returned, written and printed."""

import io
import re
import shutil
from contextlib import redirect_stdout

import pytest
import torch
from support.runs import REPOSITORY, assert_same_run, resumed, tiny_config
from support.tensors import tiny_config as tiny_model_config

from glimpse import load
from glimpse.evaluation.classify import score
from glimpse.tasks.build import build_data
from glimpse.tasks.classification import ClassificationTask
from glimpse.tasks.settings import load_config
from glimpse.training.engine import Engine
from glimpse.training.run import BEST, Run
from glimpse.training.train import train

SHORT = {"train.epochs": 2, "train.limit": 128, "score.limit": 100}
MODELS = {
    "hard": {},
    "soft": {"read": "soft"},
    "soft_to_hard": {"read": "soft", "score.read": "hard"},
    "raster": {"attention.policy": "raster"},
    "cnn": {"model": "cnn"},
}


@pytest.fixture(scope="module")
def trainings(few_test_examples, tmp_path_factory):
    """Trains a model of a kind once; returns its run, its scores, the printed lines and the seconds left."""
    done = {}

    def training(kind):
        if kind not in done:
            left = []

            def suffix(engine):
                left.append((engine.epoch, engine.seconds, engine.seconds_left))
                return f"  ({kind} after {engine.epoch})"

            config, folder = tiny_config({**SHORT, **MODELS[kind]}), tmp_path_factory.mktemp(kind) / "run"
            with redirect_stdout(io.StringIO()) as output:
                scores = train(config, name=kind, folder=folder, suffix=suffix)
            done[kind] = Run(folder, config), scores, output.getvalue().splitlines(), left
        return done[kind]

    return training


@pytest.mark.parametrize("kind", MODELS)
def test_returns_the_test_scores_of_the_best_weights(kind, trainings, few_test_examples):
    run, scores, _, _ = trainings(kind)
    result = run.read_json("result.json")
    # JSON has no tuples.
    assert result["test"] == {**scores, "interval": [list(interval) for interval in scores["interval"]]}
    assert scores["images"] == few_test_examples and len(scores["error"]) == (1 if kind == "cnn" else 3)
    assert ("hit" in scores) == (kind != "cnn")
    assert result["valid"] == run.load(BEST)[1]
    mode = {"soft": "soft", "cnn": None}.get(kind, "hard")
    assert (
        score(load(run.folder), build_data(run.config.data).test, mode=mode, limit=few_test_examples).as_dict()
        == scores
    )


@pytest.mark.parametrize("kind", MODELS)
def test_run_folder_has_the_name_and_the_metadata_of_the_model(kind, trainings):
    metadata = trainings(kind)[0].read_json("meta.json")
    assert (metadata["name"], metadata["image_shape"], metadata["class_names"]) == (
        kind,
        [1, 60, 60],
        list("0123456789"),
    )
    assert Run.open(trainings(kind)[0].folder).config == trainings(kind)[0].config


@pytest.mark.parametrize("kind", ["hard", "cnn"])
def test_suffixes_end_the_lines_of_the_epochs(kind, trainings):
    _, _, lines, left = trainings(kind)
    epochs = [line for line in lines if line.startswith("epoch ")]
    assert len(epochs) == 2
    for number, line in enumerate(epochs, 1):
        end = rf" s, \d+ s left(  best)?  \({kind} after {number}\)"
        assert re.fullmatch(rf"epoch {number}/2  loss \d+\.\d{{4}}  validation error \d+\.\d\d%  \d+{end}", line)
    (first, first_seconds, first_left), (last, last_seconds, last_left) = left
    assert (first, last) == (1, 2) and 0 < first_seconds < last_seconds
    assert first_left == first_seconds and last_left == 0  # one epoch of two is done


def test_seconds_left_are_those_of_an_average_epoch():
    engine = Engine.__new__(Engine)
    engine.settings = tiny_config({"train.epochs": 10}).train
    for epoch, seconds, expected in ((1, 4.0, 36.0), (4, 12.0, 18.0), (9, 9.0, 1.0), (10, 50.0, 0.0)):
        engine.epoch, engine.seconds = epoch, seconds
        assert engine.seconds_left == expected


@pytest.mark.parametrize(
    "options, words",
    [
        (("--read=hard",), "hard attention, 3 glimpses"),
        (("--read=soft", "--num_glimpses=8"), "soft attention, 8 glimpses"),
        (("--read=hard", "--attention.policy=center"), "hard reads, 3 glimpses placed by rule: center"),
        (("--read=soft", "--attention.policy=random"), "soft reads, 3 glimpses placed by rule: random"),
        (("--read=hard", "--attention.policy=raster"), "hard reads, 3 glimpses placed by rule: raster"),
        (("--read=hard", "--attention.policy=oracle"), "hard reads, 3 glimpses placed by rule: oracle"),
        (("--model=cnn",), "convolutional network of the whole image"),
        (("--model=fc",), "fully connected network of the whole image"),
    ],
)
def test_descriptions(options, words):
    assert tiny_model_config(*options).describe() == words


@pytest.mark.parametrize("kind", MODELS)
def test_first_lines(kind, trainings):
    run, _, lines, _ = trainings(kind)
    weights = sum(value.numel() for value in load(run.folder).parameters())
    what = {
        "hard": "Hard attention, 3 glimpses",
        "raster": "Hard reads, 3 glimpses placed by rule: raster",
        "cnn": "Convolutional network of the whole image",
    }.get(kind, "Soft attention, 3 glimpses")
    images = f"{len(build_data(run.config.data).train):,} images of 1 x 60 x 60"
    assert lines[:2] == [f"{what}; {weights:,} weights; {images}; seed 0; 1 x cpu", f"Run folder: {run.folder}"]
    assert not any("Resuming" in line for line in lines)


@pytest.mark.parametrize(
    "kind, read, label, other",
    [
        ("hard", ", hard read", "greedy", "soft"),
        ("soft", ", soft read", "soft", "hard"),
        ("soft_to_hard", ", hard read", "greedy", "hard"),
        ("raster", ", hard read", "greedy", "soft"),
        ("cnn", "", "cnn", None),
    ],
)
def test_last_lines(kind, read, label, other, trainings, few_test_examples):
    run, scores, lines, _ = trainings(kind)
    epoch = run.read_json("result.json")["valid"]["epoch"]
    start = lines.index(
        f"Test, {few_test_examples} images, weights of epoch {epoch} (the best on the validation set){read}:"
    )
    table, after = lines[start + 2 :], lines[lines.index("Next:") + 1 :]
    assert table[0].split() == ["glimpse", *(str(step + 1) for step in range(len(scores["error"])))]
    assert table[2].split() == [f"{label}:", "error", "%", *(f"{100 * error:.2f}" for error in scores["error"])]
    if other is None:
        assert len(after) == 1 and after[0].startswith(f"    python evaluate.py compare {run.folder} RUN ")
    else:
        *score_line, animate_line, train_line = after
        # Only sampled glimpses have further scores.
        assert [line.split(" #")[0].strip() for line in score_line] == (
            [f"python evaluate.py score {run.folder}"] if kind in ("hard", "soft_to_hard") else []
        )
        assert animate_line.startswith(f"    python evaluate.py animate {run.folder} --out ")
        command = train_line.split(" #")[0].split()
        assert command[:3] == ["python", "train.py", str(run.folder / "config.yaml")]
        # With the std of the other read mode: that of a soft model is too small for exploration.
        recipe = load_config(file=REPOSITORY / "configs" / f"cluttered60_{other}.yaml").attention
        attention = run.config.attention.replace(
            std=recipe.std, std_final=recipe.std_final, std_anneal=recipe.std_anneal
        )
        suggested = load_config(command[3:], file=command[2])
        assert suggested == run.config.replace(read=other, attention=attention)


def test_last_lines_on_a_grid(tmp_path, capsys, few_test_examples):
    config = tiny_config({**SHORT, "attention.places": "grid", "attention.first": "learned", "train.epochs": 1})
    train(config, name="grid", folder=tmp_path / "run")
    command = capsys.readouterr().out.splitlines()[-1].split(" #")[0]
    assert command.strip() == f"python train.py {tmp_path / 'run' / 'config.yaml'} --read soft"


@pytest.mark.parametrize("kind", ["raster", "cnn"])
def test_resuming_an_interrupted_run_is_exact(kind, trainings, tmp_path, capsys, monkeypatch):
    """Interrupted in the second epoch, then resumed."""
    straight, scores, lines, _ = trainings(kind)
    run = Run(tmp_path / "run", straight.config)
    loss_terms, steps = ClassificationTask.loss_terms, []

    def interrupted(self, *arguments):
        steps.append(None)
        if len(steps) == 4:
            raise KeyboardInterrupt
        return loss_terms(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(ClassificationTask, "loss_terms", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(run.config, name=kind, folder=run.folder)
    assert f"Stopped. Resume with:\n    python train.py --resume {run.folder}\n" in capsys.readouterr().out
    assert not (run.folder / "result.json").exists() and resumed(run).epoch == 1
    torch.manual_seed(99)  # has no effect
    assert train(run.config, run=run) == scores
    out = capsys.readouterr().out
    assert "Resuming after epoch 1\n" in out and "Different from the first part" not in out
    assert_same_run(run, straight)
    assert out.splitlines()[0] == lines[0]


def test_resuming_on_a_different_machine_prints_the_difference(trainings, tmp_path, capsys):
    finished, scores, _, _ = trainings("raster")
    run = Run(shutil.copytree(finished.folder, tmp_path / "run"), finished.config)
    run.write_json("meta.json", {**run.read_json("meta.json"), "threads": 7})
    assert train(run.config, run=run) == scores
    message = "Different from the first part of this run: threads 1. Results will match up to rounding, not bit for bit"
    assert f"{message}\n" in capsys.readouterr().out
