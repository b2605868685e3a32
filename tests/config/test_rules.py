"""Rules about values of settings: ranges, and settings that do not go together."""

import ast
import inspect
import sys
from pathlib import Path

import pytest
import yaml
from support.parts import listed

from glimpse.attention.placement import RULES as PLACEMENT_RULES
from glimpse.config import schema
from glimpse.config.schema import Settings, as_tuple
from glimpse.data.settings import DATASETS
from glimpse.errors import ConfigError
from glimpse.losses.estimators.reinforce import Reinforce
from glimpse.losses.policy_gradient import BASELINES, REWARDS
from glimpse.tasks.settings import MODELS, load_config

# For each model: options with values of the right type that break a rule, and the error message.

COMMON = [
    ("--seed=-1", "seed must be in [0, 2**32), got -1"),
    ("--seed=4294967296", "seed must be in [0, 2**32), got 4294967296"),
    ("--train.epochs=0", "train.epochs must be at least 1, got 0"),
    ("--train.batch_size=0", "train.batch_size must be at least 1, got 0"),
    ("--train.lr=0", "train.lr must be positive, got 0.0"),
    ("--train.attention_lr_mult=0", "train.attention_lr_mult must be positive, got 0.0"),
    ("--train.max_grad_norm=0", "train.max_grad_norm must be positive, got 0.0"),
    ("--train.log_every=0", "train.log_every must be at least 1, got 0"),
    ("--train.warmup_fraction=0", "train.warmup_fraction must be between 0 and 1, got 0.0"),
    ("--train.warmup_fraction=1", "train.warmup_fraction must be between 0 and 1, got 1.0"),
    ("--train.momentum=1", "train.momentum must be in [0, 1), got 1.0"),
    ("--train.momentum=-0.1", "train.momentum must be in [0, 1), got -0.1"),
    ("--train.weight_decay=-1", "train.weight_decay must be at least 0, got -1.0"),
    ("--train.limit=0", "train.limit must be null or at least 1, got 0"),
    ("--train.threads=-1", "train.threads must be at least 0, got -1"),
    ("--score.batch_size=0", "score.batch_size must be at least 1, got 0"),
    ("--score.limit=0", "score.limit must be null or at least 1, got 0"),
]
STORED = [
    ("--data.size=[0, 8]", "data.size must be null or two numbers of at least 1, got [0, 8]"),
    ("--data.workers=-1", "data.workers must be at least 0, got -1"),
]
IMAGES = [
    ("--data.canvas=27", "data.canvas must be at least 28, the side of a digit, got 27"),
    ("--data.canvas=[60, 27]", "data.canvas must be at least 28, the side of a digit, got [60, 27]"),
    ("--data.num_distractors=-1", "data.num_distractors must be in 0..200, got -1"),
    ("--data.num_distractors=201", "data.num_distractors must be in 0..200, got 201"),
    ("--data.distractor_size=0", "data.distractor_size must be in 1..28, got 0"),
    ("--data.distractor_size=29", "data.distractor_size must be in 1..28, got 29"),
    ("--data.num_digits=0", "data.num_digits must be at least 1, got 0"),
    ("--data.num_digits=11", "data.num_digits must be at most 10, got 11"),
    (
        "--data.target=sum",
        "data.target must be label for one digit, and mark, combine or sum for several, "
        "got 'sum with data.num_digits 1'",
    ),
    (
        "--data.num_digits=2",
        "data.target must be label for one digit, and mark, combine or sum for several, "
        "got 'label with data.num_digits 2'",
    ),
    *((f"--data.kind=torchvision {option}", message) for option, message in STORED),
    (
        "--data.kind=torchvision --data.valid_fraction=0",
        "data.valid_fraction must be between 0 and 1, got 0.0",
    ),
    ("--data.kind=folder --data.test_fraction=1.5", "data.test_fraction must be between 0 and 1, got 1.5"),
    (
        "--data.kind=folder --data.valid_fraction=0.5 --data.test_fraction=0.5",
        "data.valid_fraction must be less than 1 when added to data.test_fraction, got 1.0",
    ),
]
WHOLE_IMAGE = [
    ("--network.state_dim=0", "network.state_dim must be at least 1, got 0"),
    ("--network.pixel_std=0", "network.pixel_std must be positive, got 0.0"),
]
STRAIGHT = "--estimator.kind=straight_through"
ESTIMATOR = [
    ("--estimator.weight=-1", "estimator.weight must be at least 0, got -1.0"),
    ("--estimator.entropy_weight=-1", "estimator.entropy_weight must be at least 0, got -1.0"),
    ("--estimator.discount=1.1", "estimator.discount must be in [0, 1], got 1.1"),
    ("--estimator.discount=-0.1", "estimator.discount must be in [0, 1], got -0.1"),
    ("--estimator.soft_fraction=1.1", "estimator.soft_fraction must be in [0, 1], got 1.1"),
    ("--estimator.soft_fraction_final=1", "estimator.soft_fraction_final must be null or in [0, 1), got 1.0"),
    ("--estimator.soft_fraction_final=-0.1", "estimator.soft_fraction_final must be null or in [0, 1), got -0.1"),
    ("--estimator.soft_fraction_anneal=0", "estimator.soft_fraction_anneal must be in (0, 1], got 0.0"),
    (
        "--estimator.soft_fraction=1",
        "estimator.soft_fraction_final must be less than 1 with estimator.soft_fraction 1, which would leave no hard "
        "batch, got null",
    ),
    (f"{STRAIGHT} --estimator.soft_fraction=-0.5", "estimator.soft_fraction must be in [0, 1], got -0.5"),
    (f"{STRAIGHT} --estimator.soft_fraction_anneal=2.0", "estimator.soft_fraction_anneal must be in (0, 1], got 2.0"),
    ("--estimator.baseline_weight=-1", "estimator.baseline_weight must be at least 0, got -1.0"),
    ("--estimator.samples=0", "estimator.samples must be at least 1, got 0"),
    (
        "--estimator.baseline=leave_one_out",
        "estimator.samples must be at least 2 with estimator.baseline leave_one_out, got 1",
    ),
    (
        "--estimator.baseline=best",
        f"estimator.baseline must be one of {listed(BASELINES)}, got 'best'",
    ),
    (
        "--estimator.reward=gains",
        f"estimator.reward must be one of {listed(REWARDS)}, got 'gains'; did you mean gain?",
    ),
]
WORDS = [
    ("--decoder.embed_dim=0", "decoder.embed_dim must be at least 1, got 0"),
    ("--decoder.state_dim=-1", "decoder.state_dim must be at least 1, got -1"),
    ("--decoder.min_count=0", "decoder.min_count must be at least 1, got 0"),
    ("--decoder.max_length=0", "decoder.max_length must be at least 1, got 0"),
    ("--decoder.dropout=1", "decoder.dropout must be in [0, 1), got 1.0"),
    ("--encoder.dim=0", "encoder.dim must be at least 1, got 0"),
    ("--encoder.num_heads=0", "encoder.num_heads must be at least 1, got 0"),
    ("--encoder.self_attention_layers=-1", "encoder.self_attention_layers must be at least 0, got -1"),
    (
        "--encoder.self_attention_layers=1 --encoder.dim=24 --encoder.num_heads=5",
        "encoder.num_heads must be a divisor of the size of an annotation, 24, with encoder.self_attention_layers, "
        "got 5",
    ),
    (
        "--attention.scorer=dot --encoder.dim=24 --decoder.state_dim=32",
        "decoder.state_dim must be 24, the size of an annotation, with attention.scorer dot (bilinear takes any), "
        "got 32",
    ),
    (
        "--estimator.baseline=learned",
        f"estimator.baseline must be one of {listed(BASELINES, lambda baseline: not baseline.needs_values)} with model "
        "MODEL, got 'learned'",
    ),
    (
        "--estimator.reward=gain",
        f"estimator.reward must be one of {listed(REWARDS, lambda reward: not reward.same_target)} with model MODEL, "
        "got 'gain'",
    ),
    ("--attention.scorer_dim=0", "attention.scorer_dim must be at least 1, got 0"),
    ("--attention.window=0", "attention.window must be null or at least 1, got 0"),
    ("--score.beam_width=0", "score.beam_width must be at least 1, got 0"),
    ("--score.length_penalty=-0.1", "score.length_penalty must be at least 0, got -0.1"),
    *ESTIMATOR,
]
GRID = "--attention.kind=grid"
WITH_BOXES = listed(DATASETS, lambda data: getattr(data, "has_boxes", False)).replace(", ", " or ")
PHOTOS = "--data.kind=karpathy --encoder.kind=backbone"
RULES = {
    "recurrent_attention": [
        *COMMON,
        *IMAGES,
        *ESTIMATOR,
        *WHOLE_IMAGE,
        ("--num_glimpses=0", "num_glimpses must be at least 1, got 0"),
        ("--sensor.patch_size=0", "sensor.patch_size must be at least 1, got 0"),
        ("--sensor.num_scales=0", "sensor.num_scales must be at least 1, got 0"),
        ("--sensor.scale_factor=0", "sensor.scale_factor must be at least 1, got 0"),
        (
            "--sensor.num_scales=4 --sensor.scale_factor=1",
            "sensor.scale_factor must be at least 2 with sensor.num_scales 4, got 1",
        ),
        ("--network.what_dim=0", "network.what_dim must be at least 1, got 0"),
        ("--network.where_dim=-3", "network.where_dim must be at least 1, got -3"),
        ("--network.glimpse_dim=0", "network.glimpse_dim must be at least 1, got 0"),
        ("--network.memory_scorer_dim=0", "network.memory_scorer_dim must be at least 1, got 0"),
        ("--network.conv_channels=1", "network.conv_channels must be at least 2, got 1"),
        ("--network.conv_layers=1", "network.conv_layers must be at least 2, got 1"),
        ("--attention.std=0", "attention.std must be positive, got 0.0"),
        ("--attention.std=-0.1", "attention.std must be positive, got -0.1"),
        ("--attention.std_final=0", "attention.std_final must be null or positive, got 0.0"),
        ("--attention.std_anneal=0", "attention.std_anneal must be in (0, 1], got 0.0"),
        ("--attention.std_anneal=1.1", "attention.std_anneal must be in (0, 1], got 1.1"),
        ("--attention.max_grad_norm=0", "attention.max_grad_norm must be null or positive, got 0.0"),
        (f"{GRID} --attention.grid=[0, 7]", "attention.grid must be two numbers of at least 1, got [0, 7]"),
        (f"{GRID} --attention.scorer_dim=0", "attention.scorer_dim must be at least 1, got 0"),
        (f"{GRID} --attention.window=0", "attention.window must be null or at least 1, got 0"),
        (
            f"{GRID} --attention.scorer=dot --network.state_dim=12 --network.glimpse_dim=16",
            "network.state_dim must be 16, network.glimpse_dim, with attention.scorer dot (bilinear takes any), got 12",
        ),
        (
            f"{GRID} --attention.scorer=dot --read=hard --estimator.backprop_to_state=false",
            "estimator.backprop_to_state must be true with attention.scorer dot and no attention.window, which have no "
            "parameters to train, got false",
        ),
        (
            "--sensor.kind=foveated --sensor.patch_size=0",
            "sensor.patch_size must be at least 1, got 0",
        ),
        ("--sensor.kind=foveated --sensor.growth=0.9", "sensor.growth must be in [1, 4], got 0.9"),
        ("--sensor.kind=foveated --sensor.growth=4.5", "sensor.growth must be in [1, 4], got 4.5"),
        (
            "--sensor.kind=foveated --sensor.patch_size=120 --sensor.growth=1.3",
            "sensor.growth must be at most 1.168 with sensor.patch_size 120, so that the outermost cells are at most "
            "10000 pixels wide, got 1.3",
        ),
        (
            "--attention.policy=spiral",
            f"attention.policy must be one of learned, {listed(PLACEMENT_RULES)}, got 'spiral'",
        ),
        (
            "--attention.first=rand",
            f"attention.first must be one of learned, {listed(PLACEMENT_RULES)}, got 'rand'; did you mean random?",
        ),
        (
            "--attention.policy=oracle --data.kind=folder",
            f"data.kind must be {WITH_BOXES} with attention.policy oracle, which needs the boxes of the digits, "
            "got 'folder'",
        ),
        (
            "--attention.first=oracle --data.kind=folder",
            f"data.kind must be {WITH_BOXES} with attention.first oracle, which needs the boxes of the digits, "
            "got 'folder'",
        ),
        (
            "--num_glimpses=1 --network.halting_unit=true",
            "network.halting_unit must be false with num_glimpses 1, got true",
        ),
        ("--loss.glimpse_cost=-0.01", "loss.glimpse_cost must be at least 0, got -0.01"),
    ],
    "cnn": [
        *COMMON,
        *IMAGES,
        *WHOLE_IMAGE,
        ("--network.conv_channels=1", "network.conv_channels must be at least 2, got 1"),
    ],
    "mlp": [*COMMON, *IMAGES, *WHOLE_IMAGE],
    "captioner": [
        *COMMON,
        *WORDS,
        *(
            rule
            for rule in IMAGES
            if "torchvision" not in rule[0]
            and "folder" not in rule[0]
            and "digits" not in rule[0]
            and "target" not in rule[0]
        ),
        ("--data.max_digits=0", "data.max_digits must be at least 1, got 0"),
        ("--encoder.channels=0", "encoder.channels must be at least 1, got 0"),
        ("--encoder.pixel_std=0", "encoder.pixel_std must be positive, got 0.0"),
        ("--encoder.stride=9", "encoder.stride must be one of 8, 12, got 9"),
        *((f"{PHOTOS} {option}", message) for option, message in STORED),
        ("--data.kind=coco --data.valid_fraction=1", "data.valid_fraction must be between 0 and 1, got 1.0"),
        ("--loss.doubly_stochastic=-0.5", "loss.doubly_stochastic must be at least 0, got -0.5"),
        (
            f"{PHOTOS} --encoder.unfreeze_epoch=0",
            "encoder.unfreeze_epoch must be null or at least 1, got 0",
        ),
        (
            f"{PHOTOS} --encoder.feature_cache=kept --encoder.unfreeze_epoch=2",
            "encoder.feature_cache must be null with encoder.unfreeze_epoch, as the features then change, got 'kept'",
        ),
        (
            f"{PHOTOS} --encoder.unfreeze_epoch=4 --train.epochs=3",
            "encoder.unfreeze_epoch must be null or at most train.epochs 3, got 4",
        ),
        (
            "--encoder.kind=backbone --encoder.feature_cache=kept",
            "encoder.feature_cache must be null with data.kind digit_captions, whose images are different in each "
            "epoch, got 'kept'",
        ),
    ],
    "translator": [
        *COMMON,
        *WORDS,
        ("--encoder.dim=25", "encoder.dim must be even, a half for each direction, got 25"),
        ("--encoder.embed_dim=0", "encoder.embed_dim must be at least 1, got 0"),
        ("--encoder.min_count=0", "encoder.min_count must be at least 1, got 0"),
        ("--encoder.dropout=1", "encoder.dropout must be in [0, 1), got 1.0"),
        (
            "--attention.kind=final_state --encoder.self_attention_layers=1",
            "encoder.self_attention_layers must be 0 with attention.kind final_state, which has a single annotation, "
            "got 1",
        ),
        (
            "--data.kind=parallel --data.valid_fraction=0.6 --data.test_fraction=0.5",
            "data.valid_fraction must be less than 1 when added to data.test_fraction, got 1.1",
        ),
    ],
}


LATE = ("build", "check_batch")  # methods that are not called by the constructor: data may be needed there


def words_of(options):
    """The words of a line of options, whose values may have spaces."""
    return [f"--{option}".strip() for option in options.split("--") if option]


@pytest.mark.parametrize("model", RULES)
def test_rules(model, refused, write):
    for options, expected in RULES[model]:
        words, expected = words_of(options), expected.replace("MODEL", model)
        assert refused(f"--model={model}", *words) == expected
        content = {"model": model}
        for key, value in (word.removeprefix("--").split("=") for word in words):
            group, dot, name = key.partition(".")
            (content.setdefault(group, {}) if dot else content)[name if dot else key] = yaml.safe_load(value)
        message = refused(content=yaml.safe_dump(content))
        assert message.startswith("FILE") and message.partition(": ")[2] == expected


def test_a_batch_of_one_rollout_cannot_be_normalized():
    message = r"^estimator\.normalize must be false with one rollout per batch, .*, got true$"
    with pytest.raises(ConfigError, match=message):
        Reinforce().check_batch(1)
    for settings, batch_size in (({"normalize": False}, 1), ({"samples": 2}, 1), ({}, 2)):
        Reinforce(**settings).check_batch(batch_size)


def test_every_rule_is_broken_above(monkeypatch):
    """Each call of `require` in a settings class, and each name of each call of `require_positive`."""
    broken = set()
    require = Settings.require

    def remember(self, ok, name, expected, got=None):
        caller = sys._getframe(1)
        if not ok and caller.f_code.co_filename == schema.__file__:
            broken.add((caller.f_back.f_code.co_filename, caller.f_back.f_lineno, name))
        elif not ok:
            broken.add((caller.f_code.co_filename, caller.f_lineno))
        require(self, ok, name, expected, got)

    monkeypatch.setattr(Settings, "require", remember)
    for model, rules in RULES.items():
        for options, _ in rules:
            with pytest.raises(ConfigError):
                load_config([f"--model={model}", *words_of(options)])
    groups = [group for _, config in MODELS.items() for group in config.groups().values()]
    classes = [cls for group in groups for cls in group.kinds().values()] + [config for _, config in MODELS.items()]
    files = {inspect.getsourcefile(base) for cls in classes for base in cls.__mro__ if issubclass(base, Settings)}
    calls = set()
    for file in files - {schema.__file__}:
        for function in ast.walk(ast.parse(Path(file).read_text())):
            if isinstance(function, ast.FunctionDef) and function.name not in LATE:
                for call in ast.walk(function):
                    name = getattr(getattr(call, "func", None), "attr", "")
                    if name == "require":
                        calls.add((file, call.lineno))
                    elif name == "require_positive":
                        calls |= {(file, call.lineno, argument.value) for argument in call.args}
    assert len(calls) > 60
    assert calls - broken == set()


def test_settings_that_go_together():
    dot = [GRID, "--attention.scorer=dot"]
    no_gradient = "--estimator.backprop_to_state=false"
    for options in (
        [*dot, "--attention.window=1", no_gradient],
        [*dot, "--read=soft", no_gradient],
        [*dot, no_gradient, "--estimator.soft_fraction=0.5"],
        [*dot, no_gradient, "--estimator.soft_fraction=0", "--estimator.soft_fraction_final=0.5"],
        ["--num_glimpses=2", "--network.halting_unit=true"],
        ["--model=captioner", "--encoder.num_heads=5", "--encoder.dim=24"],
        ["--model=captioner", *PHOTOS.split(), "--attention.scorer=dot", "--encoder.self_attention_layers=2"],
        ["--model=captioner", *PHOTOS.split(), "--encoder.unfreeze_epoch=3", "--train.epochs=3"],
        ["--model=captioner", *PHOTOS.split(), "--encoder.feature_cache=kept"],
        ["--model=captioner", *PHOTOS.split(), "--encoder.weights=null"],
        ["--model=captioner", "--score.length_penalty=0"],
    ):
        config = load_config(options)
        values = dict(config.items())
        for option in options:
            key, _, value = option.removeprefix("--").partition("=")
            assert values[key] in (value, as_tuple(yaml.safe_load(value)))
