"""The commands of evaluate.py for classifiers: comparisons, animations, figures and the report."""

import csv
import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.runs import tiny, train_main
from support.tensors import ALONE, assert_close

from glimpse.cli.compare import applicable_settings
from glimpse.errors import ConfigError
from glimpse.evaluation.classify import evaluate_classifier
from glimpse.tasks.classification import ClassificationTask
from glimpse.tasks.classification_runs import load_runs, trace_runs
from glimpse.training.load import open_runs

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import evaluate  # noqa: E402

FAST = {"train.epochs": 1, "train.limit": 256, "score.limit": 100}


@pytest.fixture
def runs(classifiers):
    return classifiers


def run(*arguments):
    return evaluate.main([str(argument) for argument in arguments])


def test_compare(runs, tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    names = [runs / name for name in ("hard", "soft", "cnn")]
    assert run("compare", *names, "--limit", 200, "--rollouts", 2, "--out", out) == 0
    printed = capsys.readouterr()
    assert "Error after the last glimpse, 200 test images" in printed.out and "mean of 2 %" in printed.out
    assert "Against hard, on the same images" in printed.out and "Scoring 3 of 3" in printed.err
    markdown = (out / "comparison.md").read_text()
    assert "| cnn | - | 1 |" in markdown and "**Cost**" in markdown
    with open(out / "runs.csv") as file:
        rows = list(csv.DictReader(file))
    assert run("score", runs / "soft", "--limit", 200, "--json") == 0
    [scored] = json.loads(capsys.readouterr().out)
    errors = [float(row["error"]) for row in rows if row["config"] == "soft"]
    assert errors == scored["scores"]["greedy"]["error"]
    assert (out / "comparison.csv").exists()
    with Image.open(out / "comparison.png") as picture:
        assert picture.width == 2100


def test_compare_trains_missing_runs(tmp_path, capsys, few_test_examples):
    for read in ("hard", "soft"):
        (tmp_path / f"{read}.yaml").write_text(f"read: {read}\n")
    settings = [option for option in tiny(FAST) if "." in option.split("=")[0]]  # the files have read, seed and others
    command = [
        "compare",
        "--configs",
        *(tmp_path / f"{read}.yaml" for read in ("hard", "soft")),
        "--seeds=2",
        "--limit=20",
        "--rollouts=2",
        f"--out={tmp_path / 'out'}",
        *settings,
        "--train.folder",
        tmp_path / "runs",
    ]
    assert run(*command) == 0
    first = capsys.readouterr().out
    assert "0 of 4 runs are finished" in first and "4 of 4: soft, seed 1" in first and "left in total" in first
    assert sorted(path.parent.name for path in (tmp_path / "runs").glob("*/seed*")) == ["hard", "hard", "soft", "soft"]
    assert re.search(r"^hard +hard +2 ", first, re.M) and "over seeds (Student's t)" in first
    assert run(*command) == 0
    second = capsys.readouterr().out
    assert "epoch" not in second and table(second) == table(first)


def table(text):
    return re.search(r"Error % after each glimpse.*?\n\n(.*?)\n\n", text, re.S)[1]


def frames(path):
    with Image.open(path) as picture:
        for index in range(picture.n_frames):
            picture.seek(index)
            yield np.asarray(picture.convert("RGB"))


def test_animate(runs, tmp_path, capsys):
    out = tmp_path / "glimpses.gif"
    assert run("animate", runs / "hard", runs / "soft", "--images", 7, 0, "--out", out) == 0
    assert capsys.readouterr().out == f"Wrote {out}\n"
    pictures = list(frames(out))
    assert len(pictures) == 2 * 3 and pictures[0].shape[1] == 800
    assert len({picture.tobytes() for picture in pictures}) == 6
    assert (
        run(
            "animate", runs / "hard", "--gallery", "--mistakes", "--class", 3, "--count", 2, "--out", tmp_path / "v.mp4"
        )
        == 0
    )
    assert (tmp_path / "v.mp4").stat().st_size > 1000


def test_figures(runs, tmp_path, capsys):
    assert run("glimpses", runs / "soft", "--mistakes", "--count", 2, "--out", tmp_path / "sheet.png") == 0
    assert run("coverage", runs / "hard", runs / "soft", "--limit", 300, "--out", tmp_path / "coverage.png") == 0
    for name in ("sheet", "coverage"):
        with Image.open(tmp_path / f"{name}.png") as picture:
            assert picture.width > 500 and len(picture.convert("RGB").getcolors(1 << 20)) > 10


def test_variance(runs, tmp_path, capsys):
    out = tmp_path / "variance.png"
    assert run("variance", runs / "hard", "--images", 4, "--rollouts", 2, "--repeats", 10, "--out", out) == 0
    printed = capsys.readouterr().out
    assert out.exists() and all(name in printed for name in ("none", "learned", "self-critical", "leave-one-out"))


def test_report(runs, tmp_path, capsys):
    out = tmp_path / "report.html"
    arguments = ["--count", 5, "--limit", 50, "--rollouts", 2, "--out", out]
    assert run("report", runs / "hard", runs / "soft", runs / "cnn", *arguments) == 0
    page = out.read_text()
    assert "Error after the last glimpse, 50 test images" in page and f"Wrote {out}" in capsys.readouterr().out
    assert not re.search(r"(src|href)=[\"']?https?:", page)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare"], "there must be at least one run folder or config file (--configs) to compare"),
        (["compare", "{hard}", "--train.epochs", "3"], "--train.epochs requires --configs"),
        (["compare", "{hard}", "--read", "soft"], "--read requires --configs"),
        (["compare", "{hard}", "--seeds", "3"], "--seeds requires --configs"),
        (["compare", "{tmp}/none", "--configs", "{soft}/config.yaml"], "{tmp}/none is not a run folder"),
        (["compare", "{hard}/config.yaml"], "{hard}/config.yaml is not a run folder: it is a file"),
        (["compare", "{hard}", "--configs", "{soft}/config.yaml", "--data.canvas", "80"], "not have the same images"),
        (["compare", "--configs", *["{soft}/config.yaml"] * 2], "are the same training, seed 0: list it once"),
        (["coverage", "{hard}", "--out", "{tmp}/picture"], "--out must end in .png or .pdf or .svg, got {tmp}/picture"),
        (["animate", "{hard}", "{cnn}"], "a whole-image network has no glimpses to show: leave it out"),
        (["report", "{hard}", "--limit", "9", "--images", "9"], "--images must be in 0..8, got 9"),
        (["glimpses", "{hard}", "--out", "{tmp}"], "--out must end in .png"),
        (["compare", "--configs", "{tmp}/none.yaml"], "cannot read the config file {tmp}/none.yaml"),
        (["compare", "--configs", "{hard}/config.yaml", "--train.epoch", "3"], "there is no option --train.epoch;"),
        (["compare", "--configs", "{hard}/config.yaml", "--train.epochs"], "--train.epochs needs a value"),
        (["compare", "{hard}", "--out", "{hard}/config.yaml/x"], "cannot make the folder {hard}/config.yaml/x"),
        (["compare", "{hard}", "{hard}"], "each run must be given once, got {hard} twice"),
        (["animate", "{cnn}"], "{cnn} is a whole-image network and has no glimpses to show"),
        (["animate", "{hard}", "{soft}", "{cnn}"], "there must be one or two runs to animate, got 3"),
        (["animate", "{hard}", "--out", "{tmp}/x.avi"], "--out must end in .gif or .mp4, got {tmp}/x.avi"),
        (["animate", "{hard}", "--class", "eleven"], "--class must be one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, got eleven"),
        (["glimpses", "{hard}", "--images", "1", "--mistakes"], "cannot be combined with --class, --mistakes or"),
        (["coverage", "{cnn}"], "{cnn} is a whole-image network and has no glimpses to show"),
        (["report", "{cnn}"], "{cnn} is a whole-image network and has no glimpses to show"),
        (
            ["report", "{hard}", "--count", "3", "--limit", "5", "--rollouts", "1", "--out", "{tmp}/no/x.html"],
            "cannot write {tmp}/no/x.html: there is no folder {tmp}/no",
        ),
        (["variance", "{soft}"], "needs a hard model that samples locations, got"),
        (["variance", "{cnn}"], "needs a hard model that samples locations, got a whole-image network"),
    ],
)
def test_errors(runs, tmp_path, capsys, arguments, message):
    places = {"tmp": tmp_path, **{name: runs / name for name in ("hard", "soft", "cnn")}}
    assert evaluate.main([argument.format(**places) for argument in arguments]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("evaluate.py: error: ") and message.format(**places) in error
    assert not list(tmp_path.iterdir())  # nothing half-made is left


def test_config_files_of_the_same_name_are_compared_before_they_are_trained(tmp_path, capsys):
    files = [tmp_path / str(canvas) / "mine.yaml" for canvas in (60, 80)]
    for file in files:
        file.parent.mkdir()
        file.write_text(f"data: {{canvas: {file.parent.name}}}\n")
    command = ["compare", "--configs", *map(str, files), "--seeds=2", f"--train.runs_dir={tmp_path / 'runs'}"]
    assert evaluate.main(command) == 2
    captured = capsys.readouterr()
    message = f"{files[0]} and {files[1]} cannot be compared: they do not have the same images"
    assert message in captured.err and captured.out == "" and not (tmp_path / "runs").exists()


def test_glimpses_are_drawn_where_they_were_scored(tmp_path, few_test_examples):
    """Also if the first glimpse is random: an image chosen as a mistake is drawn as one."""
    folder = tmp_path / "random"
    settings = {**FAST, "train.limit": 1280, "train.epochs": 3, "attention.first": "random", "score.limit": 50}
    assert train_main([*tiny(settings), f"--run_dir={folder}"]) == 0

    def trace(*words):
        options = evaluate.parse_arguments(["glimpses", str(folder), *words])
        [found] = trace_runs(ClassificationTask, open_runs([folder]), options, ALONE)
        return found

    mistakes = trace("--mistakes", "--count", "40")
    assert mistakes.correct.shape == (40, 3) and not mistakes.correct[:, -1].any()
    [loaded], splits = load_runs(ClassificationTask, open_runs([folder]))
    scored = evaluate_classifier(loaded.model, splits.test, batch_size=loaded.run.config.score.batch_size)
    assert_close(trace("--images", "3", "700").probabilities, scored.probabilities[[3, 700]], 1e-5)
    assert run("glimpses", folder, "--images", 3, 700, "--out", tmp_path / "x.png") == 0


def test_unfinished_run(runs, tmp_path, capsys):
    shutil.copytree(runs / "hard", tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    assert run("compare", tmp_path / "run", "--limit", 5, "--out", tmp_path / "out") == 2
    assert "is not finished; finish it with: python train.py --resume" in capsys.readouterr().err


def test_settings_apply_to_the_config_files_that_have_them(tmp_path):
    files = [str(tmp_path / name) for name in ("cnn.yaml", "hard.yaml")]
    for file, text in zip(files, ("model: cnn\n", "read: hard\n"), strict=True):
        Path(file).write_text(text)
    settings = ["--num_glimpses=4", "--loss.reward=gain", "--train.epochs=1"]
    assert applicable_settings(settings, files) == [["--train.epochs=1"], settings]
    with pytest.raises(ConfigError, match="num_glimpses is a setting of model recurrent_attention"):
        applicable_settings(settings, files[:1])
    Path(files[0]).write_text("model: cnn\nnum_glimpses: 4\n")
    with pytest.raises(ConfigError, match="cnn.yaml.*num_glimpses is a setting of model recurrent_attention"):
        applicable_settings([], files)
