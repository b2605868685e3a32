"""Atomic file writing, checks of output paths, and lazy imports of the public names of packages."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from glimpse.errors import ConfigError
from glimpse.moved import moved_name


def lazy_exports(
    package: str, homes: Mapping[str, str], names: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Create `__getattr__` and `__dir__` for a package that imports its public names on first use.

    Importing such a package is fast: `--help` and error messages about settings do not wait for torch.

    Args:
        package: Name of the package, `__name__`.
        homes: For each lazy name, the module of the package that defines it.
        names: All public names; empty: those in `homes`.
    """

    def get(name: str) -> Any:
        if name not in homes:
            return moved_name(package, name, stacklevel=3)
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)  # later accesses do not call this function
        return value

    return get, lambda: sorted(names or homes)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file under a temporary name and rename it, so that the path always holds a complete file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


FIGURES, VIDEOS, PAGES = (".png", ".pdf", ".svg"), (".gif", ".mp4"), (".html", ".htm")


def check_folder(folder: Path) -> None:
    """Raise ConfigError if an output folder cannot be created or written to."""
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise ConfigError(f"cannot make the folder {folder}: {existing} is not a folder")
    if not os.access(existing, os.W_OK):
        raise ConfigError(f"cannot make the folder {folder}: {existing} is not writable")


def check_out(path: Path, suffixes: tuple[str, ...]) -> None:
    """Raise ConfigError if the output path of `--out` cannot be written.

    Args:
        path: The output path.
        suffixes: Valid endings of its name.
    """
    if path.suffix.lower() not in suffixes:
        raise ConfigError(f"--out must end in {' or '.join(suffixes)}, got {path}")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"cannot write {path}: there is no folder {path.parent}")
    if path.is_dir() or not os.access(path.absolute().parent, os.W_OK):
        raise ConfigError(f"cannot write {path}: it is {'a folder' if path.is_dir() else 'in a read-only folder'}")
