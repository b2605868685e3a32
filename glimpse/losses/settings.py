"""Settings of losses; those of estimators are the estimators themselves (`estimators/`)."""

from typing import Literal

from glimpse.config.schema import Settings


class ClassificationLossSettings(Settings):
    """loss: what is learned from."""

    group = "loss"
    cross_entropy_at: Literal["every_step", "last_step"] = "every_step"
    """Cross-entropy of the answer after each glimpse, or after the last as in the paper."""
    glimpse_cost: float = 0.01
    """network.halting_unit: cost per glimpse in the halting loss, in nats of cross-entropy."""

    def check(self) -> None:
        """Check the ranges."""
        self.require(self.glimpse_cost >= 0, "glimpse_cost", "at least 0")


class CaptionLossSettings(Settings):
    """loss: what is learned from."""

    group = "loss"
    doubly_stochastic: float = 0.0
    """Weight of the penalty for places that are attended to more or less than once in all."""

    def check(self) -> None:
        """Check the ranges."""
        self.require(self.doubly_stochastic >= 0, "doubly_stochastic", "at least 0")
