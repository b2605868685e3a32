"""Let the model of a finished run ship with the package.

    python results/ship.py RUN NAME

Copies of the run folder what scoring needs to glimpse/models/NAME, without the paths of this machine.
"""

import argparse
import dataclasses
import json
import re
import shutil
import sys
from pathlib import Path

from glimpse import shipped
from glimpse.config import Config, to_yaml
from glimpse.parsing import parse
from glimpse.results import REPOSITORY, origin, portable
from glimpse.runs import BEST, Run, RunError

MOST_BYTES = 25_000_000  # of all models together


def main(arguments: list[str]) -> int:
    """Run the command line; returns the exit code: 0, or 2 if the run cannot be shipped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN", help="run folder")
    parser.add_argument("name", metavar="NAME", help="name of the model, as cluttered60-hard")
    options = parser.parse_args(arguments)
    try:
        folder = ship(Run.open(options.run), options.name)
    except (RunError, OSError) as error:
        print(f"ship.py: error: {error}", file=sys.stderr)
        return 2
    print(f"Wrote {folder}; all models together have {total(shipped.FOLDER) / 1e6:.1f} MB of {MOST_BYTES / 1e6:.0f}")
    return 0


def ship(run: Run, name: str) -> Path:
    """Copy a run to the models of the package, in the place of one of the same name; returns its folder.

    Raises:
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
    content = {
        "config.yaml": to_yaml(settings_of(run)).encode(),
        "meta.json": as_json({**about, "command": as_typed(about["command"])}),
        "result.json": as_json(run.read_json("result.json")),
        BEST: (run.folder / BEST).read_bytes(),
    }
    size = total(shipped.FOLDER) - total(folder) + sum(map(len, content.values()))
    if size > MOST_BYTES:
        raise RunError(f"all models together must have at most {MOST_BYTES / 1e6:.0f} MB, got {size / 1e6:.1f} MB")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in shipped.FILES:
        (folder / file).write_bytes(content[file])
    return folder


def settings_of(run: Run) -> Config:
    """The settings of a run, without the places of this machine."""
    file, _ = origin(run)
    config = portable(run.config, parse(file=REPOSITORY / file if file else None))
    start = config.init_from
    if start is not None and Path(start).is_absolute():
        config = dataclasses.replace(config, init_from=str(Path("runs", *Path(start).parts[-2:])))
    return dataclasses.replace(config, encoder=dataclasses.replace(config.encoder, cache=None))


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
