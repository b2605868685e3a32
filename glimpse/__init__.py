"""Recurrent visual attention with hard and soft glimpses."""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import glimpse.envs  # noqa: F401  registers the environments
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

# Modules of version 0.1, and the modules that define their names now; supported until 0.3.
_MOVED = {
    "build": ("tasks.build", "tasks.base"),
    "captioner": ("models.encoder_decoder", "models.decoder"),
    "classification": ("tasks.classification", "evaluation.classify"),
    "encoders": ("models.image_encoders", "models.backbones"),
    "loading": ("training.load",),
    "parsing": ("tasks.settings",),
    "places": ("attention.distributions", "attention.window"),
    "processes": ("distributed",),
    "runs": ("training.run", "errors", "files", "seeding"),
    "saliency": ("evaluation.saliency",),
    "search": ("models.decoding",),
    "self_attention": ("attention.self_attention",),
    "sensor": ("attention.sensor", "attention.sensor_views"),
    "sentences": ("models.sentence_encoder", "models.encoder_decoder"),
    "settings": ("errors",),
    "shipped": ("training.zoo",),
    "text": ("data.vocabulary",),
    "thought": ("attention.state_memory", "models.rollout"),
}
_RENAMED = {
    "Caption": "Hypothesis",
    "Choice": "BeamStep",
    "Classification": "ClassificationTask",
    "Found": "FinishedHypothesis",
    "Mixed": "SelfAttentionOutput",
    "Mixer": "SelfAttentionStack",
    "MixerLayer": "SelfAttentionBlock",
    "Mode": "RolloutMode",
    "Outcome": "ClassifierOutcome",
    "Recall": "StateMemory",
    "State": "DecoderState",
    "Step": "DecoderStep",
    "Teller": "EncoderDecoder",
    "Telling": "DecoderOutput",
    "Thought": "State",
    "Unspoken": "DecoderHidden",
    "find_shipped": "find_in_zoo",
    "grid_centres": "grid_centers",
    "is_shipped": "in_zoo",
    "observe": "evaluate_classifier",
    "parse": "load_config",
    "tokenise": "tokenize_ptb",
}


class _MovedModules(MetaPathFinder, Loader):
    """Imports modules of version 0.1 under their old paths, with a DeprecationWarning."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        return ModuleSpec(fullname, self) if package == __name__ and name in _MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        homes = [f"{__name__}.{home}" for home in _MOVED[module.__name__.rpartition(".")[2]]]
        warnings.warn(f"{module.__name__} has moved to {' and '.join(homes)}", DeprecationWarning, stacklevel=2)

        def get(name: str) -> Any:
            new_name = _RENAMED.get(name, name)
            for home in map(import_module, homes):
                if hasattr(home, new_name):
                    return getattr(home, new_name)
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

        setattr(module, "__getattr__", get)  # noqa: B010


sys.meta_path.append(_MovedModules())
