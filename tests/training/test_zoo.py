"""Models that ship with the package: they are complete, have the scores of their result.json, and open by name."""

import json
import shutil
import tomllib
from pathlib import Path

import pytest
import torch
from support.runs import REPOSITORY, load_script, python, train_main
from support.tensors import ALONE, tiny_config

import glimpse
from glimpse.data.sentence_pairs import pairs_of
from glimpse.errors import RunError
from glimpse.evaluation.caption import caption_dataset, score_captions
from glimpse.evaluation.classify import score
from glimpse.metrics.translations import TranslationScores
from glimpse.tasks.base import build_task
from glimpse.tasks.build import build_data, make_model
from glimpse.tasks.captioning import CaptioningTask
from glimpse.tasks.classification import ClassificationTask
from glimpse.tasks.classification_commands import load_runs
from glimpse.tasks.runs import check_given_once, unique_names
from glimpse.training import zoo
from glimpse.training.load import load, open_runs
from glimpse.training.run import BEST, Run
from glimpse.training.zoo import shipped_models

ship = load_script("results/ship")
evaluate = load_script("evaluate").main


def classifiers():
    return [name for name in shipped_models() if Run.open(name).config.model not in ("captioner", "translator")]


def result_of(name):
    return Run.open(name).read_json("result.json")["test"]


def scores_on_test(name, limit=None):
    """The test scores of a classifier."""
    [loaded], splits = load_runs(ClassificationTask, open_runs([name]))
    size = loaded.run.config.score.batch_size
    return score(loaded.model, splits.test, mode=loaded.mode, batch_size=size, limit=limit).as_dict()


# The shipped models


def test_some_models_are_shipped():
    assert classifiers()


@pytest.mark.parametrize("name", shipped_models())
def test_shipped_model_is_complete(name):
    folder = zoo.FOLDER / name
    assert sorted(file.name for file in folder.iterdir()) == sorted(zoo.FILES)
    for file in ("config.yaml", "meta.json"):
        assert not {"/tmp", "/home", "/root", "/work"} & {text[:5] for text in _words(folder / file)}
    model = load(name)
    assert not getattr(model, "model", model).training  # a captioner or translator comes with its vocabulary


def _words(file):
    return file.read_text().replace('"', " ").replace("=", " ").replace("'", " ").split()


@pytest.mark.parametrize("name", shipped_models())
def test_part_of_the_test_set(name):
    """The score on a few examples is within four standard errors of that on all."""
    examples = 300
    if (run := Run.open(name)).config.model == "captioner":
        loaded = CaptioningTask.load(run)
        captions = caption_dataset(
            loaded.model,
            loaded.vocabulary,
            build_task(run.config, ALONE, open_run=Run.open).data.test,
            mode=run.config.scored_read,
            search=run.config.search(),
            batch_size=100,
            limit=examples,
        )
        found, expected = score_captions(captions).digits.true_and_complete, result_of(name)["true_and_complete"]
    elif run.config.model == "translator":
        pairs = pairs_of(build_data(run.config.data).test, examples)
        found, expected = TranslationScores.of(load(name).translate_pairs(pairs)).exact, result_of(name)["exact"]
    else:
        found, expected = scores_on_test(name, examples)["error"][-1], result_of(name)["error"][-1]
    assert abs(found - expected) < 4 * (max(expected * (1 - expected), 0.01) / examples) ** 0.5


def test_all_of_the_test_images():
    """The model that is the cheapest to score has exactly the error of its result.json."""

    def cost(name):
        run = Run.open(name)
        _, height, width = run.read_json("meta.json")["image_shape"]
        return height * width * run.config.num_glimpses

    name = min(classifiers(), key=cost)
    found, expected = scores_on_test(name), result_of(name)
    assert found["images"] == expected["images"] == 10_000
    # On another processor rounding may change the answer for one image.
    assert found["error"] == pytest.approx(expected["error"], abs=1.01e-4)


def test_wheels_contain_all_models():
    setuptools = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["setuptools"]
    globs = setuptools["package-data"]["glimpse"]
    matched = {file for pattern in globs for file in (REPOSITORY / "glimpse").glob(pattern)}
    assert {file for file in zoo.FOLDER.rglob("*") if file.is_file()} <= matched
    name = Path("zoo", "any-name", BEST)
    assert any(name.match(pattern) for pattern in globs)  # future models too


def test_import_is_quick():
    code = "import sys, glimpse; glimpse.shipped_models(); sys.exit('torch' in sys.modules)"
    assert python("-c", code).returncode == 0


@pytest.mark.parametrize("name", shipped_models())
def test_a_model_has_the_read_mode_of_its_scores(name):
    config = Run.open(name).config
    model = load(name)
    assert getattr(model, "model", model).mode == (config.score.read or config.read)


# A made-up zoo


@pytest.fixture
def models(tmp_path, monkeypatch):
    """A zoo whose only model is tiny-hard, with its initial weights; the working folder is empty."""
    config = tiny_config("--data.canvas=28", "--data.num_distractors=0", "--score.batch_size=100")
    metadata = {"name": "tiny", "image_shape": [1, 28, 28], "class_names": list("0123456789"), "command": ["train.py"]}
    model = make_model(config, image_shape=(1, 28, 28), num_classes=10)
    run = Run.create(config, name="tiny", metadata=metadata, folder=tmp_path / "models" / "tiny-hard")
    run.save(BEST, {f"model.{key}": value for key, value in model.state_dict().items()}, {})
    run.write_json("result.json", {"seconds": 1.0, "valid": {"epoch": 1, "error": 0.9}, "test": {}})
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(zoo, "FOLDER", tmp_path / "models")
    return tmp_path / "models"


def test_a_model_opens_by_name_and_by_folder(models):
    run = Run.open("tiny-hard")
    assert run.folder == models / "tiny-hard" and str(run) == "tiny-hard" and run.shipped
    assert shipped_models() == glimpse.shipped_models() == ["tiny-hard"]
    by_name, by_folder = load("tiny-hard"), load(models / "tiny-hard")
    assert all(map(torch.equal, by_name.state_dict().values(), by_folder.state_dict().values()))
    assert str(Run.open(models / "tiny-hard")) == str(models / "tiny-hard")


def test_a_folder_comes_before_a_name(models, tmp_path):
    shutil.copytree(models / "tiny-hard", tmp_path / "here" / "tiny-hard")
    run = Run.open("tiny-hard")
    assert run.folder.samefile(tmp_path / "here" / "tiny-hard") and not run.shipped
    shutil.rmtree(tmp_path / "here" / "tiny-hard")
    (tmp_path / "here" / "tiny-hard").mkdir()
    with pytest.raises(RunError, match=r"tiny-hard is not a run folder: there is no config\.yaml in it$"):
        Run.open("tiny-hard")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tiny-hrad", r"in it; did you mean tiny-hard\? The models that ship with the package: tiny-hard$"),
        ("elsewhere/other", r"in it; the models that ship with the package: tiny-hard$"),
        ("../models", r"in it$"),
    ],
)
def test_unknown_names(name, message, models):
    with pytest.raises(RunError, match=f"{name} is not a run folder: there is no config.yaml {message}"):
        Run.open(name)


def test_without_any_models(models):
    shutil.rmtree(models / "tiny-hard")
    with pytest.raises(RunError, match="the models that ship with the package: none$"):
        Run.open("tiny-hard")


def test_a_model_by_name_and_by_folder_is_given_twice(models, tmp_path):
    with pytest.raises(RunError, match="each run must be given once, got tiny-hard twice"):
        check_given_once([Run.open("tiny-hard"), Run.open(models / "tiny-hard")])
    other = Run.open(shutil.copytree(models / "tiny-hard", tmp_path / "here" / "copy"))
    names = unique_names([Run.open("tiny-hard"), other])
    assert names == ["tiny, seed 0, tiny-hard", f"tiny, seed 0, {other.folder}"]


def test_commands_print_the_name_as_given(models, capsys):
    assert evaluate(["score", "tiny-hard", "--limit", "20", "--rollouts", "1", "--threads", "1"]) == 0
    assert capsys.readouterr().out.startswith("tiny-hard: hard read, 20 test images\n")
    assert evaluate(["compare", "tiny-hard", "--limit", "20", "--rollouts", "1", "--threads", "1"]) == 0
    printed = capsys.readouterr()
    assert "Scoring 1 of 1: tiny-hard\n" in printed.err and str(models) not in printed.out + printed.err
    assert evaluate(["glimpses", "tiny-hard", "--count", "1"]) == 0
    assert evaluate(["caption", "tiny-hard", "photo.png"]) == 2
    assert "tiny-hard classifies: caption does not apply to it" in capsys.readouterr().err


def test_shipped_models_cannot_be_resumed(models, capsys):
    before = {file: file.read_bytes() for file in models.rglob("*.*")}
    for run in ("tiny-hard", str(models / "tiny-hard")):
        assert train_main(["--resume", run]) == 2
        message = f"{run} ships with the package and cannot be resumed; train from its weights with --init_from {run}\n"
        assert capsys.readouterr().err == f"train.py: error: {message}"
    assert {file: file.read_bytes() for file in models.rglob("*.*")} == before


def test_initial_weights_from_a_shipped_model(models):
    settings = ("--data.canvas=28", "--data.num_distractors=0", "--seed=5", "--init_from=tiny-hard")
    task = build_task(tiny_config(*settings), ALONE, open_run=Run.open)
    expected = load("tiny-hard")
    assert torch.equal(task.model.classify.weight, expected.classify.weight)
    # A halting unit may be added to a model without one.
    halting = build_task(tiny_config(*settings, "--network.halt=true"), ALONE, open_run=Run.open).model
    assert torch.equal(halting.classify.weight, expected.classify.weight) and halting.halt is not None
    with pytest.raises(
        RunError, match=r"another architecture: missing keys recall\..*classify.weight has shape \(10, 10\)"
    ):
        build_task(tiny_config(*settings, "--network.readout=attend"), ALONE, open_run=Run.open)


# results/ship.py


@pytest.fixture
def trained(models, tmp_path):
    """A run folder with all files of a training, and paths of this machine."""
    folder = shutil.copytree(models / "tiny-hard", tmp_path / "run")
    run = Run.open(folder)
    config = tiny_config("--data.canvas=28", f"--train.folder={tmp_path}", f"--init_from={tmp_path}/soft/seed1")
    (folder / "config.yaml").write_text(config.to_yaml())
    command = [
        *(str(REPOSITORY / "train.py"), str(REPOSITORY / "configs/x.yaml"), "--seed", "0"),
        *("--run_dir", str(tmp_path), f"--data.root={tmp_path}", "--train.lr=0.1", str(tmp_path / "y.yaml")),
    ]
    run.write_json("meta.json", {**run.read_json("meta.json"), "command": command, "machine": "Linux"})
    (folder / "last.safetensors").write_bytes(b"large")
    (folder / "metrics.jsonl").write_text("{}\n")
    return folder


def test_ship(trained, models, tmp_path, capsys):
    assert ship.main([str(trained), "my-model"]) == 0
    assert f"Wrote {models / 'my-model'}; all models together have 0." in capsys.readouterr().out
    assert sorted(file.name for file in (models / "my-model").iterdir()) == sorted(zoo.FILES)
    run, before = Run.open("my-model"), Run.open(trained)
    assert (run.config.train.runs_dir, run.config.init_from) == ("runs", "runs/soft/seed1")
    metadata = run.read_json("meta.json")
    assert metadata["command"] == ["train.py", "configs/x.yaml", "--seed", "0", "--train.lr=0.1", "y.yaml"]
    assert {**metadata, "command": 0} == {**before.read_json("meta.json"), "command": 0}
    assert run.read_json("result.json") == before.read_json("result.json")
    assert (run.folder / BEST).read_bytes() == (trained / BEST).read_bytes()
    assert not [file for file in run.folder.iterdir() if str(tmp_path).encode() in file.read_bytes()]
    (models / "my-model" / "left").touch()
    assert ship.main([str(trained), "my-model"]) == 0 and not (models / "my-model" / "left").exists()


@pytest.mark.parametrize(
    ("run", "name", "message"),
    [
        ("{trained}", "My_model", "NAME must consist of lowercase letters, digits and single hyphens, got My_model"),
        ("{trained}", "../a", "NAME must consist of lowercase letters"),
        ("tiny-hard", "other", "tiny-hard ships with the package already"),
        ("{trained}/none", "other", "is not a run folder"),
    ],
)
def test_what_cannot_be_shipped(run, name, message, trained, models, capsys):
    assert ship.main([run.format(trained=trained), name]) == 2
    assert "ship.py: error: " in (text := capsys.readouterr().err) and message in text
    assert shipped_models() == ["tiny-hard"]


def test_unfinished_broken_and_large_runs_are_not_shipped(trained, models):
    run = Run.open(trained)
    size = sum((trained / file).stat().st_size for file in zoo.FILES)
    with pytest.raises(RunError, match=r"all models together must have at most 0 MB, got 0\.\d MB"):
        ship.ship(run, "other", max_bytes=1.5 * size)
    ship.ship(run, "tiny-hard", max_bytes=1.5 * size)  # replaces the one that exists
    (trained / BEST).write_bytes(b"cut")
    with pytest.raises(RunError, match=r"best\.safetensors is broken"):
        ship.ship(run, "other")
    (trained / "result.json").unlink()
    with pytest.raises(RunError, match="run is not finished; finish it with: python train.py --resume"):
        ship.ship(run, "other")
    assert shipped_models() == ["tiny-hard"]


@pytest.mark.slow
def test_ship_half(trained, models):
    """The weights are rounded to 16 bits, and the score that ships is that of the rounded ones."""
    run = Run.open(trained)
    tensors, state = run.load(BEST)
    run.save(BEST, {**tensors, "model.baseline.bias": torch.tensor([torch.inf])}, state)  # stays infinite
    assert ship.main([str(trained), "whole"]) == 0 and ship.main([str(trained), "half", "--half"]) == 0
    whole, half = Run.open("whole"), Run.open("half")
    (before, state), (after, same) = whole.load(BEST), half.load(BEST)
    assert state == same and before.keys() == after.keys()
    for name, value in before.items():
        assert torch.equal(after[name], value.half() if value.is_floating_point() else value)
    assert {value.dtype for value in load("half").parameters()} == {torch.float32}
    scores = json.loads(json.dumps(scores_on_test("half")))
    assert half.read_json("result.json") == {**whole.read_json("result.json"), "test": scores}
    for file in ("config.yaml", "meta.json"):
        assert (half.folder / file).read_bytes() == (whole.folder / file).read_bytes()


def test_weights_too_large_for_half(trained, models, capsys):
    run = Run.open(trained)
    tensors, state = run.load(BEST)
    name = next(name for name, value in tensors.items() if value.is_floating_point() and value.dim())
    tensors[name].view(-1)[0] = 1e5
    run.save(BEST, tensors, state)
    assert ship.main([str(trained), "half", "--half"]) == 2
    assert "has weights that are too large for 16 bits: ship it without --half" in capsys.readouterr().err
    assert shipped_models() == ["tiny-hard"]


def test_meta_without_a_command(trained):
    run = Run.open(trained)
    run.write_json("meta.json", {"name": "tiny"})
    with pytest.raises(RunError, match=r"meta\.json is broken: there is no command in it"):
        ship.ship(run, "other")
    assert json.loads((trained / "meta.json").read_text()) == {"name": "tiny"}
