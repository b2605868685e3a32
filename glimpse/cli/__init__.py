"""The commands of evaluate.py, each a module with a function `run` of its options.

Imports everything else; nothing imports it.
Start with `score.py`; what a command does with a run is up to the run's task.
"""

from argparse import Namespace
from importlib import import_module


def run(command: str, options: Namespace) -> None:
    """Run a command; only the modules that it needs are imported."""
    import_module(f"glimpse.cli.{command}").run(options)
