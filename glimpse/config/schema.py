"""How settings are declared: frozen, typed, checked classes, a docstring under each setting, on pydantic.

A settings class is one group of a config (`data`, `sensor`, ...) or a whole config, whose groups are fields of such
classes. Where a group has several kinds, a registry has a class for each, and the group's `kind` says which it is:

    @DATASETS.register("cluttered")
    class ClutteredMNISTSettings(ImageDataSettings):
        kind: Literal["cluttered"] = "cluttered"
        canvas: int = 60
        \"\"\"Side of the image in pixels; at least 28.\"\"\"

        def check(self) -> None:
            self.require(self.canvas >= 28, "canvas", "at least 28, the side of a digit")

    class RecurrentAttentionConfig(Config):
        data: Annotated[ImageDataSettings, Group(DATASETS, default="cluttered")]

A group accepts those kinds of its registry whose class is a subclass of the annotated one. Every mistake is a
`ConfigError` of one line that names the setting, what is valid, and what came.
"""

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

FORMAT = 2  # of the config.yaml of a run; files without one are of format 1


class Settings(BaseModel):
    """A group of settings, or a whole config. Keyword arguments only; unknown names and wrong types are errors."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    group: ClassVar[str] = ""
    """Name of the group in a config; empty for the config itself."""
    technical: ClassVar[tuple[str, ...]] = ()
    """Settings that change nothing about what is learned and how well, as the number of worker processes."""
    paths: ClassVar[tuple[str, ...]] = ()
    """Settings that are files or folders."""

    def __init__(self, **values: Any) -> None:
        """Make settings from values; groups may be given as dictionaries."""
        for name, group in self.groups().items():
            values[name] = group.make(values.get(name, {}))
        try:
            super().__init__(**{name: as_tuple(value) for name, value in values.items()})
        except ValidationError as error:
            raise self._explain(error.errors()[0], values) from None
        for name, field in type(self).model_fields.items():
            if mark := OneOf.of(field):
                choose(self.dotted(name), dict.fromkeys(mark.names()), getattr(self, name))
        self.check()

    def check(self) -> None:
        """Refuse settings that do not go together or are out of range; called whenever settings are made."""

    def require(self, ok: bool, name: str, expected: str, got: Any = None) -> None:
        """Raise a ConfigError unless a setting is as expected.

        Args:
            ok: Whether it is.
            name: The setting, a dotted name in a whole config.
            expected: What is valid.
            got: What came; the setting's value if not given.
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
        """The name of a setting in a whole config."""
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
        """All settings by their dotted names, with their values."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, Settings):
                yield from value.items()
            else:
                yield self.dotted(name), value

    def replace(self, **changes: Any) -> Self:
        """The same settings but for some, which are checked too; of groups, dictionaries of changes will do."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        for name, change in changes.items():
            merge = isinstance(values.get(name), Settings) and isinstance(change, Mapping)
            values[name] = values[name].replace(**change) if merge else change
        return type(self)(**values)

    def idle(self) -> set[str]:
        """Names of settings that have no effect, given the others."""
        return set()

    def identity(self) -> tuple[tuple[str, Any], ...]:
        """Dotted names and values of all settings that make a difference to what is learned and how well.

        Two configs with equal identities are the same training, but for the seed.
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
        """The value of a setting in such a form that equal values mean the same."""
        return str(Path(value).absolute()) if name in self.paths and self.is_path(name, value) else value

    def is_path(self, name: str, value: Any) -> bool:
        """Whether a value of a setting in `paths` is a path, and no other word that it may have."""
        return value is not None

    def with_absolute_paths(self) -> Self:
        """The same settings, usable from any folder."""
        changes: dict[str, Any] = {
            name: str(Path(getattr(self, name)).absolute())
            for name in self.paths
            if self.is_path(name, getattr(self, name))
        }
        for name in self.groups():
            changes[name] = getattr(self, name).with_absolute_paths()
        return self.replace(**changes)

    def to_yaml(self) -> str:
        """All settings as YAML, with the number of the format."""

        def plain(value: Any) -> Any:
            if isinstance(value, Settings):
                return {name: plain(getattr(value, name)) for name in type(value).model_fields}
            return list(value) if isinstance(value, tuple) else value

        return write_yaml({"format": FORMAT, **plain(self)})

    @classmethod
    def _explain(cls, error: Any, values: Mapping[str, Any]) -> ConfigError:
        """A pydantic error about some values in one line."""
        name = cls.dotted(str(error["loc"][0])) if error["loc"] else cls.__name__
        if error["type"] == "extra_forbidden":
            valid = [cls.dotted(field) for field in cls.model_fields]
            return ConfigError(no_such("setting ", name, valid, valid), key=name)
        field = str(error["loc"][0])
        valid = "finite" if error["type"] == "finite_number" else describe_field(cls.model_fields[field])
        return ConfigError(f"{name} must be {valid}, got {plain_repr(as_tuple(values[field]))}", key=name)


class OneOf:
    """Marks a text setting as one of the names in a registry, or one of a few others."""

    def __init__(self, registry: Registry, *others: str):
        self.registry = registry
        self.others = others

    def names(self) -> list[str]:
        """The valid names, as of now."""
        return [*self.others, *self.registry]

    @classmethod
    def of(cls, field: FieldInfo) -> "OneOf | None":
        """The mark of a field, if it has one."""
        return next((mark for mark in field.metadata if isinstance(mark, cls)), None)


def describe_field(field: FieldInfo) -> str:
    """What values a setting may have, in words."""
    mark = OneOf.of(field)
    return describe_type(field.annotation) if mark is None else f"one of {', '.join(mark.names())}"


class Group:
    """Marks a field as a group of settings whose class is chosen by `kind`."""

    def __init__(self, registry: Registry | None = None, *, default: str | None = None, **settings: Any):
        """Create the mark.

        Args:
            registry: The classes by kind; without one, the group has the one class of its annotation.
            default: The kind, if none is given.
            settings: Defaults of this config where they differ from those of the classes.
        """
        self.registry = registry
        self.default = default
        self.settings = settings
        self.base: type[Settings] = Settings

    def of(self, base: type[Settings]) -> "Group":
        """The group of a field with this annotation."""
        group = Group(self.registry, default=self.default, **self.settings)
        group.base = base
        return group

    def kinds(self) -> dict[str, type[Settings]]:
        """The classes that the group may have, by kind; one without a name if there is no choice."""
        if self.registry is None:
            return {"": self.base}
        return {name: entry for name, entry in self.registry.items() if issubclass(entry, self.base)}

    def choose(self, kind: Any = None) -> type[Settings]:
        """The class of a kind.

        Raises:
            ConfigError: If the group has no such kind.
        """
        return self._class_of(self.default if kind is None else kind)

    def make(self, values: Any) -> Settings:
        """The group from settings of one of its classes, or from a dictionary."""
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
    """A value with tuples in the place of lists, as settings have them."""
    return tuple(as_tuple(entry) for entry in value) if isinstance(value, list) else value


def diff(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """The settings in which two mappings of dotted names differ: name and both values, None where there is none."""
    names = [*one, *(name for name in other if name not in one)]
    return [(name, one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name)]
