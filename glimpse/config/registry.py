"""Registries: names that a config may give, each with the class that it stands for."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from glimpse.config.messages import did_you_mean, plain_repr
from glimpse.errors import ConfigError

T = TypeVar("T")


class Registry(Generic[T]):
    """The registered classes of one kind of part, by name, in the order in which they were registered."""

    def __init__(self, key: str):
        """Create an empty registry.

        Args:
            key: The setting whose value is one of the names, for error messages: "data.kind".
        """
        self.key = key
        self._entries: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorate a class to give it a name."""
        if name in self._entries:
            raise ValueError(f"{self.key} {name} is registered already")

        def add(entry: T) -> T:
            self._entries[name] = entry
            return entry

        return add

    def __getitem__(self, name: str) -> T:
        """The class of a name.

        Raises:
            ConfigError: If there is none of this name; the message lists those that there are.
        """
        return choose(self.key, self._entries, name)

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self._entries)

    def __contains__(self, name: object) -> bool:
        """Whether there is a class of this name."""
        return isinstance(name, str) and name in self._entries

    def items(self) -> Iterator[tuple[str, T]]:
        """The names and their classes."""
        return iter(self._entries.items())


def choose(key: str, entries: dict[str, T], name: object) -> T:
    """The entry of a name; raises a ConfigError about the setting `key` if there is none."""
    if not isinstance(name, str) or name not in entries:
        hint = did_you_mean(name, entries)
        raise ConfigError(f"{key} must be one of {', '.join(entries)}, got {plain_repr(name)}{hint}", key=key)
    return entries[name]
