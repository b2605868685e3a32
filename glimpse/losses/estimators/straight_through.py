"""The straight-through estimator: a sampled place forward, the gradient of the expectation backward.

Bengio et al., 2013 (arXiv:1308.3432). There is no log-probability, no reward and no baseline: what is read at the
sampled place carries the gradient that a soft read at the same weights would have (`read(..., straight_through=True)`).
It has little variance and is biased, unless what follows the read is linear in it.
"""

from typing import ClassVar, Literal

from glimpse.losses.estimators.base import ESTIMATORS, Estimator


@ESTIMATORS.register("straight_through")
class StraightThrough(Estimator):
    """estimator: straight-through, the gradient of the expectation behind a sampled place."""

    straight_through: ClassVar[bool] = True
    kind: Literal["straight_through"] = "straight_through"
    """Straight-through."""
