"""evaluate.py score, early exit, broken runs, and the examples of the README."""

import contextlib
import io
import json
import re
import shutil
import sys
import warnings
from pathlib import Path

import pytest
from PIL import Image
from support.runs import start_python, tiny, train_main

from glimpse.training.run import Run

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import evaluate  # noqa: E402


@pytest.fixture(scope="module")
def runs(classifiers, tmp_path_factory):
    """Tiny classifiers, hard and soft, and those of the configs with a state memory and with a halting unit."""
    folder = tmp_path_factory.mktemp("runs")
    for read in ("hard", "soft"):
        (folder / read).symlink_to(classifiers / read)
    changes = {
        "attend": {"network.readout": "state_memory"},
        "halt": {"network.halting_unit": "true", "init_from": folder / "hard"},
    }
    for name, settings in changes.items():
        config = ROOT / "configs" / f"cluttered60_{name}.yaml"
        options = tiny({"train.epochs": 1, "train.limit": 512, "score.limit": 100, **settings})
        assert train_main([str(config), *options, f"--run_dir={folder / name}"]) == 0
    return folder


def score(capsys, *arguments):
    assert evaluate.main(["score", "--json", *map(str, arguments)]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    return found


def test_greedy_score_is_that_of_the_training(runs, capsys):
    found = score(capsys, runs / "hard", "--rollouts", 2)
    reported = json.loads((runs / "hard" / "result.json").read_text())["test"]
    assert found["scores"]["greedy"] == reported
    assert found["scores"]["greedy"]["images"] == 10_000
    assert list(found["scores"]) == ["greedy", "sampled", "averaged"]
    for values in found["scores"].values():
        assert len(values["error"]) == len(values["hit"]) == 3
        assert all(low < error < high for error, (low, high) in zip(values["error"], values["interval"], strict=True))


def test_modes_seeds_and_reads(runs, capsys):
    def errors(*options, mode="sampled"):
        return score(capsys, runs / "hard", "--limit", 300, "--rollouts", 3, *options)["scores"][mode]

    assert errors() == errors()
    assert errors("--seed", 1)["hit"] != errors()["hit"]
    assert errors("--batch-size", 7, mode="greedy") == errors(mode="greedy")
    assert errors("--read", "soft", mode="greedy")["images"] == 300
    valid = score(capsys, runs / "soft", "--limit", 300, "--split", "valid")
    assert valid["split"] == "valid" and valid["read"] == "soft" and list(valid["scores"]) == ["greedy"]


def test_table_of_several_runs(runs, capsys):
    assert evaluate.main(["score", str(runs / "hard"), str(runs / "soft"), "--limit", "50"]) == 0
    out = capsys.readouterr().out
    assert "hard read, 50 test images" in out and "soft read, 50 test images" in out
    assert re.search(r"greedy: error % +\d+\.\d\d +\d+\.\d\d", out) and "mean of 10: error %" in out


def test_early_exit(runs, capsys):
    found = score(capsys, runs / "halt", "--limit", 200, "--rollouts", 1)["stopping"]
    assert [point["by"] for point in found] == ["confidence", "halting"]
    for point in found:
        assert 1 <= point["glimpses"] <= 3 and len(point["shares"]) == 3
        assert point["valid_error"] <= point["valid_full_error"] + 0.001
    again = score(capsys, runs / "halt", "--limit", 200, "--rollouts", 1, "--split", "valid")["stopping"]
    assert [point["threshold"] for point in again] == [point["threshold"] for point in found]
    assert [point["error"] for point in again] == [point["valid_error"] for point in found]
    assert evaluate.main(["score", str(runs / "attend"), "--limit", "50", "--rollouts", "1"]) == 0
    line = r"early exit by confidence above [\d.e-]+: error \d+\.\d\d% \([\d.-]+\), [1-3]\.\d\d glimpses on average"
    assert re.search(f"{line}; threshold picked on validation images", capsys.readouterr().out)


def test_comparison_of_memory_and_halting(runs, tmp_path, capsys):
    folders = [str(runs / name) for name in ("hard", "attend", "halt")]
    assert evaluate.main(["compare", *folders, "--limit", "50", "--rollouts", "1", "--out", str(tmp_path)]) == 0
    assert "Early exit, 50 test images" in capsys.readouterr().out
    lines = (tmp_path / "stopping.csv").read_text().splitlines()
    assert lines[0].startswith("config,seed,run,by,threshold,picked,") and lines[0].endswith(",took_1,took_2,took_3")
    assert sum(",True," in line for line in lines) == 4
    assert evaluate.main(["glimpses", folders[1], "--out", str(tmp_path / "x.png"), "--count", "1"]) == 0


def test_picture(runs, tmp_path, capsys):
    out = tmp_path / "glimpses.png"
    assert evaluate.main(["glimpses", str(runs / "hard"), "--out", str(out), "--images", "7", "0"]) == 0
    assert capsys.readouterr().out == f"Wrote {out}\n"
    with Image.open(out) as picture:
        assert picture.width > 300 and len(picture.convert("RGB").getcolors(1 << 20)) > 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["score", "{tmp}"], "{tmp} is not a run folder: there is no config.yaml in it"),
        (["glimpses", "{hard}", "--images", "10000"], "--images must be in 0..9999, got 10000"),
        (
            ["glimpses", "{hard}", "--out", "{tmp}/none/x.png"],
            "cannot write {tmp}/none/x.png: there is no folder {tmp}/none",
        ),
        (["glimpses", "{hard}", "--out", "{tmp}/x.doc"], "--out must end in .png or .pdf or .svg, got {tmp}/x.doc"),
        (
            ["score", "{hard}", "--device", "gpu"],
            "the device must be auto, cpu, cuda, mps or another torch device, got 'gpu'",
        ),
    ],
)
def test_errors(runs, tmp_path, capsys, arguments, message):
    places = {"tmp": tmp_path, "hard": runs / "hard"}
    assert evaluate.main([argument.format(**places) for argument in arguments]) == 2
    assert f"evaluate.py: error: {message.format(**places)}" in capsys.readouterr().err


def test_broken_runs(runs, tmp_path, capsys):
    broken = tmp_path / "broken"
    shutil.copytree(runs / "hard", broken)
    other_size = Run.open(broken).config.replace(data={"canvas": 64}).to_yaml()
    for name, content, message in (
        ("best.safetensors", "nonsense", "best.safetensors is broken"),
        ("config.yaml", "network: {state_dim: 8}", "best.safetensors is a checkpoint of another architecture"),
        ("meta.json", "{", "meta.json is broken"),
        ("config.yaml", other_size, "has changed since training: images of [1, 60, 60] and 10 classes then"),
        ("config.yaml", "sensors: 1", "there is no setting sensors"),
    ):
        original = (broken / name).read_bytes()
        (broken / name).write_text(content)
        assert evaluate.main(["score", str(broken)]) == 2
        assert message in capsys.readouterr().err
        (broken / name).write_bytes(original)


def test_bad_arguments_exit_with_2(capsys):
    for arguments, message in (
        (["score"], "the following arguments are required: RUN"),
        (["score", "x", "--limit", "0"], "argument --limit: must be a whole number of at least 1, got 0"),
        (["score", "x", "--seed", "-1"], "argument --seed: must be a whole number of at least 0, got -1"),
        (["score", "x", "--rollouts", "3.5"], "argument --rollouts: must be a whole number of at least 1, got 3.5"),
        (["animate", "x", "--seconds", "0"], "argument --seconds: must be a number of seconds from 0.02 to 30, got 0"),
        (["animate", "x", "--seconds", "x"], "argument --seconds: must be a number of seconds from 0.02 to 30, got x"),
        (["dance"], "invalid choice: 'dance'"),
    ):
        with pytest.raises(SystemExit) as caught:
            evaluate.main(arguments)
        assert caught.value.code == 2 and message in capsys.readouterr().err


def test_closed_pipe():
    """As with `| head`: no traceback is printed."""
    with start_python("evaluate.py", "translate", "dates-soft", "3 May 1998", "4 May 1998") as process:
        process.stdout.close()
        assert process.stderr.read() == "" and process.wait(100) == 1


def test_readme_python_runs():
    code = re.search(r"## From Python\n\n```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
    assert len([line for line in code.splitlines() if line]) <= 12
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "README.md", "exec"), {})
    assert all(shape in output.getvalue() for shape in ("[8, 4, 10]", "[8, 4, 2]", "[8, 3]"))


def test_readme_shows_the_code_of_read():
    readme = (ROOT / "README.md").read_text()
    source = (ROOT / "glimpse" / "attention" / "reading.py").read_text()
    body = re.search(r"def read\(.*?\n((?:    .*\n)+)```", readme)[1]
    assert body in source


def test_readme_names_every_config():
    readme = (ROOT / "README.md").read_text()
    for config in (ROOT / "configs").glob("*.yaml"):
        assert f"`{config.stem}`" in readme


def test_warnings_are_single_lines(monkeypatch, capsys):
    """Without the line of code that warns."""
    monkeypatch.setattr("glimpse.cli.run", lambda *_: warnings.warn("first\nsecond", stacklevel=2))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert evaluate.main(["score", "RUN"]) == 0
    assert capsys.readouterr().err == "evaluate.py: warning: first second\n"
