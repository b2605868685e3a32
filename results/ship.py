"""Add the model of a finished run to the models that ship with the package.

    python results/ship.py RUN NAME
    python results/ship.py RUN NAME --half      half-precision weights, scored again: half the size

Copies the files that scoring needs to glimpse/zoo/NAME, without the paths of this machine.
"""

import argparse
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from glimpse.distributed import processes as join_processes
from glimpse.errors import ConfigError, DataError, RunError
from glimpse.models.settings import BackboneSettings
from glimpse.tasks.base import build_task
from glimpse.tasks.settings import CaptioningConfig, Config, load_config
from glimpse.training import zoo
from glimpse.training.result_rows import REPOSITORY, config_and_overrides, with_paths_of
from glimpse.training.run import BEST, Run

MAX_BYTES = 25_000_000  # of all models together


def main(arguments: list[str]) -> int:
    """Run the command line; returns the exit code: 0, or 2 if the run cannot be shipped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN", help="run folder")
    parser.add_argument("name", metavar="NAME", help="name of the model, such as cluttered60-hard")
    parser.add_argument("--half", action="store_true", help="round the weights to 16 bits and score them again")
    options = parser.parse_args(arguments)
    try:
        folder = ship(Run.open(options.run), options.name, half=options.half)
    except (ConfigError, DataError, RunError, OSError) as error:
        print(f"ship.py: error: {error}", file=sys.stderr)
        return 2
    print(f"Wrote {folder}; all models together have {folder_size(zoo.FOLDER) / 1e6:.1f} MB of {MAX_BYTES / 1e6:.0f}")
    return 0


def ship(run: Run, name: str, *, half: bool = False, max_bytes: float = MAX_BYTES) -> Path:
    """Copy a run to the models of the package, replacing one of the same name; returns its folder.

    Args:
        run: The run.
        name: Name of the model.
        half: Whether to round its weights to 16 bits. The test scores that ship are then those of the rounded weights.
        max_bytes: Size limit for all models together.

    Raises:
        ConfigError, DataError: If rounded weights cannot be scored.
        RunError: If the run is not finished or broken, the name is invalid, or the models would be too large.
    """
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise RunError(f"NAME must consist of lowercase letters, digits and single hyphens, got {name}")
    if not run.finished:
        raise RunError(f"{run} is not finished; finish it with: python train.py --resume {run}")
    if run.shipped:
        raise RunError(f"{run} ships with the package already")
    run.load(BEST)  # raises if the checkpoint is broken
    folder = zoo.FOLDER / name
    metadata = run.read_json("meta.json")
    if "command" not in metadata:
        raise RunError(f"{run.folder / 'meta.json'} is broken: there is no command in it")
    weights, result = (run.folder / BEST).read_bytes(), run.read_json("result.json")
    if half:
        weights, result["test"] = half_precision(run)
    content = {
        "config.yaml": portable_config(run).to_yaml().encode(),
        "meta.json": to_json({**metadata, "command": portable_command(metadata["command"])}),
        "result.json": to_json(result),
        BEST: weights,
    }
    size = folder_size(zoo.FOLDER) - folder_size(folder) + sum(map(len, content.values()))
    if size > max_bytes:
        raise RunError(f"all models together must have at most {max_bytes / 1e6:.0f} MB, got {size / 1e6:.1f} MB")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in zoo.FILES:
        (folder / file).write_bytes(content[file])
    return folder


def half_precision(run: Run) -> tuple[bytes, dict[str, Any]]:
    """Return the checkpoint of a run with weights rounded to 16 bits, and the test scores of these weights."""
    tensors, state = run.load(BEST)
    rounded = {name: value.half() if value.is_floating_point() else value for name, value in tensors.items()}
    # Values that are infinite already may stay so: a running mean is before its first batch.
    if any((value.isfinite() & ~rounded[name].isfinite()).any() for name, value in tensors.items()):
        raise RunError(f"{run} has weights that are too large for 16 bits: ship it without --half")
    train = run.config.train
    with tempfile.TemporaryDirectory() as folder, join_processes(train.device, train.threads) as processes:
        copy = Run(folder, run.config)
        copy.save(BEST, rounded, state)
        task = build_task(run.config, processes, run, open_run=Run.open)
        copy.load_weights(task.model)
        return (copy.folder / BEST).read_bytes(), task.test().as_dict()


def portable_config(run: Run) -> Config:
    """Return the settings of a run, without the paths of this machine."""
    file, _ = config_and_overrides(run)
    config = with_paths_of(run.config, load_config(file=REPOSITORY / file if file else None))
    initial = config.init_from
    if initial is not None and Path(initial).is_absolute():
        config = config.replace(init_from=str(Path("runs", *Path(initial).parts[-2:])))
    cached = isinstance(config, CaptioningConfig) and isinstance(config.encoder, BackboneSettings)
    return config.replace(encoder={"feature_cache": None}) if cached else config


def portable_command(command: list[str]) -> list[str]:
    """Return a command line with paths relative to the repository; options whose value is outside of it are dropped."""
    words: list[str] = []
    for word in command:
        name, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
        path = Path(value)
        if not path.is_absolute():
            words.append(word)
        elif path.is_relative_to(REPOSITORY):
            words.append(f"{name}{equals}{path.relative_to(REPOSITORY)}")
        elif not equals:
            if words and words[-1].startswith("--") and "=" not in words[-1]:
                words.pop()
            else:
                words.append(path.name)
    return words


def to_json(content: object) -> bytes:
    """Return JSON in the format of run folders."""
    return (json.dumps(content, indent=2) + "\n").encode()


def folder_size(folder: Path) -> int:
    """Return the size of all files in a folder, in bytes."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
