"""Modules and names of version 0.1 are still importable, with a warning."""

import importlib
import sys

import pytest

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
    "loading": {"load": "glimpse.training.load"},
    "parsing": {"parse": "glimpse.tasks.settings"},
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
}


@pytest.mark.parametrize("old", OLD)
def test_old_modules(old):
    sys.modules.pop(f"glimpse.{old}", None)
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


def test_old_names():
    import glimpse.config

    for old, home in (("AttentionConfig", "glimpse.attention.settings.PlaneSettings"), ("Config", "Config")):
        with pytest.warns(DeprecationWarning, match=f"glimpse.config.{old} is now .*{home}"):
            found = getattr(glimpse.config, old)
        assert found.__name__ == home.rpartition(".")[2]
    with pytest.raises(AttributeError, match="module 'glimpse.config' has no attribute 'Nothing'"):
        _ = glimpse.config.Nothing
    assert glimpse.metrics.wilson_interval(5, 100) == pytest.approx((0.0215437, 0.1117505), abs=1e-7)


def test_other_modules_are_not_found():
    with pytest.raises(ModuleNotFoundError, match="No module named 'glimpse.nothing'"):
        importlib.import_module("glimpse.nothing")
