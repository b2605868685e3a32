"""The commands of evaluate.py, one module each with a function `run(options)`.

Imports all other packages; no package imports it.
Start with `score.py`. The commands check the options and open the runs; the runs' task does the rest.
"""

from argparse import Namespace
from importlib import import_module


def run(command: str, options: Namespace) -> None:
    """Run a command, and import only the modules that it needs."""
    import_module(f"glimpse.cli.{command}").run(options)
