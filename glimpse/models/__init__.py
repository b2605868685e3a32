"""The networks: recurrent attention, whole-image networks, encoders, decoder.

Imports `metrics` and the packages before it.
Start with `recurrent_attention.py`.
"""

from glimpse.files import lazy_exports

_HOMES = {
    "RecurrentAttention": "recurrent_attention",
    "Rollout": "rollout",
    "WholeImage": "whole_image",
}

__all__ = list(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
