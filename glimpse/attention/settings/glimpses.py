"""Settings of the places of glimpses: points of the plane, or the cells of a grid."""

from typing import TYPE_CHECKING, Any, Literal

from glimpse.attention.settings.base import (
    ATTENTIONS,
    SCORERS_WITH_VALUES,
    GlimpseAttentionSettings,
    ReadMode,
    ScorerName,
    build_attention,
    idle_scorer_dim,
)

if TYPE_CHECKING:
    from glimpse.attention.annotation import Attention
    from glimpse.attention.reading import AttentionBase, LocationAttention


@ATTENTIONS.register("plane")
class PlaneSettings(GlimpseAttentionSettings):
    """attention: continuous locations with a Gaussian distribution."""

    kind: Literal["plane"] = "plane"
    """Continuous locations with a Gaussian distribution."""
    std: float = 0.2
    """Standard deviation of the location at the start of training; 1 is half the image side."""
    std_final: float | None = 0.05
    """Std at the end of a geometric schedule; null: constant std."""
    std_anneal: float = 0.8
    """Fraction of the training after which std_final is reached."""
    learn_std: bool = False
    """Learn the std as a function of the state, starting from `std`; std_final then has no effect."""
    tanh_mean: bool = True
    """Apply tanh to the mean location, which keeps it on the image."""
    max_grad_norm: float | None = 0.5
    """Maximum norm, per image, of the gradient of a soft read with respect to the location; null: no limit."""

    def check(self) -> None:
        """Check the ranges."""
        self.require_positive("std")
        self.require(self.std_final is None or self.std_final > 0, "std_final", "null or positive")
        self.require(self.max_grad_norm is None or self.max_grad_norm > 0, "max_grad_norm", "null or positive")
        self.require(0 < self.std_anneal <= 1, "std_anneal", "in (0, 1]")

    def idle(self) -> set[str]:
        """See `GlimpseAttentionSettings`; and the schedule of the std, without a final one or if it is learned."""
        if self.learn_std:
            return super().idle() | {"std_final", "std_anneal"}
        return super().idle() | ({"std_anneal"} if self.std_final is None else set())

    def idle_when_placed(self, *, soft: bool) -> set[str]:
        """See `GlimpseAttentionSettings`; the std is the blur of a soft read. `learn_std` changes the weights drawn."""
        unused = {"tanh_mean", "max_grad_norm"}
        return unused if soft else unused | {"std", "std_final", "std_anneal"}

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

    def initialize(self, attention: "AttentionBase") -> None:
        """See `GlimpseAttentionSettings`: the loaded std is that of the end of another run."""
        attention.set_std(self.std)

    def on_progress(self, attention: "AttentionBase", progress: float) -> None:
        """See `GlimpseAttentionSettings`: the std changes geometrically from `std` to `std_final`."""
        if self.std_final is not None and not self.learn_std:
            attention.set_std(self.std * (self.std_final / self.std) ** min(1.0, progress / self.std_anneal))

    def options_for(self, read: ReadMode) -> str:
        """See `GlimpseAttentionSettings`: the std is exploration of a hard read and blur of a soft read."""
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
    """Score function of a state and a glimpse vector; dot needs both to have the same size."""
    scorer_dim: int = 128
    """Key size of additive and scaled dot-product scores; hidden size of the network that predicts the window."""
    window: int | None = None
    """Local attention: radius, in cells, of the window around a predicted point; null: global attention."""

    def check(self) -> None:
        """Check the ranges."""
        self.require_positive("scorer_dim")
        self.require(min(self.grid) >= 1, "grid", "two numbers of at least 1")
        self.require(self.window is None or self.window >= 1, "window", "null or at least 1")

    @property
    def trains_values(self) -> bool:
        """See `GlimpseAttentionSettings`: the cells that are read may be projected."""
        return self.scorer in SCORERS_WITH_VALUES

    def idle(self) -> set[str]:
        """See `GlimpseAttentionSettings`; and the key size, if nothing has it."""
        return super().idle() | idle_scorer_dim(self)

    def build(self, *, state_dim: int, annotation_dim: int, read: ReadMode) -> "Attention":
        """See `GlimpseAttentionSettings`."""
        return build_attention(self, state_dim, annotation_dim, read, 2)

    def glimpse_options(self) -> dict[str, Any]:
        """See `GlimpseAttentionSettings`."""
        return {"grid": self.grid}
