"""YAML: settings are read with their line numbers, and written so that reading gives the same values."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from glimpse.config.upgrade import ALIASES, Entry
from glimpse.errors import ConfigError

if TYPE_CHECKING:
    from yaml import SafeLoader as _FastestLoader
else:
    _FastestLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML may be built without libyaml

_FLOAT = re.compile(r"^[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$")  # 1e-3 is a number too


class _Loader(_FastestLoader):
    """Reads dates as text."""


class _Dumper(yaml.SafeDumper):
    """Quotes text that would be read as another type."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _class in (_Loader, _Dumper):
    _class.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789"))


def read_value(text: str) -> Any:
    """Parse the value of an option as YAML; text that is not YAML is returned unchanged."""
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError:
        return text


def write_yaml(content: dict[str, Any]) -> str:
    """Format plain values as YAML."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def read_settings(file: str | Path) -> list[Entry]:
    """Read the settings of a file, with their line numbers.

    Raises:
        ConfigError: If the file cannot be read, is not a YAML mapping, or has a setting twice.
    """
    try:
        node = yaml.compose(Path(file).read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise ConfigError(f"cannot read the config file {file}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not valid YAML: {_one_line(error)}") from error
    if node is None or (isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null")):
        return []
    if not isinstance(node, yaml.MappingNode):
        raise ConfigError(f"{file} must hold settings such as 'read: soft', got {_plain(node, str(file))!r}")
    entries = list(_entries(node, str(file)))
    names: dict[str, str] = {}
    for entry in entries:
        name = ALIASES.get(entry.key, entry.key)
        if name in names:
            raise ConfigError(f"{entry.prefix}{entry.key} is given twice, first as {names[name]}", key=entry.key)
        names[name] = entry.key
    return entries


def _entries(node: yaml.MappingNode, file: str, prefix: str = "") -> Iterator[Entry]:
    seen: set[str] = set()
    for key_node, value_node in node.value:
        line = f"{file}, line {key_node.start_mark.line + 1}"
        name = str(_plain(key_node, line))
        if name in seen:
            raise ConfigError(f"{line}: {prefix}{name} is given twice", key=prefix + name)
        seen.add(name)
        group, dot, rest = name.partition(".")
        if dot and not prefix:
            raise ConfigError(f"{line}: {name} must be written as {group}: {{{rest}: ...}}", key=name)
        if isinstance(value_node, yaml.MappingNode) and not prefix:
            yield from _entries(value_node, file, f"{name}.")
        else:
            yield Entry(prefix + name, _plain(value_node, line), line)


def _plain(node: yaml.Node, line: str) -> Any:
    try:
        return _Loader("").construct_object(node, deep=True)
    except yaml.YAMLError as error:
        raise ConfigError(f"{line}: not valid YAML: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
