"""The configuration: one set of typed settings for files and command lines, and what is said about mistakes."""

import ast
import dataclasses
import inspect
import json
import re
from pathlib import Path

import pytest
import yaml
from runs_helpers import REPOSITORY, python

from glimpse import config as config_module
from glimpse import settings as settings_module
from glimpse.config import (
    AttentionConfig,
    Config,
    DataConfig,
    LossConfig,
    NetworkConfig,
    ScoreConfig,
    SensorConfig,
    TrainConfig,
    different,
    images_of,
    keys,
    to_yaml,
)
from glimpse.parsing import parse, split
from glimpse.settings import ConfigError

CONFIG_FILES = sorted((REPOSITORY / "configs").glob("**/*.yaml"))

UNUSUAL = Config(
    seed=2**32 - 1,
    read="soft",
    num_glimpses=9,
    init_from="runs/some where/sëed: #1",
    data=DataConfig(canvas=(60, 100), num_digits=2, target="sum", size=(32, 48), channels=3, download=True),
    sensor=SensorConfig(patch_size=5, num_scales=1, scale_factor=1, background=0.5, plan="crop"),
    network=NetworkConfig(what="conv", core="lstm", pixel_std=0.25),
    attention=AttentionConfig(places="grid", grid=(3, 4), std=0.3, std_end=1e-3, scorer="scaled_dot", window=2),
    loss=LossConfig(baseline="leave_one_out", rollouts=4, normalise=False, discount=0.0),
    train=TrainConfig(lr=1e-5, limit=1000, optimizer="sgd", tensorboard=False, folder="12"),
    score=ScoreConfig(read="hard", limit=7),
)


def settings_of(config, prefix=""):
    """All settings by their dotted names, with their values."""
    for entry in dataclasses.fields(config):
        value = getattr(config, entry.name)
        if dataclasses.is_dataclass(value):
            yield from settings_of(value, f"{prefix}{entry.name}.")
        else:
            yield prefix + entry.name, value


def written(value):
    """A value as on the command line."""
    return value if isinstance(value, str) else json.dumps(value)


def nested(key, value):
    """The YAML of one setting."""
    for name in reversed(key.split(".")):
        value = f"{{{name}: {value}}}"
    return value


@pytest.fixture
def write(tmp_path):
    """Writes a config file."""

    def write(content):
        path = tmp_path / "settings.yaml"
        path.write_bytes(content) if isinstance(content, bytes) else path.write_text(content, encoding="utf-8")
        return path

    return write


def test_no_arguments_are_the_defaults():
    assert parse() == Config()


def test_keys_are_all_settings():
    assert list(keys()) == [key for key, _ in settings_of(Config())]
    assert {"seed", "data.canvas", "sensor.patch_size", "attention.std", "train.lr", "score.limit"} <= set(keys())


@pytest.mark.parametrize("config", [Config(), UNUSUAL], ids=["defaults", "unusual"])
def test_yaml_round_trip(config, write):
    assert parse(file=write(to_yaml(config))) == config


@pytest.mark.parametrize("folder", ["1e3", "12", "yes", "~x", "2024-01-01", "[1]", "a: b"])
def test_yaml_round_trip_of_text_that_looks_like_something_else(folder, write):
    config = Config(init_from=folder, train=TrainConfig(folder=folder))
    assert parse(file=write(to_yaml(config))) == config


def test_command_line_round_trip():
    arguments = []
    for key, value in settings_of(UNUSUAL):
        arguments += [f"--{key}", written(value)]
    words, others, settings = split(arguments)
    assert (words, others) == ([], {})
    assert parse(settings) == UNUSUAL


def test_command_line_beats_file_beats_default(write):
    file = write("seed: 5\ntrain: {epochs: 7, lr: 1e-2}\n")
    config = parse(["--train.epochs=9"], file=file)
    assert (config.train.epochs, config.train.lr, config.seed) == (9, 0.01, 5)
    assert config.train.batch_size == Config().train.batch_size
    assert parse(["--seed=1", "--seed=2"]).seed == 2


def test_null_on_the_command_line_undoes_a_file(write):
    assert parse(["--train.limit=null"], file=write("train: {limit: 10}\n")).train.limit is None


@pytest.mark.parametrize("content", ["", "# only a comment\n", "{}\n"])
def test_file_without_settings_is_the_defaults(content, write):
    assert parse(file=write(content)) == Config()


def test_frozen():
    groups = [getattr(Config(), entry.name) for entry in dataclasses.fields(Config)]
    for config in [Config(), *filter(dataclasses.is_dataclass, groups)]:
        name = dataclasses.fields(config)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(config, name, getattr(config, name))


# Captions of photographs, with an encoder that was trained elsewhere.
BACKBONE = ["--model=captioner", "--data.kind=karpathy", "--loss.baseline=none", "--encoder.name=resnet18"]
DIGITS = ["--model=captioner", "--data.kind=digit_captions", "--loss.baseline=none"]
GRID_DOT = ["--attention.places=grid", "--attention.scorer=dot"]

# Each setting that can be wrong: a wrong value, and what the message must say is valid.
WRONG = [
    ("seed", "x", "int"),
    ("seed", "1.5", "int"),
    ("seed", "true", "int"),
    ("seed", "-1", r"in \[0, 2\*\*32\)"),
    ("seed", "4294967296", r"in \[0, 2\*\*32\)"),
    ("read", "hrad", "'hard', 'soft'"),
    ("encoder.dim", "0", "at least 1"),
    ("encoder.channels", "0", "at least 1"),
    ("encoder.embed_dim", "0", "at least 1"),
    ("encoder.min_count", "0", "at least 1"),
    ("encoder.dropout", "1", r"in \[0, 1\)"),
    ("encoder.stride", "9", "8, 12"),
    ("encoder.self_attention", "-1", "at least 0"),
    ("encoder.heads", "0", "at least 1"),
    ("encoder.fine_tune_from", "0", "null or at least 1"),
    ("encoder.fine_tune_from", "1", "null with encoder.name small"),
    ("encoder.cache", "kept", "null with encoder.name small"),
    ("decoder.embed_dim", "0", "at least 1"),
    ("decoder.state_dim", "-1", "at least 1"),
    ("decoder.min_count", "0", "at least 1"),
    ("decoder.max_length", "0", "at least 1"),
    ("decoder.dropout", "1", r"in \[0, 1\)"),
    ("loss.doubly_stochastic", "-0.5", "at least 0"),
    ("loss.mix", "1.1", r"in \[0, 1\]"),
    ("loss.mix_end", "1", r"null or in \[0, 1\)"),
    ("loss.mix_end", "-0.1", r"null or in \[0, 1\)"),
    ("train.places_lr", "0", "positive"),
    ("loss.mix_until", "0", r"in \(0, 1\]"),
    ("network.conv_layers", "1", "at least 2"),
    ("score.beam", "0", "at least 1"),
    ("score.length_penalty", "-0.1", "at least 0"),
    ("model", "rnn", "'attention', 'cnn', 'fc'"),
    ("attention.policy", "centr", "'learned', 'centre', 'random', 'raster', 'oracle'"),
    ("num_glimpses", "0", "at least 1"),
    ("num_glimpses", "2.0", "int"),
    ("data.kind", "mnist", "'cluttered', 'torchvision', 'folder', 'digit_captions', 'coco', 'karpathy'"),
    ("data.year", "2015", "2014, 2017"),
    ("data.broken", "ignore", "'error', 'skip'"),
    ("data.canvas", "27", "at least 28"),
    ("data.canvas", "[60, 27]", "at least 28"),
    ("data.canvas", "[60, 60, 60]", "int"),
    ("data.canvas", "big", "int"),
    ("data.num_digits", "0", "at least 1"),
    ("data.num_distractors", "-1", "in 0..200"),
    ("data.num_distractors", "201", "in 0..200"),
    ("data.num_digits", "11", "at most 10"),
    ("data.distractor_size", "0", r"in 1\.\.28"),
    ("data.distractor_size", "29", r"in 1\.\.28"),
    ("data.target", "sum", "label for one digit, and mark, combine or sum for several"),
    ("data.target", "digit", "'label', 'mark', 'combine', 'sum'"),
    ("data.size", "[0, 8]", "null or two numbers of at least 1"),
    ("data.size", "8", "tuple|two"),
    ("data.channels", "2", "1, 3"),
    ("data.download", "maybe", "bool"),
    ("data.valid_fraction", "0", "between 0 and 1"),
    ("data.valid_fraction", "1", "between 0 and 1"),
    ("data.test_fraction", "1.5", "between 0 and 1"),
    ("data.workers", "-1", "at least 0"),
    ("sensor.patch_size", "0", "at least 1"),
    ("sensor.num_scales", "0", "at least 1"),
    ("sensor.scale_factor", "0", "at least 1"),
    ("sensor.scale_factor", "1", "at least 2 with [2-9] scales"),
    ("sensor.plan", "fast", "'auto', 'table', 'crop'"),
    ("network.what", "deep", "'fc', 'conv'"),
    ("network.core", "transformer", "'rnn', 'gru', 'lstm'"),
    ("network.readout", "first", "'last', 'attend'"),
    ("network.halt", "maybe", "bool"),
    ("loss.glimpse_cost", "-0.01", "at least 0"),
    ("network.what_dim", "0", "at least 1"),
    ("network.where_dim", "-3", "at least 1"),
    ("network.glimpse_dim", "0", "at least 1"),
    ("network.state_dim", "0", "at least 1"),
    ("network.conv_channels", "1", "at least 2"),
    ("network.pixel_std", "0", "positive"),
    ("attention.places", "line", "'plane', 'grid'"),
    ("attention.first", "corner", "'centre', 'random', 'learned'"),
    ("attention.std", "-0.1", "positive"),
    ("attention.std", "0", "positive"),
    ("attention.std", "nan", "float|positive"),
    ("attention.std_end", "0", "null or positive"),
    ("attention.clip", "0", "null or positive"),
    ("attention.std_until", "0", r"in \(0, 1\]"),
    ("attention.std_until", "1.1", r"in \(0, 1\]"),
    ("attention.grid", "[0, 7]", "two numbers of at least 1"),
    ("attention.grid", "[7]", "tuple|two"),
    ("attention.scorer", "cosine", "'additive', 'dot', 'bilinear', 'scaled_dot'"),
    ("attention.scorer_dim", "0", "at least 1"),
    ("attention.window", "0", "null or at least 1"),
    ("attention.window", "2", "null with attention.places plane"),
    ("loss.classify", "first", "'each', 'last'"),
    ("loss.reinforce", "-1", "at least 0"),
    ("loss.reward", "f1", "'accuracy', 'log_likelihood'"),
    ("loss.reward_when", "never", "'each', 'last'"),
    ("loss.discount", "1.1", r"in \[0, 1\]"),
    ("loss.discount", "-0.1", r"in \[0, 1\]"),
    ("loss.baseline", "mean", "'none', 'learned', 'self_critical', 'leave_one_out'"),
    ("loss.rollouts", "0", "at least 1"),
    ("loss.baseline_weight", "-1", "at least 0"),
    ("loss.entropy", "-1", "at least 0"),
    ("train.epochs", "0", "at least 1"),
    ("train.batch_size", "0", "at least 1"),
    ("train.optimizer", "lion", "'adamw', 'adam', 'sgd'"),
    ("train.lr", "0", "positive"),
    ("train.lr", "fast", "float"),
    ("train.lr", "inf", "float|positive"),
    ("train.schedule", "up", "'one_cycle', 'cosine', 'linear', 'constant'"),
    ("train.warmup", "0", "between 0 and 1"),
    ("train.warmup", "1", "between 0 and 1"),
    ("train.momentum", "1", r"in \[0, 1\)"),
    ("train.momentum", "-0.1", r"in \[0, 1\)"),
    ("train.weight_decay", "-1", "at least 0"),
    ("train.clip", "0", "positive"),
    ("train.limit", "0", "null or at least 1"),
    ("train.threads", "-1", "at least 0"),
    ("train.log_every", "0", "at least 1"),
    ("score.read", "both", "'hard', 'soft'"),
    ("score.batch_size", "0", "at least 1"),
    ("score.limit", "0", "null or at least 1"),
]
# The text of the value in the message, where it is not the text that was given.
SHOWN = {"true": "True", "[60, 27]": "60, 27", "[0, 8]": "0, 8", "[0, 7]": "0, 7"}


def assert_says(message, key, valid, value):
    """The message names the setting, what is valid and what came, on one line, in words of the config."""
    assert re.search(rf"(^|\s){re.escape(key)}\b", message), message
    assert re.search(valid, message), message
    assert SHOWN.get(value, value) in message.split("got")[-1], message
    for inside in ("\n", "Parser key", "<class", "typing.", "Union", "NoneType"):
        assert inside not in message, message


@pytest.mark.parametrize(("key", "value", "valid"), WRONG)
def test_wrong_value(key, value, valid):
    with pytest.raises(ConfigError) as caught:
        parse([f"--{key}={value}"])
    assert_says(str(caught.value), key, valid, value)


@pytest.mark.parametrize(("key", "value", "valid"), WRONG[::9])
def test_wrong_value_in_a_file(key, value, valid, write):
    file = write(nested(key, value))
    with pytest.raises(ConfigError) as caught:
        parse(file=file)
    message = str(caught.value)
    assert message.startswith(f"{file}: ")
    assert_says(message.removeprefix(f"{file}: "), key, valid, value)


@pytest.mark.parametrize("value", [".inf", ".nan"])
@pytest.mark.parametrize("key", ["train.lr", "attention.std", "sensor.background"])
def test_numbers_are_finite(key, value, write):
    with pytest.raises(ConfigError, match=rf"(?i){key}.*got .?{value[1:]}"):
        parse(file=write(nested(key, value)))


def test_every_check_is_provoked():
    """Each setting that __post_init__ mentions by name has a wrong value above."""
    source = inspect.getsource(config_module) + inspect.getsource(settings_module)
    checked = set()
    for group, cls in [("", Config), *((e.name + ".", e.type) for e in dataclasses.fields(Config))]:
        if dataclasses.is_dataclass(cls):
            body = inspect.getsource(cls.__post_init__)
            names = [entry.name for entry in dataclasses.fields(cls) if not dataclasses.is_dataclass(entry.type)]
            checked |= {group + name for name in names if f'"{name}"' in body}
            checked |= {key for key in keys() if f'"{key}"' in body}
    assert source.count("require(") > 20 and len(checked) > 30
    assert checked - {key for key, _, _ in WRONG} == set()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--loss.baseline=leave_one_out"], "loss.rollouts must be at least 2 with loss.baseline leave_one_out, got 1"),
        (["--sensor.num_scales=4", "--sensor.scale_factor=1"], "scale_factor must be at least 2 with 4 scales.*got 1"),
        (["--data.num_digits=2"], "data.target must be label for one .*got 'label with data.num_digits 2'"),
        (["--loss.mix=1"], "^loss.mix_end must be less than 1 with loss.mix 1, or nothing .* hard, got None$"),
        (
            [*BACKBONE, "--encoder.cache=kept", "--encoder.fine_tune_from=2"],
            "^encoder.cache must be null with encoder.fine_tune_from, as what the encoder makes .*, got 'kept'$",
        ),
        (
            ["--encoder.name=small", "--encoder.cache=kept"],
            "^encoder.cache must be null with encoder.name small, got 'kept",
        ),
        (
            ["--encoder.name=small", "--encoder.fine_tune_from=1"],
            "^encoder.fine_tune_from must be null with encoder.name small, got 1$",
        ),
        (
            [*BACKBONE, "--encoder.fine_tune_from=4", "--train.epochs=3"],
            "^encoder.fine_tune_from must be null or at most train.epochs 3, got 4$",
        ),
        (
            [*BACKBONE, "--data.kind=digit_captions", "--encoder.cache=kept"],
            "^encoder.cache must be null with data.kind digit_captions, whose images are never the same, got 'kept'$",
        ),
        (
            ["--model=attention", "--data.kind=coco"],
            "^model must be captioner with data.kind digit_captions, coco, karpathy, and with no other, "
            "got 'attention with data.kind coco'$",
        ),
        (
            ["--model=captioner", "--data.kind=folder", "--loss.baseline=none"],
            "^model must be captioner with .* and with no other, got 'captioner with data.kind folder'$",
        ),
        (
            ["--model=captioner", "--data.kind=karpathy", "--loss.baseline=learned"],
            "^loss.baseline must be none or moving_average for captions and translations, and not moving_average for "
            "classes, got",
        ),
        (
            [*GRID_DOT, "--network.state_dim=12", "--network.glimpse_dim=16"],
            r"^network.state_dim must be 16, network.glimpse_dim, with attention.scorer dot \(bilinear .*\), got 12$",
        ),
        (
            [*GRID_DOT, "--read=hard", "--loss.reward_reaches_core=false"],
            "^loss.reward_reaches_core must be true with attention.scorer dot and no attention.window, .*, got False$",
        ),
        (
            [*DIGITS, "--attention.scorer=dot", "--encoder.dim=24", "--decoder.state_dim=32"],
            "^decoder.state_dim must be 24, the size of an annotation, with attention.scorer dot .*, got 32$",
        ),
        (
            [*DIGITS, "--encoder.self_attention=1", "--encoder.dim=24", "--encoder.heads=5"],
            "^encoder.heads must be a divisor of the size of an annotation, 24, with encoder.self_attention, got 5$",
        ),
        (
            ["--loss.baseline=moving_average"],
            "^loss.baseline must be none or moving_average for captions and .* got 'moving_average with data.kind clut",
        ),
    ],
)
def test_settings_that_exclude_each_other(arguments, message):
    with pytest.raises(ConfigError, match=message):
        parse(arguments)


def test_settings_that_go_together():
    assert parse([*GRID_DOT, "--attention.window=1", "--loss.reward_reaches_core=false"]).attention.window == 1
    assert parse([*GRID_DOT, "--read=soft", "--loss.reward_reaches_core=false"]).attention.scorer == "dot"
    for mix in (["--loss.mix=0.5"], ["--loss.mix=0", "--loss.mix_end=0.5"]):
        assert parse([*GRID_DOT, "--loss.reward_reaches_core=false", *mix]).attention.scorer == "dot"
    assert parse(["--attention.scorer=dot", "--network.glimpse_dim=9"]).attention.places == "plane"
    assert parse([*DIGITS, "--encoder.heads=5", "--encoder.dim=24"]).encoder.self_attention == 0
    assert parse([*BACKBONE, "--attention.scorer=dot", "--encoder.self_attention=2"]).encoder.heads == 4
    config = parse([*BACKBONE, "--encoder.fine_tune_from=3", "--train.epochs=3"])
    assert (config.encoder.fine_tune_from, config.encoder.cache) == (3, None)
    assert parse([*BACKBONE, "--encoder.cache=kept"]).encoder.cache == "kept"
    assert parse([*BACKBONE, "--encoder.weights=null"]).encoder.weights is None
    assert parse([*BACKBONE, "--score.length_penalty=0"]).score.length_penalty == 0


def test_sentences_of_text_files():
    """A folder is the same from wherever it is named, and what the other kind of files needs has no say."""
    two, one = (DataConfig(kind="parallel", root="here", tsv=tsv) for tsv in (None, "pairs.tsv"))
    absolute = dataclasses.replace(two, root=str(Path("here").absolute()), valid_fraction=0.3, test_fraction=0.3)
    assert images_of(absolute) == images_of(two) != images_of(dataclasses.replace(two, train_file="other"))
    other = dataclasses.replace(one, train_file="a", valid_file="b", test_file="c", source_language="fr")
    assert images_of(other) == images_of(one) != images_of(dataclasses.replace(one, valid_fraction=0.3))


def test_images_of_photographs():
    """What decides which images there are; null stands for a size."""
    given = DataConfig(kind="karpathy", root="here", size=None, workers=3, broken="skip")
    assert images_of(given) == DataConfig(
        kind="karpathy", root=str(Path("here").absolute()), size=(224, 224), broken="skip"
    )
    other = DataConfig(kind="karpathy", root="here", size=(64, 48), broken="skip")
    assert different(images_of(given), images_of(other), "data.") == [("data.size", (224, 224), (64, 48))]


def test_one_glimpse_leaves_nothing_to_stop():
    with pytest.raises(ConfigError, match="network.halt must be false with num_glimpses 1, which leave.*, got True"):
        Config(num_glimpses=1, network=NetworkConfig(halt=True))
    assert Config(num_glimpses=2, network=NetworkConfig(halt=True)).network.halt


def test_settings_are_checked_without_a_parser_too():
    with pytest.raises(ConfigError, match=r"attention.std must be positive, got -1\.0"):
        AttentionConfig(std=-1.0)
    assert issubclass(ConfigError, ValueError)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("sede: 1\n", r"settings\.yaml: there is no setting sede; did you mean seed\? valid: seed, model, .*, score$"),
        (
            "train: {epcohs: 1}\n",
            r"settings\.yaml: there is no setting train\.epcohs; did you mean epochs\? valid: epochs, .*, folder$",
        ),
        ("zzz: 1\n", r"there is no setting zzz; valid: seed, "),
        ("train.epochs: 1\n", r"there is no setting train\.epochs; valid: "),
        ("1: 2\n", "there is no setting 1; valid: seed, "),
        ("config: other.yaml\n", "there is no setting config; valid: seed, "),
        ("train: 3\n", r"settings\.yaml: train must be a group of settings \(epochs, .*, folder\), got 3$"),
        ("train:\n", r"train must be a group of settings \(epochs, .*\), got None$"),
        ("train: [epochs, 3]\n", r"train must be a group of settings \(epochs, .*\), got \['epochs', 3\]$"),
        ("read: [\n", r"settings\.yaml is not valid YAML: .*line \d"),
        ("seed: 1\n  read: soft\n", r"settings\.yaml is not valid YAML: "),
        (b"seed: \xff\xfe\n", r"settings\.yaml is not valid YAML: "),
        ("- seed\n", r"settings\.yaml must hold settings such as 'read: soft', got list$"),
        ("soft\n", r"settings\.yaml must hold settings such as 'read: soft', got str$"),
        ("num_glimpses: 0\n", r"settings\.yaml: num_glimpses must be at least 1, got 0$"),
        ("seed: {first: 1}\n", r"settings\.yaml: seed: expected int, got \{.*first.*\}$"),
        ("seed: 2024-01-01\n", r"settings\.yaml: seed: expected int, got \D*2024"),
    ],
)
def test_wrong_file(content, message, write):
    with pytest.raises(ConfigError, match=message) as caught:
        parse(["--seed=1"], file=write(content))
    assert "\n" not in str(caught.value)


def test_missing_file(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read the config file .*nothing\.yaml: No such file or directory$"):
        parse(file=tmp_path / "nothing.yaml")
    with pytest.raises(ConfigError, match="cannot read the config file .*: Is a directory$"):
        parse(file=tmp_path)


def test_a_wrong_option_beside_a_file_is_not_blamed_on_the_file(write):
    with pytest.raises(ConfigError, match=r"^train\.epochs must be at least 1, got 0$"):
        parse(["--train.epochs=0"], file=write("seed: 1\n"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trian.epochs=3"], r"^there is no option --trian\.epochs; did you mean train\.epochs\? --help lists all$"),
        (["--train.epcohs", "3"], r"no option --train\.epcohs; did you mean train\.epochs\? valid: train\.epochs, .*"),
        (["--xyzzy", "3"], r"^there is no option --xyzzy; --help lists all$"),
        (["--resum", "x"], r"no option --resum; did you mean resume\?"),
        (["-e", "3"], r"^there is no option -+e; "),
        (["--train", "{epochs: 3}"], r"^there is no option --train; "),
        (["--config", "x.yaml"], r"^there is no option --config; "),
        (["--seed"], r"^--seed lacks its value$"),
        (["--read=soft", "--resume"], r"^--resume lacks its value$"),
    ],
)
def test_wrong_option(arguments, message):
    with pytest.raises(ConfigError, match=message):
        split(arguments, ["resume"])


def test_split():
    arguments = ["a.yaml", "--seed", "-1", "--resume=x=y", "--train.lr=1e-3", "b.yaml"]
    expected = (["a.yaml", "b.yaml"], {"resume": "x=y"}, ["--seed=-1", "--train.lr=1e-3"])
    assert split(arguments, ["resume"]) == expected


@pytest.mark.parametrize("file", CONFIG_FILES, ids=lambda file: file.stem)
def test_config_files(file):
    """Each parses, opens with a comment, and holds only what differs from the defaults, and the word that matters."""
    text = file.read_text(encoding="utf-8")
    assert text.startswith("#"), "a config file opens with what it is"
    defaults, given = (dict(settings_of(config)) for config in (Config(), parse(file=file)))
    same = {key for key in _names(yaml.safe_load(text) or {}) if given[key] == defaults[key]}
    assert same <= {"read"}


def _hard_and_soft(name):
    hard, soft = (parse(file=REPOSITORY / "configs" / f"{name}_{read}.yaml") for read in ("hard", "soft"))
    assert (hard.read, soft.read) == ("hard", "soft")
    return hard, dataclasses.replace(soft, read="hard")


def _with_std_of(soft, hard):
    width = {key: getattr(hard.attention, key) for key in ("std", "std_end", "std_until")}
    return dataclasses.replace(soft, attention=dataclasses.replace(soft.attention, **width))


def test_hard_and_soft_differ_in_how_they_read():
    """In one word; but the std, a hard read's exploration and a soft one's blur, has its own course for each."""
    hard, soft = _hard_and_soft("cluttered60")
    assert hard == _with_std_of(soft, hard)


def test_on_large_images_soft_goes_on_from_hard():
    """With the hard model's weights, in a shorter training of its own; else it is the same model."""
    hard, soft = _hard_and_soft("cluttered100")
    assert soft.init_from == "cluttered100-hard"
    course = {key: getattr(hard.train, key) for key in ("epochs", "lr", "warmup")}
    soft = dataclasses.replace(soft, init_from=None, train=dataclasses.replace(soft.train, **course))
    assert hard == _with_std_of(soft, hard)


def test_hard_and_soft_reads_of_a_grid_differ_in_how_they_read():
    """In one word, and the learning rate: on a grid nothing bounds what a soft read sends back to its weights."""
    hard, soft = _hard_and_soft("cluttered60_grid")
    rate = {key: getattr(hard.train, key) for key in ("lr", "places_lr", "warmup")}
    assert hard == dataclasses.replace(soft, train=dataclasses.replace(soft.train, **rate))


def _names(content, prefix=""):
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _names(value, f"{prefix}{name}.")
        else:
            yield prefix + name


def _meanings():
    """What is written under each field."""
    sources = [*ast.parse(inspect.getsource(config_module)).body, *ast.parse(inspect.getsource(settings_module)).body]
    classes = {node.name: node for node in sources if hasattr(node, "bases")}
    for prefix, cls in [("", Config), *((f"{e.name}.", e.type) for e in dataclasses.fields(Config))]:
        if dataclasses.is_dataclass(cls):
            body = classes[cls.__name__].body
            for entry, after in zip(body, body[1:], strict=False):
                if isinstance(entry, ast.AnnAssign) and f"{prefix}{entry.target.id}" in keys():
                    is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                    yield f"{prefix}{entry.target.id}", after.value.value if is_text else None


def test_help_lists_every_setting_with_meaning_and_default():
    result = python("train.py", "--help")
    assert (result.returncode, result.stderr) == (0, "")
    for option in ("--resume RUN", "--run_dir DIR", "CONFIG"):
        assert option in result.stdout
    meanings, defaults = dict(_meanings()), dict(settings_of(Config()))
    assert meanings.keys() == defaults.keys() == set(keys())
    text = "".join(result.stdout.split("usage:")[1].split())  # however the lines were broken
    for key, default in defaults.items():
        assert meanings[key], f"{key} has no docstring"
        other = r"(?:(?!--)\S)*?"  # what stands between, of this setting
        meaning, shown = (re.escape("".join(words.split())) for words in (meanings[key], written(default)))
        entry = rf"--{re.escape(key)}{other}{meaning}\(type:{other},default:{shown}\)"
        assert re.search(entry, text, re.IGNORECASE), entry


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--train.epcohs", "3"], "there is no option --train.epcohs; did you mean train.epochs?"),
        (["--num_glimpses", "0"], "num_glimpses must be at least 1, got 0"),
        (["no.yaml"], "cannot read the config file no.yaml: No such file or directory"),
        (["a.yaml", "b.yaml"], "there must be one config file, got a.yaml, b.yaml"),
        (["--resume", "run", "--seed", "1"], "--resume takes no config and no settings"),
        (["--resume", "run", "a.yaml"], "--resume takes no config and no settings"),
        (["--resume", "run", "--run_dir", "x"], "--resume takes no config and no settings"),
    ],
)
def test_script_answers_mistakes_at_once(arguments, message):
    """Exit code 2 and one line; torch need not be there."""
    blocked = "import sys; sys.modules['torch'] = None; import train; sys.exit(train.main(sys.argv[1:]))"
    result = python("-c", blocked, *arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"train.py: error: {message}")
    assert result.stderr.count("\n") == 1
