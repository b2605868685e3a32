"""Help texts of settings, and of train.py."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.parts import kinds_of, listed

from glimpse.attention.placement import RULES
from glimpse.attention.settings import ATTENTIONS, SENSORS, GlimpseAttentionSettings
from glimpse.config.help import WIDTH, settings_help
from glimpse.config.messages import plain_repr
from glimpse.data.settings import DATASETS, ImageDataSettings
from glimpse.losses.estimators import ESTIMATORS
from glimpse.losses.policy_gradient import BASELINES, REWARDS
from glimpse.tasks.settings import MODELS, load_config

REPOSITORY = Path(__file__).parents[2]
KINDS = [
    [],
    ["--attention.kind=grid", "--data.kind=folder"],
    ["--sensor.kind=foveated", "--estimator.kind=straight_through"],
    ["--model=cnn", "--data.kind=torchvision"],
    ["--model=mlp"],
    ["--model=captioner"],
    ["--model=captioner", "--data.kind=coco", "--encoder.kind=backbone"],
    ["--model=captioner", "--data.kind=karpathy"],
    ["--model=translator", "--attention.kind=final_state"],
    ["--model=translator", "--data.kind=parallel", "--read=soft"],
]


def compact(text):
    """A text, however its lines were broken."""
    return "".join(text.split())


def test_every_setting_is_there_with_its_value_and_meaning():
    for options in KINDS:
        config = load_config(options)
        lines = settings_help(config)
        assert max(map(len, lines.splitlines())) <= WIDTH
        text = compact(lines)
        groups = {"": config, **{name: getattr(config, name) for name in config.groups()}}
        for key, value in config.items():
            group, _, name = key.rpartition(".")
            meaning = type(groups[group]).model_fields[name].description
            written = value if isinstance(value, str) else plain_repr(value)
            assert compact(f"--{key} {written}{meaning}") in text, key
        assert re.findall(r"^(\w+):$", lines, re.MULTILINE) == ["run", *config.groups()]


def test_some_settings_only():
    text = settings_help(load_config(["--seed=7"]), ["seed", "train.lr", "encoder.dim"])
    assert re.findall(r"--(\S+) (\S+)", text) == [("seed", "7"), ("train.lr", "0.003")]
    assert re.findall(r"^(\w+):$", text, re.MULTILINE) == ["run", "train"]


def test_choices_are_listed():
    text = compact(settings_help(load_config()))
    for words in (
        *("(adamw, adam, sgd)", "(hard, soft)", "(hard, soft or null)", "(rnn, gru, lstm)"),
        f"({kinds_of(ATTENTIONS, GlimpseAttentionSettings)})",
        f"({kinds_of(DATASETS, ImageDataSettings)})",
        *(f"({listed(registry)})" for registry in (SENSORS, ESTIMATORS, REWARDS, BASELINES)),
        f"(learned, {listed(RULES)})",
    ):
        assert compact(words) in text
    assert "(cnn, mlp)" not in text
    assert "(cnn,mlp)" in compact(settings_help(load_config(), ["model"], choices={"model": ["cnn", "mlp"]}))


@pytest.fixture(scope="module")
def answers():
    """The exit code, output and error output of train.py for command lines, without torch installed."""
    lines = [
        ["--help"],
        ["--help-all", "--model=translator"],
        ["--train.epcohs", "3"],
        ["--num_glimpses", "0"],
        ["no.yaml"],
        ["a.yaml", "b.yaml"],
        ["--resume", "run", "--seed", "1"],
        ["--resume", "run", "a.yaml"],
        ["--resume", "run", "--run_dir", "x"],
        ["--resume", "run", "--run-dir", "x"],
    ]
    code = f"""import contextlib, io, sys
sys.modules["torch"] = None
import train
answers = []
for line in {lines}:
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = train.main(line)
    answers.append((code, out.getvalue(), error.getvalue()))
print(answers)"""
    result = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return {" ".join(line): answer for line, answer in zip(lines, eval(result.stdout), strict=True)}


def test_help_of_the_script(answers):
    code, short, error = answers["--help"]
    assert (code, error) == (0, "")
    assert len(short.splitlines()) <= 80
    for text in ("--resume RUN", "--run-dir DIR", "CONFIG", "--train.epochs 20", "--seed 0"):
        assert text in short
    code, every, error = answers["--help-all --model=translator"]
    assert (code, error) == (0, "")
    models = {"model": list(MODELS)}
    assert compact(settings_help(load_config(["--model=translator"]), choices=models)) in compact(every)


def test_the_script_answers_mistakes_at_once(answers):
    """Exit code 2 and one line, without importing torch."""
    for line, message in (
        ("--train.epcohs 3", "there is no option --train.epcohs; did you mean train.epochs?"),
        ("--num_glimpses 0", "num_glimpses must be at least 1, got 0"),
        ("no.yaml", "cannot read the config file no.yaml: No such file or directory"),
        ("a.yaml b.yaml", "there must be one config file, got a.yaml, b.yaml"),
        ("--resume run --seed 1", "--resume takes no config, settings or --run-dir"),
        ("--resume run a.yaml", "--resume takes no config, settings or --run-dir"),
        ("--resume run --run_dir x", "--resume takes no config, settings or --run-dir"),
        ("--resume run --run-dir x", "--resume takes no config, settings or --run-dir"),
    ):
        code, out, error = answers[line]
        assert (code, out) == (2, "")
        assert error.startswith(f"train.py: error: {message}")
        assert error.count("\n") == 1
