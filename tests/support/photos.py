"""Tiny sets of photographs with captions, as COCO publishes them and as Karpathy does, and runs that describe them."""

import json
from itertools import product
from pathlib import Path
from typing import Any

from PIL import Image
from support.runs import _load_script

COLOURS = {"red": (220, 30, 30), "blue": (30, 60, 220)}
SIDES = ("left", "right")
# By colour, side and a number: 12 to train with, 4 to validate, 4 to test.
SPLITS = ("train", "train", "train", "val", "test")

SETTINGS = {
    "seed": 0,
    "model": "captioner",
    "read": "soft",
    "data.kind": "karpathy",
    "data.annotations": "captions.json",
    "data.size": [64, 64],
    "encoder.name": "squeezenet1_1",
    "encoder.weights": "null",
    "encoder.fine_tune_from": "null",
    "encoder.cache": "null",
    "encoder.self_attention": 0,
    "decoder.embed_dim": 16,
    "decoder.state_dim": 24,
    "decoder.dropout": 0.0,
    "decoder.gate": "true",
    "decoder.min_count": 1,
    "decoder.max_length": 9,
    "attention.scorer": "additive",
    "attention.scorer_dim": 8,
    "attention.window": "null",
    "loss.baseline": "moving_average",
    "loss.reinforce": 0.5,
    "loss.discount": 0.0,
    "loss.entropy": 0.01,
    "loss.doubly_stochastic": 0.1,
    "loss.mix": 0.0,
    "train.epochs": 2,
    "train.batch_size": 4,
    "train.optimizer": "adamw",
    "train.lr": 0.01,
    "train.schedule": "one_cycle",
    "train.weight_decay": 0.01,
    "train.limit": "null",
    "train.device": "cpu",
    "train.threads": 1,
    "train.log_every": 1,
    "train.tensorboard": "false",
    "score.read": "null",
    "score.beam": 1,
    "score.length_penalty": 0.0,
    "score.batch_size": 3,
    "score.limit": "null",
}


def arguments(**settings: Any) -> list[str]:
    """The command line of a tiny run, some settings changed; a dot in a name is written as two underscores."""
    given = _dotted(settings)
    kind = given.get("data.kind", "karpathy")
    tiny = {key: value for key, value in SETTINGS.items() if kind == "karpathy" or key != "data.annotations"}
    if kind == "digit_captions":
        tiny = {key: value for key, value in tiny.items() if not key.startswith(("data.", "encoder."))}
    return [f"--{key}={value}" for key, value in {**tiny, **given}.items()]


def _dotted(settings: dict[str, Any]) -> dict[str, Any]:
    return {key.replace("__", "."): value for key, value in settings.items()}


def draw_photo(path: Path, colour: str, side: str, number: int) -> None:
    """A square of 40 x 30 pixels' height on grey, to the left or to the right; no two numbers are the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.new("RGB", (40, 30), (120 + 4 * number,) * 3)
    image.paste(COLOURS[colour], (2, 8, 18, 24) if side == "left" else (22, 8, 38, 24))
    image.save(path, quality=95)


def scenes() -> list[tuple[str, str, str, int]]:
    """File, colour, side and number of all photographs, those of one number together."""
    both = [(number, *scene) for number, scene in product(range(len(SPLITS)), product(COLOURS, SIDES))]
    return [(f"{colour}_{side}_{number}.jpg", colour, side, number) for number, colour, side in both]


def captions_of(colour: str, side: str) -> list[str]:
    return [f"There is a {colour} square.", f"a {colour} square on the {side}"]


def make_karpathy(root: Path) -> Path:
    """Photographs, and captions.json with them."""
    images = []
    for file, colour, side, number in scenes():
        draw_photo(root / file, colour, side, number)
        sentences = [{"raw": text} for text in captions_of(colour, side)]
        images.append({"filename": file, "split": SPLITS[number], "sentences": sentences})
    (root / "captions.json").write_text(json.dumps({"images": images}))
    return root


def make_coco(root: Path) -> Path:
    """The same photographs in COCO's folders; those to validate with are chosen from the training images."""
    (root / "annotations").mkdir(parents=True)
    for folder, splits in (("train2017", ("train", "val")), ("val2017", ("test",))):
        content: dict[str, list[dict[str, Any]]] = {"images": [], "annotations": []}
        for index, (file, colour, side, number) in enumerate(scenes()):
            if SPLITS[number] in splits:
                draw_photo(root / folder / file, colour, side, number)
                content["images"].append({"id": index, "file_name": file})
                content["annotations"] += [
                    {"image_id": index, "caption": caption} for caption in captions_of(colour, side)
                ]
        (root / "annotations" / f"captions_{folder}.json").write_text(json.dumps(content))
    return root


def evaluate(*words: Any) -> int:
    """Runs evaluate.py; returns its exit code."""
    return _load_script("evaluate").main([str(word) for word in words])
