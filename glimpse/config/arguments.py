"""Settings on a command line: `--train.epochs 5` or `--train.epochs=5`."""

from collections.abc import Iterator, Sequence
from typing import Any, get_args

from glimpse.config import upgrade
from glimpse.config.index import setting_index
from glimpse.config.messages import did_you_mean, no_such
from glimpse.config.registry import Registry
from glimpse.config.schema import Settings
from glimpse.config.upgrade import Entry
from glimpse.config.yaml_text import read_value
from glimpse.errors import ConfigError

NULL = ("", "null", "~")  # words for no value, where a setting takes text too


def split(
    models: Registry[type[Settings]], arguments: Sequence[str], others: Sequence[str] = ()
) -> tuple[list[str], dict[str, str], list[str]]:
    """Part a command line, in which every option takes one value.

    Args:
        models: The config classes, by model.
        arguments: The command line.
        others: Names of options that are not settings.

    Returns:
        What is not an option; the other options and their values; the settings, for `load`.

    Raises:
        ConfigError: If an option is neither a setting nor one of the others, or lacks its value.
    """
    words, found, settings = [], {}, []
    valid = [*setting_index(models), *others]
    for name, value in _options(arguments):
        if name is None:
            words.append(value)
            continue
        _check_option(name, value, valid)
        if name in others:
            found[name] = value
        else:
            settings.append(f"--{name}={value}")
    return words, found, settings


def read_arguments(models: Registry[type[Settings]], arguments: Sequence[str]) -> Iterator[Entry]:
    """The settings of a command line that holds nothing else."""
    index = setting_index(models) if arguments else {}
    for name, text in _options(arguments):
        if name is None:
            raise ConfigError(f"a setting must begin with --, got {text}")
        _check_option(name, text, list(index))
        owners = index.get(upgrade.ALIASES.get(name, name), [])
        takes_text = any(_takes(str, owner.settings.model_fields[owner.name].annotation) for owner in owners)
        yield Entry(name, text if takes_text and text not in NULL else read_value(text), "")


def _options(arguments: Sequence[str]) -> Iterator[tuple[str | None, Any]]:
    """The options of a command line with their values, None if there is none; and words, without a name."""
    rest = iter(arguments)
    for word in rest:
        if not word.startswith("-"):
            yield None, word
            continue
        name, equals, value = word.lstrip("-").partition("=")
        yield name, value if equals else next(rest, None)


def _check_option(name: str, value: str | None, valid: Sequence[str]) -> None:
    if name not in valid and name not in upgrade.ALIASES and name not in upgrade.DROPPED:
        group, dot, _ = name.partition(".")
        near = [key for key in valid if dot and key.startswith(f"{group}.")]
        if near:
            raise ConfigError(no_such("option --", name, valid, near), key=name)
        raise ConfigError(f"there is no option --{name}{did_you_mean(name, valid) or ';'} --help lists all", key=name)
    if value is None:
        raise ConfigError(f"--{name} lacks its value", key=name)


def _takes(kind: type, annotation: Any) -> bool:
    return annotation is kind or any(
        _takes(kind, argument) for argument in get_args(annotation) if isinstance(argument, type)
    )
