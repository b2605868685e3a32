"""Files that are written whole or not at all, and packages that import their public names when these are first used."""

import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from glimpse.errors import ConfigError


def lazy_exports(
    package: str, homes: Mapping[str, str], names: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package whose public names are imported when they are first used.

    So importing a package costs nothing: `--help` and a mistyped setting are answered without waiting for torch.

    Args:
        package: Name of the package, `__name__`.
        homes: For each public name, the module of the package that defines it.
        names: All public names, if there are others that the package defines itself.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)  # found at once from now on
        return value

    return get, lambda: sorted(names or homes)


def moved_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package that serves names which are elsewhere now, with a DeprecationWarning.

    Args:
        package: Name of the package, `__name__`.
        homes: For each old name, the new one with its module.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        warnings.warn(f"{package}.{name} is now {homes[name]}", DeprecationWarning, stacklevel=2)
        module, _, new = homes[name].rpartition(".")
        return getattr(import_module(module), new)

    return get


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


FIGURES, VIDEOS, PAGES = (".png", ".pdf", ".svg"), (".gif", ".mp4"), (".html", ".htm")


def check_folder(folder: Path) -> None:
    """Refuse a folder that could not be made or written to."""
    existing = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not existing.is_dir():
        raise ConfigError(f"cannot make the folder {folder}: {existing} is not a folder")
    if not os.access(existing, os.W_OK):
        raise ConfigError(f"cannot make the folder {folder}: {existing} is not writable")


def check_out(path: Path, suffixes: tuple[str, ...]) -> None:
    """Refuse a file that could not be written, before the work for it is done."""
    if path.suffix.lower() not in suffixes:
        raise ConfigError(f"--out must end in {' or '.join(suffixes)}, got {path}")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"cannot write {path}: there is no folder {path.parent}")
    if path.is_dir() or not os.access(path.absolute().parent, os.W_OK):
        raise ConfigError(f"cannot write {path}: it is {'a folder' if path.is_dir() else 'in a read-only folder'}")
