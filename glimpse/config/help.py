"""The settings of a config as help texts: each with its default, its type and its meaning."""

import textwrap
from collections.abc import Sequence
from typing import Any

from glimpse.config.messages import describe_type, plain_repr
from glimpse.config.schema import Settings

WIDTH = 100
COLUMN = 34  # where meanings begin


def settings_help(config: Settings, names: Sequence[str] | None = None) -> str:
    """Explain settings, a paragraph each, under the headings of their groups.

    Args:
        config: The settings, whose values are shown as the defaults.
        names: Dotted names of those to explain; all if not given.
    """
    lines: list[str] = []
    groups = config.groups()
    for group in [config, *(getattr(config, name) for name in groups)]:
        fields = {
            group.dotted(name): field
            for name, field in type(group).model_fields.items()
            if name not in group.groups() and (names is None or group.dotted(name) in names)
        }
        if fields:
            lines += ["", f"{group.group or 'run'}:"]
        for name, field in fields.items():
            value = getattr(group, name.rpartition(".")[2])
            choices = describe_type(field.annotation)
            if name.endswith(".kind") and groups[group.group].registry is not None:
                choices = f"one of {', '.join(groups[group.group].kinds())}"
            lines += _entry(f"--{name} {_shown(value)}", choices, field.description or "")
    return "\n".join(lines).lstrip("\n")


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else plain_repr(value)


def _entry(head: str, choices: str, meaning: str) -> list[str]:
    text = " ".join(meaning.split())
    if choices.startswith("one of "):
        text += f" ({choices.removeprefix('one of ')})"
    lines = textwrap.wrap(text, WIDTH - COLUMN) or [""]
    if len(head) + 4 > COLUMN:
        return [f"  {head}", *(" " * COLUMN + line for line in lines)]
    return [f"  {head.ljust(COLUMN - 2)}{lines[0]}", *(" " * COLUMN + line for line in lines[1:])]
