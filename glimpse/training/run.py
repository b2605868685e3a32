"""Run folders: all files of one training, enough to score or resume it.

    runs/<config>/seed<N>-<time>/
        config.yaml        every setting, resolved
        meta.json          command, commit, versions, machine
        metrics.jsonl      a row every few steps and one per epoch
        tensorboard/       the same as TensorBoard events
        last.safetensors   weights and optimizer state after the last completed epoch, to resume from
        best.safetensors   weights of the epoch with the lowest validation error, to score
        result.json        test scores, once the training is finished

Checkpoints are safetensors files: tensors and a JSON header. Nothing in them is unpickled, so that loading an untrusted
checkpoint cannot run code. Each file is written under a temporary name, flushed to disk and renamed, so that a process
killed at any moment leaves the previous file intact.
"""

import itertools
import json
import os
import time
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from glimpse.errors import ConfigError, RunError
from glimpse.files import write_atomically
from glimpse.tasks.settings import Config, load_config
from glimpse.training.checkpoint import CHECKPOINT_FORMAT, load_into, model_weights
from glimpse.training.provenance import provenance
from glimpse.training.zoo import find_in_zoo, in_zoo, suggest_shipped

LAST, BEST = "last.safetensors", "best.safetensors"


class Run:
    """A run folder and its config; `str(run)` is the path or name that it was opened by."""

    def __init__(self, folder: str | Path, config: Config, *, label: str | Path | None = None):
        """Wrap a folder, without reading it; see `create` and `open`.

        Args:
            folder: The folder.
            config: Its settings.
            label: How messages call the run; None: the folder.
        """
        self.folder = Path(folder)
        self.config = config
        self._label = str(label or self.folder)

    def __str__(self) -> str:
        return self._label

    @classmethod
    def create(cls, config: Config, *, name: str, metadata: dict[str, Any], folder: str | Path | None = None) -> "Run":
        """Create a run folder.

        Args:
            config: The settings.
            name: Name of the config.
            metadata: Further entries of meta.json.
            folder: The folder; None: a new one in `train.runs_dir`, named after the config, the seed and the time.

        Raises:
            RunError: If the folder cannot be created, or holds a run already.
        """
        parent = Path(config.train.runs_dir) / name
        config = config.with_absolute_paths()
        try:
            if folder is None:
                folder = _new_folder(parent, f"seed{config.seed}-{time.strftime('%Y%m%d-%H%M%S')}")
            run = cls(folder, config)
            if (run.folder / "config.yaml").exists():
                raise RunError(f"{run.folder} holds a run already: resume it with --resume, or choose another folder")
            run.folder.mkdir(parents=True, exist_ok=True)
            run.write_json("meta.json", {**provenance(), **metadata})
            write_atomically(run.folder / "config.yaml", config.to_yaml().encode())
        except OSError as error:
            raise RunError(f"cannot write to the run folder {folder or parent}: {error.strerror}") from error
        return run

    @classmethod
    def open(cls, folder: "str | Path | Run") -> "Run":
        """Open a run folder, or the shipped model of this name.

        Args:
            folder: A run folder, the name of a shipped model, or an open run, which is returned unchanged.

        Raises:
            RunError: If there is no such run, or its config is invalid.
        """
        if isinstance(folder, Run):
            return folder
        label = folder
        folder = (None if os.path.isdir(folder) else find_in_zoo(folder)) or Path(folder)
        file = folder / "config.yaml"
        if os.path.isfile(folder):
            raise RunError(f"{folder} is not a run folder: it is a file")
        if not os.path.isfile(file):
            hint = "" if os.path.isdir(folder) else f"; {suggest_shipped(folder)}"
            raise RunError(f"{folder} is not a run folder: there is no config.yaml in it{hint}")
        try:
            return cls(folder, load_config(file=file), label=label)
        except ConfigError as error:
            raise RunError(f"the config of this run cannot be used: {error}") from error

    @property
    def name(self) -> str:
        """The name of its config, or of its folder if the config has none."""
        return str(self._value("meta.json", "name", "") or self.folder.name)

    @property
    def shipped(self) -> bool:
        """Whether it ships with the package, and is therefore read-only."""
        return in_zoo(self.folder)

    @property
    def finished(self) -> bool:
        """Whether it was trained to the end and scored on the test set."""
        return (self.folder / "result.json").exists()

    @property
    def seconds(self) -> float:
        """Duration of its training."""
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
        """Write a JSON file into the folder; raises RunError if it cannot be written."""
        try:
            write_atomically(self.folder / name, (json.dumps(content, indent=2) + "\n").encode())
        except OSError as error:
            raise RunError(f"cannot write {self.folder / name}: {error.strerror}") from error

    def read_json(self, name: str) -> Any:
        """Read a JSON file of the folder; raises RunError if it is missing or broken."""
        path = self.folder / name
        try:
            content = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise RunError(f"{path} is broken: {error}") from error
        if not isinstance(content, dict):
            raise RunError(f"{path} is broken: it must hold a JSON object, got {type(content).__name__}")
        return content

    def save(self, name: str, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Write a checkpoint.

        Args:
            name: File name: BEST or LAST.
            tensors: The tensors.
            state: Plain values, stored as JSON.

        Raises:
            RunError: If it cannot be written; the previous checkpoint is kept.
        """
        tensors = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
        content = save(tensors, {"format": CHECKPOINT_FORMAT, "state": json.dumps(state)})
        try:
            write_atomically(self.folder / name, content)
        except OSError as error:
            raise RunError(f"cannot write {self.folder / name}: {error.strerror}") from error

    def load(self, name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Read a checkpoint; returns its tensors and plain values.

        Raises:
            RunError: If it is missing or broken.
        """
        path = self.folder / name
        if not path.is_file():
            raise RunError(f"{path} is missing; if the run was stopped in its first epoch, resume it")
        try:
            with safe_open(path, "pt") as file:
                header = file.metadata() or {}
                if header.get("format") != CHECKPOINT_FORMAT:
                    raise RunError(f"{path} is not a checkpoint of this package ({CHECKPOINT_FORMAT})")
                return {key: file.get_tensor(key) for key in file.keys()}, json.loads(header["state"])
        except (SafetensorError, OSError, ValueError, KeyError) as error:
            raise RunError(f"{path} is broken: {error}") from error

    def load_weights(self, model: nn.Module, name: str = BEST, *, optional: tuple[str, ...] = ()) -> dict[str, Any]:
        """Load the weights of a checkpoint into a model; returns the plain values of the checkpoint.

        Args:
            model: A model of the same architecture.
            name: File name of the checkpoint: BEST or LAST.
            optional: Prefixes of keys that may be missing from the model or from the checkpoint.

        Raises:
            RunError: If the checkpoint is missing, broken, or of another architecture.
        """
        tensors, state = self.load(name)
        load_into(model, model_weights(tensors), self.folder / name, optional)
        return state

    def load_last_weights(self, model: nn.Module) -> None:
        """Load the weights after the last completed epoch into a model."""
        self.load_weights(model, LAST)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of metrics.jsonl, without a last line that was cut off when the process was killed."""
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

    def truncate_metrics(self, step: int) -> None:
        """Remove the rows of metrics.jsonl after a step, and temporary files of a process that was killed."""
        rows = [row for row in self.rows() if row.get("step", 0) <= step]
        content = "".join(json.dumps(row) + "\n" for row in rows)
        try:
            for leftover in self.folder.glob(".*.tmp"):
                leftover.unlink(missing_ok=True)
            write_atomically(self.folder / "metrics.jsonl", content.encode())
        except OSError as error:
            raise RunError(f"cannot write to the run folder {self.folder}: {error.strerror}") from error


def _new_folder(parent: Path, stem: str) -> Path:
    """Create a folder of this name, with the first free number appended if the name is taken."""
    parent.mkdir(parents=True, exist_ok=True)
    for count in itertools.count(1):
        folder = parent / (stem if count == 1 else f"{stem}-{count}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise AssertionError("unreachable")
