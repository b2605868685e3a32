"""Help texts of settings: name, value, meaning and valid choices of each."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from glimpse.config.messages import plain_repr
from glimpse.config.schema import Settings, describe_field

WIDTH = 100
COLUMN = 34  # where the meanings begin


def settings_help(
    config: Settings, names: Sequence[str] | None = None, *, choices: Mapping[str, Sequence[str]] | None = None
) -> str:
    """Describe settings, one paragraph each, under headings for their groups.

    Args:
        config: The settings, with the values to show.
        names: Dotted names of the settings to describe; None: all.
        choices: The valid values of settings for which their types do not say them.
    """
    lines: list[str] = []
    groups = config.groups()
    choices = {
        **{f"{name}.kind": list(group.kinds()) for name, group in groups.items() if group.registry is not None},
        **(choices or {}),
    }
    for settings in [config, *(getattr(config, name) for name in groups)]:
        fields = {
            settings.dotted(name): field
            for name, field in type(settings).model_fields.items()
            if name not in settings.groups() and (names is None or settings.dotted(name) in names)
        }
        if fields:
            lines += ["", f"{settings.group or 'run'}:"]
        for name, field in fields.items():
            value = getattr(settings, name.rpartition(".")[2])
            valid = f"one of {', '.join(choices[name])}" if name in choices else describe_field(field)
            lines += _entry(f"--{name} {_format(value)}", field.description or "", valid)
    return "\n".join(lines).lstrip("\n")


def _format(value: Any) -> str:
    return value if isinstance(value, str) else plain_repr(value)


def _entry(head: str, meaning: str, valid: str) -> list[str]:
    text = " ".join(meaning.split())
    if valid.startswith("one of "):
        text += f" ({valid.removeprefix('one of ')})"
    lines = textwrap.wrap(text, WIDTH - COLUMN) or [""]
    if len(head) + 4 > COLUMN:
        return [f"  {head}", *(" " * COLUMN + line for line in lines)]
    return [f"  {head.ljust(COLUMN - 2)}{lines[0]}", *(" " * COLUMN + line for line in lines[1:])]
