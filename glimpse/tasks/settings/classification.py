"""Configs of the models that classify images."""

from typing import TYPE_CHECKING, Annotated, Literal

from glimpse.attention.settings import ATTENTIONS, SENSORS, GlimpseAttentionSettings, ReadMode, SensorSettings
from glimpse.config.schema import Group
from glimpse.data.settings import DATASETS, ImageDataSettings
from glimpse.losses.estimators import ESTIMATORS, Estimator
from glimpse.losses.settings import ClassificationLossSettings
from glimpse.models.settings import CNNSettings, MLPSettings, NetworkSettings
from glimpse.tasks.settings.base import MODELS, Config, require_equal
from glimpse.tasks.train_settings import GlimpseScoreSettings, ScoreSettings, TrainSettings

if TYPE_CHECKING:
    from glimpse.attention.annotation import Attention
    from glimpse.attention.reading import LocationAttention
    from glimpse.models.recurrent_attention import RecurrentAttention
    from glimpse.models.whole_image import WholeImage

    Classifier = RecurrentAttention | WholeImage


class ClassificationConfig(Config):
    """The settings of a model that classifies images."""

    task = "classification"

    if TYPE_CHECKING:
        data: ImageDataSettings

    def build_model(self, image_shape: tuple[int, int, int], num_classes: int) -> "Classifier":
        """Build the model for images of shape (C, H, W)."""
        raise NotImplementedError

    @property
    def choice_estimator(self) -> Estimator | None:
        """The estimator that trains where a hard model looks; None without one."""
        return None

    def initialize_attention(self, model: "Classifier") -> None:
        """Reset what these settings fix in the attention of a model with the weights of another run."""

    def update_attention(self, model: "Classifier", progress: float) -> None:
        """Update the schedules of the attention; `progress` is the fraction of the training that is done."""

    def set_scored_mode(self, model: "Classifier") -> None:
        """Set the read mode of a model to the one in which it is scored."""

    def other_read(self) -> str:
        """Command-line options that train the same model with the other read mode."""
        raise NotImplementedError


@MODELS.register("recurrent_attention")
class RecurrentAttentionConfig(ClassificationConfig):
    """The settings of a recurrent attention model, which takes glimpses of an image and classifies it after each."""

    model: Literal["recurrent_attention"] = "recurrent_attention"
    """Recurrent attention: takes glimpses of an image one after another, and predicts the class after each."""
    read: ReadMode = "hard"
    """hard: sample the location of each glimpse, trained with `estimator`; soft: read the expectation over locations,
    trained by back-propagation."""
    num_glimpses: int = 6
    """Number T of glimpses per image."""
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
        """See `ClassificationConfig`."""
        from glimpse.tasks.build import recurrent_attention

        return recurrent_attention(self, image_shape[0], num_classes)

    @property
    def choice_estimator(self) -> Estimator:
        """See `ClassificationConfig`."""
        return self.estimator

    def initialize_attention(self, model: "Classifier") -> None:
        """See `ClassificationConfig`."""
        self.attention.initialize(_attention_of(model))

    def update_attention(self, model: "Classifier", progress: float) -> None:
        """See `ClassificationConfig`."""
        self.attention.on_progress(_attention_of(model), progress)

    def set_scored_mode(self, model: "Classifier") -> None:
        """See `ClassificationConfig`."""
        _attention_of(model).mode = self.scored_read

    def other_read(self) -> str:
        """See `ClassificationConfig`."""
        other: ReadMode = "soft" if self.read == "hard" else "hard"
        return f"--read {other}{self.attention.options_for(other)}"

    def check(self) -> None:
        """Check the rules between groups."""
        super().check()
        self.require_positive("num_glimpses")
        attention = self.attention
        rule = f"attention.first {attention.first}" if attention.learned else f"attention.policy {attention.policy}"
        with_boxes = [name for name, data in self.groups()["data"].kinds().items() if getattr(data, "has_boxes", False)]
        self.require(
            not attention.needs_boxes or self.data.has_boxes,
            "data.kind",
            f"{' or '.join(with_boxes)} with {rule}, which needs the boxes of the digits",
            self.data.kind,
        )
        self.require(
            self.num_glimpses > 1 or not self.network.halting_unit,
            "network.halting_unit",
            "false with num_glimpses 1",
            self.network.halting_unit,
        )
        if self.attention.needs_same_size:
            network = self.network
            # Only some kinds of attention have these settings.
            scorer, window = getattr(self.attention, "scorer", ""), getattr(self.attention, "window", None)
            size, state_dim = network.glimpse_dim, network.state_dim
            require_equal(self, scorer, "network.glimpse_dim", size, "network.state_dim", state_dim)
            self.require(
                not self.estimator.detaches_state or window is not None or self.read == "soft" or self.estimator.mixes,
                "estimator.backprop_to_state",
                f"true with attention.scorer {scorer} and no attention.window, which have no parameters to train",
                False,
            )

    def idle(self) -> set[str]:
        """What only hard or only soft reads use, or only glimpses that the model places; the cost of glimpses."""
        idle = {"estimator"} if self.read == "soft" else set()
        if self.read == "hard" and not (self.estimator.mixes or self.estimator.straight_through):
            idle.add("attention.max_grad_norm")
        if self.attention.num_choices(self.num_glimpses) == 0:
            soft = "soft" in (self.read, self.scored_read)
            idle |= {"estimator", *map(self.attention.dotted, self.attention.idle_when_placed(soft=soft))}
            if not self.attention.trains_values:
                idle.add("train.attention_lr_mult")
        if self.scored_read == self.read:
            idle.add("score.read")
        return idle if self.network.halting_unit else {*idle, "loss.glimpse_cost"}


def _attention_of(model: "Classifier") -> "LocationAttention | Attention":
    if model.attention is None:
        raise TypeError(f"the model of these settings must take glimpses, got {type(model).__name__}")
    return model.attention


class WholeImageConfig(ClassificationConfig):
    """The settings of a whole-image network."""

    no_read = "whole image"

    if TYPE_CHECKING:
        model: Literal["cnn", "mlp"]
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
    """The settings of a convolutional network of the whole image, a baseline without attention."""

    model: Literal["cnn"] = "cnn"
    """A convolutional network of the whole image: a baseline without attention."""
    data: Annotated[ImageDataSettings, Group(DATASETS, default="cluttered")]
    network: CNNSettings
    train: TrainSettings
    score: ScoreSettings

    def describe(self) -> str:
        """See `Config`."""
        return "convolutional network of the whole image"


@MODELS.register("mlp")
class MLPConfig(WholeImageConfig):
    """The settings of a fully connected network of the whole image, a baseline without attention."""

    model: Literal["mlp"] = "mlp"
    """A fully connected network of the whole image: a baseline without attention."""
    data: Annotated[ImageDataSettings, Group(DATASETS, default="cluttered")]
    network: MLPSettings
    train: TrainSettings
    score: ScoreSettings

    def describe(self) -> str:
        """See `Config`."""
        return "fully connected network of the whole image"
