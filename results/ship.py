"""Let the model of a finished run ship with the package.

    python results/ship.py RUN NAME
    python results/ship.py RUN NAME --half      weights of 16 bits, scored anew: half the size

Copies of the run folder what scoring needs to glimpse/zoo/NAME, without the paths of this machine.
"""

import argparse
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from glimpse.distributed import processes
from glimpse.errors import ConfigError, DataError, RunError
from glimpse.models.settings import BackboneSettings
from glimpse.tasks.base import build_task
from glimpse.tasks.settings import CaptioningConfig, Config, load_config
from glimpse.training import zoo as shipped
from glimpse.training.result_rows import REPOSITORY, origin, portable
from glimpse.training.run import BEST, Run

MOST_BYTES = 25_000_000  # of all models together


def main(arguments: list[str]) -> int:
    """Run the command line; returns the exit code: 0, or 2 if the run cannot be shipped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN", help="run folder")
    parser.add_argument("name", metavar="NAME", help="name of the model, as cluttered60-hard")
    parser.add_argument("--half", action="store_true", help="round the weights to 16 bits, and score these on the test")
    options = parser.parse_args(arguments)
    try:
        folder = ship(Run.open(options.run), options.name, half=options.half)
    except (ConfigError, DataError, RunError, OSError) as error:
        print(f"ship.py: error: {error}", file=sys.stderr)
        return 2
    print(f"Wrote {folder}; all models together have {total(shipped.FOLDER) / 1e6:.1f} MB of {MOST_BYTES / 1e6:.0f}")
    return 0


def ship(run: Run, name: str, *, half: bool = False) -> Path:
    """Copy a run to the models of the package, in the place of one of the same name; returns its folder.

    Args:
        run: The run.
        name: What the model is to be called.
        half: Whether to round its weights to 16 bits. The test scores that ship are then those of the rounded weights.

    Raises:
        ConfigError, DataError: If rounded weights cannot be scored.
        RunError: If the run is not finished or broken, the name is none, or the models would be too large.
    """
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise RunError(f"NAME must be of small letters, digits and single hyphens, got {name}")
    if not run.finished:
        raise RunError(f"{run} is not finished; finish it with: python train.py --resume {run}")
    if run.shipped:
        raise RunError(f"{run} ships with the package already")
    run.load(BEST)  # a broken checkpoint is not to be shipped
    folder = shipped.FOLDER / name
    about = run.read_json("meta.json")
    if "command" not in about:
        raise RunError(f"{run.folder / 'meta.json'} is broken: there is no command in it")
    weights, result = (run.folder / BEST).read_bytes(), run.read_json("result.json")
    if half:
        weights, result["test"] = halved(run)
    content = {
        "config.yaml": settings_of(run).to_yaml().encode(),
        "meta.json": as_json({**about, "command": as_typed(about["command"])}),
        "result.json": as_json(result),
        BEST: weights,
    }
    size = total(shipped.FOLDER) - total(folder) + sum(map(len, content.values()))
    if size > MOST_BYTES:
        raise RunError(f"all models together must have at most {MOST_BYTES / 1e6:.0f} MB, got {size / 1e6:.1f} MB")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in shipped.FILES:
        (folder / file).write_bytes(content[file])
    return folder


def halved(run: Run) -> tuple[bytes, dict[str, Any]]:
    """The checkpoint of a run with weights of 16 bits, and the test scores that these have."""
    tensors, state = run.load(BEST)
    rounded = {name: value.half() if value.is_floating_point() else value for name, value in tensors.items()}
    # What is infinite on purpose, as a mean of nothing yet, may stay so.
    if any((value.isfinite() & ~rounded[name].isfinite()).any() for name, value in tensors.items()):
        raise RunError(f"{run} has weights that are too large for 16 bits: ship it without --half")
    with tempfile.TemporaryDirectory() as folder, processes(run.config.train.device, run.config.train.threads) as here:
        copy = Run(folder, run.config)
        copy.save(BEST, rounded, state)
        task = build_task(run.config, here, run, open_run=Run.open)
        copy.load_weights(task.model)
        return (copy.folder / BEST).read_bytes(), task.test()


def settings_of(run: Run) -> Config:
    """The settings of a run, without the places of this machine."""
    file, _ = origin(run)
    config = portable(run.config, load_config(file=REPOSITORY / file if file else None))
    start = config.init_from
    if start is not None and Path(start).is_absolute():
        config = config.replace(init_from=str(Path("runs", *Path(start).parts[-2:])))
    cached = isinstance(config, CaptioningConfig) and isinstance(config.encoder, BackboneSettings)
    return config.replace(encoder={"feature_cache": None}) if cached else config


def as_typed(command: list[str]) -> list[str]:
    """A command line with paths from the repository; options whose value is a path elsewhere are left out."""
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


def as_json(content: object) -> bytes:
    """JSON, as run folders have it."""
    return (json.dumps(content, indent=2) + "\n").encode()


def total(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
