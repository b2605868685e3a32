"""Run folders: what a training leaves behind, and all that scoring or resuming it needs.

    runs/<config>/seed<N>-<time>/
        config.yaml        every setting, resolved
        meta.json          command, commit, versions, machine
        metrics.jsonl      a row every few steps and one each epoch
        tensorboard/       the same as events
        last.safetensors   weights and optimizer after the last whole epoch: for resuming
        best.safetensors   weights of the epoch with the lowest validation error: for scoring
        result.json        test scores, once the training is done

Checkpoints are safetensors files: tensors and a JSON header. Nothing in them is ever unpickled, so a stranger's
checkpoint can be wrong but cannot run code. Each is written under a temporary name, flushed to the disk and renamed,
so a process killed at any moment leaves the last whole one.
"""

import dataclasses
import itertools
import json
import os
import platform
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from glimpse.config import Config, to_yaml
from glimpse.parsing import parse
from glimpse.settings import ConfigError
from glimpse.shipped import find_shipped, is_shipped, suggest_shipped

LAST, BEST = "last.safetensors", "best.safetensors"
FORMAT = "glimpse-1"


class RunError(RuntimeError):
    """A run folder or checkpoint that cannot be used; the message is meant for the user."""


def seed_everything(seed: int) -> None:
    """Seed every global generator. Data and glimpses do not depend on them: they have their own seeds."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that at any moment there is the old one or the new one, whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


class Run:
    """A run folder; as text, what it was called when it was opened."""

    def __init__(self, folder: str | Path, config: Config, *, called: str | Path | None = None):
        self.folder = Path(folder)
        self.config = config
        self._called = str(called or self.folder)

    def __str__(self) -> str:
        return self._called

    @classmethod
    def create(cls, config: Config, *, name: str, about: dict[str, Any], folder: str | Path | None = None) -> "Run":
        """Make a new run folder: `folder`, or one named after the config, the seed and the time.

        Args:
            config: The settings.
            name: The config's name.
            about: What else meta.json is to say.
            folder: The folder, if it is not to be named automatically.

        Raises:
            RunError: If the folder cannot be made, or holds a run already.
        """
        parent = Path(config.train.folder) / name
        config = _from_anywhere(config)
        try:
            if folder is None:
                folder = _new_folder(parent, f"seed{config.seed}-{time.strftime('%Y%m%d-%H%M%S')}")
            run = cls(folder, config)
            if (run.folder / "config.yaml").exists():
                raise RunError(f"{run.folder} holds a run already: resume it with --resume, or choose another folder")
            run.folder.mkdir(parents=True, exist_ok=True)
            run.write_json("meta.json", {**_describe(), **about})
            write_atomically(run.folder / "config.yaml", to_yaml(config).encode())
        except OSError as error:
            raise RunError(f"cannot write to the run folder {folder or parent}: {error.strerror}") from error
        return run

    @classmethod
    def open(cls, folder: str | Path) -> "Run":
        """Open an existing run folder, or else the model of this name that ships with the package.

        Raises:
            RunError: If it is neither.
        """
        called = folder
        folder = (None if os.path.isdir(folder) else find_shipped(folder)) or Path(folder)
        file = folder / "config.yaml"
        if os.path.isfile(folder):
            raise RunError(f"{folder} is not a run folder: it is a file")
        if not os.path.isfile(file):
            hint = "" if os.path.isdir(folder) else f"; {suggest_shipped(folder)}"
            raise RunError(f"{folder} is not a run folder: there is no config.yaml in it{hint}")
        try:
            return cls(folder, parse(file=file), called=called)
        except ConfigError as error:
            raise RunError(f"the config of this run cannot be used: {error}") from error

    @property
    def name(self) -> str:
        """The name of its config, or of its folder if it has none."""
        return str(self._value("meta.json", "name", "") or self.folder.name)

    @property
    def shipped(self) -> bool:
        """Whether it came with the package: to be scored, and not to be written to."""
        return is_shipped(self.folder)

    @property
    def finished(self) -> bool:
        """Whether it was trained to the end and scored."""
        return (self.folder / "result.json").exists()

    @property
    def seconds(self) -> float:
        """How long its training took."""
        value = self._value("result.json", "seconds")
        if not isinstance(value, int | float):
            raise RunError(f"{self.folder / 'result.json'} is broken: seconds must be a number, got {value!r}")
        return float(value)

    def _value(self, file: str, key: str, *default: Any) -> Any:
        content = self.read_json(file)
        if not isinstance(content, dict) or not (default or key in content):
            raise RunError(f"{self.folder / file} is broken: there is no {key} in it")
        return content.get(key, *default)

    def write_json(self, name: str, content: Any) -> None:
        """Write a JSON file."""
        try:
            write_atomically(self.folder / name, (json.dumps(content, indent=2) + "\n").encode())
        except OSError as error:
            raise RunError(f"cannot write {self.folder / name}: {error.strerror}") from error

    def read_json(self, name: str) -> Any:
        """Read a JSON file; raises RunError if it is missing or broken."""
        path = self.folder / name
        try:
            return json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise RunError(f"{path} is broken: {error}") from error

    def save(self, name: str, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Write a checkpoint of tensors and plain values.

        Raises:
            RunError: If it cannot be written; the one before it is still whole.
        """
        tensors = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
        content = save(tensors, {"format": FORMAT, "state": json.dumps(state)})
        try:
            write_atomically(self.folder / name, content)
        except OSError as error:
            raise RunError(f"cannot write {self.folder / name}: {error.strerror}") from error

    def load(self, name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Read a checkpoint: its tensors and plain values.

        Raises:
            RunError: If it is missing or broken.
        """
        path = self.folder / name
        if not path.is_file():
            raise RunError(f"{path} is missing; if the run was stopped in its first epoch, resume it")
        try:
            with safe_open(path, "pt") as file:
                header = file.metadata() or {}
                if header.get("format") != FORMAT:
                    raise RunError(f"{path} is not a checkpoint of this package ({FORMAT})")
                return {key: file.get_tensor(key) for key in file.keys()}, json.loads(header["state"])
        except (SafetensorError, OSError, ValueError, KeyError) as error:
            raise RunError(f"{path} is broken: {error}") from error

    def load_weights(self, model: nn.Module, name: str = BEST, *, optional: tuple[str, ...] = ()) -> dict[str, Any]:
        """Put the weights of a checkpoint into a model; returns its plain values.

        Args:
            model: A model of the same architecture.
            name: Of the checkpoint: BEST or LAST.
            optional: Prefixes of weights that the model may have and the checkpoint not, or the other way round.

        Raises:
            RunError: If the checkpoint is missing, broken, or of another architecture.
        """
        tensors, state = self.load(name)
        load_into(model, weights_of(tensors), self.folder / name, optional)
        return state

    def rows(self) -> list[dict[str, Any]]:
        """All rows of metrics.jsonl; a last line cut short by a kill is left out."""
        path = self.folder / "metrics.jsonl"
        rows = []
        try:
            lines = path.read_text().splitlines() if path.exists() else []
        except (OSError, UnicodeDecodeError) as error:
            raise RunError(f"cannot read {path}: {error}") from error
        for line in lines:
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError:
                break
        return rows

    def rewind(self, step: int) -> None:
        """Drop the rows of metrics.jsonl after a step, which will be made again, and what a kill left half-written."""
        rows = [row for row in self.rows() if row.get("step", 0) <= step]
        content = "".join(json.dumps(row) + "\n" for row in rows)
        try:
            for leftover in self.folder.glob(".*.tmp"):
                leftover.unlink(missing_ok=True)
            write_atomically(self.folder / "metrics.jsonl", content.encode())
        except OSError as error:
            raise RunError(f"cannot write to the run folder {self.folder}: {error.strerror}") from error


def names_of(runs: list[Run]) -> list[str]:
    """A short name for each of some runs that no other of them has: its config's, if need be with seed or folder."""

    def taken(names: list[str]) -> bool:
        return len(set(names)) < len(names)

    names = [run.name for run in runs]
    for more in (lambda run: f"seed {run.config.seed}", str):
        if taken(names):
            names = [f"{name}, {more(run)}" for name, run in zip(names, runs, strict=True)]
    return names


def _from_anywhere(config: Config) -> Config:
    """The config with absolute paths, so that the run can be scored from any folder."""
    if config.data.kind != "cluttered":
        data = dataclasses.replace(config.data, root=str(Path(config.data.root).absolute()))
        config = dataclasses.replace(config, data=data)
    paths = {"cache": config.encoder.cache, "weights": config.encoder.weights}
    paths = {name: path if path in (None, "default") else str(Path(path).absolute()) for name, path in paths.items()}
    return dataclasses.replace(config, encoder=dataclasses.replace(config.encoder, **paths))


def _new_folder(parent: Path, stem: str) -> Path:
    """Make a folder of this name, or of the first such name with a number that no other process has."""
    parent.mkdir(parents=True, exist_ok=True)
    for count in itertools.count(1):
        folder = parent / (stem if count == 1 else f"{stem}-{count}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise AssertionError("unreachable")


def weights_of(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The model's part of a checkpoint."""
    return {key.removeprefix("model."): value for key, value in tensors.items() if key.startswith("model.")}


def load_into(model: nn.Module, weights: dict[str, Tensor], path: Path, optional: tuple[str, ...] = ()) -> None:
    """Load weights, or say in what way they are those of another model."""
    own = model.state_dict()
    missing = sorted(key for key in own.keys() - weights.keys() if not key.startswith(optional))
    unexpected = sorted(key for key in weights.keys() - own.keys() if not key.startswith(optional))
    differ = [
        f"{key} is {tuple(weights[key].shape)} and should be {tuple(own[key].shape)}"
        for key in sorted(own.keys() & weights.keys())
        if own[key].shape != weights[key].shape
    ]
    problems = [
        *([f"it lacks {', '.join(missing)}"] if missing else []),
        *([f"it has also {', '.join(unexpected)}"] if unexpected else []),
        *differ,
    ]
    if problems:
        raise RunError(f"{path} is a checkpoint of another architecture: {'; '.join(problems)}")
    model.load_state_dict({key: value for key, value in weights.items() if key in own}, strict=False)


def _describe() -> dict[str, Any]:
    """How this run came about."""
    return {
        "command": sys.argv,
        "started": time.strftime("%Y-%m-%d %H:%M:%S"),
        "commit": _commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
    }


def _commit() -> str | None:
    """The commit of the code, with a plus if there are changes to it; None outside a repository."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changes = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+" if changes.stdout.strip() else "")
