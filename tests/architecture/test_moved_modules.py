"""Modules and names of version 0.1 are still importable, with a warning."""

import importlib
import sys
from pkgutil import resolve_name

import pytest

import glimpse

OLD = {
    "build": {"build_data": "glimpse.tasks.build", "build_task": "glimpse.tasks.base"},
    "captioner": {
        "Captioner": "glimpse.models.encoder_decoder",
        "Teller": "glimpse.models.encoder_decoder",
        "Decoder": "glimpse.models.decoder",
        "State": "glimpse.models.decoder",
        "Step": "glimpse.models.decoder",
        "Telling": "glimpse.models.decoder",
    },
    "encoders": {"SmallEncoder": "glimpse.models.image_encoders", "BackboneEncoder": "glimpse.models.backbones"},
    "commands.files": {"save_figure": "glimpse.view.output"},
    "data.translation": {"Pair": "glimpse.data.sentence_pairs"},
    "engine": {
        "Engine": "glimpse.training.engine",
        "make_optimizer": "glimpse.training.optimizer",
        "NonFiniteError": "glimpse.errors",
    },
    "loading": dict.fromkeys(("load", "load_captioner", "load_translator"), "glimpse.training.load"),
    "parsing": dict.fromkeys(("parse", "split"), "glimpse.tasks.settings"),
    "places": {
        "Gaussian": "glimpse.attention.distributions",
        "Noise": "glimpse.attention.distributions",
        "grid_centres": "glimpse.attention.window",
    },
    "saliency": {"saliency": "glimpse.evaluation.saliency"},
    "search": dict.fromkeys(("greedy", "beam", "Caption", "Choice", "Found"), "glimpse.models.decoding"),
    "self_attention": dict.fromkeys(
        ("SelfAttention", "Mixed", "Mixer", "MixerLayer"), "glimpse.attention.self_attention"
    ),
    "classification": {
        "Classification": "glimpse.tasks.classification",
        "Outcome": "glimpse.evaluation.classify",
        "observe": "glimpse.evaluation.classify",
    },
    "shipped": dict.fromkeys(("find_shipped", "is_shipped"), "glimpse.training.zoo"),
    "text": {"tokenise": "glimpse.data.vocabulary"},
    "sensor": {"Sensor": "glimpse.attention.sensor", "to_pixels": "glimpse.attention.sensor"},
    "sentences": {"encode_sentences": "glimpse.models.sentence_encoder"},
    "thought": {"Recall": "glimpse.attention.state_memory", "Thought": "glimpse.models.rollout"},
    "translation": {"LoadedTranslator": "glimpse.evaluation.translate"},
    "view.aligned": dict.fromkeys(("Aligned", "align"), "glimpse.evaluation.translation_traces"),
    "view.looks": dict.fromkeys(("Looks", "look"), "glimpse.evaluation.glimpse_traces"),
    "view.sheet": {"draw_sheet": "glimpse.view.glimpse_sheet"},
}


@pytest.mark.parametrize("old", OLD)
def test_old_modules(old):
    sys.modules.pop(f"glimpse.{old}", None)
    if old == "commands.files":
        with pytest.warns(DeprecationWarning, match="glimpse.commands has moved to glimpse.cli"):
            sys.modules.pop("glimpse.commands", None)
            importlib.import_module("glimpse.commands")
    with pytest.warns(DeprecationWarning, match=f"glimpse.{old} has moved to {next(iter(OLD[old].values()))}"):
        module = importlib.import_module(f"glimpse.{old}")
    for name, home in OLD[old].items():
        assert getattr(module, name).__module__ == home
    with pytest.raises(AttributeError, match=f"module 'glimpse.{old}' has no attribute 'nothing'"):
        _ = module.nothing


def test_parse_is_load_config():
    with pytest.warns(DeprecationWarning) if "glimpse.parsing" not in sys.modules else pytest.MonkeyPatch.context():
        from glimpse.parsing import parse
    assert parse(["--num_glimpses=3"]).num_glimpses == 3


# Names of packages and modules that are still there, and the new names.
RENAMED = {
    "attention": {
        "Read": "glimpse.attention.settings.ReadMode",
        "SCORERS": "glimpse.attention.scorers.SCORERS",
    },
    "config": {
        "AttentionConfig": "glimpse.attention.settings.PlaneSettings",
        "Config": "glimpse.tasks.settings.Config",
        "NetworkConfig": "glimpse.models.settings.NetworkSettings",
        "TrainConfig": "glimpse.tasks.train_settings.TrainSettings",
        "to_yaml": "glimpse.config.schema.Settings.to_yaml",
    },
    "data": {"DataError": "glimpse.errors.DataError", "DataSet": "glimpse.data.base.Dataset"},
    "envs": {"Played": "glimpse.envs.playing.PlayedEpisodes", "options_of": "glimpse.envs.playing.env_options"},
    "losses": {
        "glimpse_numbers": "glimpse.losses.halting.step_numbers",
        "normalise": "glimpse.losses.policy_gradient.normalize",
    },
    "view.alignment": {"Labels": "glimpse.view.alignment.AxisLabels", "Map": "glimpse.view.alignment.Heatmap"},
    "view.drawing": {
        "ATTENTION": "glimpse.view.drawing.ATTENTION_COLOR",
        "FOOTPRINT": "glimpse.view.drawing.FOOTPRINT_COLOR",
        "READ": "glimpse.view.drawing.READ_COLOR",
        "SCALE_COLOURS": "glimpse.view.drawing.SCALE_COLORS",
        "show_image": "glimpse.view.drawing.draw_image",
    },
}


@pytest.mark.parametrize("module, name", [(module, name) for module, names in RENAMED.items() for name in names])
def test_old_names(module, name):
    new = RENAMED[module][name]
    old_module = importlib.import_module(f"glimpse.{module}")
    with pytest.warns(DeprecationWarning, match=f"^glimpse.{module}.{name} is now {new}$") as caught:
        found = getattr(old_module, name)
    assert found is resolve_name(new)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("module", [*RENAMED, "metrics"])
def test_unknown_names_of_packages(module):
    with pytest.raises(AttributeError, match=f"module 'glimpse.{module}' has no attribute 'Nothing'"):
        _ = importlib.import_module(f"glimpse.{module}").Nothing


def test_old_functions_work():
    from glimpse.tasks.settings import load_config

    with pytest.warns(DeprecationWarning):
        assert glimpse.config.to_yaml(load_config()) == load_config().to_yaml()
    assert glimpse.metrics.wilson_interval(5, 100) == pytest.approx((0.0215437, 0.1117505), abs=1e-7)


@pytest.mark.parametrize(
    "module, name, new",
    [
        ("glimpse.config", "DataConfig", "glimpse.data.settings, where each data.kind has a class"),
        ("glimpse.config", "LossConfig", "glimpse.losses.settings and glimpse.losses.estimators"),
        ("glimpse.config", "keys", "glimpse.config.index.setting_names"),
        ("glimpse.parsing", "make_parser", "glimpse.config.help.settings_help"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_names_without_an_equivalent(module, name, new):
    """The message of an import says what replaces them."""
    with pytest.raises(ImportError) as caught:
        exec(f"from {module} import {name}")
    assert str(caught.value) == f"{module}.{name} is gone, see {new}"


def test_other_modules_are_not_found():
    with pytest.raises(ModuleNotFoundError, match="No module named 'glimpse.nothing'"):
        importlib.import_module("glimpse.nothing")
