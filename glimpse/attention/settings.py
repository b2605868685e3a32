"""Settings of sensors and of attention."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from glimpse.attention.placement import RULES, PlacementRule
from glimpse.config.registry import Registry
from glimpse.config.schema import OneOf, Settings

if TYPE_CHECKING:
    from glimpse.attention.annotation import Attention
    from glimpse.attention.reading import AttentionBase, LocationAttention
    from glimpse.attention.sensor import Sensor

ReadMode = Literal["hard", "soft"]
ScorerName = Literal["additive", "dot", "bilinear", "scaled_dot"]


class SensorSettings(Settings):
    """sensor: what a glimpse is."""

    group = "sensor"
    kind: str

    def build(self) -> "Sensor":
        """Make the sensor."""
        raise NotImplementedError


SENSORS: Registry[type[SensorSettings]] = Registry("sensor.kind")


@SENSORS.register("pyramid")
class PyramidSettings(SensorSettings):
    """sensor: concentric squares, each reduced to the same number of pixels."""

    kind: Literal["pyramid"] = "pyramid"
    """Concentric squares, each reduced to the same number of pixels."""
    patch_size: int = 12
    """Side G of the smallest square, in pixels, and of every patch."""
    num_scales: int = 3
    """Number K of concentric squares."""
    scale_factor: int = 2
    """How many times as wide each square is as the one before."""
    background: float = 0.0
    """What is seen outside the image; pixels are in [0, 1]."""

    def check(self) -> None:
        """Check the ranges."""
        self.require_positive("patch_size", "num_scales", "scale_factor")
        self.require(
            self.scale_factor > 1 or self.num_scales == 1,
            "scale_factor",
            f"at least 2 with {self.num_scales} scales (else they are all the same)",
        )

    def build(self) -> "Sensor":
        """Make the sensor."""
        from glimpse.attention.sensor import Sensor

        return Sensor(
            patch_size=self.patch_size,
            num_scales=self.num_scales,
            scale_factor=self.scale_factor,
            background=self.background,
        )


class AttentionSettings(Settings):
    """attention: where to look."""

    group = "attention"
    has_choice: ClassVar[bool] = True
    """Whether there is more than one place to look at."""
    kind: str


class GlimpseAttentionSettings(AttentionSettings):
    """attention: where to look in an image, glimpse by glimpse."""

    policy: Annotated[str, OneOf(RULES, "learned")] = "learned"
    """Who places the glimpses: the model; or, as a control that learns no policy, a rule; the oracle knows the box."""
    first: Annotated[str, OneOf(RULES, "learned")] = "center"
    """The first glimpse of a learned policy: by a rule, or chosen too."""

    @property
    def learned(self) -> bool:
        """Whether the model chooses its glimpses, but perhaps the first."""
        return self.policy == "learned"

    @property
    def first_rule(self) -> PlacementRule | None:
        """The rule that places the first glimpse, or all of them; None if the model chooses the first too."""
        name = self.first if self.learned else self.policy
        return None if name == "learned" else RULES[name]

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
        return _attention(self, state_dim, annotation_dim, read, axes)


ATTENTIONS: Registry[type[AttentionSettings]] = Registry("attention.kind")


@ATTENTIONS.register("plane")
class PlaneSettings(GlimpseAttentionSettings):
    """attention: any point of the plane, under a Gaussian."""

    kind: Literal["plane"] = "plane"
    """Any point of the plane, under a Gaussian."""
    std: float = 0.2
    """Standard deviation of the location; the half side of the image is 1."""
    std_final: float | None = 0.05
    """Let the std change to this while training, geometrically; null keeps it."""
    std_anneal: float = 0.8
    """Fraction of the training after which std_final is reached."""
    learn_std: bool = False
    """Let the model choose the std, starting from `std`; std_final then has no effect."""
    tanh_mean: bool = True
    """Keep the mean location on the image by tanh."""
    max_grad_norm: float | None = 0.5
    """Largest norm of the gradient of an image's loss with respect to a location that is read softly; null for no
    limit."""

    def check(self) -> None:
        """Check the ranges."""
        self.require_positive("std")
        self.require(self.std_final is None or self.std_final > 0, "std_final", "null or positive")
        self.require(self.max_grad_norm is None or self.max_grad_norm > 0, "max_grad_norm", "null or positive")
        self.require(0 < self.std_anneal <= 1, "std_anneal", "in (0, 1]")

    def build(self, *, state_dim: int, annotation_dim: int, read: ReadMode) -> "LocationAttention":
        """See `GlimpseAttentionSettings`."""
        from glimpse.attention.reading import LocationAttention

        return LocationAttention(
            state_dim=state_dim,
            mode=read,
            std=self.std,
            learn_std=self.learn_std,
            tanh_mean=self.tanh_mean,
            max_grad_norm=self.max_grad_norm,
        )

    def initialize(self, attention: "LocationAttention") -> None:
        """See `GlimpseAttentionSettings`: the std at the end of another run is not where this one begins."""
        attention.set_std(self.std)

    def on_progress(self, attention: "LocationAttention", progress: float) -> None:
        """See `GlimpseAttentionSettings`: the std goes geometrically from `std` to `std_final`."""
        if self.std_final is not None and not self.learn_std:
            attention.set_std(self.std * (self.std_final / self.std) ** min(1.0, progress / self.std_anneal))

    def options_for(self, read: ReadMode) -> str:
        """See `GlimpseAttentionSettings`: a hard read explores with its std, and to a soft one it is a blur."""
        std, final, anneal = {"hard": (0.2, 0.05, 0.8), "soft": (0.1, 0.01, 0.4)}[read]
        return f" --attention.std {std} --attention.std_final {final} --attention.std_anneal {anneal}"


@ATTENTIONS.register("grid")
class GridSettings(GlimpseAttentionSettings):
    """attention: the cells of a grid of glimpses."""

    kind: Literal["grid"] = "grid"
    """The cells of a grid of glimpses, all encoded before the first is chosen."""
    grid: tuple[int, int] = (5, 5)
    """Number of rows and columns."""
    scorer: ScorerName = "additive"
    """How the relevance of a cell is computed; dot needs a state of the size of a glimpse vector."""
    scorer_dim: int = 128
    """Size of the space where additive and scaled dot-product scores are computed, and of the hidden layer that places
    a window."""
    window: int | None = None
    """Look only so many cells to either side of a point that the state predicts; null: anywhere."""

    def check(self) -> None:
        """Check the ranges."""
        self.require_positive("scorer_dim")
        self.require(min(self.grid) >= 1, "grid", "two numbers of at least 1")
        self.require(self.window is None or self.window >= 1, "window", "null or at least 1")

    def build(self, *, state_dim: int, annotation_dim: int, read: ReadMode) -> "Attention":
        """See `GlimpseAttentionSettings`."""
        return _attention(self, state_dim, annotation_dim, read, 2)

    def glimpse_options(self) -> dict[str, Any]:
        """See `GlimpseAttentionSettings`."""
        return {"grid": self.grid}


class WindowedSettings(AnnotationAttentionSettings):
    """attention: annotations, all of them or those in a window."""

    window: int | None = None
    """Look only so many annotations to either side of a point that the state predicts; null: anywhere."""

    def check(self) -> None:
        """Check the ranges."""
        super().check()
        self.require(self.window is None or self.window >= 1, "window", "null or at least 1")


@ATTENTIONS.register("feature_map")
class FeatureMapSettings(WindowedSettings):
    """attention: the cells of the map of features that an image encoder makes."""

    kind: Literal["feature_map"] = "feature_map"
    """The cells of the map of features that an image encoder makes."""


class SentenceAttentionSettings(AnnotationAttentionSettings):
    """attention: to a sentence."""


@ATTENTIONS.register("words")
class WordsSettings(WindowedSettings, SentenceAttentionSettings):
    """attention: the words of the sentence."""

    kind: Literal["words"] = "words"
    """The words of the sentence."""


@ATTENTIONS.register("final_state")
class FinalStateSettings(SentenceAttentionSettings):
    """attention: none; one annotation stands for the whole sentence, as in plain sequence-to-sequence models."""

    has_choice = False
    kind: Literal["final_state"] = "final_state"
    """No attention: one annotation stands for the whole sentence, as in plain sequence-to-sequence models."""


def _attention(
    settings: "GridSettings | AnnotationAttentionSettings",
    state_dim: int,
    annotation_dim: int,
    read: ReadMode,
    axes: int,
) -> "Attention":
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
