"""Gymnasium environments: an agent moves the glimpse sensor over an image and classifies it.

Imports `training` and the packages before it, but only when an environment is made; importing it registers the ids.
Start with `env.py`: the docstring of `GlimpseEnv` documents all environments.
"""

from typing import Any

import gymnasium

from glimpse.files import lazy_exports

# The module of each public name, imported at first use.
_HOMES = {
    "GlimpseEnv": "env",
    "GlimpseVectorEnv": "vector_env",
    "PlayedEpisodes": "playing",
    "env_options": "playing",
    "play": "playing",
}

# The tasks of Recurrent Models of Visual Attention (arXiv:1406.6247), with the sensors of the configs of these names.
_TASKS: dict[str, dict[str, Any]] = {
    "Cluttered60": {
        "data": {"canvas": 60, "num_distractors": 4},
        "num_glimpses": 6,
        "patch_size": 12,
        "num_scales": 3,
    },
    "Cluttered100": {
        "data": {"canvas": 100, "num_distractors": 8},
        "num_glimpses": 8,
        "patch_size": 12,
        "num_scales": 4,
    },
    "Translated60": {
        "data": {"canvas": 60, "num_distractors": 0},
        "num_glimpses": 6,
        "patch_size": 12,
        "num_scales": 3,
    },
    "MNIST": {
        "data": {"canvas": 28, "num_distractors": 0},
        "num_glimpses": 6,
        "patch_size": 8,
        "num_scales": 1,
        "first": "random",
    },
}
_VARIANTS: dict[str, dict[str, Any]] = {"": {}, "-flat": {"flat": True, "answer": "scores"}}

IDS = tuple(f"glimpse/{task}{variant}-v0" for variant in _VARIANTS for task in _TASKS)

__all__ = ["IDS", *_HOMES]


def _register() -> None:
    for variant, options in _VARIANTS.items():
        for task, settings in _TASKS.items():
            gymnasium.register(
                id=f"glimpse/{task}{variant}-v0",
                entry_point="glimpse.envs.env:GlimpseEnv",
                vector_entry_point="glimpse.envs.vector_env:GlimpseVectorEnv",
                kwargs={**settings, **options},
            )


__getattr__, __dir__ = lazy_exports(__name__, _HOMES, __all__)


_register()
