"""What runs do, which decides how they are shown, and that only those of a kind are shown or compared together."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from glimpse.config import Config
from glimpse.loading import check_given_once
from glimpse.runs import Run, RunError
from glimpse.settings import ConfigError

Kind = Literal["classifier", "captioner", "translator"]
DOES = {"classifier": "classifies", "captioner": "writes captions", "translator": "translates"}
MOST_RUNS = 4  # that pictures show side by side


def kind_of(configs: dict[str, Config]) -> Kind:
    """The kind of runs, given by name; all must be of one."""
    kinds = {name: config.model if config.model in DOES else "classifier" for name, config in configs.items()}
    (first, kind), *others = kinds.items()
    for name, other in others:
        if other != kind:
            raise RunError(f"{first} {DOES[kind]} and {name} {DOES[other]}: they cannot be shown or compared together")
    return kind


def kind_of_runs(folders: Sequence[str | Path]) -> Kind:
    """The kind of the runs in some folders."""
    return kind_of({str(folder): Run.open(folder).config for folder in folders})


def few(folders: Sequence[str | Path]) -> Sequence[str | Path]:
    """Refuse more runs than pictures have room for, and one that is given twice."""
    if len(folders) > MOST_RUNS:
        raise ConfigError(f"at most {MOST_RUNS} runs can be shown side by side, got {len(folders)}")
    check_given_once([Run.open(folder) for folder in folders])
    return folders
