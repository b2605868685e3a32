"""Recurrent visual attention with hard and soft glimpses."""

import glimpse.envs  # noqa: F401  registers the environments
import glimpse.moved  # noqa: F401  finds the modules of version 0.1
from glimpse.files import lazy_exports

__version__ = "0.1.0"

# The module that defines each public name.
_HOMES = {
    "Attention": "attention.annotation",
    "Categorical": "attention.distributions",
    "Config": "tasks.settings",
    "Gaussian": "attention.distributions",
    "LocationAttention": "attention.reading",
    "Noise": "attention.distributions",
    "Reading": "attention.reading",
    "RecurrentAttention": "models.recurrent_attention",
    "Rollout": "models.rollout",
    "Sensor": "attention.sensor",
    "build_data": "tasks.build",
    "build_model": "tasks.build",
    "load": "training.load",
    "read": "attention.reading",
    "shipped_models": "training.zoo",
}

__all__ = list(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
