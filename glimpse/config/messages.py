"""Wording of error messages and help texts: values, types and suggestions."""

import difflib
from collections.abc import Iterable
from typing import Any, get_args, get_origin


def plain_repr(value: Any) -> str:
    """Format a value as it is written in a config file or on a command line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(list(value)) if isinstance(value, tuple) else repr(value)


_TYPES = {int: "an integer", float: "a number", bool: "true or false", str: "text", type(None): "null"}


def describe_type(annotation: Any) -> str:
    """Describe the valid values of a type annotation: "an integer", "one of hard, soft or null"."""
    if annotation in _TYPES:
        return _TYPES[annotation]
    arguments = get_args(annotation)
    if get_origin(annotation) is tuple:
        return f"a list of {len(arguments)} {'integers' if arguments[0] is int else 'numbers'}"
    if arguments and all(isinstance(argument, str | int) for argument in arguments):
        return f"one of {', '.join(map(str, arguments))}"
    return " or ".join(describe_type(argument) for argument in arguments)


def did_you_mean(name: object, valid: Iterable[str]) -> str:
    """The end of an error message that suggests the valid name closest to `name`; empty if none is close."""
    close = difflib.get_close_matches(str(name), list(valid), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def no_such(what: str, name: str, valid: Iterable[str], listed: Iterable[str]) -> str:
    """The error message for an unknown setting or option.

    Args:
        what: "setting " or "option --".
        name: The unknown name.
        valid: Valid names, of which the closest is suggested.
        listed: Valid names that the message lists.
    """
    hint = did_you_mean(name, valid)
    return f"there is no {what}{name}{hint or ';'} valid: {', '.join(listed)}"
