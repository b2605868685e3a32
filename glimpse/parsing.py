"""From files and command lines to a `Config`, the same way from both.

jsonargparse reads the types and the meanings of the settings off the dataclasses; what is here besides makes sure that
every mistake is answered with the setting's name, what is valid, and what came.
"""

import dataclasses
import difflib
import json
import math
import operator
import re
from argparse import SUPPRESS
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import yaml
from jsonargparse import ArgumentParser, set_parsing_settings

from glimpse.config import Config, keys
from glimpse.settings import ConfigError, require

set_parsing_settings(docstring_parse_attribute_docstrings=True)


def parse(arguments: Sequence[str] = (), *, file: str | Path | None = None) -> Config:
    """Make a config from a file (else the defaults) and overrides such as "--train.epochs 5"; raises ConfigError."""
    settings = []
    if file is not None:
        content = _read_yaml(file)
        _check_file(content, Config, str(file))
        settings = list(_options(content))
        _make(settings, f"{file}: ")  # alone first, so that an error is known to be the file's
    return _make([*settings, *arguments])


def split(arguments: Sequence[str], others: Sequence[str] = ()) -> tuple[list[str], dict[str, str], list[str]]:
    """Sort a command line, in which every option takes one value.

    Args:
        arguments: The command line.
        others: Names of options that are not settings.

    Returns:
        What is not an option; the other options and their values; the settings, for `parse`.

    Raises:
        ConfigError: If an option is neither a setting nor one of the others, or lacks its value.
    """
    words, found, settings = [], {}, []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            words.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        _check_option(name, [*keys(), *others])
        if not equals:
            if not rest:
                raise ConfigError(f"--{name} lacks its value")
            value = rest.pop(0)
        if name in others:
            found[name] = value
        else:
            settings.append(f"--{name}={value}")
    return words, found, settings


def make_parser(**options: Any) -> ArgumentParser:
    """A parser of all settings, whose help lists each with its meaning, type and default."""
    parser = _Parser(print_config=None, **options)
    parser.add_class_arguments(Config)
    for action in parser._actions:  # whole groups can be given as a file of their own: too much of a good thing
        if action.dest in {entry.name for entry in dataclasses.fields(Config) if dataclasses.is_dataclass(entry.type)}:
            action.help = SUPPRESS
        if isinstance(action.default, tuple):
            action.default = list(action.default)  # as it would be written
    return parser


def _make(arguments: Sequence[str], source: str = "") -> Config:
    parser = make_parser()
    try:
        parsed = parser.instantiate(parser.parse_args(list(arguments)))
        config = Config(**{entry.name: parsed[entry.name] for entry in dataclasses.fields(Config)})
        for key in keys():
            value = operator.attrgetter(key)(config)
            require(not isinstance(value, float) or math.isfinite(value), key, "finite", value)
        return config
    except ConfigError as error:
        raise ConfigError(f"{source}{error}") from error


class _Parser(ArgumentParser):
    """Raises ConfigError where argparse would print its usage and exit."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        message = " ".join(message.split()).replace("NoneType", "null")
        message = re.sub(r"(?:\ba )?<class '(.*?)'>", r"\1", message)
        message = re.sub(r"(?:\ba )?typing\.Literal\[(.*?)\]", r"one of \1", message)
        message = re.sub(r'^Parser key "(.*?)": Expected', r"\1: expected", message)
        message = message.replace(". Got value: ", ", got ")
        if union := re.match(
            r'Parser key "(.*?)": Does not .*? Errors: - (.*) Given value type: .* value: (.*)', message
        ):
            key, errors, got = union.groups()
            kinds = [error.removeprefix("Expected ") for error in errors.split(" - ")]
            message = f"{key}: expected {' or '.join(kinds)}, got {got}"
        raise ConfigError(message) from ex


def _read_yaml(file: str | Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the config file {file}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not valid YAML: {' '.join(str(error).split())}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{file} must hold settings such as 'read: soft', got {type(content).__name__}")
    return content


def _options(content: dict[str, Any], cls: type = Config, prefix: str = "") -> Iterator[str]:
    """The settings of a file as options, so that both are read in the same way."""
    for entry in dataclasses.fields(cls):
        value = content.get(entry.name)
        if dataclasses.is_dataclass(entry.type):
            yield from _options(value or {}, entry.type, f"{prefix}{entry.name}.")
        elif entry.name in content:
            text = value if isinstance(value, str) else json.dumps(value, default=str)
            yield f"--{prefix}{entry.name}={text}"


def _check_file(content: dict[str, Any], cls: type, file: str, prefix: str = "") -> None:
    """Fail at the first setting of a file that does not exist, with those that do."""
    entries = {entry.name: entry.type for entry in dataclasses.fields(cls)}
    for name, value in content.items():
        if name not in entries:
            raise ConfigError(f"{file}: there is no setting {prefix}{name}; {_valid(str(name), list(entries))}")
        if dataclasses.is_dataclass(entries[name]):
            if not isinstance(value, dict):
                group = ", ".join(entry.name for entry in dataclasses.fields(entries[name]))
                raise ConfigError(f"{file}: {prefix}{name} must be a group of settings ({group}), got {value!r}")
            _check_file(value, entries[name], file, f"{prefix}{name}.")


def _check_option(name: str, valid: list[str]) -> None:
    if name in valid:
        return
    group = [key for key in valid if "." in name and key.startswith(name.split(".")[0] + ".")]
    hint = _valid(name, group) if group else f"{_close(name, valid)}--help lists all"
    raise ConfigError(f"there is no option --{name}; {hint}")


def _valid(name: str, valid: list[str]) -> str:
    return f"{_close(name, valid)}valid: {', '.join(valid)}"


def _close(name: str, valid: list[str]) -> str:
    close = difflib.get_close_matches(name, valid, n=1)
    return f"did you mean {close[0]}? " if close else ""
