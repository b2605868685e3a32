"""Errors that a user can cause; their messages name what was wrong and what is valid."""


class UserError(Exception):
    """A mistake in what was asked for; the command line prints the message and exits with `exit_code`."""

    exit_code = 2  # nothing was begun


class ConfigError(UserError, ValueError):
    """A setting that cannot be; the message names it, says what is valid, and what came."""

    def __init__(self, message: str, *, key: str | None = None):
        """Make the error; `key` is the dotted name of the setting that is wrong, where there is one."""
        super().__init__(message)
        self.key = key


class DataError(UserError, ValueError):
    """Something is wrong with the data or its folder."""


class RunError(UserError, RuntimeError):
    """A run folder or checkpoint that cannot be used."""


class NonFiniteError(RunError):
    """A loss or gradient is NaN or infinite."""

    exit_code = 1  # the training had begun


def require(ok: bool, key: str, expected: str, got: object) -> None:
    """Raise a ConfigError unless an option or setting is as expected."""
    if not ok:
        raise ConfigError(f"{key} must be {expected}, got {got!r}", key=key)
