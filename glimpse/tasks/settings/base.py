"""The base class of whole configs, and the registry of their classes by model."""

from typing import TYPE_CHECKING, Any, ClassVar

from glimpse.attention.settings import (
    ReadMode,
)
from glimpse.config.registry import Registry
from glimpse.config.schema import Settings
from glimpse.data.settings import DataSettings
from glimpse.tasks.train_settings import ScoreSettings, TrainSettings

if TYPE_CHECKING:
    from glimpse.models.recurrent_attention import RecurrentAttention
    from glimpse.models.whole_image import WholeImage

    Classifier = RecurrentAttention | WholeImage


class Config(Settings):
    """The settings of a run. `Config(model=..., ...)` makes the class of that model."""

    technical = ("seed",)
    task: ClassVar[str]
    """The task that the model is for, see `tasks.base.task_of`."""
    no_read: ClassVar[str] = ""
    """What stands for the read mode in tables of results, where the model has no choice of places."""
    seed: int = 0
    """Decides every random choice of the run."""
    model: str
    """What learns."""
    init_from: str | None = None
    """Run folder, or name of a shipped model, to take the initial weights from."""

    if TYPE_CHECKING:  # groups that every config has, each of its own classes
        data: DataSettings
        train: TrainSettings
        score: ScoreSettings

    def __new__(cls, **values: Any) -> "Config":
        """Make the config of the model that is named, recurrent attention by default."""
        return super().__new__(MODELS[values.get("model", DEFAULT_MODEL)] if cls is Config else cls)

    @property
    def scored_read(self) -> ReadMode | None:
        """How the model reads when it is scored; None if it has no choice of places."""
        return None

    def describe(self) -> str:
        """The kind of model, in a few words."""
        raise NotImplementedError

    def check(self) -> None:
        """Check what concerns several groups."""
        self.require(0 <= self.seed < 2**32, "seed", "in [0, 2**32)")


MODELS: Registry[type[Config]] = Registry("model")
DEFAULT_MODEL = "recurrent_attention"


def require_equal(config: Config, what: str, size: int, key: str, value: int) -> None:
    """Refuse a size that is not that of another setting, which a scorer without weights needs."""
    scorer = config.attention.scorer
    config.require(size == value, key, f"{size}, {what}, with attention.scorer {scorer} (bilinear takes any)", value)
