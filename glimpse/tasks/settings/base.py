"""The base class of whole configs, and the registry of config classes by model."""

import os
from typing import TYPE_CHECKING, Any, ClassVar

from glimpse.attention.settings import ReadMode
from glimpse.config.registry import Registry
from glimpse.config.schema import Settings
from glimpse.data.settings import DataSettings
from glimpse.tasks.train_settings import ScoreSettings, TrainSettings


class Config(Settings):
    """All settings of a run. `Config(model=..., ...)` creates an instance of the config class of that model."""

    technical = ("seed",)
    task: ClassVar[str]
    """The task of the model, see `tasks.base.task_of`."""
    no_read: ClassVar[str] = ""
    """Shown in place of the read mode in tables of results, for models without attention."""
    seed: int = 0
    """Seed of all random numbers: initial weights, data, sampling, dropout."""
    model: str
    """The model."""
    init_from: str | None = None
    """Run folder, or name of a shipped model, whose weights initialize the model; null: random weights."""

    if TYPE_CHECKING:  # groups that every config has; subclasses declare them with their own types
        data: DataSettings
        train: TrainSettings
        score: ScoreSettings

    def __new__(cls, **values: Any) -> "Config":
        """Create an instance of the class of the model, by default of `DEFAULT_MODEL`."""
        return super().__new__(MODELS[values.get("model", DEFAULT_MODEL)] if cls is Config else cls)

    @property
    def scored_read(self) -> ReadMode | None:
        """The read mode of validation and test; None for a model without attention."""
        return None

    def canonical(self, name: str, value: Any) -> Any:
        """The folder of init_from as an absolute path; the name of a shipped model stays."""
        is_folder = name == "init_from" and value is not None and (os.sep in value or os.path.isdir(value))
        return os.path.abspath(value) if is_folder else super().canonical(name, value)

    def describe(self) -> str:
        """Describe the model in a few words: "hard attention, 6 glimpses"."""
        raise NotImplementedError

    def check(self) -> None:
        """Check the rules between groups."""
        self.require(0 <= self.seed < 2**32, "seed", "in [0, 2**32)")


MODELS: Registry[type[Config]] = Registry("model")
DEFAULT_MODEL = "recurrent_attention"


def require_equal(config: Config, scorer: str, what: str, size: int, key: str, value: int) -> None:
    """Raise ConfigError unless a setting equals another size, as a scorer without weights needs.

    Args:
        config: The config.
        scorer: Name of the scorer.
        what: Name of the other size.
        size: The other size.
        key: The setting.
        value: Its value.
    """
    config.require(size == value, key, f"{size}, {what}, with attention.scorer {scorer} (bilinear takes any)", value)
