"""Registries, and that newly registered classes are found by loader, messages, help and JSON Schema."""

from typing import Literal

import pytest
from support.parts import kinds_of, listed

from glimpse.config.help import settings_help
from glimpse.config.messages import did_you_mean, no_such
from glimpse.config.registry import Registry, choose
from glimpse.data.settings.base import DATASETS, ImageDataSettings
from glimpse.errors import ConfigError
from glimpse.losses.policy_gradient import REWARDS, reward
from glimpse.tasks.json_schema import json_schema
from glimpse.tasks.settings import is_setting, load_config


def test_names_are_in_order_of_registration():
    shapes = Registry("shape.kind")
    shapes.register("square")(int)
    assert shapes.register("circle")(float) is float
    assert list(shapes) == ["square", "circle"]
    assert dict(shapes.items()) == {"square": int, "circle": float}
    assert "square" in shapes and "line" not in shapes
    with pytest.raises(ValueError, match=r"^shape\.kind circle is registered already$"):
        shapes.register("circle")


def test_an_unknown_name_is_refused_with_the_valid_ones():
    shapes = Registry("shape.kind")
    shapes.register("square")(int)
    shapes.register("circle")(float)
    assert choose("shape.kind", shapes, "circle") is shapes["circle"] is float
    for name, got in (("cirle", "'cirle'; did you mean circle?"), ("x", "'x'"), (None, "null"), ([1], "[1]"), (3, "3")):
        with pytest.raises(ConfigError) as caught:
            choose("shape.kind", shapes, name)
        assert str(caught.value) == f"shape.kind must be one of square, circle, got {got}"
        assert caught.value.key == "shape.kind"
        if not isinstance(name, list):  # which is not hashable
            with pytest.raises(ConfigError) as caught:
                shapes[name]
            assert str(caught.value) == f"shape.kind must be one of square, circle, got {got}"


def test_suggestions():
    assert did_you_mean("trian.epochs", ["train.epochs", "seed"]) == "; did you mean train.epochs?"
    assert did_you_mean("zzz", ["seed"]) == ""
    assert no_such("setting ", "sed", ["seed"], ["a", "b"]) == (
        "there is no setting sed; did you mean seed? valid: a, b"
    )
    assert no_such("option --", "zzz", ["seed"], ["a"]) == "there is no option --zzz; valid: a"


@pytest.fixture
def registries():
    """The registries of rewards and data, which get their entries back after the test."""
    before = [(registry, dict(registry)) for registry in (DATASETS, REWARDS)]
    yield
    for registry, entries in before:
        registry.clear()
        registry.update(entries)


def test_a_registered_kind_is_known_everywhere(registries):
    """To the loader, its messages, the help and the JSON Schema, even if all of them were used before."""
    assert not is_setting("data.colors")
    before = json_schema()

    @DATASETS.register("stripes")
    class StripesSettings(ImageDataSettings):
        """data: stripes."""

        kind: Literal["stripes"] = "stripes"
        """Stripes."""
        colors: int = 3
        """Number of colors."""

    config = load_config(["--model=cnn", "--data.kind=stripes", "--data.colors=4"])
    assert config.data == StripesSettings(colors=4)
    assert is_setting("data.colors")
    assert "Number of colors." in settings_help(config)
    assert dict(config.identity())["data.colors"] == 4
    schema = json_schema()
    assert "colors" in schema["$defs"]["StripesSettings"]["properties"] and schema != before
    kinds = kinds_of(DATASETS, ImageDataSettings)
    assert kinds.endswith(", stripes")
    with pytest.raises(ConfigError, match=f"^data.kind must be one of {kinds}, got 'stripe'; did you mean stripes"):
        load_config(["--data.kind=stripe"])
    with pytest.raises(ConfigError, match="^data.colors is a setting of data.kind stripes, and data.kind is clu"):
        load_config(["--data.colors=4"])
    with pytest.raises(ConfigError, match="got 'stripes', which is for model recurrent_attention, cnn, mlp$"):
        load_config(["--model=captioner", "--data.kind=stripes"])


def test_a_registered_reward_is_a_valid_value_everywhere(registries):
    assert "mean_margin" not in settings_help(load_config())

    @reward("mean_margin")
    def mean_margin(logits, targets):
        return None

    config = load_config(["--estimator.reward=mean_margin"])
    assert config.estimator.reward == "mean_margin"
    names = listed(REWARDS)
    assert names.endswith(", mean_margin")
    assert f"({names})" in " ".join(settings_help(config).split())
    assert json_schema()["$defs"]["Reinforce"]["properties"]["reward"]["enum"][-1] == "mean_margin"
    with pytest.raises(ConfigError, match=f"^estimator.reward must be one of {names}, got 'margin'"):
        load_config(["--estimator.reward=margin"])
