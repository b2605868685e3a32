"""Registries, and that a class that is registered is known wherever settings are."""

from typing import Literal

import pytest

from glimpse.config.help import settings_help
from glimpse.config.messages import did_you_mean, no_such
from glimpse.config.registry import Registry
from glimpse.data.settings.base import DATASETS, ImageDataSettings
from glimpse.errors import ConfigError
from glimpse.tasks.json_schema import json_schema
from glimpse.tasks.settings import is_setting, load_config


def test_names_are_in_the_order_in_which_they_were_registered():
    shapes = Registry("shape.kind")
    shapes.register("square")(int)
    assert shapes.register("circle")(float) is float
    assert list(shapes) == ["square", "circle"]
    assert dict(shapes.items()) == {"square": int, "circle": float}
    assert "square" in shapes and "line" not in shapes and ["square"] not in shapes
    with pytest.raises(ValueError, match=r"^shape\.kind circle is registered already$"):
        shapes.register("circle")


def test_an_unknown_name_is_answered_with_those_that_there_are():
    shapes = Registry("shape.kind")
    shapes.register("square")(int)
    shapes.register("circle")(float)
    for name, got in (("cirle", "'cirle'; did you mean circle?"), ("x", "'x'"), (None, "null"), ([1], "[1]"), (3, "3")):
        with pytest.raises(ConfigError) as caught:
            shapes[name]
        assert str(caught.value) == f"shape.kind must be one of square, circle, got {got}"
        assert caught.value.key == "shape.kind"


def test_suggestions():
    assert did_you_mean("trian.epochs", ["train.epochs", "seed"]) == "; did you mean train.epochs?"
    assert did_you_mean("zzz", ["seed"]) == ""
    assert no_such("setting ", "sed", ["seed"], ["a", "b"]) == (
        "there is no setting sed; did you mean seed? valid: a, b"
    )
    assert no_such("option --", "zzz", ["seed"], ["a"]) == "there is no option --zzz; valid: a"


def test_a_registered_kind_is_known_everywhere(monkeypatch):
    """To the loader, its messages, the help and the JSON Schema, even if all of them were used before."""
    assert not is_setting("data.colors")
    before = json_schema()
    monkeypatch.setattr(DATASETS, "_entries", dict(DATASETS._entries))

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
    with pytest.raises(ConfigError, match="^data.kind must be one of cluttered, torchvision, folder, stripes, got"):
        load_config(["--data.kind=stripe"])
    with pytest.raises(ConfigError, match="^data.colors is a setting of data.kind stripes, and data.kind is clu"):
        load_config(["--data.colors=4"])
    with pytest.raises(ConfigError, match="got 'stripes', which is for model recurrent_attention, cnn, mlp$"):
        load_config(["--model=captioner", "--data.kind=stripes"])
