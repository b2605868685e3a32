"""Errors in input: settings, data, run folders. Their messages say what is wrong and what is valid."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class UserError(Exception):
    """An error in the input; command lines print its message without a traceback and exit with `exit_code`."""

    exit_code = 2  # of a command that did not start


class ConfigError(UserError, ValueError):
    """An invalid setting or option."""

    def __init__(self, message: str, *, key: str | None = None):
        """Create the error.

        Args:
            message: The setting, what is valid, and what was given: "X must be ..., got ...".
            key: Dotted name of the setting; None: the error is not about a single setting.
        """
        super().__init__(message)
        self.key = key


class MisplacedSettingError(ConfigError):
    """A setting that exists for other models or kinds only."""


class DataError(UserError, ValueError):
    """Data that cannot be read or used."""


class RunError(UserError, RuntimeError):
    """A run folder or checkpoint that cannot be read or used."""


class NonFiniteError(RunError):
    """A loss or gradient is NaN or infinite."""

    exit_code = 1  # of a training that had started


def require(ok: bool, key: str, expected: str, got: object) -> None:
    """Raise a ConfigError unless a condition holds.

    Args:
        ok: The condition.
        key: The option or setting that is wrong otherwise.
        expected: What is valid, to follow "must be".
        got: The value to show.
    """
    if not ok:
        raise ConfigError(f"{key} must be {expected}, got {got!r}", key=key)


@contextmanager
def warnings_as_lines(program: str) -> Iterator[None]:
    """Print each warning as one line without its place in the code: "train.py: warning: sensor.plan is ignored"."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        print(f"{program}: warning: {' '.join(str(message).split())}", file=file or sys.stderr)

    before = warnings.showwarning
    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before
