"""Captioners of photographs, from files on the disk to a trained run: features, fine-tuning, weights, mistakes."""

import json
import re
import shutil

import pytest
import torch
import torchvision
from support.photos import arguments, evaluate, make_coco, make_karpathy
from support.runs import assert_nearly_same_losses, assert_same_run, rows_without_time, train_by_two, train_main
from support.tensors import ALONE, assert_close

from glimpse.models.feature_cache import FeatureDataset
from glimpse.tasks.base import build_task
from glimpse.tasks.build import build_data
from glimpse.tasks.captioning import CaptioningTask
from glimpse.tasks.settings import load_config
from glimpse.training.engine import Engine
from glimpse.training.run import BEST, LAST, Run
from glimpse.training.train import train

pytestmark = pytest.mark.usefixtures("no_java")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return make_karpathy(tmp_path_factory.mktemp("photos"))


def train_in(folder, **settings):
    assert train_main([*arguments(**settings), f"--run_dir={folder}"]) == 0
    return Run.open(folder)


def scores_of(folder, capsys, *options):
    capsys.readouterr()
    assert evaluate("score", folder, "--json", *options) == 0
    [found] = json.loads(capsys.readouterr().out)
    return found["scores"]


def encoder_of(run, name=BEST):
    return {key: value for key, value in run.load(name)[0].items() if key.startswith("model.encoder.")}


def assert_same_tensors(one, other):
    assert one.keys() == other.keys() and one
    assert all(torch.equal(value, other[key]) for key, value in one.items())


# Data and features


LOCAL = {"attention__window": 1, "encoder__self_attention": 1, "encoder__heads": 8, "train__lr": 0.001}


@pytest.mark.parametrize("settings", [{"read": "soft"}, {"read": "hard"}, {"read": "soft", **LOCAL}])
def test_kept_features_change_nothing_but_rounding(settings, root, tmp_path, capsys):
    """Nor do they to a window, which must know their grid, and to self-attention, which learns beside them."""
    cache = tmp_path / "features"
    plain = train_in(tmp_path / "plain", data__root=root, **settings)
    out = capsys.readouterr().out
    assert re.search(r"^epoch 1/2  loss \d+\.\d{4}  validation BLEU-4 \d+\.\d\d  ", out, re.M)
    assert "Test, 4 images, weights of epoch" in out and "evaluate.py report" in out and "Features of" not in out
    kept = train_in(tmp_path / "kept", data__root=root, **settings, encoder__cache=cache)
    assert f"Features of 20 images, 9 x 512 each: 0.000184 GB in {cache}" in capsys.readouterr().out

    rows, others = rows_without_time(plain), rows_without_time(kept)
    assert len(rows) == len(others) == 2 * (3 + 1)
    for row, other in zip(rows, others, strict=True):
        assert row.keys() == other.keys()
        for key in row:
            if not key.startswith("valid/"):
                assert other[key] == pytest.approx(row[key], rel=5e-3, abs=1e-3), key
    assert_same_tensors(encoder_of(plain), encoder_of(kept))

    before = {path.name: path.stat().st_mtime_ns for path in cache.iterdir()}
    again = train_in(tmp_path / "again", data__root=root, **settings, encoder__cache=cache)
    assert "Features of" not in capsys.readouterr().out
    assert_same_run(again, kept)
    assert {path.name: path.stat().st_mtime_ns for path in cache.iterdir()} == before


def test_features_stand_for_the_images(root, tmp_path):
    config = load_config(arguments(data__root=root, encoder__cache=tmp_path / "features"))
    task = build_task(config, ALONE, open_run=Run.open)
    images = build_data(config.data)
    for kept, photos in zip(task.data, images, strict=True):
        assert isinstance(kept, FeatureDataset) and kept.image_shape == photos.image_shape == (3, 64, 64)
        [one], [other] = (list(data.in_order(batch_size=20)) for data in (kept, photos))
        assert one.captions == other.captions
        encoded = task.model.encoder(other.images)
        assert_close(one.images, encoded.half().float(), 1e-3 * float(encoded.abs().max()))


def test_words_are_those_of_the_training_captions(root):
    task = build_task(load_config(arguments(data__root=root)), ALONE, open_run=Run.open)
    assert set(task.vocabulary.words) >= {"a", "red", "blue", "square", "on", "the", "left", "right"}
    assert [len(data) for data in task.data] == [12, 4, 4]
    assert task.selection_metric == "BLEU-4" and task.format_scores({"BLEU-4": 0.1234}) == "BLEU-4 12.34"
    assert task.metadata()["image_shape"] == (3, 64, 64)
    few = build_task(load_config(arguments(data__root=root, decoder__min_count=7)), ALONE, open_run=Run.open)
    assert not {"left", "right"} & set(few.vocabulary.words) and "red" in few.vocabulary.words


@pytest.mark.parametrize("read", ["soft", "hard"])
def test_coco(read, tmp_path, capsys):
    root = make_coco(tmp_path / "coco")
    settings = {"data__kind": "coco", "data__root": root, "data__valid_fraction": 0.25, "read": read, "score__beam": 2}
    run = train_in(tmp_path / "run", **settings)
    assert "12 images of 3 x 64 x 64" in capsys.readouterr().out
    result = run.read_json("result.json")
    assert result["test"]["images"] == result["valid"]["images"] == 4
    assert result["valid"]["error"] == 1 - result["valid"]["BLEU-4"] and "true_and_complete" not in result["test"]
    assert scores_of(run.folder, capsys) == result["test"]


# Paths and weights


def test_a_run_is_scored_from_anywhere(root, tmp_path, monkeypatch, capsys):
    """Also without the file that its encoder's weights came from, which its checkpoints have."""
    (tmp_path / "there").mkdir()
    shutil.copytree(root, tmp_path / "there" / "photos")
    monkeypatch.chdir(tmp_path / "there")
    torch.manual_seed(5)
    weights = torchvision.models.squeezenet1_1(weights=None).state_dict()
    torch.save(weights, "weights.pth")
    settings = {"data__root": "photos", "encoder__weights": "weights.pth", "encoder__cache": "features"}
    run = train_in(tmp_path / "run", **settings)
    here = tmp_path / "there"
    assert run.config.data.root == str(here / "photos") and run.config.data.annotations == "captions.json"
    assert run.config.encoder.feature_cache == str(here / "features")
    assert run.config.encoder.weights == str(here / "weights.pth")
    kept = encoder_of(run)
    assert torch.equal(kept["model.encoder.trunk.features.0.weight"], weights["features.0.weight"])
    result = run.read_json("result.json")["test"]
    monkeypatch.chdir(tmp_path)
    (here / "weights.pth").unlink()
    assert scores_of("run", capsys) == result
    assert {path.name for path in tmp_path.iterdir()} == {"there", "run"}  # no second cache
    assert scores_of("run", capsys, "--limit", 2)["images"] == 2
    assert scores_of("run", capsys, "--split", "valid")["images"] == 4


def test_null_and_default_are_no_paths(tmp_path):
    for weights, expected in (("null", None), ("default", "default")):
        config = load_config(arguments(data__root="photos", encoder__weights=weights))
        run = Run.create(config, name="", metadata={}, folder=tmp_path / weights)
        assert run.config.encoder.weights == expected and run.config.encoder.feature_cache is None
        assert Run.open(run.folder).config == run.config


# Fine-tuning


FINE = {"train__epochs": 3, "encoder__fine_tune_from": 2, "decoder__dropout": 0.1, "read": "hard"}


@pytest.fixture(scope="module")
def fine_tuned(root, tmp_path_factory):
    """A run whose encoder learns from the second epoch on, and the encoder before and after each epoch."""
    config = load_config(arguments(data__root=root, **FINE))
    states = [
        {
            key: value.clone()
            for key, value in build_task(config, ALONE, open_run=Run.open).model.encoder.state_dict().items()
        }
    ]

    def keep(engine):
        states.append({key: value.clone() for key, value in engine.task.model.encoder.state_dict().items()})
        return ""

    folder = tmp_path_factory.mktemp("fine") / "run"
    train(config, name="", folder=folder, suffix=keep)
    return Run.open(folder), states


def test_the_encoder_learns_from_its_epoch_on(fine_tuned):
    run, states = fine_tuned
    assert len(states) == 4
    assert_same_tensors(states[0], states[1])
    for before, after in zip(states[1:], states[2:], strict=False):
        learned = {key for key in before if not torch.equal(before[key], after[key])}
        assert learned == {key for key in before if key.startswith("trunk.")}
    moments = [key for key in run.load(LAST)[0] if key.startswith("optimizer.encoder.")]
    assert len(moments) == 3 * sum(key.startswith("trunk.") for key in states[0])


@pytest.mark.parametrize("epochs", [1, 2])
def test_stopped_while_it_is_frozen_or_learns(epochs, fine_tuned, tmp_path):
    run, _ = fine_tuned

    def stop(engine):
        if engine.epoch == epochs:
            raise KeyboardInterrupt
        return ""

    with pytest.raises(KeyboardInterrupt):
        train(run.config, name="", folder=tmp_path / "run", suffix=stop)
    assert train_main(["--resume", str(tmp_path / "run")]) == 0
    assert_same_run(Run.open(tmp_path / "run"), run)


def test_what_a_run_began_from_is_not_needed_to_go_on(fine_tuned, root, tmp_path):
    """Neither the file of its weights nor the run that it was to begin from; and features are those of its encoder."""
    copy = tmp_path / "source"
    shutil.copytree(fine_tuned[0].folder, copy)
    weights = tmp_path / "weights.pth"
    torch.save(torchvision.models.squeezenet1_1(weights=None).state_dict(), weights)
    paths = {"init_from": copy, "encoder__weights": weights, "encoder__cache": tmp_path / "cache"}
    settings = {"data__root": root, "train__epochs": 2, **paths}
    config = load_config(arguments(**settings))

    def stop(engine):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, name="", folder=tmp_path / "run", suffix=stop)
    shutil.rmtree(copy)
    weights.unlink()
    assert train_main(["--resume", str(tmp_path / "run")]) == 0
    assert_same_tensors(encoder_of(Run.open(tmp_path / "run")), encoder_of(fine_tuned[0]))


def test_without_fine_tuning_the_encoder_has_no_gradient(root):
    task = build_task(load_config(arguments(data__root=root)), ALONE, open_run=Run.open)
    task.on_progress(0.99)
    assert task.model.encoder.frozen and task.every_parameter_has_gradient
    assert not any(parameter.requires_grad for parameter in task.model.encoder.parameters())
    later = build_task(load_config(arguments(data__root=root, **FINE)), ALONE, open_run=Run.open)
    later.on_progress(0.33)
    assert later.model.encoder.frozen and not later.every_parameter_has_gradient
    later.on_progress(1 / 3)
    assert not later.model.encoder.frozen


def test_a_fine_tuned_run_can_be_scored(fine_tuned, capsys):
    run, _ = fine_tuned
    assert scores_of(run.folder, capsys) == run.read_json("result.json")["test"]
    loaded = CaptioningTask.load(Run.open(run.folder))
    assert loaded.image_shape == (3, 64, 64) and not loaded.model.training


def test_a_run_that_begins_from_another(fine_tuned, root, tmp_path):
    run, _ = fine_tuned
    task = build_task(load_config(arguments(data__root=root, init_from=run.folder)), ALONE, open_run=Run.open)
    assert_same_tensors(
        {f"model.encoder.{key}": value for key, value in task.model.encoder.state_dict().items()}, encoder_of(run)
    )


def test_a_run_that_begins_from_another_needs_no_other_weights(fine_tuned, root, tmp_path):
    settings = {"data__root": root, "init_from": fine_tuned[0].folder, "encoder__weights": tmp_path / "nowhere.pth"}
    task = build_task(load_config(arguments(**settings)), ALONE, open_run=Run.open)
    assert_same_tensors(
        {f"model.encoder.{key}": value for key, value in task.model.encoder.state_dict().items()},
        encoder_of(fine_tuned[0]),
    )


# Several processes


@pytest.mark.slow
def test_two_processes_do_what_one_does(root, tmp_path):
    """Captions of different lengths, some batches read softly, and an encoder that begins to learn."""
    settings = {**FINE, "train__epochs": 2, "train__optimizer": "sgd", "train__lr": 0.01, "loss__mix": 0.4}
    straight = train_in(tmp_path / "straight", data__root=root, **settings)
    train_by_two([*arguments(data__root=root, **settings), f"--run_dir={tmp_path / 'shared'}"])
    hard = ["train/reinforce" in row for row in rows_without_time(straight) if "lr" in row]
    assert any(hard) and not all(hard)
    assert_nearly_same_losses(Run.open(tmp_path / "shared"), straight)


# Mistakes


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoder__name": "squeezenet9"}, "encoder: name must be 'timm:NAME' or one of .*, got 'squeezenet9'"),
        ({"encoder__name": "timm:squeezenet9"}, "encoder: .*squeezenet9.*"),
        (
            {"encoder__weights": "{tmp}/none.pth"},
            "encoder: cannot read the weights of squeezenet1_1 from {tmp}/none.pth.*",
        ),
        ({"data__root": "{tmp}/none"}, "root must be a folder of images, but {tmp}/none is not a folder"),
        ({"data__annotations": "none.json"}, "cannot read the captions in .*/none.json: No such file or directory"),
        (
            {"data__kind": "coco"},
            "root/train2017 must be a folder of images, but .*/train2017 is not a folder",
        ),
        ({"train__batch_size": 13}, r"train.batch_size must be at most 12 \(the training examples\), got 13"),
        ({"data__size": [4, 4]}, r"data.size must be larger for encoder squeezenet1_1, got \[4, 4\]"),
        (
            {"attention__scorer": "dot"},
            r"decoder.state_dim must be 512, the size of an annotation, with attention.scorer dot \(.*\), got 24",
        ),
        (
            {"encoder__self_attention": 1, "encoder__heads": 3},
            "encoder.num_heads must be a divisor of the size of an annotation, 512, with "
            "encoder.self_attention_layers, got 3",
        ),
        ({"encoder__cache": "{tmp}"}, "{tmp} must be empty or a cache of features, got other files"),
    ],
)
def test_what_cannot_begin(settings, message, root, tmp_path, capsys):
    (tmp_path / "something").touch()
    filled = {key: value.format(tmp=tmp_path) if isinstance(value, str) else value for key, value in settings.items()}
    assert train_main([*arguments(**{"data__root": root, **filled}), f"--run_dir={tmp_path / 'run'}"]) == 2
    assert re.fullmatch(f"train.py: error: {message.format(tmp=tmp_path)}\n", capsys.readouterr().err)
    assert [path.name for path in tmp_path.iterdir()] == ["something"]


def test_weights_of_another_network(root, tmp_path, capsys):
    torch.save({"features.0.weight": torch.zeros(1)}, tmp_path / "other.pth")
    torch.save(torchvision.models.shufflenet_v2_x0_5(weights=None).state_dict(), tmp_path / "another.pth")
    (tmp_path / "broken.pth").write_bytes(b"not at all")
    for name in ("other", "another", "broken"):
        options = arguments(data__root=root, encoder__weights=tmp_path / f"{name}.pth")
        assert train_main([*options, f"--run_dir={tmp_path / 'run'}"]) == 2
        error = capsys.readouterr().err
        assert error.startswith("train.py: error: encoder: ") and f"{name}.pth" in error
        assert error.count("\n") == 1, error


def test_images_that_are_not_there(root, tmp_path, capsys):
    photos = shutil.copytree(root, tmp_path / "photos")
    (photos / "red_left_0.jpg").unlink()
    (photos / "blue_left_4.jpg").write_bytes(b"not at all")
    options = [*arguments(data__root=photos, train__epochs=1), f"--run_dir={tmp_path / 'run'}"]
    assert train_main(options) == 2
    error = capsys.readouterr().err
    assert error.startswith("train.py: error: 1 of the 20 images of ") and error.count("\n") == 1
    assert "data.on_broken_image in a config" in error
    assert train_main([*options, "--data.broken=skip"]) == 0
    captured = capsys.readouterr()
    assert "Left out 2 of 20 images of captions.json" in captured.err and "11 images of 3 x 64 x 64" in captured.out
    assert Run.open(tmp_path / "run").read_json("result.json")["test"]["images"] == 3


def test_engine_of_a_captioner_says_its_score(root, tmp_path):
    config = load_config(arguments(data__root=root))
    task = build_task(config, ALONE, open_run=Run.open)
    engine = Engine(task, Run(tmp_path, config), ALONE)
    engine.epoch, engine.seconds, engine.best = 1, 3.0, {"epoch": 1}
    line = engine._summary({"loss": 1.5}, {"BLEU-4": 0.25})
    assert line == "epoch 1/2  loss 1.5000  validation BLEU-4 25.00  3 s, 3 s left  best"
