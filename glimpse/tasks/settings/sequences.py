"""Configs of the models that write words: captions and translations."""

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
from glimpse.tasks.train_settings import SequenceScoreSettings, TrainSettings

if TYPE_CHECKING:
    from glimpse.models.decoding import BeamSearch
    from glimpse.models.recurrent_attention import RecurrentAttention
    from glimpse.models.whole_image import WholeImage

    Classifier = RecurrentAttention | WholeImage
from glimpse.tasks.settings.base import MODELS, Config, require_equal


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
        if self.attention.needs_same_size:
            require_equal(self, "the size of an annotation", size, "decoder.state_dim", self.decoder.state_dim)
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
