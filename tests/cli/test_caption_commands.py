"""The commands of evaluate.py for captioners: scores, captions of image files, figures, animations and reports."""

import json
import re
import shutil

import numpy as np
import pytest
from PIL import Image
from support.photos import SPLITS, arguments, draw_photo, evaluate, make_karpathy, scenes
from support.runs import train_main
from support.tensors import ALONE

from glimpse.evaluation.caption import caption_dataset
from glimpse.evaluation.caption_traces import trace_captions
from glimpse.metrics.captions import missing_metrics
from glimpse.models.decoding import BeamSearch
from glimpse.tasks.base import build_task
from glimpse.tasks.build import build_data
from glimpse.tasks.captioning import CaptioningTask
from glimpse.tasks.settings import load_config
from glimpse.training.run import BEST, Run
from glimpse.view.caption_sheet import draw_captions
from glimpse.view.output import save_figure

pytestmark = pytest.mark.usefixtures("no_java")

SEARCH = BeamSearch(beam_width=2, max_length=9)  # that of the trained runs


def untrained(folder, **settings):
    """A run folder of a captioner with its initial weights."""
    config = load_config(arguments(**settings))
    task = build_task(config, ALONE)
    run = Run.create(config, name=folder.name, metadata=task.metadata(), folder=folder)
    run.save(BEST, {f"model.{key}": value for key, value in task.model.state_dict().items()}, {})


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Soft and hard, trained until they tell colors apart; wide and gray, not trained; and a classifier."""
    folder = tmp_path_factory.mktemp("runs")
    root = make_karpathy(folder / "photos")
    settings = {
        "data__root": root,
        "encoder__cache": folder / "features",
        "train__epochs": 25,
        "train__batch_size": 2,
        "train__lr": 0.006,
        "train__log_every": 50,
        "score__beam": 2,
    }
    for read in ("soft", "hard"):
        (folder / f"{read}.yaml").write_text(f"# Tiny.\nread: {read}\n")
        options = [*arguments(**settings, read=read), f"--run_dir={folder / read}"]
        assert train_main([str(folder / f"{read}.yaml"), *options]) == 0
    untrained(folder / "wide", data__root=root, data__size=[64, 96])
    digits = {"data__kind": "digit_captions", "data__canvas": 64, "data__num_digits": 2, "encoder__name": "small"}
    untrained(folder / "gray", **digits)
    Run.create(load_config([]), name="classifier", metadata={}, folder=folder / "classifier")
    return folder


@pytest.fixture(scope="module")
def captions(runs):
    """The captions of the test images by the two trained runs, from `caption_dataset`."""
    found = {}
    for name in ("soft", "hard"):
        loaded = CaptioningTask.load(Run.open(runs / name))
        data = build_data(loaded.run.config.data).test
        found[name] = [
            " ".join(result.words) for result in caption_dataset(loaded.model, loaded.vocabulary, data, search=SEARCH)
        ]
    return found


def photos_of(runs):
    """The files of the test images, in their order."""
    return [runs / "photos" / file for file, _, _, number in scenes() if SPLITS[number] == "test"]


def page_data(path):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.S)[1])


def captions_of(model):
    return [" ".join(words) for words in model["captions"]]


# Scores


def test_score(runs, capsys):
    assert evaluate("score", runs / "soft", runs / "hard") == 0
    out = capsys.readouterr().out
    assert (
        f"{runs / 'soft'}: soft read, beam 2, 4 test images\n" in out and f"{runs / 'hard'}: hard read, beam 2" in out
    )
    assert out.count(missing_metrics()["METEOR"]) == 2 and "METEOR  " not in out and "true and complete" not in out
    result = Run.open(runs / "soft").read_json("result.json")["test"]
    assert re.search(rf"^BLEU-4 +{100 * result['BLEU-4']:.2f}$", out, re.M)
    assert evaluate("score", runs / "soft", "--json", "--read", "hard", "--split", "valid", "--limit", "3") == 0
    [found] = json.loads(capsys.readouterr().out)
    assert {key: found[key] for key in ("run", "split", "read", "beam")} == {
        "run": str(runs / "soft"),
        "split": "valid",
        "read": "hard",
        "beam": 2,
    }
    assert found["scores"]["images"] == 3 and found["left_out"] == missing_metrics()


def test_only_json_is_printed_if_features_are_computed(runs, tmp_path, capsys):
    shutil.copytree(runs / "soft", tmp_path / "run")
    config = (tmp_path / "run" / "config.yaml").read_text()
    (tmp_path / "run" / "config.yaml").write_text(config.replace(str(runs / "features"), str(tmp_path / "features")))
    assert evaluate("score", tmp_path / "run", "--json") == 0
    [found] = json.loads(capsys.readouterr().out)
    assert found["scores"] == Run.open(runs / "soft").read_json("result.json")["test"]
    assert (tmp_path / "features" / "test.f16").exists()


# Captions of files


def test_the_runs_caption_images_differently(captions):
    """Otherwise the tests below could not tell one image from another."""
    assert captions["soft"][0] != captions["soft"][2] and all(captions["hard"])


def test_caption(runs, captions, capsys):
    files = photos_of(runs)
    assert evaluate("caption", runs / "soft", *files) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        line for file, text in zip(files, captions["soft"], strict=True) for line in (str(file), f"    {text}")
    ]
    blue = 2  # the first blue one
    assert evaluate("caption", runs / "soft", files[blue]) == 0
    assert capsys.readouterr().out == f"{files[blue]}\n    {captions['soft'][blue]}\n"


def test_caption_by_two_runs(runs, captions, capsys):
    files = photos_of(runs)
    assert evaluate("caption", runs / "soft", *files[:2], "--beside", runs / "hard") == 0
    expected = ""
    for row, file in enumerate(files[:2]):
        expected += f"{file}\n    soft  {captions['soft'][row]}\n    hard  {captions['hard'][row]}\n"
    assert capsys.readouterr().out == expected


def test_caption_in_another_read_mode(runs, capsys):
    file = photos_of(runs)[0]
    loaded = CaptioningTask.load(Run.open(runs / "hard"))
    data = build_data(loaded.run.config.data).test
    [expected] = caption_dataset(loaded.model, loaded.vocabulary, data, mode="soft", search=SEARCH, limit=1)
    assert evaluate("caption", runs / "hard", file, "--read", "soft") == 0
    assert capsys.readouterr().out == f"{file}\n    {' '.join(expected.words)}\n"


def test_captioner_of_gray_images(runs, tmp_path, capsys):
    """Colors are averaged for a captioner of digits."""
    draw_photo(tmp_path / "red.png", "red", "left", 0)
    with Image.open(tmp_path / "red.png") as image:
        mean = image.convert("RGB", matrix=(1 / 3, 1 / 3, 1 / 3, 0) * 3)
    mean.save(tmp_path / "mean.png")
    assert evaluate("caption", runs / "gray", tmp_path / "red.png", tmp_path / "mean.png") == 0
    first, caption, second, other = capsys.readouterr().out.splitlines()
    assert (first, second) == (str(tmp_path / "red.png"), str(tmp_path / "mean.png")) and caption == other


@pytest.mark.parametrize("suffix", ["png", "gif", "html"])
def test_figures_of_captions(suffix, runs, captions, tmp_path, capsys):
    out = tmp_path / f"captions.{suffix}"
    files = photos_of(runs)[:2]
    assert evaluate("caption", runs / "soft", *files, "--beside", runs / "hard", "--out", out) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"Wrote {out}"
    if suffix == "html":
        data = page_data(out)
        assert [model["name"] for model in data["models"]] == ["soft", "hard"]
        assert [captions_of(model) for model in data["models"]] == [captions["soft"][:2], captions["hard"][:2]]
        assert "Captions of your images." in out.read_text() and data["images"][0]["references"] == []
        return
    with Image.open(out) as picture:
        assert picture.width > 500
        if suffix == "gif":
            words = [[len(text.split()) for text in captions[name][:2]] for name in ("soft", "hard")]
            assert picture.n_frames == sum(1 + max(both) for both in zip(*words, strict=True))


# Figures of images of the data


def trace(runs, name, split, indices):
    """The trace of a run on some images."""
    loaded = CaptioningTask.load(Run.open(runs / name))
    [batch] = getattr(build_data(loaded.run.config.data), split).in_order(batch_size=4)
    return trace_captions(
        loaded.model,
        loaded.vocabulary,
        batch.images[indices],
        name=name,
        references=[batch.captions[index] for index in indices],
        search=SEARCH,
    )


def assert_same_picture(path, figure, folder):
    """Assert that a file has the pixels of a figure."""
    save_figure(figure, folder / "expected.png")
    with Image.open(path) as found, Image.open(folder / "expected.png") as expected:
        assert np.array_equal(found, expected)


def test_sheet(runs, captions, tmp_path, capsys):
    out = tmp_path / "sheet.png"
    assert evaluate("glimpses", runs / "soft", runs / "hard", "--images", 3, 0, "--out", out) == 0
    assert capsys.readouterr().out == f"Wrote {out}\n"
    traces = [trace(runs, name, "test", [3, 0]) for name in ("soft", "hard")]
    for found in traces:
        assert [" ".join(words) for words in found.captions] == [captions[found.name][3], captions[found.name][0]]
    assert_same_picture(out, draw_captions(traces), tmp_path)
    assert evaluate("glimpses", runs / "soft", "--count", 9, "--split", "valid", "--out", out) == 0
    assert_same_picture(out, draw_captions([trace(runs, "soft", "valid", [0, 1, 2, 3])]), tmp_path)  # all images


def test_animation(runs, captions, tmp_path, capsys):
    out = tmp_path / "captions.gif"
    assert evaluate("animate", runs / "hard", "--images", 2, "--seconds", 0.5, "--out", out) == 0
    assert capsys.readouterr().out == f"Wrote {out}\n"
    with Image.open(out) as picture:
        assert picture.n_frames == 1 + len(captions["hard"][2].split())
        assert picture.info["duration"] == 500
        picture.seek(picture.n_frames - 1)
        assert picture.info["duration"] == 1000


def test_report(runs, captions, tmp_path, capsys):
    out = tmp_path / "report.html"
    assert evaluate("report", runs / "soft", runs / "hard", "--count", 3, "--out", out) == 0
    assert re.fullmatch(rf"Wrote {out} \(\d+\.\d MB\)\n", capsys.readouterr().out)
    page, data = out.read_text(), page_data(out)
    assert [image["index"] for image in data["images"]] == [0, 1, 2]
    assert data["images"][0]["references"] == ["there is a red square", "a red square on the left"]
    assert [captions_of(model) for model in data["models"]] == [captions["soft"][:3], captions["hard"][:3]]
    assert "Scores on the same 4 test images; 3 of them are shown." in page and "METEOR is left out" in page
    for name in ("soft", "hard"):
        assert f">{100 * Run.open(runs / name).read_json('result.json')['test']['CIDEr']:.2f}<" in page


def test_report_shows_scored_images_only(runs, tmp_path, capsys):
    out = tmp_path / "report.html"
    assert evaluate("report", runs / "soft", "--limit", 2, "--out", out) == 0
    assert "Scores on the same 2 test images; 2 of them are shown." in out.read_text()
    assert evaluate("report", runs / "soft", "--limit", 2, "--images", 2, "--out", out) == 2
    assert capsys.readouterr().err == "evaluate.py: error: --images must be in 0..1, got 2\n"


# Errors


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("caption {soft} {tmp}/none.jpg", "cannot read {tmp}/none.jpg: .*No such file or directory.*"),
        ("caption {soft} {soft}/config.yaml", "cannot read {soft}/config.yaml: cannot identify image file .*"),
        ("caption {soft} {soft}", "cannot read {soft}: .*Is a directory.*"),
        (
            "caption {classifier} {photo}",
            "{classifier} classifies: caption does not apply to it, but score, compare, animate, glimpses, coverage, "
            "report and variance do",
        ),
        (
            "caption {soft} {photo} --beside {classifier}",
            "{soft} writes captions and {classifier} classifies: they cannot be shown or compared together",
        ),
        (
            "caption {soft} {photo} --beside {hard} {wide}",
            r"{soft} and {wide} cannot be shown together: they were trained on images of \(3, 64, 64\) and "
            r"\(3, 64, 96\) \(channels, height, width\)",
        ),
        (
            "caption {soft} {photo} --beside {hard} {wide} {soft} {hard}",
            "at most 4 runs can be shown side by side, got 5",
        ),
        ("caption {soft} {photo} --beside {soft}", "each run must be given once, got {soft} twice"),
        ("caption {tmp}/none {photo}", "{tmp}/none is not a run folder: there is no config.yaml in it; .*"),
        (
            "caption {soft} {photo} --out {tmp}/x.jpg",
            "--out must end in .png or .pdf or .svg or .gif or .mp4 or .html or .htm, got {tmp}/x.jpg",
        ),
        ("caption {soft} {photo} --out {tmp}/no/x.png", "cannot write {tmp}/no/x.png: there is no folder {tmp}/no"),
        (
            "glimpses {soft} --class red --out {tmp}/x.png",
            "--class is for classifiers: choose the images of captioners with --images or --count",
        ),
        ("animate {soft} --mistakes --out {tmp}/x.gif", "--mistakes is for classifiers: .*"),
        ("report {soft} --gallery --out {tmp}/x.html", "--gallery is for classifiers: .*"),
        ("glimpses {soft} --images 1 4 --out {tmp}/x.png", r"--images must be in 0\.\.3, got 4"),
        ("report {soft} --images 7 --out {tmp}/x.html", r"--images must be in 0\.\.3, got 7"),
        ("animate {classifier} {soft} --out {tmp}/x.gif", "{classifier} classifies and {soft} writes captions: .*"),
        ("glimpses {soft} {classifier} --out {tmp}/x.png", "{soft} writes captions and {classifier} classifies: .*"),
        ("report {soft} {classifier} --out {tmp}/x.html", "{soft} writes captions and {classifier} classifies: .*"),
        (
            "compare {soft} {hard} --out {tmp}/x",
            "{soft} writes captions: compare does not apply to it, but score, animate, glimpses, report and caption do",
        ),
        (
            "glimpses {soft} {wide} --out {tmp}/x.png",
            r"{soft} and {wide} cannot be compared: .* \(data.size \(64, 64\) and \(64, 96\)\)",
        ),
        (
            "glimpses {soft} {hard} {wide} {soft} {hard} --out {tmp}/x.png",
            "at most 4 runs can be shown side by side, got 5",
        ),
        ("animate {soft} {hard} {soft} --out {tmp}/x.gif", "there must be one or two runs to animate, got 3"),
        (
            "glimpses {classifier} {classifier} --out {tmp}/x.png",
            "there must be one classifier to draw, got 2; several runs must be captioners or translators",
        ),
    ],
)
def test_errors(command, message, runs, tmp_path, capsys):
    """One line is printed, and nothing is written."""
    places = {name: runs / name for name in ("soft", "hard", "wide", "classifier")}
    places |= {"tmp": tmp_path, "photo": photos_of(runs)[0]}
    assert evaluate(*(word.format(**places) for word in command.split())) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(f"evaluate.py: error: {message.format(**places)}\n", captured.err), captured.err
    assert not list(tmp_path.iterdir())
