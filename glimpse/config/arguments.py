"""Settings on a command line: `--train.epochs 5` or `--train.epochs=5`."""

from collections.abc import Iterator, Sequence
from typing import Any, get_args

from glimpse.config import upgrade
from glimpse.config.index import Models, setting_index
from glimpse.config.messages import did_you_mean, no_such
from glimpse.config.upgrade import Entry
from glimpse.config.yaml_text import read_value
from glimpse.errors import ConfigError

NULL = ("", "null", "~")  # these mean null even for a setting that takes text


def split_arguments(
    models: Models, arguments: Sequence[str], options: Sequence[str] = ()
) -> tuple[list[str], dict[str, str], list[str]]:
    """Split a command line, in which every option takes one value, into its parts.

    Args:
        models: The config classes by model.
        arguments: The command line.
        options: Names of the valid options that are not settings.

    Returns:
        The positional arguments; the values of `options`; the settings, as `load` takes them.

    Raises:
        ConfigError: If an option is unknown or has no value.
    """
    positional: list[str] = []
    values: dict[str, str] = {}
    settings: list[str] = []
    valid = [*setting_index(models), *options]
    for name, text in _parse(arguments):
        if name is None:
            positional.append(text or "")
            continue
        value = _check_option(name, text, valid)
        if name in options:
            values[name] = value
        else:
            settings.append(f"--{name}={value}")
    return positional, values, settings


def read_arguments(models: Models, arguments: Sequence[str]) -> Iterator[Entry]:
    """Read settings from a command line that has nothing else."""
    index = setting_index(models) if arguments else {}
    for name, text in _parse(arguments):
        if name is None:
            raise ConfigError(f"a setting must begin with --, got {text}")
        value = _check_option(name, text, list(index))
        owners = index.get(upgrade.ALIASES.get(name, name), [])
        takes_text = any(_takes_text(owner.settings.model_fields[owner.name].annotation) for owner in owners)
        yield Entry(name, value if takes_text and value not in NULL else read_value(value), "")


def _parse(arguments: Sequence[str]) -> Iterator[tuple[str | None, str | None]]:
    """Each option with its value, None if the value is missing; each positional argument with None as its name."""
    rest = iter(arguments)
    for word in rest:
        if not word.startswith("-"):
            yield None, word
            continue
        name, equals, value = word.lstrip("-").partition("=")
        yield name, value if equals else next(rest, None)


def _check_option(name: str, value: str | None, valid: Sequence[str]) -> str:
    """The value of an option; raises ConfigError if there is no such option, or if it has no value."""
    if name not in valid and name not in upgrade.ALIASES and name not in upgrade.DROPPED:
        group, dot, _ = name.partition(".")
        same_group = [key for key in valid if dot and key.startswith(f"{group}.")]
        if same_group:
            raise ConfigError(no_such("option --", name, valid, same_group), key=name)
        raise ConfigError(f"there is no option --{name}{did_you_mean(name, valid) or ';'} --help lists all", key=name)
    if value is None:
        raise ConfigError(f"--{name} needs a value", key=name)
    return value


def _takes_text(annotation: Any) -> bool:
    return annotation is str or any(
        _takes_text(argument) for argument in get_args(annotation) if isinstance(argument, type)
    )
