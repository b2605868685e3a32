"""Configs of the models that generate text: captioners and translators."""

from typing import TYPE_CHECKING, Annotated, Literal

from glimpse.attention.settings import (
    ATTENTIONS,
    AnnotationAttentionSettings,
    FeatureMapSettings,
    ReadMode,
    SentenceAttentionSettings,
)
from glimpse.config.schema import Group
from glimpse.data.settings import DATASETS, CaptionDataSettings, SentenceDataSettings
from glimpse.losses.estimators import ESTIMATORS, Estimator
from glimpse.losses.policy_gradient import BASELINES, REWARDS
from glimpse.losses.settings import CaptionLossSettings
from glimpse.models.settings import (
    ENCODERS,
    DecoderSettings,
    EncoderSettings,
    ImageEncoderSettings,
    SentenceEncoderSettings,
)
from glimpse.tasks.settings.base import MODELS, Config, require_equal
from glimpse.tasks.train_settings import SequenceScoreSettings, TrainSettings

if TYPE_CHECKING:
    from glimpse.models.decoding import BeamSearch


class SequenceConfig(Config):
    """The settings of an encoder-decoder that generates text word by word."""

    read: ReadMode = "hard"
    """hard: sample one annotation per word, trained with `estimator`; soft: read the weighted sum of all annotations,
    trained by back-propagation."""

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
        """The beam search of the test."""
        from glimpse.models.decoding import BeamSearch

        return BeamSearch(self.score.beam_width, self.score.length_penalty, self.decoder.max_length)

    def check_annotations(self, size: int) -> None:
        """Raise ConfigError if settings do not fit annotations of this size, which may depend on the built encoder."""
        if self.attention.needs_same_size:
            scorer, state_dim = self.attention.scorer, self.decoder.state_dim
            require_equal(self, scorer, "the size of an annotation", size, "decoder.state_dim", state_dim)
        self.require(
            self.encoder.self_attention_layers == 0 or size % self.encoder.num_heads == 0,
            "encoder.num_heads",
            f"a divisor of the size of an annotation, {size}, with encoder.self_attention_layers",
            self.encoder.num_heads,
        )

    def check(self) -> None:
        """Check the rules between groups."""
        super().check()
        # Only some kinds of estimator have these settings.
        reward, baseline = getattr(self.estimator, "reward", None), getattr(self.estimator, "baseline", None)
        rewards = [name for name, entry in REWARDS.items() if not entry.same_target]
        baselines = [name for name, entry in BASELINES.items() if not entry.needs_values]
        self._check_choice("estimator.reward", reward, rewards)
        self._check_choice("estimator.baseline", baseline, baselines)

    def _check_choice(self, key: str, name: str | None, valid: list[str]) -> None:
        self.require(name is None or name in valid, key, f"one of {', '.join(valid)} with model {self.model}", name)

    def idle(self) -> set[str]:
        """The estimator of a soft model; the read mode of scoring that is the model's own."""
        idle = {"estimator"} if self.read == "soft" else set()
        return {*idle, "score.read"} if self.score.read in (None, self.read) else idle


@MODELS.register("captioner")
class CaptioningConfig(SequenceConfig):
    """The settings of a captioner: an image encoder computes a grid of annotations, and a decoder attends to it."""

    task = "captioning"
    model: Literal["captioner"] = "captioner"
    """Image captioning: an encoder computes a grid of annotations, and a decoder attends to it for each word."""
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
        """Check the rules between groups."""
        super().check()
        if self.encoder.known_dim:
            self.check_annotations(dict(self.encoder.items())["encoder.dim"])
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
            f"null with data.kind {self.data.kind}, whose images are different in each epoch",
            cache,
        )


@MODELS.register("translator")
class TranslationConfig(SequenceConfig):
    """The settings of a translator: an encoder computes an annotation of each word, and a decoder attends to them."""

    task = "translation"
    no_read = "one annotation"
    model: Literal["translator"] = "translator"
    """Translation: an encoder computes an annotation of each source word, and a decoder attends to them."""
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
        """Check the rules between groups."""
        super().check()
        self.check_annotations(self.encoder.dim)
        self.require(
            self.attention.has_choice or self.encoder.self_attention_layers == 0,
            "encoder.self_attention_layers",
            f"0 with attention.kind {self.attention.kind}, which has a single annotation",
            self.encoder.self_attention_layers,
        )

    def idle(self) -> set[str]:
        """See `SequenceConfig`; with one annotation also what decides how to choose one.

        A hard read draws random numbers all the same, and its rollouts repeat the batch: both change the dropout.
        """
        idle = super().idle()
        if self.attention.has_choice:
            return idle
        idle.add("score.read")
        if self.encoder.dropout == self.decoder.dropout == 0:
            idle |= {"read", "estimator"}
        return idle if self.attention.trains_values else {*idle, "train.attention_lr_mult"}
