"""Settings and folders of tiny translators, of dates or of text files."""

from typing import Any

from support.tensors import ALONE

from glimpse.tasks.base import build_task
from glimpse.tasks.settings import load_config
from glimpse.training.run import BEST, Run

SETTINGS = {
    "seed": 0,
    "read": "soft",
    "model": "translator",
    "data.kind": "dates",
    "attention.places": "words",
    "attention.scorer": "additive",
    "attention.scorer_dim": 6,
    "encoder.dim": 12,
    "encoder.embed_dim": 8,
    "encoder.dropout": 0.1,
    "encoder.min_count": 1,
    "decoder.embed_dim": 10,
    "decoder.state_dim": 14,
    "decoder.dropout": 0.1,
    "decoder.min_count": 1,
    "decoder.max_length": 12,
    "loss.baseline": "moving_average",
    "loss.reinforce": 0.5,
    "loss.discount": 0.0,
    "loss.entropy": 0.01,
    "loss.mix": 0.0,
    "loss.mix_end": "null",
    "train.epochs": 2,
    "train.batch_size": 16,
    "train.limit": 64,
    "train.threads": 1,
    "train.log_every": 1,
    "train.device": "cpu",
    "train.tensorboard": "false",
    "score.read": "null",
    "score.beam": 1,
    "score.length_penalty": 0.0,
    "score.limit": 30,
    "score.batch_size": 15,
}

NUMBERS = ("one", "two", "three", "four", "five", "six")
THINGS = {"dog": "hund", "man": "mann", "ball": "ball", "tree": "baum"}
ZAHLEN = ("ein", "zwei", "drei", "vier", "fünf", "sechs")


def options(**settings: Any) -> list[str]:
    """The command line of a tiny run with some settings changed; a dot in a name is written as two underscores."""
    changed = {key.replace("__", "."): value for key, value in settings.items()}
    return [f"--{key}={value}" for key, value in {**SETTINGS, **changed}.items()]


def make(**settings: Any):
    """The task of a tiny run."""
    return build_task(load_config(options(**settings)), ALONE, open_run=Run.open)


def untrained(folder, **settings: Any) -> Run:
    """A run folder of a translator with its initial weights."""
    config = load_config(options(**settings))
    task = build_task(config, ALONE, open_run=Run.open)
    run = Run.create(config, name=folder.name, metadata=task.metadata(), folder=folder)
    run.save(BEST, {f"model.{key}": value for key, value in task.model.state_dict().items()}, {})
    return run


def finished(folder, **settings: Any) -> Run:
    """A run folder like `untrained`, marked as finished."""
    run = untrained(folder, **settings)
    run.write_json("result.json", {})
    return run


def write_text(root):
    """Write parallel text in English and German: 24 sentences to train on and validate with, 6 to test with."""
    root.mkdir(exist_ok=True)
    pairs = [
        (f"see {number} {thing}" + " !" * (index % 2), f"sieh dort {zahl} {THINGS[thing]}" + " !" * (index % 2))
        for index, (number, zahl) in enumerate(zip(NUMBERS, ZAHLEN, strict=True))
        for thing in THINGS
    ]
    unseen = ("see nine tree", "sieh dort neun baum")
    for name, part in (("train", pairs), ("val", pairs), ("test", [*pairs[::5], unseen])):
        for language, texts in zip(("en", "de"), zip(*part, strict=True), strict=True):
            (root / f"{name}.{language}").write_text("".join(f"{text}\n" for text in texts))
    return root
