"""Whole configs: one class per model, composed of groups of settings; and `load_config` to load them from files.

`load_config(["--train.epochs=5"], file="configs/cluttered60_soft.yaml")` loads one. `sensor: {patch_size: 8}` in a file
is `--sensor.patch_size 8` on a command line and `config.sensor.patch_size` in code. A file holds only settings that
differ from the defaults.

All modules of this folder are imported, so that a new config class registers itself.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from glimpse.config import load, upgrade
from glimpse.tasks.settings.base import DEFAULT_MODEL, MODELS, Config
from glimpse.tasks.settings.classification import (
    ClassificationConfig,
    CNNConfig,
    MLPConfig,
    RecurrentAttentionConfig,
    WholeImageConfig,
)
from glimpse.tasks.settings.sequences import CaptioningConfig, SequenceConfig, TranslationConfig

__all__ = [
    "DEFAULT_MODEL",
    "MODELS",
    "CNNConfig",
    "CaptioningConfig",
    "ClassificationConfig",
    "Config",
    "MLPConfig",
    "RecurrentAttentionConfig",
    "SequenceConfig",
    "TranslationConfig",
    "WholeImageConfig",
    "is_setting",
    "load_config",
    "split_arguments",
]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")


def load_config(arguments: Sequence[str] = (), *, file: str | Path | None = None) -> Config:
    """Load a config.

    Args:
        arguments: Overrides such as "--train.epochs=5".
        file: A YAML file of settings that differ from the defaults, or the config.yaml of a run; None: the defaults.

    Raises:
        ConfigError: If the file cannot be read, or a setting is unknown, of the wrong type, or out of range.
    """
    return load.load_settings(MODELS, DEFAULT_MODEL, arguments, file=file)


def is_setting(name: str) -> bool:
    """Whether a dotted name, current or old, is a setting of any model."""
    return name in load.setting_index(MODELS) or name in upgrade.ALIASES or name in upgrade.DROPPED


def split_arguments(
    arguments: Sequence[str], options: Sequence[str] = ()
) -> tuple[list[str], dict[str, str], list[str]]:
    """Split a command line into positional arguments, options and settings; see `config.arguments.split_arguments`."""
    return load.split_arguments(MODELS, arguments, options)
