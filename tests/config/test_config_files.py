"""The config files that ship with the repository, and their JSON Schema."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from glimpse.config.index import setting_index
from glimpse.config.schema import OneOf
from glimpse.tasks.json_schema import json_schema
from glimpse.tasks.settings import MODELS, Config, load_config

CONFIGS = Path(__file__).parents[2] / "configs"
FILES = sorted(CONFIGS.glob("*.yaml"))


@pytest.fixture(scope="module")
def validator():
    """A validator of the stored schema."""
    schema = json.loads((CONFIGS / "schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def names(content, prefix=""):
    """The dotted names in the content of a file."""
    for name, value in content.items():
        if isinstance(value, dict):
            yield from names(value, f"{prefix}{name}.")
        else:
            yield prefix + name


def test_files_hold_what_differs_from_the_defaults():
    """And the read mode and the model; all by their current names, after a comment that describes the config."""
    assert len(FILES) == 34
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        first, second = text.splitlines()[:2]
        assert first == "# yaml-language-server: $schema=schema.json"
        assert second.startswith("# ") and len(second) > 40
        config = load_config(file=file)
        given = dict(config.items())
        kinds = [f"--{key}={value}" for key, value in given.items() if key.endswith(".kind")]
        same_kinds = dict(load_config([f"--model={config.model}", *kinds]).items())
        defaults = dict(Config(model=config.model).items())
        found = set(names(yaml.safe_load(text))) - {"read", "model"}
        assert found <= given.keys(), file
        assert {key for key in found if given[key] == (defaults if key.endswith(".kind") else same_kinds)[key]} == set()


def hard_and_soft(name):
    """A hard config, and the soft one with its read mode set to hard."""
    hard, soft = (load_config(file=CONFIGS / f"{name}_{read}.yaml") for read in ("hard", "soft"))
    assert (hard.read, soft.read) == ("hard", "soft")
    return hard, soft.replace(read="hard")


def with_std_of(soft, hard):
    return soft.replace(attention={key: getattr(hard.attention, key) for key in ("std", "std_final", "std_anneal")})


def test_hard_and_soft_differ_in_the_read_mode():
    """And in the std, which is exploration in a hard read and blur in a soft one; on a grid in the learning rate; and
    on large images, where the soft model starts from the weights of the hard one, in its shorter training."""
    hard, soft = hard_and_soft("cluttered60")
    assert hard == with_std_of(soft, hard)

    hard, soft = hard_and_soft("cluttered60_grid")
    rate = {key: getattr(hard.train, key) for key in ("lr", "attention_lr_mult", "warmup_fraction")}
    assert hard == soft.replace(train=rate)

    hard, soft = hard_and_soft("cluttered100")
    assert soft.init_from == "cluttered100-hard"
    course = {key: getattr(hard.train, key) for key in ("epochs", "lr", "warmup_fraction")}
    assert hard == with_std_of(soft.replace(init_from=None, train=course), hard)


# The schema


def test_the_schema_is_that_of_the_settings():
    """If not: python -m glimpse.tasks.json_schema > configs/schema.json"""
    assert json.loads((CONFIGS / "schema.json").read_text()) == json_schema()


def test_the_schema_has_every_setting_of_every_model_and_kind():
    schema = json_schema()
    for key, owners in setting_index(MODELS).items():
        for owner in owners:
            described = schema["$defs"][owner.settings.__name__]["properties"][owner.name]
            field = owner.settings.model_fields[owner.name]
            assert described["description"] == field.description, key
            if mark := OneOf.of(field):
                assert described["enum"] == mark.names(), key


def test_config_files_are_valid(validator):
    for file in FILES:
        validator.validate(yaml.safe_load(file.read_text()))
    for owners in setting_index(MODELS).values():
        for owner in owners[:1]:
            kind = [f"--{owner.group}.kind={owner.kind}"] if owner.kind else []
            text = load_config([f"--model={owner.model}", *kind]).to_yaml()  # as in a run folder
            validator.validate(yaml.safe_load(text))


def test_mistakes_are_not(validator):
    for content, path in (
        ("sede: 1", []),
        ("train: {epcohs: 1}", ["train"]),
        ("train: 3", ["train"]),
        ("train: {epochs: x}", ["train", "epochs"]),
        ("train: {optimizer: lion}", ["train", "optimizer"]),
        ("read: sfot", ["read"]),
        ("attention: {policy: centre_out}", ["attention", "policy"]),
        ("estimator: {reward: gains}", ["estimator", "reward"]),
        ("estimator: {kind: straight_through, samples: 2}", ["estimator"]),
        ("sensor: {growth: 1.2}", ["sensor"]),
        ("model: rnn", ["model"]),
        ("model: cnn\nread: soft", []),
        ("data: {kind: mnist}", ["data", "kind"]),
        ("data: {kind: coco}", ["data", "kind"]),
        ("data: {canvas: [1, 2, 3]}", ["data", "canvas"]),
        ("attention: {grid: [3, 4]}", ["attention"]),
        ("attention: {kind: grid, std: 0.1}", ["attention"]),
        ("model: captioner\nencoder: {kind: sentence}", ["encoder", "kind"]),
        ("loss: {rollouts: 2}", ["loss"]),
    ):
        [error] = validator.iter_errors(yaml.safe_load(content))
        assert list(error.absolute_path) == path, content
