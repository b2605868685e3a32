"""Old names and values of settings, and config files of format 1."""

import json
from pathlib import Path

import pytest
import yaml

from glimpse.config import upgrade
from glimpse.config.schema import CONFIG_FORMAT
from glimpse.errors import ConfigError
from glimpse.tasks.settings import CaptioningConfig, CNNConfig, Config, TranslationConfig, load_config

TESTS = Path(__file__).parents[1]
RUNS = TESTS / "freeze" / "runs"
SHIPPED = sorted((TESTS.parent / "glimpse" / "zoo").glob("*/config.yaml"))

CAPTIONS = ["--model=captioner"]
PHOTOS = ["--model=captioner", "--data.kind=karpathy", "--encoder.kind=backbone"]
DATES = ["--model=translator"]

# Every setting that has another name or value now: what it needs, as it was, as it is.
RENAMED = [
    ([], "model=attention", "model=recurrent_attention"),
    ([], "model=fc", "model=mlp"),
    ([], "attention.places=grid", "attention.kind=grid"),
    (DATES, "attention.places=none", "attention.kind=final_state"),
    (["--attention.first=random"], "attention.first=centre", "attention.first=center"),
    ([], "attention.policy=centre", "attention.policy=center"),
    ([], "attention.squash=false", "attention.tanh_mean=false"),
    ([], "attention.clip=0.7", "attention.max_grad_norm=0.7"),
    ([], "attention.std_end=0.01", "attention.std_final=0.01"),
    ([], "attention.std_until=0.4", "attention.std_anneal=0.4"),
    ([], "loss.classify=last", "loss.cross_entropy_at=last_step"),
    (["--loss.classify=last"], "loss.classify=each", "loss.cross_entropy_at=every_step"),
    ([], "loss.reinforce=0.2", "estimator.weight=0.2"),
    ([], "loss.reward=accuracy", "estimator.reward=accuracy"),
    ([], "loss.reward_when=last", "estimator.reward_at=last_step"),
    (["--loss.reward_when=last"], "loss.reward_when=each", "estimator.reward_at=every_step"),
    ([], "loss.discount=0.5", "estimator.discount=0.5"),
    ([], "loss.baseline=self_critical", "estimator.baseline=self_critical"),
    (CAPTIONS, "loss.baseline=none", "estimator.baseline=none"),
    ([], "loss.baseline_weight=0.5", "estimator.baseline_weight=0.5"),
    ([], "loss.rollouts=3", "estimator.samples=3"),
    ([], "loss.normalise=false", "estimator.normalize=false"),
    ([], "loss.entropy=0.01", "estimator.entropy_weight=0.01"),
    ([], "loss.reward_reaches_core=false", "estimator.backprop_to_state=false"),
    ([], "loss.mix=0.5", "estimator.soft_fraction=0.5"),
    ([], "loss.mix_end=0.5", "estimator.soft_fraction_final=0.5"),
    ([], "loss.mix_until=0.5", "estimator.soft_fraction_anneal=0.5"),
    ([], "train.places_lr=1.0", "train.attention_lr_mult=1.0"),
    ([], "train.clip=1.0", "train.max_grad_norm=1.0"),
    ([], "train.warmup=0.1", "train.warmup_fraction=0.1"),
    ([], "train.folder=elsewhere", "train.runs_dir=elsewhere"),
    ([], "network.halt=true", "network.halting_unit=true"),
    ([], "network.readout=attend", "network.readout=state_memory"),
    (["--network.readout=state_memory"], "attention.scorer=bilinear", "network.memory_scorer=bilinear"),
    (["--network.readout=attend"], "attention.scorer_dim=64", "network.memory_scorer_dim=64"),
    (CAPTIONS, "encoder.name=small", "encoder.kind=small"),
    (CAPTIONS, "encoder.name=resnet18", "encoder.name=resnet18"),
    (CAPTIONS, "data.num_digits=3", "data.max_digits=3"),
    (CAPTIONS, "network.pixel_mean=0.1", "encoder.pixel_mean=0.1"),
    (CAPTIONS, "network.pixel_std=0.3", "encoder.pixel_std=0.3"),
    (PHOTOS, "encoder.fine_tune_from=2", "encoder.unfreeze_epoch=2"),
    (PHOTOS, "encoder.cache=kept", "encoder.feature_cache=kept"),
    (PHOTOS, "data.broken=skip", "data.on_broken_image=skip"),
    (DATES, "encoder.self_attention=2", "encoder.self_attention_layers=2"),
    (DATES, "encoder.heads=2", "encoder.num_heads=2"),
    (DATES, "score.beam=5", "score.beam_width=5"),
]


def test_every_old_name_and_value_is_upgraded(write):
    """On the command line and in files, to a value that is not the default."""
    for needed, old, new in RENAMED:
        before, found, expected = (load_config([*needed, *more]) for more in ([], [f"--{old}"], [f"--{new}"]))
        key, _, text = new.partition("=")
        value = dict(found.items())[key]
        assert (value if isinstance(value, str) else json.dumps(value)) == text, (old, new)
        assert found == expected, (old, new)
        assert found != before or old in ("model=attention", "encoder.name=small"), (old, new)
        content: dict = {}
        for option in [*(word.removeprefix("--") for word in needed), old]:
            key, _, text = option.partition("=")
            group, dot, name = key.partition(".")
            (content.setdefault(group, {}) if dot else content)[name if dot else key] = yaml.safe_load(text)
        assert load_config(file=write(yaml.safe_dump(content))) == expected, (old, new)


def test_the_table_above_is_complete():
    old = [line.split("=") for _, line, _ in RENAMED]
    assert {key for key, _ in old} >= upgrade.ALIASES.keys()
    for key, values in upgrade.VALUES.items():
        names = {key, *(alias for alias, new in upgrade.ALIASES.items() if new == key)}
        assert {value for name, value in old if name in names} >= values.keys()


def test_of_old_and_new_names_the_last_counts(write):
    assert load_config(["--loss.rollouts=2", "--estimator.samples=3"]).estimator.samples == 3
    assert load_config(["--estimator.samples=3", "--loss.rollouts=2"]).estimator.samples == 2
    assert load_config(["--loss.rollouts=2"], file=write("estimator: {samples: 3}\n")).estimator.samples == 2
    resnet = write("model: captioner\nencoder: {kind: backbone, name: resnet18}\n")
    assert load_config(["--encoder.name=small"], file=resnet).encoder.kind == "small"
    small = write("model: captioner\nencoder: {name: small}\n")
    assert load_config(["--encoder.name=resnet18"], file=small).encoder.name == "resnet18"


def test_a_message_about_an_old_name_has_both(refused):
    assert refused("--loss.rollouts=0") == "estimator.samples must be at least 1, got 0 (given as loss.rollouts)"
    message = refused(content="seed: 1\nattention: {std_until: 2.0}\n")
    assert message == "FILE, line 2: attention.std_anneal must be in (0, 1], got 2.0 (given as attention.std_until)"
    assert refused("--estimator.samples=0") == "estimator.samples must be at least 1, got 0"


def test_old_names_without_effect_are_ignored_with_a_warning(write):
    for option in ("loss.rollouts=4", "loss.normalise=true", "loss.reward=accuracy", "loss.reward_reaches_core=false"):
        for needed, model in ((CAPTIONS, "captioner"), (DATES, "translator")):
            with pytest.warns(UserWarning, match=f"^{option.partition('=')[0]} is ignored: it has never had an effect"):
                assert load_config([*needed, f"--{option}"]) == Config(model=model)
    with pytest.warns(UserWarning, match=r"\.yaml, line 2: loss\.rollouts is ignored: .*; set estimator\.samples$"):
        load_config(file=write("model: captioner\nloss: {rollouts: 4}\n"))


def test_the_memory_of_states_had_the_scorer_of_the_attention():
    """On a grid both had the one."""
    plane = load_config(["--network.readout=attend", "--attention.scorer=dot"])
    assert plane.network.memory_scorer == "dot"
    grid = ["--attention.places=grid", "--attention.scorer=bilinear", "--attention.scorer_dim=64"]
    both = load_config([*grid, "--network.readout=attend"])
    assert (both.network.memory_scorer, both.attention.scorer) == ("bilinear", "bilinear")
    assert (both.network.memory_scorer_dim, both.attention.scorer_dim) == (64, 64)
    new = load_config([*grid, "--network.readout=state_memory"])
    assert (new.network.memory_scorer, new.attention.scorer) == ("additive", "bilinear")


# The config.yaml of a run, of format 1: all settings of all models.


def resolved(run="classification-hard"):
    """Its content."""
    return yaml.safe_load((RUNS / run / "config.yaml").read_text())


def test_the_defaults_of_format_1_are_frozen():
    frozen = json.loads((TESTS / "freeze" / "expected" / "commands.json").read_text())["defaults"]
    assert json.loads(json.dumps(upgrade.V1_DEFAULTS)) == frozen
    assert len(frozen) == 113
    assert upgrade.V1_ABSENT.keys() <= upgrade.V1_DEFAULTS.keys()


def test_missing_settings_of_format_1_have_the_defaults_of_format_1(write, monkeypatch):
    content = resolved()
    content["attention"].pop("std_until")
    content["network"].pop("readout")
    content["train"].pop("momentum")
    del content["encoder"], content["decoder"]
    assert load_config(file=write(yaml.safe_dump(content))) == load_config(
        file=RUNS / "classification-hard/config.yaml"
    )
    monkeypatch.setitem(upgrade.V1_DEFAULTS, "attention.std_until", 0.5)
    assert load_config(file=write(yaml.safe_dump(content))).attention.std_anneal == 0.5


def test_a_missing_gradient_limit_of_format_1_is_null(write):
    content = resolved("classification-soft")
    del content["attention"]["clip"]
    assert load_config(file=write(yaml.safe_dump(content))).attention.max_grad_norm is None
    assert load_config(file=write("read: soft\n")).attention.max_grad_norm == 0.5  # a file of differences
    sections = {name: {} for name in ("data", "sensor", "network", "attention", "loss", "train", "score")}
    for name, key in (("data", "kind"), ("sensor", "plan"), ("network", "core"), ("attention", "std"), ("loss", "mix")):
        sections[name][key] = upgrade.V1_DEFAULTS[f"{name}.{key}"]
    sections["train"]["lr"], sections["score"]["beam"] = 0.003, 1
    least = {"seed": 0, "model": "attention", "read": "hard", **sections}
    assert load_config(file=write(yaml.safe_dump(least))) == Config().replace(attention={"max_grad_norm": None})


def test_settings_of_other_models_in_a_run_of_format_1_are_ignored(write):
    """Without a warning; but unknown settings are errors, and so are such settings on the command line."""
    content = resolved()
    expected = load_config(file=RUNS / "classification-hard/config.yaml")
    content["encoder"]["dim"] = 64
    content["decoder"]["max_length"] = 30
    content["data"].update(name="SVHN", root="/elsewhere", workers=5)
    content["attention"].update(grid=[2, 2], window=1, scorer="dot")
    content["sensor"]["plan"] = "crop"
    content["score"]["beam"] = 3
    file = write(yaml.safe_dump(content, sort_keys=False))
    assert load_config(file=file) == expected
    with pytest.raises(ConfigError, match="^attention.grid is a setting of attention.kind grid, and attention.kind is"):
        load_config(["--attention.grid=[2, 3]"], file=file)
    content["train"]["epcohs"] = 3
    with pytest.raises(ConfigError, match="line [0-9]+: there is no setting train.epcohs; did you mean train.epochs"):
        load_config(file=write(yaml.safe_dump(content, sort_keys=False)))


def test_runs_of_every_kind_open():
    kinds = {"digit-captions-hard": CaptioningConfig, "dates-soft": TranslationConfig, "whole-image-cnn": CNNConfig}
    for run, cls in kinds.items():
        assert type(load_config(file=RUNS / run / "config.yaml")) is cls
    captions = load_config(file=RUNS / "digit-captions-hard/config.yaml")
    assert (captions.encoder.kind, captions.attention.kind, captions.data.max_digits) == ("small", "feature_map", 2)
    assert (captions.encoder.pixel_mean, captions.encoder.pixel_std) == (0.1, 0.5)
    assert load_config(file=RUNS / "image-folder/config.yaml").data.kind == "folder"
    assert len(SHIPPED) == 12
    for file in SHIPPED:
        assert load_config(file=file).read in file.parent.name


def test_upgraded_runs_are_written_in_the_current_format(write):
    """With every setting of their kind, and of no other; read again, the config is the same."""
    for file in SHIPPED:
        config = load_config(file=file)
        text = config.to_yaml()
        assert text.startswith(f"format: {CONFIG_FORMAT}\n")
        assert load_config(file=write(text)) == config
    assert len(dict(Config().items())) < len(upgrade.V1_DEFAULTS)
