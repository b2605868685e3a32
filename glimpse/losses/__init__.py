"""Losses, which are unweighted functions of tensors, and estimators of the gradient of sampled places.

Imports `models` and the packages before it.
Start with `classification.py`; then `policy_gradient.py` and `estimators/`.
"""

from glimpse.files import lazy_exports

_HOMES = {
    "Steps": "classification",
    "advantages": "policy_gradient",
    "baseline_error": "policy_gradient",
    "caption_cross_entropy": "sequences",
    "correct": "classification",
    "cross_entropy": "classification",
    "doubly_stochastic": "sequences",
    "halting_cost": "halting",
    "halting_distribution": "halting",
    "leave_one_out": "policy_gradient",
    "log_likelihood": "classification",
    "normalize": "policy_gradient",
    "reinforce": "policy_gradient",
    "returns": "policy_gradient",
    "rewards": "policy_gradient",
    "step_numbers": "halting",
    "token_mask": "sequences",
}

__all__ = list(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
