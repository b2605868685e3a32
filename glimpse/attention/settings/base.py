"""Base classes of the settings of sensors and attentions, and their registries."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from glimpse.attention.placement import RULES, PlacementRule
from glimpse.config.registry import Registry
from glimpse.config.schema import OneOf, Settings

if TYPE_CHECKING:
    from glimpse.attention.annotation import Attention
    from glimpse.attention.reading import AttentionBase
    from glimpse.attention.sensor import Sensor

ReadMode = Literal["hard", "soft"]
ScorerName = Literal["additive", "dot", "bilinear", "scaled_dot"]
SAME_SIZE_SCORERS = ("dot",)  # that need states and annotations of the same size
LEARNED = "learned"  # in the place of a rule: the model chooses


class SensorSettings(Settings):
    """sensor: what a glimpse is."""

    group = "sensor"
    kind: str

    def build(self) -> "Sensor":
        """Make the sensor."""
        raise NotImplementedError


SENSORS: Registry[type[SensorSettings]] = Registry("sensor.kind")


SENSORS: Registry[type[SensorSettings]] = Registry("sensor.kind")


class AttentionSettings(Settings):
    """attention: where to look."""

    group = "attention"
    has_choice: ClassVar[bool] = True
    """Whether there is more than one place to look at."""

    @property
    def needs_same_size(self) -> bool:
        """Whether its scorer needs states and annotations of the same size."""
        return getattr(self, "scorer", None) in SAME_SIZE_SCORERS

    kind: str


class GlimpseAttentionSettings(AttentionSettings):
    """attention: where to look in an image, glimpse by glimpse."""

    policy: Annotated[str, OneOf(RULES, LEARNED)] = LEARNED
    """Who places the glimpses: the model; or, as a control that learns no policy, a rule; the oracle knows the box."""
    first: Annotated[str, OneOf(RULES, LEARNED)] = "center"
    """The first glimpse of a learned policy: by a rule, or chosen too."""

    @property
    def learned(self) -> bool:
        """Whether the model chooses its glimpses, but perhaps the first."""
        return self.policy == LEARNED

    @property
    def first_rule(self) -> PlacementRule | None:
        """The rule that places the first glimpse, or all of them; None if the model chooses the first too."""
        name = self.first if self.learned else self.policy
        return None if name == LEARNED else RULES[name]

    @property
    def needs_boxes(self) -> bool:
        """Whether the glimpses are placed by a rule that must know where the digits are."""
        return self.first_rule is not None and self.first_rule.needs_boxes

    def build(self, *, state_dim: int, annotation_dim: int, read: ReadMode) -> "AttentionBase":
        """Make the attention of a state to glimpses that are encoded as annotations of a size."""
        raise NotImplementedError

    def glimpse_options(self) -> dict[str, Any]:
        """What the glimpses of this kind are told beyond sensor, network and attention."""
        return {}

    def initialize(self, attention: "AttentionBase") -> None:
        """Set what a training begins with, in an attention whose weights came from another run."""

    def on_progress(self, attention: "AttentionBase", progress: float) -> None:
        """Set what changes in the course of the training, from 0 to 1."""

    def options_for(self, read: ReadMode) -> str:
        """Settings, as on a command line, that suit a read mode other than the one they were chosen for."""
        return ""


class AnnotationAttentionSettings(AttentionSettings):
    """attention: where to look among annotations, word by word."""

    scorer: ScorerName = "additive"
    """How the relevance of an annotation is computed; dot needs a state of the size of an annotation."""
    scorer_dim: int = 128
    """Size of the space where additive and scaled dot-product scores are computed, and of the hidden layer that places
    a window."""

    def check(self) -> None:
        """Check the ranges."""
        self.require_positive("scorer_dim")

    def build(self, *, state_dim: int, annotation_dim: int, read: ReadMode, axes: int) -> "Attention":
        """Make the attention of a state to annotations of a size, in a row or (`axes` 2) on a grid."""
        return build_attention(self, state_dim, annotation_dim, read, axes)


ATTENTIONS: Registry[type[AttentionSettings]] = Registry("attention.kind")


def build_attention(
    settings: Any,
    state_dim: int,
    annotation_dim: int,
    read: ReadMode,
    axes: int,
) -> "Attention":
    """Make the attention to annotations of a size that settings with a scorer, and perhaps a window, describe."""
    from glimpse.attention.annotation import Attention

    return Attention(
        state_dim=state_dim,
        annotation_dim=annotation_dim,
        mode=read,
        scorer=settings.scorer,
        dim=settings.scorer_dim,
        window=getattr(settings, "window", None),
        axes=axes,
    )
