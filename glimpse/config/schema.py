"""Base classes for settings: frozen pydantic models with checks and a docstring under each setting.

A settings class is one group of a config (`data`, `sensor`, ...) or a whole config, whose groups are fields of such
classes. A group with several kinds has a registry with a class for each kind, and its setting `kind` selects one:

    @DATASETS.register("cluttered")
    class ClutteredMNISTSettings(ImageDataSettings):
        kind: Literal["cluttered"] = "cluttered"
        canvas: int = 60
        \"\"\"Side of the image in pixels; at least 28.\"\"\"

        def check(self) -> None:
            self.require(self.canvas >= 28, "canvas", "at least 28, the side of a digit")

    class RecurrentAttentionConfig(Config):
        data: Annotated[ImageDataSettings, Group(DATASETS, default="cluttered")]

A group accepts the kinds of its registry whose class is a subclass of the annotated one. A text setting whose valid
values are the names in a registry is annotated as `Annotated[str, OneOf(REGISTRY)]`. An invalid value raises a
`ConfigError` of one line: "canvas must be at least 28, the side of a digit, got 20".
"""

import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from glimpse.config.messages import describe_type, no_such, plain_repr
from glimpse.config.registry import Registry, choose
from glimpse.config.yaml_text import write_yaml
from glimpse.errors import ConfigError

CONFIG_FORMAT = 2  # of the config.yaml of a run; files without a format number are of format 1


class Settings(BaseModel):
    """A group of settings or a whole config; unknown names, wrong types and invalid values raise ConfigError."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    group: ClassVar[str] = ""
    """The group's name in a config; empty for the config itself."""
    technical: ClassVar[tuple[str, ...]] = ()
    """Settings that do not influence the result, such as the number of worker processes."""
    paths: ClassVar[tuple[str, ...]] = ()
    """Settings that are paths of files or folders."""

    def __init__(self, **values: Any) -> None:
        """Create settings from keyword arguments; a group may be a dictionary."""
        for name, group in self.groups().items():
            values[name] = group.make(values.get(name, {}))
        try:
            super().__init__(**{name: as_tuple(value) for name, value in values.items()})
        except ValidationError as error:
            raise self._config_error(error.errors()[0], values) from None
        for name, field in type(self).model_fields.items():
            if mark := OneOf.of(field):
                choose(self.dotted(name), dict.fromkeys(mark.names()), getattr(self, name))
        self.check()

    def check(self) -> None:
        """Raise ConfigError if values are out of range or contradict each other; called by the constructor."""

    def require(self, ok: bool, name: str, expected: str, got: Any = None) -> None:
        """Raise a ConfigError unless a condition holds.

        Args:
            ok: The condition.
            name: The setting that is wrong otherwise; a dotted name in a whole config.
            expected: What is valid, to follow "must be".
            got: The value to show; None: the value of the setting.
        """
        if not ok:
            value = getattr(self, name) if got is None and "." not in name else got
            raise ConfigError(f"{self.dotted(name)} must be {expected}, got {plain_repr(value)}", key=self.dotted(name))

    def require_positive(self, *names: str) -> None:
        """Raise a ConfigError unless these settings are positive."""
        for name in names:
            value = getattr(self, name)
            self.require(value > 0, name, "positive" if isinstance(value, float) else "at least 1")

    @classmethod
    def dotted(cls, name: str) -> str:
        """The name of a setting in a whole config, such as "data.canvas"."""
        return f"{cls.group}.{name}" if cls.group else name

    @classmethod
    @cache
    def groups(cls) -> dict[str, "Group"]:
        """The fields that are groups of settings."""
        found = {}
        for name, field in cls.model_fields.items():
            if isinstance(field.annotation, type) and issubclass(field.annotation, Settings):
                marks = [mark for mark in field.metadata if isinstance(mark, Group)]
                found[name] = (marks[0] if marks else Group()).of(field.annotation)
        return found

    def items(self) -> Iterator[tuple[str, Any]]:
        """The dotted names and values of all settings, including those of groups."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, Settings):
                yield from value.items()
            else:
                yield self.dotted(name), value

    def replace(self, **changes: Any) -> Self:
        """Copy the settings with changes, and check the result; a group may be a dictionary of its changes."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        for name, change in changes.items():
            merge = isinstance(values.get(name), Settings) and isinstance(change, Mapping)
            values[name] = values[name].replace(**change) if merge else change
        return type(self)(**values)

    def idle(self) -> set[str]:
        """The settings and groups that have no effect with the present values of the others."""
        return set()

    def identity(self) -> tuple[tuple[str, Any], ...]:
        """The dotted names and values of the settings that influence the result.

        Trainings with equal identities differ at most in the seed.
        """
        left_out = {*self.technical, *self.idle()}
        found: list[tuple[str, Any]] = []
        for name in type(self).model_fields:
            value = getattr(self, name)
            if name in left_out:
                continue
            if isinstance(value, Settings):
                prefix = f"{name}."
                idle = {key for key in left_out if key.startswith(prefix)}
                found += [pair for pair in value.identity() if pair[0] not in idle]
            else:
                found.append((self.dotted(name), self.canonical(name, value)))
        return tuple(found)

    def canonical(self, name: str, value: Any) -> Any:
        """Normalize the value of a setting, so that values with the same meaning are equal."""
        return os.path.abspath(value) if name in self.paths and self.is_path(name, value) else value

    def is_path(self, name: str, value: Any) -> bool:
        """Whether the value of a setting in `paths` is a path, not null or a keyword."""
        return value is not None

    def with_absolute_paths(self) -> Self:
        """Copy the settings with absolute paths, so that they are valid in any working directory."""
        changes: dict[str, Any] = {
            name: str(Path(getattr(self, name)).absolute())
            for name in self.paths
            if self.is_path(name, getattr(self, name))
        }
        for name in self.groups():
            changes[name] = getattr(self, name).with_absolute_paths()
        return self.replace(**changes)

    def to_yaml(self) -> str:
        """Format all settings as YAML, with the format number."""

        def plain(value: Any) -> Any:
            if isinstance(value, Settings):
                return {name: plain(getattr(value, name)) for name in type(value).model_fields}
            return list(value) if isinstance(value, tuple) else value

        return write_yaml({"format": CONFIG_FORMAT, **plain(self)})

    @classmethod
    def _config_error(cls, error: Any, values: Mapping[str, Any]) -> ConfigError:
        """Convert a pydantic error to a ConfigError of one line."""
        name = cls.dotted(str(error["loc"][0])) if error["loc"] else cls.__name__
        if error["type"] == "extra_forbidden":
            names = [cls.dotted(field) for field in cls.model_fields]
            return ConfigError(no_such("setting ", name, names, names), key=name)
        field = str(error["loc"][0])
        valid = "finite" if error["type"] == "finite_number" else describe_field(cls.model_fields[field])
        return ConfigError(f"{name} must be {valid}, got {plain_repr(as_tuple(values[field]))}", key=name)


class OneOf:
    """Type annotation of a text setting whose value is a name in a registry, or one of a few other names."""

    def __init__(self, registry: Registry[Any], *others: str):
        """Create the type annotation.

        Args:
            registry: The registry.
            others: Valid names that are not in the registry.
        """
        self.registry = registry
        self.others = others

    def names(self) -> list[str]:
        """The valid names, including those registered after the annotation was created."""
        return [*self.others, *self.registry]

    @classmethod
    def of(cls, field: FieldInfo) -> "OneOf | None":
        """The annotation of a field; None if it has none."""
        return next((mark for mark in field.metadata if isinstance(mark, cls)), None)


def describe_field(field: FieldInfo) -> str:
    """Describe the valid values of a setting: "an integer", "one of center, random"."""
    mark = OneOf.of(field)
    return describe_type(field.annotation) if mark is None else f"one of {', '.join(mark.names())}"


class Group:
    """Type annotation of a field that is a group of settings, whose class is selected by `kind`."""

    def __init__(self, registry: Registry[Any] | None = None, *, default: str | None = None, **settings: Any):
        """Create the type annotation.

        Args:
            registry: The classes by kind; None: the annotated type is the only class.
            default: The default kind.
            settings: Defaults in this config that differ from those of the classes.
        """
        self.registry = registry
        self.default = default
        self.settings = settings
        self.base: type[Settings] = Settings

    def of(self, base: type[Settings]) -> "Group":
        """Copy the annotation for a field of this type."""
        group = Group(self.registry, default=self.default, **self.settings)
        group.base = base
        return group

    def kinds(self) -> dict[str, type[Settings]]:
        """The valid classes by kind; without a registry, the one class under an empty name."""
        if self.registry is None:
            return {"": self.base}
        return {name: entry for name, entry in self.registry.items() if issubclass(entry, self.base)}

    def choose(self, kind: Any = None) -> type[Settings]:
        """The class of a kind; None: of the default kind.

        Raises:
            ConfigError: If the group has no such kind.
        """
        return self._class_of(self.default if kind is None else kind)

    def make(self, values: Any) -> Settings:
        """Create the group from a dictionary; an instance of one of its classes is returned unchanged."""
        if isinstance(values, Settings):
            if not isinstance(values, tuple(self.kinds().values())):
                self.choose(getattr(values, "kind", type(values).__name__))
                raise ConfigError(f"{self.base.group} must be {self.base.__name__}, got {type(values).__name__}")
            return values
        if not isinstance(values, Mapping):
            name = self.base.group
            raise ConfigError(f"{name} must be a group of settings, got {plain_repr(values)}", key=name)
        cls = self._class_of(values.get("kind", self.default))
        defaults = {name: value for name, value in self.settings.items() if name in cls.model_fields}
        return cls(**{**defaults, **values})

    def _class_of(self, kind: Any) -> type[Settings]:
        return self.base if self.registry is None else choose(self.registry.key, self.kinds(), kind)


def as_tuple(value: Any) -> Any:
    """Replace lists by tuples, as settings store them."""
    return tuple(as_tuple(entry) for entry in value) if isinstance(value, list) else value


def diff(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """The names whose values differ between two mappings, with both values; None where a name is missing."""
    names = [*first, *(name for name in second if name not in first)]
    return [(name, first.get(name), second.get(name)) for name in names if first.get(name) != second.get(name)]
