"""Trained models that ship with the package: run folders with only the files that scoring needs.

    glimpse/zoo/<name>/
        config.yaml, meta.json, result.json, best.safetensors

The name of a shipped model is accepted wherever a run folder is.
"""

import difflib
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "zoo"
FILES = ("config.yaml", "meta.json", "result.json", "best.safetensors")


def shipped_models() -> list[str]:
    """Return the names of the models that ship with the package."""
    return sorted(file.parent.name for file in FOLDER.glob("*/config.yaml"))


def find_in_zoo(name: str | Path) -> Path | None:
    """Return the folder of a shipped model; None if no shipped model has this name."""
    return FOLDER / name if str(name) in shipped_models() else None


def in_zoo(folder: Path) -> bool:
    """Whether a folder, links resolved, is that of a shipped model."""
    return folder.resolve().parent == FOLDER.resolve()


def suggest_shipped(name: str | Path) -> str:
    """List the valid names for an error message, with the closest one as a suggestion."""
    valid = shipped_models()
    close = difflib.get_close_matches(str(name), valid, n=1)
    hint = f"did you mean {close[0]}? The " if close else "the "
    return f"{hint}models that ship with the package: {', '.join(valid) or 'none'}"
