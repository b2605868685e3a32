"""The JSON Schema of config files, with which editors complete and check settings.

    python -m glimpse.tasks.json_schema > configs/schema.json

The valid settings depend on the model and on the kind of each group; the schema selects them by if/then. It has no old
names of settings. Rules that a schema cannot express, such as settings that exclude each other, are checked when a
config is loaded.
"""

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from glimpse.config.schema import CONFIG_FORMAT, Group, OneOf, Settings
from glimpse.tasks.settings import DEFAULT_MODEL, MODELS


class _Untitled(GenerateJsonSchema):
    """Omits the title of each setting, which would repeat its name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def json_schema() -> dict[str, Any]:
    """Generate the schema of the config files of all models."""
    classes: dict[type[Settings], None] = dict.fromkeys(config for _, config in MODELS.items())
    for config in list(classes):
        for group in config.groups().values():
            classes.update(dict.fromkeys(group.kinds().values()))
    _, schema = models_json_schema([(cls, "validation") for cls in classes], schema_generator=_Untitled)
    definitions = {cls.__name__: schema["$defs"][cls.__name__] for cls in classes}  # without base classes of groups
    for cls in classes:
        for name, field in cls.model_fields.items():
            if names := OneOf.of(field):
                definitions[cls.__name__]["properties"][name]["enum"] = names.names()
    for _, config in MODELS.items():
        definition = definitions[config.__name__]
        definition.pop("required", None)
        for name, group in config.groups().items():
            definition["properties"][name] = _group(group)
        definition["properties"]["format"] = {
            "const": CONFIG_FORMAT,
            "description": "Format of the config.yaml of a run.",
        }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Config of glimpse",
        "type": "object",
        "properties": {"model": {"enum": list(MODELS), "default": DEFAULT_MODEL, "description": "The model."}},
        "allOf": _choices("model", DEFAULT_MODEL, dict(MODELS.items())),
        "$defs": definitions,
    }


def _group(group: Group) -> dict[str, Any]:
    """The schema of a group; its settings depend on its kind."""
    kinds = group.kinds()
    if group.registry is None:
        return {"$ref": f"#/$defs/{group.base.__name__}"}
    return {
        "type": "object",
        "description": (group.base.__doc__ or "").partition(": ")[2],
        "properties": {"kind": {"enum": list(kinds), "default": group.default}},
        "allOf": _choices("kind", group.default, kinds),
    }


def _choices(name: str, default: str | None, classes: dict[str, type[Settings]]) -> list[dict[str, Any]]:
    """The if/then clauses by which the value of a setting selects the class of the other settings."""
    return [
        {
            "if": {"properties": {name: {"const": value}}, **({} if value == default else {"required": [name]})},
            "then": {"$ref": f"#/$defs/{cls.__name__}"},
        }
        for value, cls in classes.items()
    ]


if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=1))
