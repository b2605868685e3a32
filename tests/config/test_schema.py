"""Settings classes: types, ranges, rules between settings, docstrings, YAML."""

import ast
import inspect
import re
import subprocess
import sys
import textwrap
from typing import get_args, get_origin

import pytest
import yaml
from pydantic import ValidationError
from support.parts import kinds_of, listed

from glimpse.attention.placement import RULES
from glimpse.attention.settings import ATTENTIONS, GridSettings, PlaneSettings
from glimpse.attention.settings.base import GlimpseAttentionSettings
from glimpse.config.index import setting_index
from glimpse.config.messages import describe_type, plain_repr
from glimpse.config.schema import OneOf, Settings, describe_field, diff
from glimpse.data.settings import DATASETS, ImageDataSettings
from glimpse.data.settings.images import ClutteredMNISTSettings, ImageFolderSettings
from glimpse.errors import ConfigError
from glimpse.losses.policy_gradient import BASELINES, REWARDS
from glimpse.tasks.settings import MODELS, CaptioningConfig, CNNConfig, Config, RecurrentAttentionConfig, load_config

OWNERS = {key: owners for key, owners in setting_index(MODELS).items() if key != "model" and not key.endswith("kind")}
CLASSES = dict.fromkeys(
    [*(config for _, config in MODELS.items()), *(owner.settings for owners in OWNERS.values() for owner in owners)]
)


def arguments_for(owner):
    """The command line that has a setting."""
    kind = [f"--{owner.group}.kind={owner.kind}"] if owner.kind else []
    return [f"--model={owner.model}", *kind]


def written(value):
    """A value as on the command line."""
    return value if isinstance(value, str) else plain_repr(value)


# For each type: whether an annotation is of it, wrong values, and the valid ones, if the same for all settings.
TYPES = {
    "integer": (lambda kind: kind is int, ["x", "1.5", "2.0", "true", "null", "[1]", "{a: 1}"], "an integer"),
    "number": (lambda kind: kind is float, ["x", "true", "null", "[0.1]", "2024-01-01"], "a number"),
    "bool": (lambda kind: kind is bool, ["maybe", "1", "0.0", "null"], "true or false"),
    "text": (lambda kind: kind is str, ["null"], "text"),
    "choice": (lambda kind: "Literal" in str(kind) and type(None) not in get_args(kind), ["hrad", "7", "null"], None),
    "pair": (lambda kind: get_origin(kind) is tuple, ["8", "[7]", "[1, 2, 3]", "[1, x]", "null"], None),
    "optional": (lambda kind: type(None) in get_args(kind) and str not in get_args(kind), ["x", "[x]", "{a: 1}"], None),
    "side or pair": (lambda kind: kind == int | tuple[int, int], ["big", "[60, 60, 60]", "60.5", "null"], None),
}


@pytest.mark.parametrize("name", TYPES)
def test_wrong_type(name, refused):
    """The message names the setting, the valid values and the wrong one."""
    is_of_type, wrong, valid = TYPES[name]
    found = 0
    for key, owners in OWNERS.items():
        field = owners[0].settings.model_fields[owners[0].name]
        if not is_of_type(field.annotation):
            continue
        for text in wrong:
            found += 1
            message = refused(*arguments_for(owners[0]), f"--{key}={text}")
            expected = describe_field(field) if valid is None or OneOf.of(field) else valid
            assert message == f"{key} must be {expected}, got {plain_repr(yaml.safe_load(text))}" or (
                text == "2024-01-01" and message == f"{key} must be a number, got '2024-01-01'"
            )
    assert found > 1


def test_every_setting_has_a_tested_type():
    for key, owners in OWNERS.items():
        for owner in owners:
            annotation = owner.settings.model_fields[owner.name].annotation
            assert any(is_of_type(annotation) for is_of_type, _, _ in TYPES.values()) or annotation == str | None, key


def test_types_in_words():
    words = {
        "train.lr": "a number",
        "train.optimizer": "one of adamw, adam, sgd",
        "data.year": "one of 2014, 2017",
        "score.read": "one of hard, soft or null",
        "data.channels": "one of 1, 3 or null",
        "data.size": "a list of 2 integers or null",
        "data.canvas": "an integer or a list of 2 integers",
        "init_from": "text or null",
    }
    for key, text in words.items():
        owner = OWNERS[key][0]
        assert describe_type(owner.settings.model_fields[owner.name].annotation) == text


def test_names_in_a_registry():
    """Text settings whose values are the names in a registry, and in some cases others."""
    words = {
        "attention.policy": f"one of learned, {listed(RULES)}",
        "attention.first": f"one of learned, {listed(RULES)}",
        "estimator.reward": f"one of {listed(REWARDS)}",
        "estimator.baseline": f"one of {listed(BASELINES)}",
    }
    for key, owners in OWNERS.items():
        for owner in owners:
            field = owner.settings.model_fields[owner.name]
            assert (OneOf.of(field) is not None) == (key in words), key
            assert key not in words or describe_field(field) == words[key]


def test_numbers_are_finite(refused):
    numbers = [key for key, owners in OWNERS.items() if float in _types(owners[0])]
    assert {"train.lr", "attention.std", "attention.std_final", "sensor.background"} <= set(numbers)
    for key in numbers:
        for value in ("inf", "-inf", "nan"):
            text = value.replace("inf", ".inf").replace("nan", ".nan")
            assert refused(*arguments_for(OWNERS[key][0]), f"--{key}={text}") == f"{key} must be finite, got {value}"


def _types(owner):
    annotation = owner.settings.model_fields[owner.name].annotation
    return (annotation, *get_args(annotation))


def test_a_whole_number_is_a_number_too():
    for text in ("1", "1e0", "1.0", "1E+0"):
        value = load_config([f"--train.lr={text}"]).train.lr
        assert (value, type(value)) == (1.0, float)


def test_frozen():
    for model in MODELS:
        config = load_config([f"--model={model}"])
        for settings in (config, *(getattr(config, name) for name in config.groups())):
            name = next(iter(type(settings).model_fields))
            with pytest.raises(ValidationError, match="frozen"):
                setattr(settings, name, getattr(settings, name))
            assert hash(settings) == hash(settings.model_copy())


def test_every_setting_has_a_docstring_which_is_its_description():
    found = 0
    for cls in CLASSES:
        for base in cls.__mro__:
            if not issubclass(base, Settings) or base is Settings:
                continue
            [body] = ast.parse(textwrap.dedent(inspect.getsource(base))).body
            for entry, after in zip(body.body, [*body.body[1:], None], strict=True):
                name = getattr(getattr(entry, "target", None), "id", None)
                field = cls.model_fields.get(name)
                if field is None or name not in base.__annotations__ or name in cls.groups() or name == "kind":
                    continue
                own = next(other for other in cls.__mro__ if name in getattr(other, "__annotations__", {}))
                if own is base:
                    assert isinstance(after, ast.Expr), f"{base.__name__}.{name} has no docstring"
                    assert field.description == inspect.cleandoc(after.value.value)
                    found += 1
        missing = [
            name for name, field in cls.model_fields.items() if name not in cls.groups() and not field.description
        ]
        assert (cls.__name__, missing) == (cls.__name__, [])
    assert found > 150


# Whole configs


def test_a_config_is_of_the_class_of_its_model():
    assert type(Config()) is type(load_config()) is RecurrentAttentionConfig
    assert type(Config(model="cnn", seed=3)) is CNNConfig
    with pytest.raises(ConfigError, match="^model must be one of recurrent_attention, cnn, .*, got 'rnn'"):
        Config(model="rnn")


def test_groups_are_given_as_settings_or_as_dictionaries():
    config = RecurrentAttentionConfig(attention=GridSettings(grid=(3, 4)), data={"canvas": [60, 80]})
    assert config == RecurrentAttentionConfig(attention={"kind": "grid", "grid": [3, 4]}, data={"canvas": (60, 80)})
    attentions, data = kinds_of(ATTENTIONS, GlimpseAttentionSettings), kinds_of(DATASETS, ImageDataSettings)
    for wrong, message in (
        ({"attention": {"kind": "line"}}, f"attention.kind must be one of {attentions}, got 'line'; did you mean plan"),
        ({"attention": {"kind": None}}, f"attention.kind must be one of {attentions}, got null"),
        ({"attention": {"kind": "words"}}, f"attention.kind must be one of {attentions}, got 'words'"),
        (
            {"attention": {"grid": (3, 4)}},
            "there is no setting attention.grid; did you mean attention.kind? valid: attention.kind, attention.policy",
        ),
        ({"attention": 3}, "attention must be a group of settings, got 3"),
        ({"attention": None}, "attention must be a group of settings, got null"),
        ({"train": PlaneSettings()}, "train must be TrainSettings, got PlaneSettings"),
        ({"data": CaptioningConfig().data}, f"data.kind must be one of {data}, got 'digit_cap"),
        ({"sede": 1}, "there is no setting sede; did you mean seed? valid: seed, model, init_from, read"),
        ({"read": "sfot"}, "read must be one of hard, soft, got 'sfot'"),
    ):
        with pytest.raises(ConfigError) as caught:
            RecurrentAttentionConfig(**wrong)
        assert str(caught.value).startswith(message)
    with pytest.raises(ConfigError, match=r"^attention\.std must be positive, got -1\.0$") as caught:
        PlaneSettings(std=-1.0)
    assert caught.value.key == "attention.std"
    assert isinstance(caught.value, ValueError)


def test_replace_checks_too():
    config = load_config(["--attention.std=0.3"])
    changed = config.replace(seed=4, attention={"std_final": None})
    assert (changed.seed, changed.attention.std, changed.attention.std_final) == (4, 0.3, None)
    assert config.seed == 0
    assert config.replace(attention=GridSettings()).attention.kind == "grid"
    with pytest.raises(ConfigError, match=r"^attention\.std must be positive"):
        config.replace(attention={"std": 0.0})


def test_paths_become_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    photos = ["--model=captioner", "--data.kind=karpathy", "--encoder.kind=backbone"]
    config = load_config([*photos, "--encoder.feature_cache=kept"]).with_absolute_paths()
    assert config.data.root == str(tmp_path / "data")
    assert config.encoder.feature_cache == str(tmp_path / "kept")
    assert config.encoder.weights == "default"
    assert config.init_from is None
    data = ImageFolderSettings(root="/images")
    assert data.with_absolute_paths() == data
    assert ClutteredMNISTSettings().with_absolute_paths() == ClutteredMNISTSettings()


def test_diff():
    one, other = load_config(["--seed=1"]), load_config(["--seed=1", "--data.canvas=80", "--train.limit=5"])
    assert diff(dict(one.items()), dict(other.items())) == [("data.canvas", 60, 80), ("train.limit", None, 5)]
    assert diff({"a": 1}, {"b": 2}) == [("a", 1, None), ("b", None, 2)]


UNUSUAL = [
    *("--seed=4294967295", "--read=soft", "--num_glimpses=9", "--init_from=runs/some where/sëed: #1"),
    *("--data.canvas=[60, 100]", "--data.num_digits=2", "--data.target=sum", "--sensor.num_scales=1"),
    *("--sensor.scale_factor=1", "--network.core=lstm", "--network.pixel_std=0.25", "--attention.kind=grid"),
    *("--attention.grid=[3, 4]", "--attention.scorer=scaled_dot", "--attention.window=2", "--estimator.samples=4"),
    *("--estimator.baseline=leave_one_out", "--estimator.normalize=false", "--train.lr=1e-5", "--train.limit=1000"),
    *("--train.optimizer=sgd", "--train.tensorboard=false", "--train.runs_dir=12", "--score.read=hard"),
]


def test_yaml_holds_every_setting_of_its_kind_and_is_read_back(write):
    lines = [[f"--model={owner.model}", *arguments_for(owner)] for owners in OWNERS.values() for owner in owners]
    for line in [UNUSUAL, *{tuple(line): list(line) for line in lines}.values()]:
        config = load_config(line)
        text = config.to_yaml()
        content = yaml.safe_load(text)
        assert content.pop("format") == 2
        names = {f"{group}.{name}" for group in config.groups() for name in content.pop(group)} | set(content)
        assert names == set(dict(config.items()))
        assert load_config(file=write(text)) == config


def test_texts_that_look_like_something_else_are_read_back(write):
    for text in ("1e3", "12", "yes", "~x", "2024-01-01", "[1]", "a: b", "null", "1:30", "0x1", ".inf", "sëed", "#1"):
        config = RecurrentAttentionConfig(init_from=text, train={"runs_dir": text})
        assert load_config(file=write(config.to_yaml())) == config
        if text != "null":
            assert load_config([f"--init_from={text}"]).init_from == text


def test_a_config_is_given_back_by_its_settings_as_arguments():
    for line in (UNUSUAL, [f"--model={model}" for model in list(MODELS)[-1:]]):
        config = load_config(line)
        assert load_config([f"--{key}={written(value)}" for key, value in config.items()]) == config


def test_settings_import_nothing_large():
    """All settings modules, in a fresh process: no torch, no NumPy, no matplotlib, so that --help is fast."""
    modules = sorted({cls.__module__ for cls in CLASSES})
    families = {"tasks.settings.classification", "data.settings.images", "models.settings.networks"}
    families |= {"attention.settings.foveated", "losses.estimators.straight_through"}
    assert {f"glimpse.{family}" for family in families} <= set(modules)
    code = f"""import importlib, sys, types
sys.modules["glimpse.envs"] = types.ModuleType("environments, which need gymnasium")
for name in {modules}: importlib.import_module(name)
print(*sys.modules)"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"torch", "torchvision", "numpy", "matplotlib", "scipy", "PIL", "gymnasium"} & set(loaded) == set()
    # Of the package only packages, the modules of settings, and the registries whose names are valid values.
    settings = r"(\w+\.)?settings(\.\w+)?|tasks\.train_settings|losses\.estimators(\.\w+)?|config\.\w+|errors|files"
    allowed = re.compile(rf"glimpse\.(\w+|{settings}|attention\.placement|losses\.policy_gradient)")
    assert [name for name in loaded if name.startswith("glimpse.") and not allowed.fullmatch(name)] == []
