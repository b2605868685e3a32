"""The straight-through estimator: a hard read in the forward pass, the gradient of the soft read in the backward pass.

Bengio et al., 2013 (arXiv:1308.3432). It needs no log-probability, reward or baseline: the context vector of a hard
read has the gradient of a soft read with the same weights (`read(..., straight_through=True)`). It has low variance,
and is biased unless the loss is linear in the context vector.
"""

from typing import ClassVar, Literal

from glimpse.losses.estimators.base import ESTIMATORS, Estimator


@ESTIMATORS.register("straight_through")
class StraightThrough(Estimator):
    """estimator: straight-through, a hard read forward and the gradient of the soft read backward."""

    straight_through: ClassVar[bool] = True
    kind: Literal["straight_through"] = "straight_through"
    """Straight-through: a hard read in the forward pass, the gradient of the soft read in the backward pass."""
