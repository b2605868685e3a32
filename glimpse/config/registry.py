"""Registries: the parts that a config can select by name."""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from glimpse.config.messages import did_you_mean, plain_repr
from glimpse.errors import ConfigError

T = TypeVar("T")


class Registry(dict[str, T]):
    """The registered parts of one kind by name, in the order of registration.

    Looking up an unknown name raises a ConfigError that lists the valid ones.
    """

    def __init__(self, key: str):
        """Create an empty registry.

        Args:
            key: The setting whose value is one of the names, for error messages: "data.kind".
        """
        super().__init__()
        self.key = key

    def register(self, name: str) -> Callable[[T], T]:
        """Decorate a class or function to register it under a name."""
        if name in self:
            raise ValueError(f"{self.key} {name} is registered already")

        def add(entry: T) -> T:
            self[name] = entry
            return entry

        return add

    def __missing__(self, name: str) -> NoReturn:
        """Raise a ConfigError that lists the registered names."""
        _refuse(self.key, self, name)


def choose(key: str, entries: Mapping[str, T], name: Any) -> T:
    """Look up an entry by a name from a config, which may be of any type.

    Args:
        key: The setting, for error messages.
        entries: The valid names and their entries.
        name: The value of the setting.

    Raises:
        ConfigError: If there is no such entry.
    """
    if not isinstance(name, str) or name not in entries:
        _refuse(key, entries, name)
    return entries[name]


def _refuse(key: str, entries: Mapping[str, Any], name: Any) -> NoReturn:
    hint = did_you_mean(name, entries)
    raise ConfigError(f"{key} must be one of {', '.join(entries)}, got {plain_repr(name)}{hint}", key=key)
