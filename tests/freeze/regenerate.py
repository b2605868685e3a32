"""Write the frozen expectations anew.

    python tests/freeze/regenerate.py [shipped] [models] [curves] [runs] [commands]

What the tests compare with is what the package did before it was reorganised, so this is only for cases that are added:
look at the difference, in which nothing that was there may change. Run folders that are there are kept, as they are of
the code that wrote them; to write one anew, delete it first.
"""

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from freeze import adapter, command_lines
from freeze.frozen import EXPECTED, HERE, IMAGES, RUNS, describe, machine, read
from PIL import Image

EXAMPLES = {"digit-captions-hard": 100, "digit-captions-soft": 100}  # 500 take too long

# Curves. Each has only settings that mean something to it, and all of these: no default has a say.

TRAINING = {
    "seed": 0,
    "train.epochs": 2,
    "train.batch_size": 16,
    "train.optimizer": "adamw",
    "train.lr": 0.003,
    "train.schedule": "one_cycle",
    "train.warmup": 0.25,
    "train.weight_decay": 0.01,
    "train.clip": 5.0,
    "train.limit": 64,
    "train.device": "cpu",
    "train.threads": 1,
    "train.log_every": 1,
    "train.tensorboard": False,
    "score.batch_size": 20,
    "score.limit": 20,
}
CLUTTERED = {
    "data.kind": "cluttered",
    "data.canvas": 40,
    "data.num_digits": 1,
    "data.num_distractors": 4,
    "data.distractor_size": 8,
    "data.target": "label",
}
PIXELS = {"network.pixel_mean": 0.1, "network.pixel_std": 0.5}
LOOKING = {
    "model": "attention",
    "num_glimpses": 3,
    **CLUTTERED,
    "sensor.patch_size": 8,
    "sensor.num_scales": 2,
    "sensor.scale_factor": 2,
    "sensor.background": 0.0,
    "network.what_dim": 16,
    "network.where_dim": 16,
    "network.glimpse_dim": 24,
    "network.state_dim": 20,
    "network.readout": "last",
    **PIXELS,
    "train.places_lr": 0.33,
    **TRAINING,
}
CONV = {"network.what": "conv", "network.conv_channels": 4, "network.conv_layers": 3}
ANSWERS = {"network.core": "gru", "network.halt": False, "loss.classify": "each"}
PLANE = {
    "attention.places": "plane",
    "attention.policy": "learned",
    "attention.first": "centre",
    "attention.std": 0.2,
    "attention.std_end": 0.05,
    "attention.std_until": 0.8,
    "attention.learn_std": False,
    "attention.squash": True,
}
REINFORCE = {
    "loss.reinforce": 0.03,
    "loss.reward": "log_likelihood",
    "loss.reward_when": "each",
    "loss.discount": 0.5,
    "loss.rollouts": 1,
    "loss.normalise": True,
    "loss.entropy": 0.01,
    "loss.reward_reaches_core": True,
}
LEARNED = {"loss.baseline": "learned", "loss.baseline_weight": 1.0}
NEVER = {"loss.mix": 0.0, "loss.mix_end": None}
SOFT_START = {"loss.mix": 1.0, "loss.mix_end": 0.0, "loss.mix_until": 1.0}
PLANE_HARD = {"read": "hard", **LOOKING, **CONV, **ANSWERS, **PLANE, **REINFORCE}
HARD = {**PLANE_HARD, **LEARNED, **NEVER}
SOFT = {
    **{"read": "soft", **LOOKING, **CONV, **ANSWERS, **PLANE},
    "attention.std": 0.1,
    "attention.std_end": 0.01,
    "attention.std_until": 0.4,
    "attention.clip": 0.5,
}
GRID = {
    **{"read": "hard", **LOOKING, **CONV, **ANSWERS, **REINFORCE, **LEARNED, **NEVER},
    "attention.places": "grid",
    "attention.policy": "learned",
    "attention.first": "learned",
    "attention.grid": [3, 3],
    "attention.scorer": "additive",
    "attention.scorer_dim": 16,
    "attention.window": None,
}
PAPER = {
    **{"read": "hard", **LOOKING, **LEARNED, **NEVER},
    "network.what": "fc",
    "network.core": "rnn",
    "network.halt": False,
    "attention.places": "plane",
    "attention.policy": "learned",
    "attention.first": "random",
    "attention.std": 0.2,
    "attention.std_end": None,
    "attention.learn_std": False,
    "attention.squash": False,
    "loss.classify": "last",
    "loss.reinforce": 0.1,
    "loss.reward": "accuracy",
    "loss.reward_when": "last",
    "loss.rollouts": 1,
    "loss.normalise": False,
    "loss.entropy": 0.0,
    "loss.reward_reaches_core": True,
    "train.places_lr": 1.0,
    "train.lr": 0.001,
    "train.weight_decay": 0.0001,
}
WORDS = {
    "attention.scorer": "additive",
    "attention.scorer_dim": 16,
    "attention.window": None,
    "decoder.embed_dim": 12,
    "decoder.state_dim": 20,
    "decoder.dropout": 0.1,
    "decoder.gate": True,
    "decoder.min_count": 1,
    "decoder.max_length": 12,
    "train.places_lr": 1.0,
    **TRAINING,
}
MOVING_AVERAGE = {
    "loss.reinforce": 0.5,
    "loss.baseline": "moving_average",
    "loss.discount": 0.5,
    "loss.entropy": 0.01,
}
CAPTIONS = {
    "model": "captioner",
    "data.kind": "digit_captions",
    "data.canvas": 84,
    "data.num_digits": 2,
    "data.num_distractors": 2,
    "data.distractor_size": 8,
    **PIXELS,
    "encoder.name": "small",
    "encoder.dim": 16,
    "encoder.channels": 4,
    "encoder.stride": 12,
    "encoder.self_attention": 0,
    "loss.doubly_stochastic": 0.05,
    **WORDS,
}
DATES = {
    "model": "translator",
    "data.kind": "dates",
    "attention.places": "words",
    "encoder.dim": 16,
    "encoder.embed_dim": 12,
    "encoder.dropout": 0.1,
    "encoder.min_count": 1,
    "encoder.self_attention": 0,
    **WORDS,
}
DATES_HARD = {"read": "hard", **DATES, **MOVING_AVERAGE, **NEVER}
WHOLE = {"model": "cnn", **CLUTTERED, "network.conv_channels": 4, "network.state_dim": 20, **PIXELS, **TRAINING}

CURVES = {
    "hard": HARD,
    "soft": SOFT,
    "leave_one_out": {**PLANE_HARD, **NEVER, "loss.baseline": "leave_one_out", "loss.rollouts": 2},
    "self_critical": {**PLANE_HARD, **NEVER, "loss.baseline": "self_critical"},
    "self_critical_mixed": {**PLANE_HARD, **SOFT_START, "loss.baseline": "self_critical", "attention.clip": 0.5},
    "grid_hard": GRID,
    "halting_unit": {**HARD, "network.halt": True, "loss.glimpse_cost": 0.02},
    "paper": PAPER,
    "digit_captions_hard_mixed": {"read": "hard", **CAPTIONS, **MOVING_AVERAGE, **SOFT_START},
    "dates_hard": DATES_HARD,
    "dates_soft": {"read": "soft", **DATES},
    "cnn": WHOLE,
    "dates_hard_two_processes": DATES_HARD,
}
STEPS = 8
TOGETHER = {"dates_hard_two_processes", "two-processes"}

# Run folders, which hold every setting as it was, those with no meaning included.

SMALL = {"data.canvas": 28, "network.what_dim": 8, "network.where_dim": 8, "network.glimpse_dim": 12}
SMALL |= {"network.state_dim": 10, "sensor.patch_size": 6}
SHORT = {"train.limit": 48, "train.log_every": 2}
FOLDER = {
    "data.kind": "folder",
    "data.root": str(IMAGES),
    "data.valid_fraction": 0.2,
    "data.test_fraction": 0.2,
    "data.workers": 0,
}
STORED = {
    "classification-hard": {**HARD, **SMALL, **SHORT},
    "classification-soft": {**SOFT, **SMALL, **SHORT},
    "digit-captions-hard": {**CURVES["digit_captions_hard_mixed"], **SHORT},
    "dates-soft": {**CURVES["dates_soft"], **SHORT},
    "whole-image-cnn": {**WHOLE, "data.canvas": 28, **SHORT},
    "image-folder": {
        **{key: value for key, value in {**HARD, **SMALL, **SHORT}.items() if key not in CLUTTERED},
        **FOLDER,
        "train.batch_size": 6,
    },
    "two-processes": {**HARD, **SMALL, **SHORT},
}

# Initial weights: what the data would say, made up where they are not there.

DIGITS = {"num_classes": 10}
ABOUT = {
    "cluttered100": {"image_shape": [1, 100, 100], **DIGITS},
    "mnist": {"image_shape": [1, 28, 28], **DIGITS},
    "digit_captions": {"image_shape": [1, 84, 84], "vocabulary_size": 50},
    "flickr8k_cpu": {"image_shape": [3, 260, 260], "vocabulary_size": 50},
    "flickr8k": {"image_shape": [3, 224, 224], "vocabulary_size": 50},
    "coco": {"image_shape": [3, 224, 224], "vocabulary_size": 50},
    "dates": {"source_size": 40, "vocabulary_size": 30},
    "multi30k": {"source_size": 40, "vocabulary_size": 30},
}


def about(name: str) -> dict[str, Any]:
    return next((value for key, value in ABOUT.items() if name.startswith(key)), {"image_shape": [1, 60, 60], **DIGITS})


def shipped() -> dict[str, Any]:
    defaults = adapter.parse_command([])
    models = {}
    for name in adapter.shipped_names():
        weights = adapter.load_weights(name)
        examples = EXAMPLES.get(name, 500)
        models[name] = {
            "settings": differences(adapter.load_settings(name), defaults),
            "dtypes": {key: str(value.dtype) for key, value in weights.items()},
            "weights": describe(weights),
            "examples": examples,
            **adapter.score(name, examples),
        }
    printed = {name: adapter.score_as_user(name, 100) for name in ("mnist-hard", "dates-soft")}
    note = "captioners have 100 examples, as 500 take several seconds each, and no METEOR, which needs Java"
    return {
        "machine": machine(),
        "note": note,
        "defaults": defaults,
        "models": models,
        "printed": {"examples": 100, "models": printed},
    }


def differences(settings: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if value != defaults[key]}


def models() -> dict[str, Any]:
    return {
        "machine": machine(),
        "models": {
            name: {"about": about(name), **describe(adapter.initial_model(name, about(name)).state_dict())}
            for name in adapter.config_names()
        },
    }


def curves() -> dict[str, Any]:
    found = {}
    for name, settings in CURVES.items():
        world_size = 2 if name in TOGETHER else 1
        rows = adapter.curve(settings, STEPS, world_size=world_size)
        found[name] = {"settings": settings, "world_size": world_size, "steps": rows}
    return {"machine": machine(), "curves": found}


def runs() -> dict[str, Any]:
    IMAGES.mkdir(exist_ok=True)
    if not any(IMAGES.iterdir()):
        draw_images()
    defaults = adapter.parse_command([])
    found = read("runs")["runs"] if (EXPECTED / "runs.json").exists() else {}
    for name, settings in STORED.items():
        folder = RUNS / name
        if folder.exists():
            continue
        world_size = 2 if name in TOGETHER else 1
        adapter.train(settings, folder, epochs=1, world_size=world_size)
        adapter.scrub(folder)
        with tempfile.TemporaryDirectory() as unbroken:
            adapter.train(settings, Path(unbroken, "run"), world_size=world_size)
            weights = adapter.last_weights(Path(unbroken, "run"))
        every = adapter.load_settings(folder)
        found[name] = {
            "machine": machine(),
            "world_size": world_size,
            "settings": every,
            "required": [key for key in settings if key in differences(every, defaults)],
            "before": describe(adapter.last_weights(folder)),
            "after": describe(weights),
        }
    return {"runs": found}


def draw_images() -> None:
    """Three classes of ten tiny colour images: a bright square on noise, at a place that depends on the class."""
    random = np.random.default_rng(0)
    for label, name in enumerate(("left", "middle", "right")):
        (IMAGES / name).mkdir()
        for number in range(10):
            pixels = random.integers(0, 60, (12, 18, 3), dtype=np.uint8)
            pixels[3:9, 6 * label : 6 * label + 6] += np.uint8(150)
            Image.fromarray(pixels).save(IMAGES / name / f"{number}.png")


def commands() -> dict[str, Any]:
    defaults = adapter.parse_command([])
    train = {}
    for line, arguments in lines(command_lines.TRAIN):
        resumed = "--resume" in arguments
        settings = adapter.parse_command(arguments)
        train[line] = {"arguments": arguments, "settings": {} if resumed else differences(settings, defaults)}
    evaluate = {
        line: {"arguments": arguments, "options": adapter.parse_evaluate(arguments)}
        for line, arguments in lines(command_lines.EVALUATE)
    }
    return {"defaults": defaults, "train": train, "evaluate": evaluate}


def lines(text: str) -> Iterator[tuple[str, list[str]]]:
    """Command lines, and the words after the script as a shell gives them."""
    for line in text.replace("\\\n   ", "").split("\n"):
        if line:
            words = [word for part in shlex.split(line)[2:] for word in expanded(part)]
            yield line, words


def expanded(word: str) -> list[str]:
    """A word with {a,b} in it as the shell expands it."""
    before, brace, rest = word.partition("{")
    if not brace:
        return [word]
    choices, _, after = rest.partition("}")
    return [f"{before}{choice}{after}" for choice in choices.split(",")]


GROUPS = {"shipped": shipped, "models": models, "curves": curves, "runs": runs, "commands": commands}


def main(groups: list[str]) -> int:
    if os.environ.get("CI"):
        print("regenerate.py: error: expectations are not written where CI is set", file=sys.stderr)
        return 2
    if unknown := set(groups) - GROUPS.keys():
        print(f"regenerate.py: error: no such group: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    EXPECTED.mkdir(exist_ok=True)
    for group in groups or GROUPS:
        content = GROUPS[group]()
        (EXPECTED / f"{group}.json").write_text(to_json(content) + "\n")
        print(f"Wrote {(EXPECTED / group).relative_to(HERE)}.json")
    return 0


def to_json(content: Any, indent: str = "") -> str:
    """JSON with a line for each value, but lists of plain values in one line."""
    if isinstance(content, dict) and content:
        lines = [f"{indent} {json.dumps(key)}: {to_json(value, indent + ' ')}" for key, value in content.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(content, list) and any(isinstance(value, dict) for value in content):
        lines = [f"{indent} {to_json(value, indent + ' ')}" for value in content]
        return "[\n" + ",\n".join(lines) + f"\n{indent}]"
    return json.dumps(content)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
