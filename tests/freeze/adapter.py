"""The only file of the frozen tests that knows the package's internals.

The frozen expectations name settings, weights and scores as the package did when they were written. When the package
changes a name or moves a module, the functions here translate; what they take and return stays as it is.

    settings    a flat dict from dotted names (the frozen ones) to plain values (numbers, strings, lists, None)
    arguments   a list of words of a command line, with the frozen names: ["configs/x.yaml", "--train.epochs", "5"]
    folder      a run folder, or the name of a shipped model
"""

import contextlib
import importlib.util
import io
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor, nn

import glimpse
from glimpse.config.upgrade import ALIASES, V1_WITHOUT_EFFECT, VALUES
from glimpse.data.sentence_pairs import pairs_of
from glimpse.distributed import processes
from glimpse.evaluation.caption import caption_dataset, score_captions
from glimpse.evaluation.classify import ClassificationScores, evaluate_classifier
from glimpse.evaluation.comparison import rollout_modes
from glimpse.metrics.translations import TranslationScores
from glimpse.tasks.base import build_task
from glimpse.tasks.build import build_data, make_captioner, make_model, make_translator
from glimpse.tasks.captioning import CaptioningTask
from glimpse.tasks.classification import ClassificationTask
from glimpse.tasks.classification_commands import load_runs
from glimpse.tasks.settings import Config, load_config, split_arguments
from glimpse.training.engine import Engine
from glimpse.training.run import BEST, LAST, Run

REPOSITORY = Path(__file__).parents[2]
CONFIGS = REPOSITORY / "configs"
ROLLOUTS = 2  # of the averaged scores


# Settings


def shipped_names() -> list[str]:
    """The names of the models that ship with the package."""
    return glimpse.shipped_models()


def config_names() -> list[str]:
    """The names of the config files."""
    return sorted(file.stem for file in CONFIGS.glob("*.yaml"))


def load_settings(folder: str | Path) -> dict[str, Any]:
    """The settings of a run: those that exist for its kind of model and data."""
    return _flat(Run.open(folder).config)


_LATER = {"attention.clip": (None, "did not exist when the run was made, so it is off; it was read as the default")}


def later_settings(folder: str | Path) -> dict[str, tuple[Any, str]]:
    """The settings that did not exist when a run was made and are not read as the default any more.

    Returns:
        By their frozen names, the value that they have now, and why.
    """
    run = Run.open(folder)
    written = yaml.safe_load((run.folder / "config.yaml").read_text())
    found = {}
    for key, (value, reason) in _LATER.items():
        group, _, name = key.partition(".")
        if name not in written[group] and key in _flat(run.config):
            found[key] = (value, reason)
    return found


def parse_command(arguments: list[str]) -> dict[str, Any]:
    """The settings of a command line of train.py: those that exist for its kind of model and data.

    With --resume RUN there are none: an empty dict.
    """
    words, options, settings = split_arguments(arguments, ["resume", "run_dir"])
    if "resume" in options:
        return {}
    return _flat(load_config(settings, file=REPOSITORY / words[0] if words else None))


_OTHER_MODELS = "means nothing to a model of this kind, and was ignored"
_OF_MODELS = {  # settings, or their first letters, that had no effect on a kind of model
    "attention": ("encoder.", "decoder.", "loss.doubly_stochastic", "score.beam", "score.length_penalty"),
    "whole image": ("read", "num_glimpses", "sensor.", "attention.", "loss.", "encoder.", "decoder.", "score.read"),
    "captioner": ("num_glimpses", "sensor.", "network.", "loss.classify", "loss.glimpse_cost"),
    "translator": ("num_glimpses", "sensor.", "network.", "loss.classify", "loss.glimpse_cost", "loss.doubly"),
}
_OF_GLIMPSES = (
    *("loss.reward", "loss.rollouts", "loss.normalise", "loss.baseline_weight"),
    *("attention.policy", "attention.first", "attention.std", "attention.learn_std", "attention.squash"),
    *("attention.clip", "attention.grid", "attention.places"),
)
_OF_IMAGE_FILES = ("data.root", "data.size", "data.channels", "data.download", "data.valid_fraction", "data.workers")


def idle_settings(settings: dict[str, Any]) -> dict[str, str]:
    """The frozen settings that need not exist any more for such a run, each with the reason why it changes nothing.

    Args:
        settings: All frozen settings of the run.
    """
    model = settings["model"] if settings["model"] in _OF_MODELS else "whole image"
    idle = _OF_MODELS[model]
    if model in ("captioner", "translator"):
        idle = (*idle, *_OF_GLIMPSES)
    if model == "captioner":
        idle = (*idle, "encoder.dim", "encoder.channels") if settings["encoder.name"] != "small" else idle
    if settings["data.kind"] in ("cluttered", "digit_captions", "dates"):
        idle = (*idle, *_OF_IMAGE_FILES)
    reasons = {name: _OTHER_MODELS for name in settings if name.startswith(idle)}
    return {**reasons, "sensor.plan": "changes the speed only; the sensor chooses"}


def parse_evaluate(arguments: list[str]) -> dict[str, Any]:
    """What evaluate.py makes of its command line, paths as strings."""
    options = vars(_script("evaluate").parse_arguments(arguments))
    options["command"] = {"score": "score_runs"}.get(options["command"], options["command"])
    return json.loads(json.dumps(options, default=str))


_OLD_NAMES = {new: old for old, new in ALIASES.items()} | {
    "data.max_digits": "data.num_digits",
    "encoder.pixel_mean": "network.pixel_mean",
    "encoder.pixel_std": "network.pixel_std",
}
_OLD_VALUES = {
    key: {new: old for old, new in values.items() if (key, old) != ("attention.kind", "none") or new == "final_state"}
    for key, values in VALUES.items()
}
# Kinds that were told by other settings: the model, or the name of an encoder.
_NEW = ("sensor.kind", "estimator.kind")


def _flat(config: Config) -> dict[str, Any]:
    """The settings by their frozen names and values."""
    found: dict[str, Any] = {}
    sequences = config.model in ("captioner", "translator")
    for key, value in config.items():
        if sequences and _OLD_NAMES.get(key) in V1_WITHOUT_EFFECT:
            continue  # accepted and ignored then, and now a setting that counts
        if key in _NEW or (key, value) in (("encoder.kind", "backbone"), ("encoder.kind", "sentence")):
            continue
        if key.startswith("network.memory_scorer"):
            if config.network.readout == "state_memory":
                found[key.replace("network.memory_", "attention.")] = value
            continue
        if (key, value) == ("encoder.kind", "small"):
            found["encoder.name"] = "small"
        elif (key, value) == ("attention.kind", "feature_map"):
            continue  # captioners attended to a grid whatever attention.places said
        else:
            value = _OLD_VALUES.get(key, {}).get(value, value) if isinstance(value, str) else value
            found[_OLD_NAMES.get(key, key)] = list(value) if isinstance(value, tuple) else value
    return found


def _config(settings: dict[str, Any]) -> Config:
    """The config of frozen settings, which go through the parser as a user's do."""
    return load_config([f"--{key}={_text(value)}" for key, value in settings.items()])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# Models


def initial_model(name: str, about: dict[str, Any], overrides: dict[str, Any] | None = None) -> nn.Module:
    """The model of a config file before any training, random encoders included.

    Args:
        name: Of the config file.
        about: What the data would say: image_shape and num_classes, or image_shape and vocabulary_size, or
            source_size and vocabulary_size.
        overrides: Settings that differ from those of the file.
    """
    options = [f"--{key}={_text(value)}" for key, value in (overrides or {}).items()]
    config = load_config(options, file=CONFIGS / f"{name}.yaml")
    if config.model == "translator":
        return make_translator(config, **about)
    about = {**about, "image_shape": tuple(about["image_shape"])}
    if config.model == "captioner":
        return make_captioner(config, **about, pretrained=False)
    return make_model(config, **about)


def load_weights(folder: str | Path) -> dict[str, Tensor]:
    """The state_dict of a trained model, as it is loaded to be used."""
    loaded = glimpse.load(folder)
    return getattr(loaded, "model", loaded).state_dict()


def last_weights(folder: Path) -> dict[str, Tensor]:
    """The weights to resume a run from, by their frozen names."""
    tensors, _ = Run.open(folder).load(LAST)
    return {key.removeprefix("model."): value for key, value in tensors.items() if key.startswith("model.")}


# Scores


def score(folder: str, limit: int) -> dict[str, Any]:
    """Scores on the first test examples, as the model is scored after its training, and what it answers.

    Returns:
        "scores": of classifiers as `evaluate.py score --json --rollouts 2` has them, a dict for each mode; of
        captioners and translators one dict. "answers": the digits after the last glimpse in one string, or the
        sentences.
    """
    run = Run.open(folder)
    config = run.config
    if config.model == "captioner":
        loaded = CaptioningTask.load(run)
        told = caption_dataset(
            loaded.model,
            loaded.vocabulary,
            build_data(config.data).test,
            mode=config.score.read or config.read,
            search=config.search(),
            batch_size=config.score.batch_size,
            limit=limit,
        )
        return {"scores": score_captions(told).as_dict(), "answers": [" ".join(one.words) for one in told]}
    if config.model == "translator":
        pairs = pairs_of(build_data(config.data).test, limit)
        translations = glimpse.load(folder).translate_pairs(pairs)
        return {
            "scores": TranslationScores.of(translations).as_dict(),
            "answers": [" ".join(one.words) for one in translations],
        }
    [loaded], splits = load_runs(ClassificationTask, [run])
    scores, answers = {}, ""
    for rollout_mode in rollout_modes(loaded.model, loaded.mode):
        outcome = evaluate_classifier(
            loaded.model,
            splits.test,
            mode=loaded.mode,
            rollout_mode=rollout_mode,
            rollouts=ROLLOUTS,
            batch_size=config.score.batch_size,
            limit=limit,
            seed=0,
        )
        scores[rollout_mode] = ClassificationScores.of(outcome).as_dict()
        if rollout_mode == "greedy":
            answers = "".join(map(str, outcome.probabilities[:, -1].argmax(-1).tolist()))
    return {"scores": scores, "answers": answers}


def score_as_user(folder: str, limit: int) -> dict[str, Any]:
    """What `evaluate.py score --json` prints: "scores", "read", and where it applies "stopping"."""
    arguments = ["score", str(folder), "--json", f"--limit={limit}", f"--rollouts={ROLLOUTS}", "--threads=1"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert _script("evaluate").main([*arguments, "--device=cpu"]) == 0
    [found] = json.loads(printed.getvalue())
    return {key: found[key] for key in ("scores", "read", "stopping") if key in found}


# Training


def curve(settings: dict[str, Any], steps: int, *, world_size: int = 1) -> list[dict[str, float]]:
    """The terms of the loss, weighted sum included, and the learning rate at each step of a training.

    Args:
        settings: All that matter; train.log_every has to be 1.
        steps: How many steps they make; checked.
        world_size: Processes that share every batch.
    """
    with tempfile.TemporaryDirectory() as folder:
        train(settings, Path(folder, "run"), world_size=world_size)
        rows = Run.open(Path(folder, "run")).rows()
    rows = [{key: value for key, value in row.items() if key != "epoch"} for row in rows if "lr" in row]
    assert [row.pop("step") for row in rows] == list(range(1, steps + 1))
    return rows


def train(settings: dict[str, Any], folder: Path, *, epochs: int | None = None, world_size: int = 1) -> None:
    """Train a new run, without the scores of the test.

    Args:
        settings: All that differ from the defaults.
        folder: Where.
        epochs: Stop after so many epochs as if killed; all are done if not given.
        world_size: Processes that share every batch.
    """
    if world_size > 1:
        _together([__file__, json.dumps({"settings": settings, "folder": str(folder), "epochs": epochs})], world_size)
        return
    config = _config(settings)
    with processes(config.train.device, config.train.threads) as here:
        task = build_task(config, here, open_run=Run.open)
        about = {"name": folder.name, **task.metadata(), **here.metadata()}
        run = Run.create(config, name=folder.name, metadata=about, folder=folder) if here.main else Run(".", config)
        _train(Engine(task, run, here), epochs)


def resume(folder: Path) -> None:
    """Go on with a run in this process to its end, without the scores of the test."""
    run = Run.open(folder)
    with processes(run.config.train.device, run.config.train.threads) as here:
        engine = Engine(build_task(run.config, here, run, open_run=Run.open), run, here)
        engine.resume()
        _train(engine)


def resume_as_user(folder: Path, *, world_size: int = 1) -> None:
    """Go on with a run by `train.py --resume`, the scores of the test included."""
    if world_size > 1:
        _together([str(REPOSITORY / "train.py"), "--resume", str(folder)], world_size)
    else:
        assert _script("train").main(["--resume", str(folder)]) == 0


def set_data_root(folder: Path, root: Path) -> None:
    """Let a run find its data elsewhere."""
    file = folder / "config.yaml"
    before, after = "\n  root: images\n", f"\n  root: {root}\n"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def scrub(folder: Path) -> None:
    """Take what only one machine knows out of a run folder that was just written: paths, the command, the computer."""
    run = Run.open(folder)
    file = folder / "config.yaml"
    lines = file.read_text().splitlines(keepends=True)
    root = "images" if run.config.data.kind == "folder" else "data"
    file.write_text("".join(f"  root: {root}\n" if line.startswith("  root: /") else line for line in lines))
    about = {**run.read_json("meta.json"), "command": ["train.py"], "machine": "Linux x86_64"}
    run.write_json("meta.json", about)
    kept = {"config.yaml", "meta.json", "metrics.jsonl", LAST, BEST}
    assert {path.name for path in folder.iterdir()} == kept


class _Stop(BaseException):
    """An end as sudden as an exception can make it."""


def _train(engine: Engine, epochs: int | None = None) -> None:
    batches = engine.task.batches

    def stopping(epoch: int) -> Iterator[Any]:
        if epoch == epochs:
            raise _Stop
        return batches(epoch)

    engine.task.batches = stopping
    with contextlib.suppress(_Stop):
        engine.train(lambda line: None)


def _together(arguments: list[str], world_size: int) -> None:
    """Run Python as several processes that find each other, as torchrun starts them, to their end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    path = os.pathsep.join([str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])])
    shared = {"WORLD_SIZE": str(world_size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, **shared, "PYTHONPATH": path, "RANK": str(rank)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world_size)
    ]
    try:
        errors = [process.communicate(timeout=100)[1] for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0] * world_size, errors


_scripts: dict[str, Any] = {}


def _script(name: str) -> Any:
    """A script of the repository as a module."""
    if name not in _scripts:
        spec = importlib.util.spec_from_file_location(f"frozen_{name}", REPOSITORY / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        _scripts[name] = module
    return _scripts[name]


if __name__ == "__main__":  # one of several processes
    torch.set_num_threads(1)
    asked = json.loads(sys.argv[1])
    train(asked["settings"], Path(asked["folder"]), epochs=asked["epochs"])
