"""evaluate.py score and translate for translators, and their errors."""

import io
import json
import re
import sys

import pytest
from support.photos import evaluate
from support.runs import REPOSITORY, train_main
from support.sentences import options, untrained, write_text

from glimpse.tasks.settings import load_config
from glimpse.tasks.translation import TranslationTask
from glimpse.training.run import Run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A trained run of text files, and untrained ones: of a tab-separated file, of dates, a classifier."""
    folder = tmp_path_factory.mktemp("runs")
    root = write_text(folder / "text")
    text = {
        "data__kind": "parallel",
        "data__root": root,
        "encoder__dim": 32,
        "encoder__dropout": 0.0,
        "decoder__state_dim": 32,
        "decoder__dropout": 0.0,
        "decoder__max_length": 8,
        "train__limit": "null",
        "train__epochs": 40,
        "train__batch_size": 4,
        "train__lr": 0.01,
        "train__log_every": 50,
        "score__beam": 2,
        "score__limit": "null",
    }
    assert train_main([*options(**text), f"--run_dir={folder / 'trained'}"]) == 0
    untrained(folder / "rare", **{**text, "encoder__min_count": 5})
    untrained(folder / "dates")
    tsv = [f"{number} men.\t{number} Männer." for number in range(60)]
    (root / "pairs.tsv").write_text("\n".join(tsv))
    untrained(folder / "raw", **{**text, "data__tsv": "pairs.tsv"})
    Run.create(load_config([]), name="classifier", metadata={}, folder=folder / "classifier")
    return folder


def test_score(runs, capsys):
    result = Run.open(runs / "trained").read_json("result.json")["test"]
    assert evaluate("score", runs / "trained", "--json", "--batch-size", 2) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert found["scores"] == pytest.approx(result) and result["sentences"] == 6 and result["exact"] > 0.5
    assert (found["split"], found["read"], found["beam"]) == ("test", "soft", 2)
    assert evaluate("score", runs / "trained", "--split", "valid", "--limit", 4, "--read", "hard") == 0
    out = capsys.readouterr().out
    assert f"{runs / 'trained'}: hard read, beam 2, 4 valid sentences\n" in out
    assert re.search(r"^exact % +\d+\.\d\d$", out, re.M) and re.search(r"^  BLEU, 1-5 source words +\d", out, re.M)


def test_score_of_dates(runs, capsys):
    assert evaluate("score", runs / "dates", "--limit", 20) == 0
    out = capsys.readouterr().out
    assert "soft read, greedy, 20 test sentences" in out and "attention on the aligned words %" in out


def test_translate(runs, capsys, monkeypatch, tmp_path):
    assert evaluate("translate", runs / "trained", "see one dog", "see two   tree !") == 0
    assert capsys.readouterr().out == "sieh dort ein hund\nsieh dort zwei baum !\n"
    monkeypatch.setattr(sys, "stdin", _input(b"see four man !\nsee three ball\n"))
    (tmp_path / "more.txt").write_bytes(b"\xef\xbb\xbfsee three dog\r\n")  # BOM, Windows line end
    assert evaluate("translate", runs / "trained", "-", "see five man", "--file", tmp_path / "more.txt") == 0
    expected = "sieh dort vier mann !\nsieh dort drei ball\nsieh dort fünf mann\nsieh dort drei hund\n"
    assert capsys.readouterr().out == expected


def _input(content):
    return io.TextIOWrapper(io.BytesIO(content), encoding="ascii", errors="strict")  # as with the C locale


def test_options_may_be_anywhere(runs, capsys):
    assert evaluate("translate", "--read", "soft", runs / "trained", "see one dog", "--json", "see two tree !") == 0
    assert [json.loads(line)["source"][1] for line in capsys.readouterr().out.splitlines()] == ["one", "two"]
    assert evaluate("score", runs / "dates", "--limit", 4, runs / "dates", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)) == 2
    for command in (["translate", runs / "trained", "--jsn", "one dog"], ["variance", "a", "--seed", "1", "b"]):
        with pytest.raises(SystemExit):
            evaluate(*command)
        assert "error: unrecognized arguments: " in capsys.readouterr().err


def test_input_that_is_not_utf8(runs, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", _input(b"one dog\ncaf\xe9\n"))
    assert evaluate("translate", runs / "trained", "-") == 2
    message = "evaluate.py: error: standard input, line 2, must be UTF-8, got invalid bytes: unexpected end of data"
    assert capsys.readouterr().err == f"{message}\n"


def test_a_single_text_is_refused(runs):
    with pytest.raises(ValueError, match="texts must be a list of sentences, got the string 'one dog'"):
        TranslationTask.load(Run.open(runs / "trained")).translate("one dog")


def test_translate_as_json(runs, capsys):
    assert evaluate("translate", runs / "trained", "one dog", "two tree !", "--json", "--read", "hard") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    expected = TranslationTask.load(Run.open(runs / "trained")).translate(["one dog", "two tree !"], mode="hard")
    for found, translation in zip(lines, expected, strict=True):
        assert tuple(found["source"]) == translation.pair.source and tuple(found["words"]) == translation.words
        assert found["weights"] == translation.weights.tolist() and found["places"] == translation.places.tolist()
        assert found["log_prob"] == pytest.approx(translation.log_prob)
    assert len(lines[1]["weights"][0]) == 3


def test_dates_are_printed_without_spaces_and_raw_text_is_tokenized(runs, capsys):
    assert evaluate("translate", runs / "dates", "Sunday, the 3rd of MAY 1998") == 0
    [expected] = TranslationTask.load(Run.open(runs / "dates")).translate(["sunday , the 3 rd of may 1 9 9 8"])
    assert capsys.readouterr().out == "".join(expected.words) + "\n"
    assert evaluate("translate", runs / "raw", "3 Men.", "--json") == 0
    assert json.loads(capsys.readouterr().out)["source"] == ["3", "men", "."]


def test_unknown_words_are_named(runs, capsys):
    assert evaluate("translate", runs / "rare", "seven dog", "seven odd tree") == 0
    captured = capsys.readouterr()
    assert captured.err == "Unknown words, replaced by <unknown>: seven, odd\n" and captured.out.count("\n") == 2


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("translate {trained}", "nothing to translate: give sentences, - for standard input, or --file"),
        ("translate {trained} --file {tmp}/none", "cannot read {tmp}/none: No such file or directory"),
        ("translate {trained} --file {latin}", "{latin}, line 1, must be UTF-8, got invalid bytes: .*"),
        ("translate {trained} nine", "sentence 1 must have words of the vocabulary of {trained}, got 'nine' in 'nine'"),
        ("translate {trained} one --file {gap}", "sentence 3 must have words, got ''"),
        (
            "translate {classifier} one",
            "{classifier} classifies: translate does not apply to it, but score, compare, animate, glimpses, coverage, "
            "report and variance do",
        ),
        ("translate {tmp}/none one", "{tmp}/none is not a run folder: there is no config.yaml in it; .*"),
        ("caption {dates} {latin}", "{dates} translates: caption does not apply to it, but .*"),
        (
            "animate {dates} --out {tmp}/x.gif",
            "{dates} translates: animate does not apply to it, but score, compare, glimpses, report and translate do",
        ),
        ("coverage {dates} --out {tmp}/x.png", "{dates} translates: coverage does not apply to it, but .*"),
        ("variance {dates} --out {tmp}/x.png", "{dates} translates: variance does not apply to it, but .*"),
        (
            "compare --configs {captions} --out {tmp}/x",
            "{captions} writes captions: compare does not apply to it, but .*",
        ),
    ],
)
def test_errors(command, message, runs, tmp_path, capsys):
    """One line is printed, and nothing is trained or written."""
    places = {name: runs / name for name in ("trained", "dates", "classifier", "latin", "gap")}
    places["latin"].write_bytes(b"caf\xe9\n")
    places["gap"].write_text("one dog\n\ntwo dog\n")
    places["tmp"] = tmp_path / "tmp"
    places["tmp"].mkdir()
    places["config"] = REPOSITORY / "configs" / "dates_soft.yaml"
    places["captions"] = REPOSITORY / "configs" / "digit_captions_soft.yaml"
    assert evaluate(*(word.format(**places) for word in command.split())) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(f"evaluate.py: error: {message.format(**places)}\n", captured.err), captured.err
    assert not list(places["tmp"].iterdir())


def test_missing_data(tmp_path, capsys):
    settings = {"data__kind": "parallel", "data__root": tmp_path / "none", "train__limit": "null"}
    assert train_main([*options(**settings), f"--run_dir={tmp_path / 'run'}"]) == 2
    assert (
        capsys.readouterr().err == f"train.py: error: cannot read {tmp_path}/none/train.en: No such file or directory\n"
    )
    assert not list(tmp_path.iterdir())


def test_validation_error_of_text(runs):
    rows = Run.open(runs / "trained").rows()
    [last] = [row for row in rows if row.get("epoch") == 40 and "valid/BLEU" in row]
    assert last["valid/error"] == pytest.approx(1 - last["valid/BLEU"])
