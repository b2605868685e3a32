"""Configs of the models that classify images."""

from typing import TYPE_CHECKING, Annotated, Literal

from glimpse.attention.settings import (
    ATTENTIONS,
    SENSORS,
    GlimpseAttentionSettings,
    ReadMode,
    SensorSettings,
)
from glimpse.config.schema import Group
from glimpse.data.settings import DATASETS, ImageDataSettings
from glimpse.losses.estimators import ESTIMATORS, Estimator
from glimpse.losses.settings import ClassificationLossSettings
from glimpse.models.settings import (
    CNNSettings,
    MLPSettings,
    NetworkSettings,
)
from glimpse.tasks.train_settings import GlimpseScoreSettings, ScoreSettings, TrainSettings

if TYPE_CHECKING:
    from glimpse.models.recurrent_attention import RecurrentAttention
    from glimpse.models.whole_image import WholeImage

    Classifier = RecurrentAttention | WholeImage
from glimpse.tasks.settings.base import MODELS, Config, require_equal


class ClassificationConfig(Config):
    """The settings of a model that classifies images."""

    task = "classification"

    if TYPE_CHECKING:
        data: ImageDataSettings

    def build_model(self, image_shape: tuple[int, int, int], num_classes: int) -> "Classifier":
        """Make the model, for images of a shape (C, H, W)."""
        raise NotImplementedError


@MODELS.register("recurrent_attention")
class RecurrentAttentionConfig(ClassificationConfig):
    """Recurrent attention: a model that looks at an image glimpse by glimpse, and answers after each."""

    model: Literal["recurrent_attention"] = "recurrent_attention"
    """Recurrent attention: looks at an image glimpse by glimpse, and answers after each."""
    read: ReadMode = "hard"
    """Sample one place to look and learn by REINFORCE, or take the expectation and learn by back-propagation."""
    num_glimpses: int = 6
    """Number T of glimpses."""
    data: Annotated[ImageDataSettings, Group(DATASETS, default="cluttered")]
    sensor: Annotated[SensorSettings, Group(SENSORS, default="pyramid")]
    network: NetworkSettings
    attention: Annotated[GlimpseAttentionSettings, Group(ATTENTIONS, default="plane")]
    estimator: Annotated[Estimator, Group(ESTIMATORS, default="reinforce")]
    loss: ClassificationLossSettings
    train: TrainSettings
    score: GlimpseScoreSettings

    @property
    def scored_read(self) -> ReadMode:
        """See `Config`."""
        return self.score.read or self.read

    def describe(self) -> str:
        """See `Config`."""
        glimpses = f"{self.num_glimpses} glimpse{'s' if self.num_glimpses > 1 else ''}"
        if self.attention.learned:
            return f"{self.read} attention, {glimpses}"
        return f"{self.read} reads, {glimpses} placed by rule: {self.attention.policy}"

    def build_model(self, image_shape: tuple[int, int, int], num_classes: int) -> "RecurrentAttention":
        """See `ClassificationConfig`; of the shape of the images, the channels alone matter."""
        from glimpse.tasks.build import recurrent_attention

        return recurrent_attention(self, image_shape[0], num_classes)

    def check(self) -> None:
        """Check what concerns several groups."""
        super().check()
        self.require_positive("num_glimpses")
        self.require(
            not self.attention.needs_boxes or self.data.has_boxes,
            "data.kind",
            f"one that knows where the digits are with attention.policy {self.attention.policy}",
            self.data.kind,
        )
        self.require(
            self.num_glimpses > 1 or not self.network.halting_unit,
            "network.halting_unit",
            "false with num_glimpses 1, which leave nothing to stop",
            self.network.halting_unit,
        )
        if self.attention.needs_same_size:
            network = self.network
            require_equal(self, "network.glimpse_dim", network.glimpse_dim, "network.state_dim", network.state_dim)
            self.require(
                not self.estimator.detaches_state
                or getattr(self.attention, "window", None) is not None
                or self.read == "soft"
                or self.estimator.mixes,
                "estimator.backprop_to_state",
                f"true with attention.scorer {self.attention.scorer} and no attention.window, or nothing would learn "
                "where to look",
                False,
            )

    def idle(self) -> set[str]:
        """The estimator of a soft read; a limit of gradients of soft reads; the price of glimpses, if none stops."""
        idle = {"estimator"} if self.read == "soft" else set()
        if self.read == "hard" and not (self.estimator.mixes or self.estimator.straight_through):
            idle.add("attention.max_grad_norm")
        return idle if self.network.halting_unit else {*idle, "loss.glimpse_cost"}


class WholeImageConfig(ClassificationConfig):
    """The settings of a network of the whole image."""

    no_read = "whole image"

    if TYPE_CHECKING:
        network: MLPSettings

    def build_model(self, image_shape: tuple[int, int, int], num_classes: int) -> "WholeImage":
        """See `ClassificationConfig`."""
        from glimpse.models.whole_image import WholeImage

        options = self.network.model_dump()
        return WholeImage(
            kind=self.model,
            image_shape=image_shape,
            num_classes=num_classes,
            hidden_dim=options.pop("state_dim"),
            **options,
        )


@MODELS.register("cnn")
class CNNConfig(WholeImageConfig):
    """A convolutional network of the whole image, to compare with."""

    model: Literal["cnn"] = "cnn"
    """A convolutional network of the whole image, to compare with."""
    data: Annotated[ImageDataSettings, Group(DATASETS, default="cluttered")]
    network: CNNSettings
    train: TrainSettings
    score: ScoreSettings

    def describe(self) -> str:
        """See `Config`."""
        return "convolutional network of the whole image"


@MODELS.register("mlp")
class MLPConfig(WholeImageConfig):
    """A fully connected network of the whole image, to compare with."""

    model: Literal["mlp"] = "mlp"
    """A fully connected network of the whole image, to compare with."""
    data: Annotated[ImageDataSettings, Group(DATASETS, default="cluttered")]
    network: MLPSettings
    train: TrainSettings
    score: ScoreSettings

    def describe(self) -> str:
        """See `Config`."""
        return "fully connected network of the whole image"
