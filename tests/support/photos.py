"""Tiny photo data sets with captions, in the formats of COCO and of Karpathy, and settings of runs that use them."""

import json
from itertools import product
from pathlib import Path
from typing import Any

from PIL import Image
from support.runs import load_script

COLORS = {"red": (220, 30, 30), "blue": (30, 60, 220)}
SIDES = ("left", "right")
# By number: each is drawn in two colors and on two sides, so 12 photos are for training, 4 for validation, 4 for test.
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
    """The command line of a tiny run with some settings changed; a dot in a name is written as two underscores."""
    given = _dotted(settings)
    kind = given.get("data.kind", "karpathy")
    tiny = {key: value for key, value in SETTINGS.items() if kind == "karpathy" or key != "data.annotations"}
    if kind == "digit_captions":
        tiny = {key: value for key, value in tiny.items() if not key.startswith(("data.", "encoder."))}
    return [f"--{key}={value}" for key, value in {**tiny, **given}.items()]


def _dotted(settings: dict[str, Any]) -> dict[str, Any]:
    return {key.replace("__", "."): value for key, value in settings.items()}


def draw_photo(path: Path, color: str, side: str, number: int) -> None:
    """Draw a colored square on the left or right of a gray image of 40 x 30; each number has another gray."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.new("RGB", (40, 30), (120 + 4 * number,) * 3)
    image.paste(COLORS[color], (2, 8, 18, 24) if side == "left" else (22, 8, 38, 24))
    image.save(path, quality=95)


def scenes() -> list[tuple[str, str, str, int]]:
    """File, color, side and number of all photos, ordered by number."""
    both = [(number, *scene) for number, scene in product(range(len(SPLITS)), product(COLORS, SIDES))]
    return [(f"{color}_{side}_{number}.jpg", color, side, number) for number, color, side in both]


def captions_of(color: str, side: str) -> list[str]:
    return [f"There is a {color} square.", f"a {color} square on the {side}"]


def make_karpathy(root: Path) -> Path:
    """Write the photos and their captions.json."""
    images = []
    for file, color, side, number in scenes():
        draw_photo(root / file, color, side, number)
        sentences = [{"raw": text} for text in captions_of(color, side)]
        images.append({"filename": file, "split": SPLITS[number], "sentences": sentences})
    (root / "captions.json").write_text(json.dumps({"images": images}))
    return root


def make_coco(root: Path) -> Path:
    """Write the same photos in the folders of COCO, which has no validation split of its own."""
    (root / "annotations").mkdir(parents=True)
    for folder, splits in (("train2017", ("train", "val")), ("val2017", ("test",))):
        content: dict[str, list[dict[str, Any]]] = {"images": [], "annotations": []}
        for index, (file, color, side, number) in enumerate(scenes()):
            if SPLITS[number] in splits:
                draw_photo(root / folder / file, color, side, number)
                content["images"].append({"id": index, "file_name": file})
                content["annotations"] += [
                    {"image_id": index, "caption": caption} for caption in captions_of(color, side)
                ]
        (root / "annotations" / f"captions_{folder}.json").write_text(json.dumps(content))
    return root


def evaluate(*words: Any) -> int:
    """Run evaluate.py; returns its exit code."""
    return load_script("evaluate").main([str(word) for word in words])
