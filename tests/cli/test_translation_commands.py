"""The commands of evaluate.py for translators: attention maps, reports, comparisons, and errors."""

import csv
import json
import re

import numpy as np
import pytest
from PIL import Image
from support.pages import data_of
from support.photos import evaluate
from support.runs import REPOSITORY
from support.sentences import finished, untrained, write_text
from support.tensors import assert_close

from glimpse.data.dates import dates
from glimpse.data.sentence_pairs import pairs_of
from glimpse.evaluation.translation_traces import trace_translations
from glimpse.tasks.build import build_data
from glimpse.tasks.settings import load_config
from glimpse.tasks.translation import TranslationTask
from glimpse.training.run import Run
from glimpse.view.alignment import draw_alignments
from glimpse.view.output import save_figure
from glimpse.view.self_attention_maps import draw_self_attention, trace_self_attention


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Untrained runs of dates: soft, hard, without attention and with self-attention; one of text; other tasks."""
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


def load(runs, name):
    return TranslationTask.load(Run.open(runs / name))


def assert_same_picture(path, figure, folder):
    """Assert that a file has the pixels of a figure."""
    save_figure(figure, folder / "expected.png")
    with Image.open(path) as found, Image.open(folder / "expected.png") as expected:
        assert found.width > 300 and np.array_equal(found, expected)


def test_glimpses_of_chosen_sentences(runs, tmp_path):
    out = tmp_path / "alignment.png"
    assert evaluate("glimpses", runs / "soft", runs / "hard", "--images", 3, 0, "--out", out) == 0
    pairs = pairs_of(dates().test, 4)
    pairs = [pairs[3], pairs[0]]
    traces = [trace_translations(load(runs, name), pairs, name=name) for name in ("soft", "hard")]
    assert_same_picture(out, draw_alignments(traces), tmp_path)
    for trace in traces:
        for pair, translation in zip(pairs, trace.translations, strict=True):
            [expected] = load(runs, trace.name).translate_pairs([pair])
            assert_close(translation.weights, expected.weights, atol=1e-5)
    assert evaluate("glimpses", runs / "soft", "--count", 1, "--read", "hard", "--split", "valid", "--out", out) == 0
    trace = trace_translations(load(runs, "soft"), pairs_of(dates().valid, 1), name="soft", mode="hard")
    assert_same_picture(out, draw_alignments([trace]), tmp_path)


def test_glimpses_of_mistakes(runs, tmp_path):
    """An untrained translator translates the first sentences wrongly."""
    out = tmp_path / "x.png"
    assert evaluate("glimpses", runs / "text", "--mistakes", "--count", 2, "--out", out) == 0
    translator = load(runs, "text")
    trace = trace_translations(translator, pairs_of(build_data(translator.run.config.data).test), name="text")
    wrong = [one for one in trace.translations if one.words not in one.pair.references][:2]
    assert_same_picture(out, draw_alignments([trace._replace(translations=wrong)]), tmp_path)


def test_self_attention(runs, tmp_path):
    out = tmp_path / "maps.png"
    assert evaluate("glimpses", runs / "mixed", "--self", "--images", 2, "--out", out) == 0
    traces = trace_self_attention(load(runs, "mixed"), [pairs_of(dates().test, 3)[2].source])
    assert_same_picture(out, draw_self_attention(traces), tmp_path)
    assert evaluate("glimpses", runs / "mixed", "--self", "--images", 2, "--out", tmp_path / "maps.svg") == 0
    assert (tmp_path / "maps.svg").stat().st_size > 1000


def test_own_sentences_are_drawn_and_only_translations_are_printed(runs, tmp_path, capsys):
    out = tmp_path / "own.png"
    assert evaluate("translate", runs / "soft", "3 May 1998", "--json", "--out", out) == 0
    captured = capsys.readouterr()
    [line] = captured.out.splitlines()
    assert captured.err == f"Wrote {out}\n"
    translator = load(runs, "soft")
    trace = trace_translations(translator, translator.read(["3 May 1998"]))
    assert_close(trace.translations[0].weights, json.loads(line)["weights"])
    assert_same_picture(out, draw_alignments([trace]), tmp_path)
    assert evaluate("translate", runs / "soft", "3 May 1998", "5/3/98", "--out", tmp_path / "own.html") == 0
    data = data_of((tmp_path / "own.html").read_text())
    assert [sentence["source"][0] for sentence in data["sentences"]] == ["3", "5"]
    assert data["models"][0]["correct"] == [None, None]


def test_report(runs, tmp_path, capsys):
    out = tmp_path / "report.html"
    command = ["report", *(runs / name for name in ("soft", "hard", "none")), "--limit", 12, "--out", out]
    assert evaluate(*command, "--images", 7, 2) == 0
    data = data_of(out.read_text())
    assert [sentence["index"] for sentence in data["sentences"]] == [7, 2]
    assert [model["mode"] for model in data["models"]] == ["soft", "hard", None]
    pairs = pairs_of(dates().test, 8)
    for model, name in zip(data["models"], ("soft", "hard", "none"), strict=True):
        for words, index in zip(model["outputs"], (7, 2), strict=True):
            [expected] = load(runs, name).translate_pairs([pairs[index]])
            assert words == list(expected.words)
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
        ("glimpses {soft} {soft} --out {tmp}/x.png", "each run must be given once, got {soft} twice"),
        ("glimpses {soft} {hard} --self --out {tmp}/x.png", "--self draws one run at a time, got 2"),
        ("glimpses {soft} --self --out {tmp}/x.png", "{soft} has no self-attention to draw: .*"),
        ("glimpses {mixed} --self --mistakes --out {tmp}/x.png", "--self draws the encoder of sentences: .*"),
        ("glimpses {classifier} --self --out {tmp}/x.png", "--self is for models with self-attention, .*r classifies"),
        ("compare {soft} {text} --out {tmp}/x", "{soft} and {text} cannot be compared: they do not have the same .*"),
        ("compare {soft} {soft} --out {tmp}/x", "each run must be given once, got {soft} twice"),
        (
            "compare {soft} {classifier} --out {tmp}/x",
            "{soft} translates and {classifier} classifies: they cannot be shown or compared together",
        ),
        ("compare {captioner} {soft} --out {tmp}/x", "{captioner} writes captions and {soft} translates: .*"),
        ("compare {soft} --configs {captions} --out {tmp}/x", "{soft} translates and {captions} writes .*"),
        ("report {classifier} {soft} --out {tmp}/x.html", "{classifier} classifies and {soft} translates: .*"),
    ],
)  # fmt: skip
def test_errors(command, message, runs, tmp_path, capsys):
    """One line is printed, and nothing is written."""
    names = ("soft", "hard", "none", "mixed", "text", "classifier", "captioner")
    places = {name: runs / name for name in names} | {"tmp": tmp_path}
    places["captions"] = REPOSITORY / "configs" / "digit_captions_soft.yaml"
    assert evaluate(*(word.format(**places) for word in command.split())) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(f"evaluate.py: error: {message.format(**places)}\n", captured.err), captured.err
    assert not list(tmp_path.iterdir())


def test_glimpses_of_mistakes_without_any(runs, tmp_path, capsys):
    """The references are the translations of the model."""
    root = write_text(tmp_path / "files")
    folder = tmp_path / "run"
    untrained(folder, data__kind="parallel", data__root=root, train__limit="null", score__limit="null")
    translator = TranslationTask.load(Run.open(folder))
    pairs = pairs_of(build_data(translator.run.config.data).test)
    outputs = [translator.tokenizer.detokenize(one.words) for one in translator.translate_pairs(pairs)]
    assert all(outputs)
    (root / "test.de").write_text("".join(f"{text}\n" for text in outputs))
    assert evaluate("glimpses", folder, "--mistakes", "--out", tmp_path / "x.png") == 2
    expected = "no sentence matches: no model is wrong on any of the 6"
    assert capsys.readouterr().err == f"evaluate.py: error: {expected}\n"
