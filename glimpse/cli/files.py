"""Writing what a command made, and knowing beforehand that it can be written."""

import io
import os
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from glimpse.runs import write_atomically
from glimpse.settings import ConfigError
from glimpse.view.tables import Table

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


def save(content: bytes, path: Path) -> None:
    """Write a file, and say so."""
    try:
        write_atomically(path, content)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
    print(f"Wrote {path}")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure, of the kind that the file's name says."""
    content = io.BytesIO()
    figure.savefig(content, dpi=150, format=path.suffix[1:].lower())
    save(content.getvalue(), path)


def publish(folder: Path, *, tables: Sequence[Table], rows: dict[str, str], figure: Figure) -> None:
    """Print the tables of a comparison and their notes, and write all of it into a folder.

    Args:
        folder: Made if need be.
        tables: For comparison.md.
        rows: The contents of CSV files, by their names.
        figure: For comparison.png.
    """
    for table in tables:
        print(f"\n{table.title}\n\n{table.text()}")
    for note in [note for table in tables for note in table.notes]:
        print(f"\n{note}")
    print()
    folder.mkdir(parents=True, exist_ok=True)
    save("\n".join(table.markdown() for table in tables).encode(), folder / "comparison.md")
    for name, content in rows.items():
        save(content.encode(), folder / name)
    save_figure(figure, folder / "comparison.png")
