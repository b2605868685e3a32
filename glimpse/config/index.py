"""An index of all settings: which models, groups and kinds have them."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from glimpse.config.schema import Settings

Models = Mapping[str, type[Settings]]  # config classes by model


class Owner(NamedTuple):
    """Where a setting exists: in the config of a model, in one of its groups, if the group is of a kind."""

    model: str
    group: str  # empty for a setting of the config itself
    kind: str  # empty if the group has only one
    settings: type[Settings]  # the class that has it
    name: str  # in that class


def setting_index(models: Models) -> dict[str, list[Owner]]:
    """Map the dotted name of each setting of any model and kind to all of its owners."""
    index: dict[str, list[Owner]] = {}
    for model, config in models.items():
        groups = config.groups()
        for name in config.model_fields:
            if name not in groups:
                index.setdefault(name, []).append(Owner(model, "", "", config, name))
                continue
            for kind, settings in groups[name].kinds().items():
                for field in settings.model_fields:
                    index.setdefault(f"{name}.{field}", []).append(Owner(model, name, kind, settings, field))
    return index


def setting_names(config: type[Settings], kinds: Mapping[str, Any] | None = None) -> Iterator[str]:
    """The dotted names of the settings of a config class.

    Args:
        config: The class.
        kinds: The kind of each group; groups that are missing, or all if None, are of their default kind.
    """
    groups = config.groups()
    for name in config.model_fields:
        if name in groups:
            for field in groups[name].choose((kinds or {}).get(name)).model_fields:
                yield f"{name}.{field}"
        else:
            yield name
