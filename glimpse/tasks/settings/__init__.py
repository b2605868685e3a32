"""Whole configs: one class per model, joined from the settings of its groups; and how they are read from files.

`load_config("configs/cluttered60_soft.yaml", ["--train.epochs=5"])` reads one. `sensor: {patch_size: 8}` in a file is
`config.sensor.patch_size` and `--sensor.patch_size 8`. A file holds only what differs from the defaults.

Every module of this folder is imported, so that the config of a new model registers itself by its file being here.
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
    """Make a config from a file (else the defaults) and overrides such as "--train.epochs=5".

    Raises:
        ConfigError: If the file cannot be read, or a setting is unknown, of the wrong type, or out of range.
    """
    return load.load(MODELS, DEFAULT_MODEL, arguments, file=file)


def is_setting(name: str) -> bool:
    """Whether a dotted name, present or old, is that of a setting of any model."""
    return name in load.setting_index(MODELS) or name in upgrade.ALIASES or name in upgrade.DROPPED


def split_arguments(
    arguments: Sequence[str], others: Sequence[str] = ()
) -> tuple[list[str], dict[str, str], list[str]]:
    """Part a command line into words, other options and settings; see `config.load.split`."""
    return load.split(MODELS, arguments, others)
