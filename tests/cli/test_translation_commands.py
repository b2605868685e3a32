"""evaluate.py shows what translators attend to, and compares them: pictures, pages, tables, and what cannot be."""

import csv
import json
import re

import pytest
import torch
from PIL import Image
from support.pages import data_of
from support.photos import evaluate
from support.runs import REPOSITORY
from support.sentences import finished, untrained, write_text
from support.tensors import assert_close

from glimpse.data.dates import dates
from glimpse.data.sentence_pairs import pairs_of
from glimpse.tasks import translation_commands
from glimpse.tasks.build import build_data
from glimpse.tasks.settings import load_config
from glimpse.tasks.translation import TranslationTask
from glimpse.training.run import Run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Untrained runs of dates: soft, hard, without attention and with self-attention; of text, and of other kinds."""
    folder = tmp_path_factory.mktemp("runs")
    finished(folder / "soft")
    finished(folder / "hard", read="hard")
    finished(folder / "none", attention__places="none")
    untrained(folder / "mixed", encoder__self_attention=1, encoder__heads=2)
    root = write_text(folder / "files")
    finished(folder / "text", data__kind="parallel", data__root=root, train__limit="null", score__limit="null")
    Run.create(load_config([]), name="classifier", metadata={}, folder=folder / "classifier")
    captioner = load_config(
        ["--model=captioner", "--data.kind=digit_captions", "--loss.baseline=none", "--attention.places=grid"]
    )
    Run.create(captioner, name="captioner", metadata={}, folder=folder / "captioner")
    return folder


@pytest.fixture
def figures(monkeypatch):
    """The figures that are saved by then."""
    saved, save = [], translation_commands.save_figure
    monkeypatch.setattr(
        translation_commands, "save_figure", lambda figure, path: (saved.append(figure), save(figure, path))
    )
    return saved


def maps_of(figure):
    return [torch.tensor(axes.images[0].get_array().data) for axes in figure.axes[:-1]]


def test_glimpses_are_of_the_sentences_asked_for(runs, tmp_path, figures):
    out = tmp_path / "alignment.png"
    assert evaluate("glimpses", runs / "soft", runs / "hard", "--images", 3, 0, "--out", out) == 0
    with Image.open(out) as picture:
        assert picture.width > 500
    pairs = pairs_of(dates().test, 4)
    expected = [
        TranslationTask.load(Run.open(runs / name)).translate_pairs([pairs[index]])[0].weights
        for index in (3, 0)
        for name in ("soft", "hard")
    ]
    for found, weights in zip(maps_of(figures[0]), expected, strict=True):
        assert_close(found, weights, atol=1e-5)
    assert [len(axes.lines) for axes in figures[0].axes] == [0, 1, 0, 1, 0]
    assert evaluate("glimpses", runs / "soft", "--count", 1, "--read", "hard", "--split", "valid", "--out", out) == 0
    [pair] = pairs_of(dates().valid, 1)
    assert [text.get_text() for text in figures[1].axes[0].get_xticklabels()] == list(pair.source)
    assert len(figures[1].axes[0].lines) == 1


def test_mistakes_are_found(runs, tmp_path, figures):
    """An untrained translator of text gets something wrong soon."""
    out = tmp_path / "x.png"
    assert evaluate("glimpses", runs / "text", "--mistakes", "--count", 2, "--out", out) == 0
    loaded = TranslationTask.load(Run.open(runs / "text"))
    pairs = pairs_of(build_data(loaded.run.config.data).test)
    wrong = [one for one in loaded.translate_pairs(pairs) if one.words not in one.pair.references][:2]
    for found, one in zip(maps_of(figures[0]), [one for one in wrong if one.words], strict=True):
        assert_close(found, one.weights, atol=1e-5)


def test_self_attention(runs, tmp_path, figures):
    assert evaluate("glimpses", runs / "mixed", "--self", "--images", 2, "--out", tmp_path / "maps.svg") == 0
    loaded = TranslationTask.load(Run.open(runs / "mixed"))
    [expected] = translation_commands.trace_self_attention(loaded, [pairs_of(dates().test, 3)[2].source])
    for head, found in enumerate(maps_of(figures[0])):
        assert_close(found, expected.weights[0, head])
    assert len(figures[0].axes) == 3 and (tmp_path / "maps.svg").stat().st_size > 1000


def test_own_sentences_are_drawn_and_only_translations_are_printed(runs, tmp_path, capsys, figures):
    out = tmp_path / "own.png"
    assert evaluate("translate", runs / "soft", "3 May 1998", "--json", "--out", out) == 0
    captured = capsys.readouterr()
    [line] = captured.out.splitlines()
    assert captured.err == f"Wrote {out}\n"
    [found] = maps_of(figures[0])
    assert_close(found, json.loads(line)["weights"])
    assert evaluate("translate", runs / "soft", "3 May 1998", "5/3/98", "--out", tmp_path / "own.html") == 0
    data = data_of((tmp_path / "own.html").read_text())
    assert [sentence["source"][0] for sentence in data["sentences"]] == ["3", "5"]
    assert data["models"][0]["correct"] == [None, None]


def test_the_report(runs, tmp_path, capsys):
    out = tmp_path / "report.html"
    command = ["report", *(runs / name for name in ("soft", "hard", "none")), "--limit", 12, "--out", out]
    assert evaluate(*command, "--images", 7, 2) == 0
    data = data_of(out.read_text())
    assert [sentence["index"] for sentence in data["sentences"]] == [7, 2]
    assert [model["mode"] for model in data["models"]] == ["soft", "hard", None]
    pairs = pairs_of(dates().test, 8)
    for model, name in zip(data["models"], ("soft", "hard", "none"), strict=True):
        for words, index in zip(model["outputs"], (7, 2), strict=True):
            [one] = TranslationTask.load(Run.open(runs / name)).translate_pairs([pairs[index]])
            assert words == list(one.words)
    assert "Scores on the same 12 test sentences; 2 of them are shown." in out.read_text()
    assert evaluate(*command, "--mistakes", "--count", 3) == 0
    assert [sentence["index"] for sentence in data_of(out.read_text())["sentences"]] == [0, 1, 2]


def test_compare(runs, tmp_path, capsys):
    out = tmp_path / "comparison"
    assert evaluate("compare", runs / "soft", runs / "none", "--limit", 40, "--out", out) == 0
    printed = capsys.readouterr().out
    assert "Translations that are not exact, in %, by the length of the source, 40 test sentences" in printed
    assert sorted(path.name for path in out.iterdir()) == [
        "comparison.csv",
        "comparison.md",
        "comparison.png",
        "runs.csv",
    ]
    rows = list(csv.DictReader((out / "comparison.csv").read_text().splitlines()))
    assert {row["attention"] for row in rows} == {"True", "False"}
    assert sum(int(row["sentences"]) for row in rows if row["source_words"] != "all") == 80
    assert evaluate("score", runs / "soft", "--limit", 40, "--json") == 0
    [scores] = json.loads(capsys.readouterr().out)
    for row in rows:
        key = "exact" if row["source_words"] == "all" else f"exact_words_{row['source_words']}"
        if row["config"] == "soft":
            assert float(row["value"]) == pytest.approx(1 - scores["scores"][key])
    assert evaluate("compare", runs / "text", "--out", out) == 0
    assert "BLEU, by the length of the source, 6 test sentences" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("glimpses {soft} --class 3 --out {tmp}/x.png", "--class is for classifiers: choose the sentences of .*"),
        ("report {soft} --gallery --out {tmp}/x.html", "--gallery is for classifiers: choose the sentences of .*"),
        (
            "glimpses {soft} --images 1 --mistakes --out {tmp}/x.png",
            "--images names the sentences: it cannot be combined with --mistakes",
        ),
        ("glimpses {soft} --images 1 5000 --out {tmp}/x.png", r"--images must be in 0\.\.4999, got 5000"),
        ("report {soft} --images 3 --limit 3 --out {tmp}/x.html", r"--images must be in 0\.\.2, got 3"),
        (
            "glimpses {none} --out {tmp}/x.png",
            r"{none} has one annotation for a whole sentence \(attention.kind final_state\): there is no map of its .*",
        ),
        ("translate {none} may --out {tmp}/x.png", "{none} has one annotation for a whole sentence .*"),
        ("translate {soft} may --out {tmp}/x.gif", "--out must end in .png or .pdf or .svg or .html or .htm, got .*"),
        ("glimpses {soft} {text} --out {tmp}/x.png", "{soft} and {text} cannot be compared: they do not have the same "
         r"sentences \(data.kind dates and parallel.*\)"),
        ("glimpses {soft} {soft} --out {tmp}/x.png", "each run must be given once, got {soft} more often"),
        ("glimpses {soft} {hard} --self --out {tmp}/x.png", "--self draws one run at a time, got 2"),
        ("glimpses {soft} --self --out {tmp}/x.png", "{soft} has no self-attention to draw: .*"),
        ("glimpses {mixed} --self --mistakes --out {tmp}/x.png", "--self draws what sentences are read with: .*"),
        ("glimpses {classifier} --self --out {tmp}/x.png", "--self is for models with self-attention, .*r classifies"),
        ("compare {soft} {text} --out {tmp}/x", "{soft} and {text} cannot be compared: they do not have the same .*"),
        ("compare {soft} {soft} --out {tmp}/x", "each run must be given once, got {soft} more often"),
        (
            "compare {soft} {classifier} --out {tmp}/x",
            "{soft} translates and {classifier} classifies: they cannot be shown or compared together",
        ),
        ("compare {captioner} {soft} --out {tmp}/x", "{captioner} writes captions and {soft} translates: .*"),
        ("compare {soft} --configs {captions} --out {tmp}/x", "{soft} translates and {captions} writes .*"),
        ("report {classifier} {soft} --out {tmp}/x.html", "{classifier} classifies and {soft} translates: .*"),
    ],
)  # fmt: skip
def test_mistakes_are_named(command, message, runs, tmp_path, capsys):
    """One line that says what is wrong, before anything is written."""
    names = ("soft", "hard", "none", "mixed", "text", "classifier", "captioner")
    places = {name: runs / name for name in names} | {"tmp": tmp_path}
    places["captions"] = REPOSITORY / "configs" / "digit_captions_soft.yaml"
    assert evaluate(*(word.format(**places) for word in command.split())) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(f"evaluate.py: error: {message.format(**places)}\n", captured.err), captured.err
    assert not list(tmp_path.iterdir())


def test_no_mistake_is_an_error_too(runs, tmp_path, capsys, monkeypatch):
    trace_translations = translation_commands.trace_translations

    def flawless(*arguments, **options):
        its = trace_translations(*arguments, **options)
        words = [one._replace(words=one.pair.references[0]) for one in its.translations]
        return its._replace(translations=words)

    monkeypatch.setattr(translation_commands, "trace_translations", flawless)
    assert evaluate("glimpses", runs / "text", "--mistakes", "--out", tmp_path / "x.png") == 2
    expected = "no sentence matches: no model is wrong on any of the 6"
    assert capsys.readouterr().err == f"evaluate.py: error: {expected}\n"
