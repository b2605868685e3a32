"""Trained models that ship with the package: run folders with no more than scoring needs.

    glimpse/zoo/<name>/
        config.yaml, meta.json, result.json, best.safetensors

Wherever a run folder is taken, the name of one of these is too.
"""

import difflib
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "zoo"
FILES = ("config.yaml", "meta.json", "result.json", "best.safetensors")


def shipped_models() -> list[str]:
    """The names of the models that ship with the package."""
    return sorted(file.parent.name for file in FOLDER.glob("*/config.yaml"))


def find_in_zoo(name: str | Path) -> Path | None:
    """The folder of a shipped model; None if there is none of this name."""
    return FOLDER / name if str(name) in shipped_models() else None


def in_zoo(folder: Path) -> bool:
    """Whether a run folder, whatever path leads to it, is that of a shipped model."""
    return folder.resolve().parent == FOLDER.resolve()


def suggest_shipped(name: str | Path) -> str:
    """What to tell who asked for a model that is not there: those that are, the closest first."""
    valid = shipped_models()
    close = difflib.get_close_matches(str(name), valid, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{hint}Models that ship with the package: {', '.join(valid) or 'none'}"
