"""Recurrent visual attention with hard and soft glimpses."""

from importlib import import_module
from typing import Any

import glimpse.envs  # noqa: F401  registers the environments

__version__ = "0.1.0"

# Where each public name lives. They are imported when first used, so that the scripts can answer --help and a mistyped
# setting without waiting for torch.
_HOMES = {
    "Attention": "attention",
    "Categorical": "places",
    "Config": "config",
    "Gaussian": "places",
    "LocationAttention": "attention",
    "Noise": "places",
    "Reading": "attention",
    "RecurrentAttention": "classifier",
    "Rollout": "classifier",
    "Sensor": "sensor",
    "build_data": "build",
    "build_model": "build",
    "load": "loading",
    "read": "attention",
    "shipped_models": "shipped",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'glimpse' has no attribute {name!r}")
    return getattr(import_module(f"glimpse.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
