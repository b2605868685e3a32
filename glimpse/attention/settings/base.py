"""Base classes of the settings of sensors and attentions, and their registries."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol

from glimpse.attention.placement import RULES, PlacementRule
from glimpse.config.registry import Registry
from glimpse.config.schema import OneOf, Settings

if TYPE_CHECKING:
    from glimpse.attention.annotation import Attention
    from glimpse.attention.reading import AttentionBase
    from glimpse.attention.sensor import ImageSensor

ReadMode = Literal["hard", "soft"]
ScorerName = Literal["additive", "dot", "bilinear", "scaled_dot"]
SAME_SIZE_SCORERS = ("dot",)  # scorers whose states and annotations must have the same size
SCORERS_WITH_DIM = ("additive", "scaled_dot")  # scorers with a key size
SCORERS_WITH_VALUES = ("scaled_dot",)  # scorers that learn a projection of the annotations that are read
LEARNED = "learned"  # instead of a rule: the model chooses the places


class SensorSettings(Settings):
    """sensor: the patches of a glimpse."""

    group = "sensor"
    kind: str

    def build(self) -> "ImageSensor":
        """Make the sensor."""
        raise NotImplementedError


SENSORS: Registry[type[SensorSettings]] = Registry("sensor.kind")


class AttentionSettings(Settings):
    """attention: where to look."""

    group = "attention"
    has_choice: ClassVar[bool] = True
    """Whether there is more than one place."""
    kind: str

    @property
    def needs_same_size(self) -> bool:
        """Whether the scorer needs states and annotations of the same size."""
        return getattr(self, "scorer", None) in SAME_SIZE_SCORERS


class GlimpseAttentionSettings(AttentionSettings):
    """attention: where to look in an image, glimpse by glimpse."""

    location_dim: ClassVar[int] = 2
    """Number P of numbers of a location: x, y and, with some kinds, more."""
    policy: Annotated[str, OneOf(RULES, LEARNED)] = LEARNED
    """How locations are chosen: by the model (learned), or by a rule, as a control; oracle needs bounding boxes."""
    first: Annotated[str, OneOf(RULES, LEARNED)] = "center"
    """How the first location of a learned policy is chosen: by a rule, or by the model (learned)."""

    @property
    def learned(self) -> bool:
        """Whether the model chooses the locations; the first one may still be chosen by a rule."""
        return self.policy == LEARNED

    @property
    def first_rule(self) -> PlacementRule | None:
        """The rule that places the first glimpse or all glimpses; None if the model chooses all."""
        name = self.first if self.learned else self.policy
        return None if name == LEARNED else RULES[name]

    @property
    def needs_boxes(self) -> bool:
        """Whether glimpses are placed by a rule that needs the boxes of the digits."""
        return self.first_rule is not None and self.first_rule.needs_boxes

    @property
    def trains_values(self) -> bool:
        """Whether the attention has parameters that are trained even if rules place all glimpses."""
        return False

    def num_choices(self, num_glimpses: int) -> int:
        """The number of glimpses that the model places."""
        return num_glimpses - (self.first_rule is not None) if self.learned else 0

    def idle(self) -> set[str]:
        """The first location of a learned policy, with a rule."""
        return set() if self.learned else {"first"}

    def idle_when_placed(self, *, soft: bool) -> set[str]:
        """The settings that have no effect if rules place all glimpses.

        Args:
            soft: Whether reads are soft, in training or in scoring.
        """
        return set()

    def build(self, *, state_dim: int, annotation_dim: int, read: ReadMode) -> "AttentionBase":
        """Make the attention.

        Args:
            state_dim: Size of the state.
            annotation_dim: Size of a glimpse vector.
            read: Read mode.
        """
        raise NotImplementedError

    def glimpse_options(self) -> dict[str, Any]:
        """Return further arguments of this kind of glimpses, besides sensor, network and attention."""
        return {}

    def initialize(self, attention: "AttentionBase") -> None:
        """Reset scheduled values, after the weights were loaded from another run."""

    def on_progress(self, attention: "AttentionBase", progress: float) -> None:
        """Update scheduled values to the progress of the training, from 0 to 1."""

    def options_for(self, read: ReadMode) -> str:
        """Return command-line settings that suit another read mode than that of the config."""
        return ""


class AnnotationAttentionSettings(AttentionSettings):
    """attention: where to look among annotations, for each word."""

    scorer: ScorerName = "additive"
    """Score function of a state and an annotation; dot needs both to have the same size."""
    scorer_dim: int = 128
    """Key size of additive and scaled dot-product scores; hidden size of the network that predicts the window."""

    def check(self) -> None:
        """Check the ranges."""
        self.require_positive("scorer_dim")

    @property
    def trains_values(self) -> bool:
        """Whether the attention has parameters that are trained even if there is only one place."""
        return self.scorer in SCORERS_WITH_VALUES

    def idle(self) -> set[str]:
        """The key size, if nothing has it."""
        return idle_scorer_dim(self)

    def build(self, *, state_dim: int, annotation_dim: int, read: ReadMode, axes: int) -> "Attention":
        """Make the attention.

        Args:
            state_dim: Size of the state.
            annotation_dim: Size of an annotation.
            read: Read mode.
            axes: 1 if the annotations are a sequence, 2 if they are a grid.
        """
        return build_attention(self, state_dim, annotation_dim, read, axes)


ATTENTIONS: Registry[type[AttentionSettings]] = Registry("attention.kind")


class ScorerSettings(Protocol):
    """Settings with a scorer and, optionally, a `window`."""

    scorer: ScorerName
    scorer_dim: int


def idle_scorer_dim(settings: ScorerSettings) -> set[str]:
    """The key size, if neither the scorer nor a window has it."""
    uses = settings.scorer in SCORERS_WITH_DIM or getattr(settings, "window", None) is not None
    return set() if uses else {"scorer_dim"}


def build_attention(
    settings: ScorerSettings, state_dim: int, annotation_dim: int, read: ReadMode, axes: int
) -> "Attention":
    """Make attention to annotations with the scorer and the window, if any, of settings."""
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
