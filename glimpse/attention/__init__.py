"""Attention is a distribution over places, and there are two ways to read from it, hard and soft.

Imports `data` and the packages before it.
Start with `reading.py`.
"""

from glimpse.files import lazy_exports

_HOMES = {
    "Annotations": "annotation",
    "Attention": "annotation",
    "Categorical": "distributions",
    "Gaussian": "distributions",
    "LocationAttention": "reading",
    "Memory": "reading",
    "Noise": "distributions",
    "Reading": "reading",
    "Sensor": "sensor",
    "read": "reading",
}

__all__ = list(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
