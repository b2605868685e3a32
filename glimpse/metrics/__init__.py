"""Scores of predictions, captions and translations, with confidence intervals and significance tests.

Imports `attention` and the packages before it.
Start with `classification.py`.
"""

from glimpse.files import lazy_exports

_HOMES = {
    "Estimate": "statistics",
    "Paired": "statistics",
    "confidence": "classification",
    "on_target": "classification",
    "over_seeds": "statistics",
    "paired": "statistics",
    "wilson_interval": "statistics",
}

__all__ = list(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
