"""The architecture: what may import what, how large modules are, and what the packages say of themselves."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "glimpse"
ROOMS = sorted(folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").exists())
MODULES = sorted(PACKAGE.rglob("*.py"))


def test_packages_import_only_those_before_them():
    command = [sys.executable, "-c", "import sys; from importlinter.cli import lint_imports_command as c; c()"]
    done = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "ignore_imports" not in (PACKAGE.parent / "pyproject.toml").read_text()


def test_at_most_six_modules_stand_beside_the_packages():
    assert len(list(PACKAGE.glob("*.py"))) <= 6


def test_no_module_is_long():
    lengths = {str(module.relative_to(PACKAGE)): len(module.read_text().splitlines()) for module in MODULES}
    assert not {name: length for name, length in lengths.items() if length > 350}


@pytest.mark.parametrize("room", ROOMS)
def test_packages_say_what_they_hold(room):
    doc = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text()))
    what, _, imports, start, *more = doc.splitlines()
    assert what.endswith(".") and imports.startswith("Imports ") and start.startswith("Start with `") and not more
    assert (PACKAGE / room / start.split("`")[1]).is_file()


@pytest.mark.parametrize("room", ROOMS)
def test_no_exported_name_hides_a_module(room):
    """`glimpse.room.name` would be the one or the other, by what was imported before."""
    exports = getattr(__import__(f"glimpse.{room}", fromlist=["__all__"]), "__all__", [])
    assert not set(exports) & {file.stem for file in (PACKAGE / room).glob("*.py")}
