"""Modules and names of version 0.1, which are found with a DeprecationWarning until 0.3."""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

# Modules of version 0.1 in `glimpse`, and the modules that define their names now.
_MOVED = {
    "build": ("tasks.build", "tasks.base"),
    "captioner": ("models.encoder_decoder", "models.decoder"),
    "classification": ("tasks.classification", "evaluation.classify"),
    "commands": ("cli",),
    "commands.files": ("view.output",),
    "data.translation": ("data.sentence_pairs",),
    "encoders": ("models.image_encoders", "models.backbones"),
    "engine": ("training.engine", "training.optimizer", "errors"),
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
    "translation": ("evaluation.translate",),
    "view.aligned": ("evaluation.translation_traces",),
    "view.looks": ("evaluation.glimpse_traces",),
    "view.sheet": ("view.glimpse_sheet",),
}
# New names of what these modules define.
_RENAMED = {
    "Aligned": "TranslationTrace",
    "Caption": "Hypothesis",
    "Choice": "BeamStep",
    "Classification": "ClassificationTask",
    "Found": "FinishedHypothesis",
    "LoadedTranslator": "TrainedTranslator",
    "Looks": "GlimpseTrace",
    "Mixed": "SelfAttentionOutput",
    "Mixer": "SelfAttentionStack",
    "MixerLayer": "SelfAttentionBlock",
    "Mode": "RolloutMode",
    "Outcome": "ClassifierOutcome",
    "Pair": "SentencePair",
    "Recall": "StateMemory",
    "State": "DecoderState",
    "Step": "DecoderStep",
    "Teller": "EncoderDecoder",
    "Telling": "DecoderOutput",
    "Thought": "State",
    "Unspoken": "DecoderHidden",
    "align": "trace_translations",
    "find_shipped": "find_in_zoo",
    "grid_centres": "grid_centers",
    "is_shipped": "in_zoo",
    "load_captioner": "load",
    "load_translator": "load",
    "look": "trace_glimpses",
    "observe": "evaluate_classifier",
    "parse": "load_config",
    "split": "split_arguments",
    "tokenise": "tokenize_ptb",
}
# Names of version 0.1 in modules that are still there, and the names now.
_NAMES = {
    "glimpse.attention.Read": "glimpse.attention.settings.ReadMode",
    "glimpse.attention.SCORERS": "glimpse.attention.scorers.SCORERS",
    "glimpse.config.AttentionConfig": "glimpse.attention.settings.PlaneSettings",
    "glimpse.config.Config": "glimpse.tasks.settings.Config",
    "glimpse.config.NetworkConfig": "glimpse.models.settings.NetworkSettings",
    "glimpse.config.TrainConfig": "glimpse.tasks.train_settings.TrainSettings",
    "glimpse.config.to_yaml": "glimpse.config.schema.Settings.to_yaml",
    "glimpse.data.DataError": "glimpse.errors.DataError",
    "glimpse.data.DataSet": "glimpse.data.base.Dataset",
    "glimpse.envs.Played": "glimpse.envs.playing.PlayedEpisodes",
    "glimpse.envs.options_of": "glimpse.envs.playing.env_options",
    "glimpse.losses.glimpse_numbers": "glimpse.losses.halting.step_numbers",
    "glimpse.losses.normalise": "glimpse.losses.policy_gradient.normalize",
    "glimpse.view.alignment.Labels": "glimpse.view.alignment.AxisLabels",
    "glimpse.view.alignment.Map": "glimpse.view.alignment.Heatmap",
    "glimpse.view.drawing.ATTENTION": "glimpse.view.drawing.ATTENTION_COLOR",
    "glimpse.view.drawing.FOOTPRINT": "glimpse.view.drawing.FOOTPRINT_COLOR",
    "glimpse.view.drawing.READ": "glimpse.view.drawing.READ_COLOR",
    "glimpse.view.drawing.SCALE_COLOURS": "glimpse.view.drawing.SCALE_COLORS",
    "glimpse.view.drawing.show_image": "glimpse.view.drawing.draw_image",
}
# Names without an equivalent, and what replaces them.
_REMOVED = {
    "glimpse.config.DataConfig": "glimpse.data.settings, where each data.kind has a class",
    "glimpse.config.LossConfig": "glimpse.losses.settings and glimpse.losses.estimators",
    "glimpse.config.keys": "glimpse.config.index.setting_names",
    "glimpse.parsing.make_parser": "glimpse.config.help.settings_help",
}


def moved_name(module: str, name: str, stacklevel: int = 2) -> Any:
    """Find what a name of version 0.1 is now: the `__getattr__` of a module.

    Args:
        module: Name of the module, `__name__`.
        name: The name, which the module does not define.
        stacklevel: See `warnings.warn`; 2 if this function is `__getattr__` itself.

    Raises:
        AttributeError: If there was no such name.
        ImportError: If it has no equivalent; of an AttributeError, `from module import name` would hide the message.
    """
    old = f"{module}.{name}"
    if old in _REMOVED:
        raise ImportError(f"{old} is gone, see {_REMOVED[old]}")
    if old not in _NAMES:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warnings.warn(f"{old} is now {_NAMES[old]}", DeprecationWarning, stacklevel=stacklevel)
    return resolve_name(_NAMES[old])


class _MovedModules(MetaPathFinder, Loader):
    """Imports modules of version 0.1 under their old paths, with a DeprecationWarning."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        root, _, name = fullname.partition(".")
        if root != "glimpse" or name not in _MOVED:
            return None
        return ModuleSpec(fullname, self, is_package=any(other.startswith(f"{name}.") for other in _MOVED))

    def exec_module(self, module: ModuleType) -> None:
        homes = [f"glimpse.{home}" for home in _MOVED[module.__name__.partition(".")[2]]]
        warnings.warn(f"{module.__name__} has moved to {' and '.join(homes)}", DeprecationWarning, stacklevel=2)

        def get(name: str) -> Any:
            new_name = _RENAMED.get(name, name)
            for home in map(import_module, homes):
                if hasattr(home, new_name):
                    return getattr(home, new_name)
            return moved_name(module.__name__, name)

        setattr(module, "__getattr__", get)  # noqa: B010


sys.meta_path.append(_MovedModules())
