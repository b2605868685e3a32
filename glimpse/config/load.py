"""Load a config from a YAML file and a command line.

An error message names the setting and its line in the file, says what is valid, and shows the value. The functions
take the config classes by model and know no setting by name.
"""

import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from glimpse.config import upgrade
from glimpse.config.arguments import read_arguments, split_arguments
from glimpse.config.index import Owner, setting_index, setting_names
from glimpse.config.messages import describe_type, no_such, plain_repr
from glimpse.config.registry import Registry, choose
from glimpse.config.schema import CONFIG_FORMAT, Settings, as_tuple
from glimpse.config.upgrade import Entry
from glimpse.config.yaml_text import read_settings
from glimpse.errors import ConfigError, MisplacedSettingError

__all__ = ["load_settings", "setting_index", "setting_names", "split_arguments"]

C = TypeVar("C", bound=Settings)


def load_settings(
    models: Registry[type[C]], default: str, arguments: Sequence[str], *, file: str | Path | None = None
) -> C:
    """Load a config from a file, or the defaults, and overrides.

    If an override selects another model, or another kind of a group, than the file does, the file's settings of its own
    model and kind are dropped. If it selects another model, the file's kinds that this model does not have are dropped
    too, and its settings that are the defaults of its own model, which the config.yaml of a run holds as well.

    Args:
        models: The config classes by model.
        default: The model, if neither file nor overrides name one.
        arguments: Overrides such as "--train.epochs=5", or "--train.epochs", "5".
        file: A YAML file of settings that differ from the defaults, or the config.yaml of a run; None: the defaults.

    Raises:
        ConfigError: If the file cannot be read, or a setting is unknown, of the wrong type, or out of range.
    """
    from_file = [] if file is None else _read_file(file)
    overrides = list(read_arguments(models, arguments))
    try:
        return _make(models, default, [*_without_replaced(models, default, from_file, overrides), *overrides])
    except ConfigError as error:
        in_message = file is not None and str(error).startswith(str(file))
        if file is not None and not in_message and _fails(models, default, from_file, str(error)):
            raise ConfigError(f"{file}: {error}", key=error.key) from None
        raise


def _fails(models: Registry[type[C]], default: str, entries: list[Entry], message: str) -> bool:
    """Whether these settings alone fail with this message."""
    try:
        _make(models, default, entries)
    except ConfigError as error:
        return str(error) == message
    return False


def _without_replaced(
    models: Registry[type[C]], default: str, from_file: list[Entry], overrides: list[Entry]
) -> list[Entry]:
    """The settings of a file, without those that are only for the file's model and kinds; see `load_settings`."""
    original, final = _choice(default, from_file), _choice(default, [*from_file, *overrides])
    if original == final or not all(isinstance(model, str) and model in models for model, _ in (original, final)):
        return from_file
    if original[0] != final[0]:
        own, other = models[original[0]], models[final[0]]
        upgraded = upgrade.rename_by_kind(list(upgrade.rename(from_file)), *original)
        from_file = [entry for entry in upgraded if _suits_model(entry, own, original[1], other)]
        final = _choice(default, [*from_file, *overrides])
    index = setting_index(models)

    def exists(key: str, model: str, kinds: dict[str, Any]) -> bool:
        groups = models[model].groups()
        return any(
            owner.model == model
            and (owner.group not in groups or owner.kind in ("", kinds.get(owner.group, groups[owner.group].default)))
            for owner in index.get(key, [])
        )

    def is_kept(entry: Entry) -> bool:
        key = upgrade.ALIASES.get(entry.key, entry.key)
        return exists(key, *final) or not exists(key, *original)

    return [entry for entry in from_file if is_kept(entry)]


def _suits_model(entry: Entry, own: type[Settings], kinds: Mapping[str, Any], other: type[Settings]) -> bool:
    """Whether another model than that of the file takes a setting of the file, if it has it.

    Args:
        entry: The setting, by its new name.
        own: The config class of the file's model.
        kinds: The kinds of groups that the file selects.
        other: The config class of the other model.

    Returns:
        False for a default of the file's model, for a kind that the other model does not have, and for a setting of an
        old file that its own model did not use.
    """
    name, _, field = entry.key.partition(".")
    if name not in own.groups():
        unknown = entry.key not in own.model_fields
        return not _is_old(entry) if unknown else own.model_fields[name].default != as_tuple(entry.value)
    group = own.groups()[name]
    if field == "kind":
        kept = other.groups().get(name)
        return entry.value != group.default and (kept is None or entry.value in [*kept.kinds()])
    kind = kinds.get(name, group.default) if group.registry is not None else ""
    settings = group.kinds().get(kind) if isinstance(kind, str) else None
    if settings is None or field not in settings.model_fields:
        return not _is_old(entry)
    return group.settings.get(field, settings.model_fields[field].default) != as_tuple(entry.value)


def _is_old(entry: Entry) -> bool:
    """Whether a setting is of the old format, which had settings that the model did not use."""
    return entry.resolved or entry.old_key is not None


def _choice(default: str, entries: list[Entry]) -> tuple[str, dict[str, Any]]:
    """The model and the kinds of groups that settings select."""
    last = {entry.key: entry for entry in upgrade.rename(entries)}
    model = last["model"].value if "model" in last else default
    return model, upgrade.kinds_of(last.values(), model)


def _make(models: Registry[type[C]], default: str, entries: list[Entry]) -> C:
    """Make the config; of a setting that is given several times, the last value counts."""
    last: dict[str, Entry] = {}
    for entry in upgrade.rename(entries):
        last.pop(entry.key, None)
        last[entry.key] = entry
    model = last["model"].value if "model" in last else default
    kinds = upgrade.kinds_of(last.values(), model)
    given = {entry.key: entry for entry in upgrade.rename_by_kind(list(last.values()), model, kinds)}
    try:
        cls = choose(models.key, models, model)
        return cls(**_values(models, cls, model, kinds, given))
    except ConfigError as error:
        wrong = given.get(error.key or "")
        if wrong is None:
            raise
        raise type(error)(f"{wrong.prefix}{error}{wrong.suffix}", key=error.key) from None


def _values(
    models: Registry[type[C]], cls: type[C], model: str, kinds: dict[str, Any], given: dict[str, Entry]
) -> dict[str, Any]:
    """The arguments of a config class, with groups as dictionaries."""
    groups = cls.groups()
    for name in groups:
        if name in kinds:
            _check_kind(models, model, name, kinds[name])
    chosen = {name: group.choose(kinds.get(name)) for name, group in groups.items()}
    index = cache(lambda: setting_index(models))  # built only for a setting that this config does not have
    values: dict[str, Any] = {
        name: {"kind": kinds[name]} for name, group in groups.items() if name in kinds and group.registry is not None
    }
    for key, entry in given.items():
        group, _, name = key.rpartition(".")
        if key in upgrade.DROPPED:
            if not entry.resolved:
                warnings.warn(f"{entry.prefix}{key} is ignored: {upgrade.DROPPED[key]}", stacklevel=5)
        elif not group and name in groups:
            fields = ", ".join(chosen[name].model_fields)
            raise ConfigError(f"{name} must be a group of settings ({fields}), got {plain_repr(entry.value)}", key=key)
        elif not group and name in cls.model_fields:
            values[name] = entry.value
        elif group in groups and name in chosen[group].model_fields:
            values.setdefault(group, {})[name] = entry.value
        elif owners := index().get(key):
            # Old configs gave settings that their model did not use.
            renamed_default = entry.old_key is not None and any(_is_default(owner, entry.value) for owner in owners)
            if not entry.resolved and not renamed_default:
                raise MisplacedSettingError(_elsewhere(key, owners, model, chosen), key=key)
        else:
            raise ConfigError(_unknown(key, cls, kinds), key=key)
    return values


def _check_kind(models: Registry[type[C]], model: str, name: str, kind: Any) -> None:
    """Raise ConfigError for a kind of a group that exists for other models only, and name those models."""
    group = models[model].groups()[name]
    if group.registry is None or not isinstance(kind, str) or kind not in group.registry or kind in group.kinds():
        return
    users = [
        other for other, config in models.items() if name in config.groups() and kind in config.groups()[name].kinds()
    ]
    raise ConfigError(
        f"{name}.kind must be one of {', '.join(group.kinds())} with model {model}, "
        f"got {plain_repr(kind)}, which is for model {', '.join(users)}",
        key=f"{name}.kind",
    )


def _is_default(owner: Owner, value: Any) -> bool:
    return owner.settings.model_fields[owner.name].default == as_tuple(value)


def _elsewhere(key: str, owners: list[Owner], model: str, chosen: Mapping[str, type[Settings]]) -> str:
    """The error message for a setting of another model or kind."""
    of_model = [owner for owner in owners if owner.model == model]
    if of_model:
        kinds = ", ".join(dict.fromkeys(owner.kind for owner in of_model))
        group = of_model[0].group
        kind = chosen[group].model_fields["kind"].default
        return f"{key} is a setting of {group}.kind {kinds}, and {group}.kind is {kind}"
    users = list(dict.fromkeys(owner.model for owner in owners))
    return f"{key} is a setting of model {', '.join(users)}, and the model is {model}"


def _unknown(key: str, cls: type[Settings], kinds: Mapping[str, Any]) -> str:
    """The error message for a setting that does not exist."""
    group, dot, _ = key.partition(".")
    if group in cls.model_fields and group not in cls.groups():
        return f"{group} must be {describe_type(cls.model_fields[group].annotation)}, got a group of settings"
    valid = list(setting_names(cls, kinds))
    same_group = [name for name in valid if dot and name.startswith(f"{group}.")]
    return no_such("setting ", key, [*valid, *cls.groups()], same_group or cls.model_fields)


def _read_file(file: str | Path) -> list[Entry]:
    """Read the settings of a file; those missing in the config.yaml of a run of format 1 are filled in."""
    entries = read_settings(file)
    given = {entry.key: entry.value for entry in entries}
    version = given.get("format")
    if version not in (None, *range(1, CONFIG_FORMAT + 1)):
        raise ConfigError(f"{file} is of format {version}, this version of the package reads 1 to {CONFIG_FORMAT}")
    if upgrade.is_resolved_v1(given):
        return upgrade.complete_v1(entries, str(file))
    return [entry for entry in entries if entry.key != "format"]
