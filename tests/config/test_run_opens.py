"""A command reads the config of each run that it is given once."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

import glimpse.training.run

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def evaluate():
    """The script."""
    spec = importlib.util.spec_from_file_location("evaluate", TESTS.parent / "evaluate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def finished(tmp_path):
    """The folder of a finished run of a translator."""
    shutil.copytree(TESTS / "freeze" / "runs" / "dates-soft", tmp_path / "dates")
    (tmp_path / "dates" / "result.json").write_text(json.dumps({"seconds": 1.0}))
    return str(tmp_path / "dates")


CLASSIFIERS = [
    (2, "compare HARD SOFT CNN --limit=4"),  # they are not finished
    (2, "variance HARD --repeats=2"),  # too few
    (2, "report HARD CNN --count=1 --limit=4"),
    (0, "animate HARD SOFT --count=1"),
    (0, "glimpses HARD --count=1"),
    (0, "coverage HARD SOFT --limit=4"),
    (0, "results mnist-hard dates-soft --section=main --csv=results.csv"),
]
SEQUENCES = [
    (0, "score DATES --limit=4"),
    (0, "compare DATES --limit=4"),
    (0, "glimpses DATES --count=1"),
    (0, "report DATES --count=1 --limit=4"),
    (0, "caption CAPTIONS image.png --out=captions.html --device=cpu"),
    (0, "translate DATES 10/11/12 --out=alignment.png --device=cpu"),
]


@pytest.mark.parametrize("lines", [CLASSIFIERS, SEQUENCES], ids=["classifiers", "sequences"])
def test_each_run_is_opened_once_by_every_command(lines, evaluate, finished, tmp_path, monkeypatch, capsys):
    """Also if the command then has something to complain about."""
    read = []
    load_config = glimpse.training.run.load_config
    monkeypatch.setattr(
        glimpse.training.run,
        "load_config",
        lambda *arguments, file: read.append(Path(file).parent) or load_config(*arguments, file=file),
    )
    monkeypatch.chdir(tmp_path)
    Image.new("L", (84, 84), 30).save("image.png")
    names = {
        "HARD": "classification-hard",
        "SOFT": "classification-soft",
        "CNN": "whole-image-cnn",
        "CAPTIONS": "digit-captions-hard",
    }
    folders = {"DATES": finished} | {word: TESTS / "freeze" / "runs" / name for word, name in names.items()}
    folders |= {name: TESTS.parent / "glimpse" / "zoo" / name for name in ("mnist-hard", "dates-soft")}
    for code, line in lines:
        read.clear()
        words = line.split()
        arguments = [str(folders[word]) if word in folders and word.isupper() else word for word in words]
        if words[0] != "results":
            arguments.append("--threads=1")
        assert evaluate.main(arguments) == code, capsys.readouterr().err
        assert sorted(read) == sorted(Path(folders[word]) for word in words if word in folders), line
