"""Settings of losses. The settings of estimators are the estimator classes themselves (`estimators/`)."""

from typing import Literal

from glimpse.config.schema import Settings


class ClassificationLossSettings(Settings):
    """loss: terms of the loss besides those of the estimator."""

    group = "loss"
    cross_entropy_at: Literal["every_step", "last_step"] = "every_step"
    """Cross-entropy after every glimpse, or after the last as in the paper."""
    glimpse_cost: float = 0.01
    """Cost per glimpse in the loss of network.halting_unit, in nats of cross-entropy."""

    def check(self) -> None:
        """Check the ranges."""
        self.require(self.glimpse_cost >= 0, "glimpse_cost", "at least 0")


class CaptionLossSettings(Settings):
    """loss: terms of the loss besides those of the estimator."""

    group = "loss"
    doubly_stochastic: float = 0.0
    """Weight of the penalty for annotations whose attention weights, summed over the words, differ from 1."""

    def check(self) -> None:
        """Check the ranges."""
        self.require(self.doubly_stochastic >= 0, "doubly_stochastic", "at least 0")
