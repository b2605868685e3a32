"""Which settings there are, and where each exists: an index over all models and kinds."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from glimpse.config.registry import Registry
from glimpse.config.schema import Settings


class Owner(NamedTuple):
    """Where a setting exists: in this model's config, in this group, if the group has this kind."""

    model: str
    group: str
    kind: str
    settings: type[Settings]
    name: str


def setting_index(models: Registry[type[Settings]]) -> dict[str, list[Owner]]:
    """All settings of all models and kinds, by their dotted names."""
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


def setting_names(config: type[Settings], kinds: dict[str, Any] | None = None) -> Iterator[str]:
    """The settings of a config class by their dotted names, with the groups of the given kinds or else the default."""
    groups = config.groups()
    for name in config.model_fields:
        if name in groups:
            for field in groups[name].choose((kinds or {}).get(name)).model_fields:
                yield f"{name}.{field}"
        else:
            yield name
