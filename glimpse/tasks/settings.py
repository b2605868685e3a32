"""Whole configs: one class per model, joined from the settings of its groups; and how they are read from files.

`load_config("configs/cluttered60_soft.yaml", ["--train.epochs=5"])` reads one. `sensor: {patch_size: 8}` in a file is
`config.sensor.patch_size` and `--sensor.patch_size 8`. A file holds only what differs from the defaults.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from glimpse.attention.settings import (
    ATTENTIONS,
    SENSORS,
    AnnotationAttentionSettings,
    FeatureMapSettings,
    GlimpseAttentionSettings,
    ReadMode,
    SensorSettings,
    SentenceAttentionSettings,
)
from glimpse.config import load, upgrade
from glimpse.config.registry import Registry
from glimpse.config.schema import Group, Settings
from glimpse.data.settings import DATASETS, CaptionDataSettings, DataSettings, ImageDataSettings, SentenceDataSettings
from glimpse.losses.baseline import BASELINES
from glimpse.losses.estimators import ESTIMATORS, Estimator
from glimpse.losses.reward import REWARDS
from glimpse.losses.settings import CaptionLossSettings, ClassificationLossSettings
from glimpse.models.settings import (
    ENCODERS,
    CNNSettings,
    DecoderSettings,
    EncoderSettings,
    ImageEncoderSettings,
    MLPSettings,
    NetworkSettings,
    SentenceEncoderSettings,
)
from glimpse.tasks.train_settings import GlimpseScoreSettings, ScoreSettings, SequenceScoreSettings, TrainSettings

if TYPE_CHECKING:
    from glimpse.models.decoding import BeamSearch
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


def _require_equal(config: Config, what: str, size: int, key: str, value: int) -> None:
    config.require(size == value, key, f"{size}, {what}, with attention.scorer dot (bilinear takes any)", value)


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
        if getattr(self.attention, "scorer", None) == "dot":
            network = self.network
            _require_equal(self, "network.glimpse_dim", network.glimpse_dim, "network.state_dim", network.state_dim)
            self.require(
                not self.estimator.detaches_state
                or getattr(self.attention, "window", None) is not None
                or self.read == "soft"
                or self.estimator.mixes,
                "estimator.backprop_to_state",
                "true with attention.scorer dot and no attention.window, or nothing would learn where to look",
                False,
            )

    def idle(self) -> set[str]:
        """The estimator of a soft read; a limit of gradients of soft reads; the price of glimpses, if none stops."""
        idle = {"estimator"} if self.read == "soft" else set()
        if self.read == "hard" and not self.estimator.mixes:
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


class SequenceConfig(Config):
    """The settings of a model that writes words."""

    read: ReadMode = "hard"
    """Sample one place to look and learn by REINFORCE, or take the expectation and learn by back-propagation."""

    if TYPE_CHECKING:
        encoder: EncoderSettings
        decoder: DecoderSettings
        attention: AnnotationAttentionSettings
        estimator: Estimator
        score: SequenceScoreSettings

    @property
    def scored_read(self) -> ReadMode | None:
        """See `Config`."""
        return (self.score.read or self.read) if self.attention.has_choice else None

    def search(self) -> "BeamSearch":
        """How the test searches for sentences."""
        from glimpse.models.decoding import BeamSearch

        return BeamSearch(self.score.beam_width, self.score.length_penalty, self.decoder.max_length)

    def check_annotations(self, size: int) -> None:
        """Refuse settings that do not go together with annotations of this size, which only the encoder may know."""
        if self.attention.scorer == "dot":
            _require_equal(self, "the size of an annotation", size, "decoder.state_dim", self.decoder.state_dim)
        self.require(
            self.encoder.self_attention_layers == 0 or size % self.encoder.num_heads == 0,
            "encoder.num_heads",
            f"a divisor of the size of an annotation, {size}, with encoder.self_attention_layers",
            self.encoder.num_heads,
        )

    def check(self) -> None:
        """Check what concerns several groups."""
        super().check()
        reward, baseline = getattr(self.estimator, "reward", None), getattr(self.estimator, "baseline", None)
        self._check_part("estimator.reward", reward, [name for name, its in REWARDS.items() if not its.same_target])
        self._check_part(
            "estimator.baseline", baseline, [name for name, its in BASELINES.items() if not its.needs_values]
        )

    def _check_part(self, key: str, name: str | None, valid: list[str]) -> None:
        self.require(name is None or name in valid, key, f"one of {', '.join(valid)} with model {self.model}", name)

    def idle(self) -> set[str]:
        """The estimator of a soft read."""
        return {"estimator"} if self.read == "soft" else set()


@MODELS.register("captioner")
class CaptioningConfig(SequenceConfig):
    """Captions of images: an encoder makes a map of annotations, a decoder attends to it and writes."""

    task = "captioning"
    model: Literal["captioner"] = "captioner"
    """Captions of images: an encoder makes a map of annotations, a decoder attends to it and writes."""
    data: Annotated[CaptionDataSettings, Group(DATASETS, default="digit_captions")]
    encoder: Annotated[ImageEncoderSettings, Group(ENCODERS, default="small")]
    decoder: DecoderSettings
    attention: Annotated[FeatureMapSettings, Group(ATTENTIONS, default="feature_map")]
    estimator: Annotated[Estimator, Group(ESTIMATORS, default="reinforce", baseline="moving_average", normalize=False)]
    loss: CaptionLossSettings
    train: TrainSettings
    score: SequenceScoreSettings

    def describe(self) -> str:
        """See `Config`."""
        return f"captions with {self.read} attention"

    def check(self) -> None:
        """Check what concerns several groups."""
        super().check()
        if self.encoder.known_dim:
            self.check_annotations(self.encoder.dim)
        start = self.encoder.unfrozen_at
        self.require(
            start is None or start <= self.train.epochs,
            "encoder.unfreeze_epoch",
            f"null or at most train.epochs {self.train.epochs}",
            start,
        )
        cache = self.encoder.cache_folder
        self.require(
            cache is None or self.data.fixed_images,
            "encoder.feature_cache",
            f"null with data.kind {self.data.kind}, whose images are never the same",
            cache,
        )


@MODELS.register("translator")
class TranslationConfig(SequenceConfig):
    """Translations of sentences: an encoder makes an annotation of each word, a decoder attends to them and writes."""

    task = "translation"
    no_read = "one annotation"
    model: Literal["translator"] = "translator"
    """Translations of sentences: an encoder makes an annotation of each word, a decoder attends to them and writes."""
    data: Annotated[SentenceDataSettings, Group(DATASETS, default="dates")]
    encoder: Annotated[SentenceEncoderSettings, Group(ENCODERS, default="sentence")]
    decoder: DecoderSettings
    attention: Annotated[SentenceAttentionSettings, Group(ATTENTIONS, default="words")]
    estimator: Annotated[Estimator, Group(ESTIMATORS, default="reinforce", baseline="moving_average", normalize=False)]
    train: TrainSettings
    score: SequenceScoreSettings

    def describe(self) -> str:
        """See `Config`."""
        return f"translation {f'with {self.read}' if self.attention.has_choice else 'without'} attention"

    def check(self) -> None:
        """Check what concerns several groups."""
        super().check()
        self.check_annotations(self.encoder.dim)
        self.require(
            self.attention.has_choice or self.encoder.self_attention_layers == 0,
            "encoder.self_attention_layers",
            f"0 with attention.kind {self.attention.kind}, where there is one annotation only",
            self.encoder.self_attention_layers,
        )


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
