"""Write the output files of commands: figures, pages, and the folder of a comparison."""

import io
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from glimpse.errors import ConfigError
from glimpse.files import write_atomically
from glimpse.view.page import write_page
from glimpse.view.tables import Table


def save(content: bytes, path: Path) -> None:
    """Write a file, and print its path."""
    try:
        write_atomically(path, content)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
    print(f"Wrote {path}")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format given by the file name extension."""
    content = io.BytesIO()
    figure.savefig(content, dpi=150, format=path.suffix[1:].lower())
    save(content.getvalue(), path)


def save_page(html: str, path: Path, *, size: bool = True) -> None:
    """Write a page, and print its path and optionally its size."""
    write_page(path, html)
    print(f"Wrote {path} ({len(html.encode()) / 1e6:.1f} MB)" if size else f"Wrote {path}")


def publish(folder: Path, *, tables: Sequence[Table], rows: dict[str, str], figure: Figure) -> None:
    """Print the tables of a comparison, and write them, the CSV files and the figure to a folder.

    Args:
        folder: Output folder; created if it does not exist.
        tables: Tables of comparison.md.
        rows: Contents of the CSV files, by file name.
        figure: Figure of comparison.png.
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
