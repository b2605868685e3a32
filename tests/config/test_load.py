"""Loading configs from files and command lines, and the error messages."""

import pytest
import yaml
from support.parts import kinds_of, listed

from glimpse.attention.settings import SENSORS, SensorSettings
from glimpse.config.index import setting_names
from glimpse.data.settings import DATASETS, CaptionDataSettings, ImageDataSettings
from glimpse.errors import ConfigError
from glimpse.losses.estimators import ESTIMATORS, Estimator
from glimpse.tasks.settings import MODELS, Config, is_setting, load_config, split_arguments

KINDS = kinds_of(DATASETS, ImageDataSettings)
DATA = "kind, canvas, num_digits, num_distractors, distractor_size, target"
TOP = "seed, model, init_from, read, num_glimpses, data, sensor, network, attention, estimator, loss, train, score"


def test_without_settings_all_are_the_defaults(write):
    assert load_config() == Config()
    for content in ("", "# only a comment\n", "{}\n", "null\n", "---\n", "train: {}\n"):
        assert load_config(file=write(content)) == Config()


def test_names_of_settings():
    for _, config in MODELS.items():
        names = list(setting_names(config))
        assert names == [key for key, _ in config().items()]
    names = list(setting_names(MODELS["recurrent_attention"], {"attention": "grid", "data": "folder"}))
    assert "attention.grid" in names and "data.test_fraction" in names
    assert "attention.std" not in names and "data.canvas" not in names
    assert all(map(is_setting, names))
    assert is_setting("loss.rollouts") and is_setting("sensor.plan")  # old names
    assert not is_setting("train") and not is_setting("train.epcohs")


def test_command_line_beats_file_beats_default(write):
    file = write("seed: 5\ntrain: {epochs: 7, lr: 1e-2}\n")
    config = load_config(["--train.epochs=9"], file=file)
    assert (config.train.epochs, config.train.lr, config.seed) == (9, 0.01, 5)
    assert config.train.batch_size == Config().train.batch_size
    assert load_config(["--seed=1", "--seed=2"]).seed == 2
    assert load_config(["--train.limit=null"], file=write("train: {limit: 10}\n")).train.limit is None
    assert load_config(["--model=mlp"], file=write("model: cnn\n")).model == "mlp"


def test_overrides_have_two_forms():
    one = load_config(["--train.epochs", "5", "--data.canvas", "[60, 80]", "--seed", "3"])
    other = load_config(["--train.epochs=5", "--data.canvas=[60, 80]", "--seed=3"])
    assert one == other
    assert (one.train.epochs, one.data.canvas, one.seed) == (5, (60, 80), 3)
    assert load_config(["--init_from", "a=b"]).init_from == load_config(["--init_from=a=b"]).init_from == "a=b"


def test_texts_and_null():
    for text, value in (("12", "12"), ("1e3", "1e3"), ("#1", "#1"), ("null", None), ("~", None), ("", None)):
        assert load_config([f"--init_from={text}"]).init_from == value
    for text, value in (("cuda:1", "cuda:1"), ("0", "0"), ("yes", "yes")):
        assert load_config([f"--train.device={text}"]).train.device == value


# Content of a file, and the error message.
WRONG_FILES = [
    ("sede: 1\n", f"FILE, line 1: there is no setting sede; did you mean seed? valid: {TOP}"),
    ("zzz: 1\n", f"FILE, line 1: there is no setting zzz; valid: {TOP}"),
    ("\n# x\ntrian: {epochs: 1}", f"FILE, line 3: there is no setting trian.epochs; did you mean train.epochs? {TOP}"),
    ("1: 2\n", f"FILE, line 1: there is no setting 1; valid: {TOP}"),
    ("? [a, b]\n: 1\n", f"FILE, line 1: there is no setting ['a', 'b']; valid: {TOP}"),
    ("config: other.yaml\n", f"FILE, line 1: there is no setting config; valid: {TOP}"),
    (
        "seed: 1\ntrain:\n  lr: 0.1\n  epcohs: 1\n",
        "FILE, line 4: there is no setting train.epcohs; did you mean train.epochs? valid: train.epochs, ",
    ),
    ("model: cnn\nloss: {x: 1}\n", "FILE, line 2: there is no setting loss.x; valid: seed, model, init_from, data, "),
    ("train.epochs: 1\n", "FILE, line 1: train.epochs must be written as train: {epochs: ...}"),
    ("data: 3\n", f"FILE, line 1: data must be a group of settings ({DATA}), got 3"),
    ("data:\n", f"FILE, line 1: data must be a group of settings ({DATA}), got null"),
    ("data: [kind, 3]\n", f"FILE, line 1: data must be a group of settings ({DATA}), got ['kind', 3]"),
    ("seed: 1\nseed: 2\n", "FILE, line 2: seed is given twice"),
    ("train: {lr: 0.1}\nseed: 2\ntrain: {limit: 2}\n", "FILE, line 3: train is given twice"),
    ("train: {lr: 0.1, lr: 0.1}\n", "FILE, line 1: train.lr is given twice"),
    (
        "loss: {rollouts: 2}\nestimator: {samples: 3}\n",
        "FILE, line 2: estimator.samples is given twice, first as loss.rollouts",
    ),
    ("read: [\n", "FILE is not valid YAML: while parsing a flow node"),
    ("seed: 1\n  read: soft\n", "FILE is not valid YAML: mapping values are not allowed"),
    ("\tseed: 1\n", "FILE is not valid YAML: while scanning"),
    (b"seed: \xff\xfe\n", "FILE is not valid YAML: 'utf-8' codec"),
    ("seed: !!python/object:x 1\n", "FILE, line 1: not valid YAML: could not determine a constructor"),
    ("- seed\n", "FILE must hold settings such as 'read: soft', got ['seed']"),
    ("soft\n", "FILE must hold settings such as 'read: soft', got 'soft'"),
    ("num_glimpses: 0\n", "FILE, line 1: num_glimpses must be at least 1, got 0"),
    ("seed: {first: 1}\n", "FILE, line 1: seed must be an integer, got a group of settings"),
    ("train: {epochs: {first: 1}}\n", "FILE, line 1: train.epochs must be an integer, got {'first': 1}"),
    ("seed: 2024-01-01\n", "FILE, line 1: seed must be an integer, got '2024-01-01'"),
    ("read: off\n", "FILE, line 1: read must be one of hard, soft, got false"),
    ("init_from: 12\n", "FILE, line 1: init_from must be text or null, got 12"),
    ("\nmodel: rnn\n", f"FILE, line 2: model must be one of {listed(MODELS)}, got"),
    ("model: [cnn]\n", f"FILE, line 1: model must be one of {listed(MODELS)}, got"),
    ("data: {kind: mnist}\n", f"FILE, line 1: data.kind must be one of {KINDS}, got 'mnist'"),
    ("data: {kind: null}\n", f"FILE, line 1: data.kind must be one of {KINDS}, got null"),
    ("data: {kind: [a]}\n", f"FILE, line 1: data.kind must be one of {KINDS}, got ['a']"),
    ("format: 3\nseed: 1\n", "FILE is of format 3, this version of the package reads 1 to 2"),
    ("format: x\n", "FILE is of format x, this version of the package reads 1 to 2"),
    (
        "estimator: {baseline: leave_one_out}\n",
        "FILE: estimator.samples must be at least 2 with estimator.baseline leave_one_out, got 1",
    ),
]


def test_wrong_files(refused):
    """Also if the command line, which is right, has its own."""
    for content, expected in WRONG_FILES:
        for arguments in ([], ["--train.batch_size=7"]):
            message = refused(*arguments, content=content)
            assert all(part in message for part in expected.split("? ")), message
            assert message.startswith(expected.split("? ")[0]), message


def test_missing_files(tmp_path):
    with pytest.raises(ConfigError, match=r"^cannot read the config file .*nothing\.yaml: No such file or directory$"):
        load_config(file=tmp_path / "nothing.yaml")
    with pytest.raises(ConfigError, match="^cannot read the config file .*: Is a directory$"):
        load_config(file=tmp_path)


def test_a_wrong_option_beside_a_file_is_not_blamed_on_the_file(refused):
    assert refused("--train.epochs=0", content="seed: 1\n") == "train.epochs must be at least 1, got 0"
    baseline = "--estimator.baseline=leave_one_out"
    assert refused(baseline, content="seed: 1\n").startswith("estimator.samples must be at least 2")


# Options with settings of other models or kinds, and the start of the error message.
ELSEWHERE = [
    ("--attention.grid=[3, 4]", "attention.grid is a setting of attention.kind grid, and attention.kind is plane"),
    ("--attention.window=2", "attention.window is a setting of attention.kind grid, and attention.kind is plane"),
    (
        "--attention.kind=grid --attention.std=0.1",
        "attention.std is a setting of attention.kind plane, and attention.kind is grid",
    ),
    (
        "--data.size=[8, 8]",
        f"data.size is a setting of data.kind {kinds_of(DATASETS, ImageDataSettings, 'size')}, and data.kind is clutte",
    ),
    (
        "--data.kind=folder --data.download=true",
        f"data.download is a setting of data.kind {kinds_of(DATASETS, ImageDataSettings, 'download')}, and data.",
    ),
    ("--data.year=2014", "data.year is a setting of model captioner, and the model is recurrent_attention"),
    ("--encoder.dim=64", "encoder.dim is a setting of model captioner, translator, and the model is recurrent_att"),
    ("--decoder.max_length=30", "decoder.max_length is a setting of model captioner, translator, and the model is "),
    ("--score.beam_width=5", "score.beam_width is a setting of model captioner, translator, and the model is "),
    ("--loss.doubly_stochastic=1.0", "loss.doubly_stochastic is a setting of model captioner, and the model is rec"),
    ("--model=cnn --network.core=lstm", "network.core is a setting of model recurrent_attention, and the model is cnn"),
    ("--model=cnn --read=soft", "read is a setting of model recurrent_attention, captioner, translator, and the mo"),
    ("--model=cnn --sensor.patch_size=8", "sensor.patch_size is a setting of model recurrent_attention, and the mod"),
    ("--model=mlp --network.conv_channels=8", "network.conv_channels is a setting of model recurrent_attention, cnn"),
    ("--model=captioner --num_glimpses=3", "num_glimpses is a setting of model recurrent_attention, and the model is"),
    ("--model=cnn --loss.rollouts=4", "estimator.samples is a setting of model recurrent_attention, captioner, trans"),
    (
        "--sensor.growth=2.0",
        f"sensor.growth is a setting of sensor.kind {kinds_of(SENSORS, SensorSettings, 'growth')}, and sensor.",
    ),
    (
        "--estimator.kind=straight_through --estimator.samples=2",
        f"estimator.samples is a setting of estimator.kind {kinds_of(ESTIMATORS, Estimator, 'samples')}, and es",
    ),
    (
        "--model=captioner --encoder.feature_cache=kept",
        "encoder.feature_cache is a setting of encoder.kind backbone, and encoder.kind is small",
    ),
    (
        "--model=captioner --encoder.unfreeze_epoch=1",
        "encoder.unfreeze_epoch is a setting of encoder.kind backbone, and encoder.kind is small",
    ),
    (
        "--model=captioner --encoder.kind=small --encoder.name=resnet18",
        "encoder.name is a setting of encoder.kind backbone, and encoder.kind is small",
    ),
    ("--model=translator --loss.doubly_stochastic=0.1", "loss.doubly_stochastic is a setting of model captioner"),
    (
        "--model=translator --attention.kind=final_state --attention.window=2",
        "attention.window is a setting of attention.kind words, and attention.kind is final_state",
    ),
    (
        "--data.kind=coco",
        f"data.kind must be one of {KINDS} with model recurrent_attention, got 'coco', which is for model captioner",
    ),
    (
        "--model=captioner --data.kind=folder",
        f"data.kind must be one of {kinds_of(DATASETS, CaptionDataSettings)} with model captioner, got 'folder', which "
        "is for model recurrent_attention, cnn, mlp",
    ),
    (
        "--model=translator --attention.places=plane",
        "attention.kind must be one of words, final_state with model translator, got 'plane', which is for model "
        "recurrent_attention (given as attention.places)",
    ),
    (
        "--model=mlp --estimator.kind=straight_through",
        "estimator.kind is a setting of model recurrent_attention, captioner, translator, and the model is mlp",
    ),
    (
        "--encoder.kind=small",
        "encoder.kind is a setting of model captioner, translator, and the model is recurrent_att",
    ),
    ("--encoder.kind=backbone", "encoder.kind is a setting of model captioner, translator, and the model is recurren"),
    ("--model=cnn --sensor.kind=foveated", "sensor.kind is a setting of model recurrent_attention, and the model is c"),
    ("--model=cnn --attention.kind=grid", "attention.kind is a setting of model recurrent_attention, captioner, trans"),
    # Defaults too.
    ("--sensor.growth=1.3", "sensor.growth is a setting of sensor.kind foveated, and sensor.kind is pyramid"),
    ("--model=cnn --network.core=gru", "network.core is a setting of model recurrent_attention, and the model is cnn"),
    ("--attention.grid=[5, 5]", "attention.grid is a setting of attention.kind grid, and attention.kind is plane"),
    (
        "--model=captioner --attention.kind=grid",
        "attention.kind must be one of feature_map with model captioner, got 'grid', which is for model recurrent_att",
    ),
    (
        "--model=translator --encoder.kind=small",
        "encoder.kind must be one of sentence with model translator, got 'small', which is for model captioner",
    ),
]


def test_settings_of_other_models_and_kinds(refused):
    """An error that names those models or kinds; defaults are accepted under old names, as old configs had them."""
    for options, expected in ELSEWHERE:
        words = [f"--{option}".strip() for option in options.split("--") if option]
        assert refused(*words).startswith(expected)
        assert refused(content=yaml.safe_dump(content_of(words))).partition(": ")[2].startswith(expected)
    assert load_config(["--model=cnn", "--loss.rollouts=1", "--loss.baseline=learned"]) == Config(model="cnn")


def content_of(options):
    """Options as the content of a config file."""
    content = {}
    for option in options:
        name, _, value = option[2:].partition("=")
        group, _, key = name.rpartition(".")
        (content.setdefault(group, {}) if group else content)[key] = yaml.safe_load(value)
    return content


def test_an_override_of_the_model_replaces_what_the_file_has_for_its_own(tmp_path):
    """Its kinds, and the defaults that the config.yaml of a run lists."""
    file = tmp_path / "config.yaml"
    file.write_text("attention: {kind: grid, first: learned, scorer: bilinear}\nnetwork: {what: fc}\nread: soft\n")
    config = load_config(["--model=captioner"], file=file)
    assert (config.attention.kind, config.attention.scorer, config.read) == ("feature_map", "bilinear", "soft")
    with pytest.raises(
        ConfigError, match=r"^attention\.kind must be .* with model captioner, .* for model recurrent_att"
    ):
        load_config(["--model=captioner", "--attention.kind=grid"], file=file)
    for model in MODELS:
        file.write_text(load_config([f"--model={model}", "--train.epochs=3"]).to_yaml())
        for other in MODELS:
            options = [f"--model={other}"]
            assert load_config(options, file=file) == load_config([*options, "--train.epochs=3"]), (model, other)
    file.write_text("model: cnn\ndata: {kind: folder, root: here}\n")
    assert load_config(["--model=recurrent_attention"], file=file).data.root == "here"
    assert load_config(["--model=captioner"], file=file).data.kind == "digit_captions"
    with pytest.raises(ConfigError, match=r"line 1: data\.kind must be one of"):
        file.write_text("data: {kind: [a]}\n")
        load_config([], file=file)
    assert load_config(["--model=captioner"], file=file).data.kind == "digit_captions"


def test_settings_that_are_idle_because_of_read_are_accepted():
    options = ["--estimator.samples=4", "--estimator.baseline=leave_one_out", "--estimator.weight=0.5"]
    soft = load_config(["--read=soft", *options])
    assert soft.estimator == load_config(["--read=hard", *options]).estimator
    for model in ("captioner", "translator"):
        config = load_config([f"--model={model}", "--read=soft", "--estimator.entropy_weight=0.1"])
        assert config.estimator.entropy_weight == 0.1


def test_the_plan_of_the_sensor_is_accepted_with_a_warning(write):
    with pytest.warns(UserWarning, match=r"^sensor\.plan is ignored: it changes the speed only"):
        assert load_config(["--sensor.plan=crop"]) == Config()
    with pytest.warns(UserWarning, match=r"settings\.yaml, line 2: sensor\.plan is ignored"):
        assert load_config(file=write("seed: 1\nsensor: {plan: table}\n")).seed == 1


# Command lines.


def test_wrong_options():
    misspelled = "there is no option --train.epcohs; did you mean train.epochs? valid: train.epochs, train.batch_size, "
    for arguments, expected in (
        (["--trian.epochs=3"], "there is no option --trian.epochs; did you mean train.epochs? --help lists all"),
        (["--train.epcohs", "3"], misspelled),
        (["--xyzzy", "3"], "there is no option --xyzzy; --help lists all"),
        (["--resum", "x"], "there is no option --resum; did you mean resume? --help lists all"),
        (["-e", "3"], "there is no option --e; "),
        (["--train", "{epochs: 3}"], "there is no option --train; "),
        (["--config", "x.yaml"], "there is no option --config; "),
        (["--seed"], "--seed needs a value"),
        (["--read=soft", "--resume"], "--resume needs a value"),
    ):
        with pytest.raises(ConfigError) as caught:
            split_arguments(arguments, ["resume"])
        assert str(caught.value).startswith(expected)
    for arguments, expected in (
        (["seed=1"], "a setting must begin with --, got seed=1"),
        (["--train.epcohs=3"], misspelled),
        (["--seed=1", "--train.lr"], "--train.lr needs a value"),
    ):
        with pytest.raises(ConfigError) as caught:
            load_config(arguments)
        assert str(caught.value).startswith(expected)


def test_split():
    arguments = ["a.yaml", "--seed", "-1", "--resume=x=y", "--train.lr=1e-3", "b.yaml", "--loss.rollouts=2"]
    words, others, settings = split_arguments(arguments, ["resume"])
    assert (words, others) == (["a.yaml", "b.yaml"], {"resume": "x=y"})
    assert settings == ["--seed=-1", "--train.lr=1e-3", "--loss.rollouts=2"]


def test_an_override_of_a_kind_replaces_what_the_file_has_for_its_own(tmp_path):
    file = tmp_path / "soft.yaml"
    file.write_text("attention: {std: 0.1, std_final: 0.01}\ntrain: {epochs: 3}\n")
    config = load_config(["--attention.kind=grid", "--attention.grid=[3, 4]"], file=file)
    assert config.attention.grid == (3, 4) and config.train.epochs == 3
    assert load_config(["--model=cnn"], file=file).train.epochs == 3
    message = "attention.std is a setting of attention.kind plane, and attention.kind is grid"
    with pytest.raises(ConfigError, match=f"^{message}"):
        load_config(["--attention.kind=grid", "--attention.std=0.1"], file=file)
    file.write_text("attention: {kind: grid, std: 0.1}\n")
    with pytest.raises(ConfigError, match=f"{file}, line 1: {message}"):
        load_config([], file=file)
