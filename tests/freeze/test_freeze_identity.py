"""Frozen: which command lines of train.py mean the same training, by the settings that decide it.

`identity_cases.py` wrote the cases and their groups with the code as it was. Where the groups are not the same now, it
counted settings that have no effect; each such case is in a list with its reason.
"""

import warnings
from itertools import combinations

import pytest
import yaml
from freeze.adapter import CONFIGS, Run, config_names, load_config, shipped_names
from freeze.frozen import RUNS, read

CASES = read("identity")["cases"]
# Settings, or their first letters, that have no effect and were counted: if so, and the reason.
IDLE = {
    "estimator.": (lambda config: config.read == "soft", "nothing is sampled, so REINFORCE has nothing to learn from"),
    "attention.max_grad_norm": (
        lambda config: config.read == "hard" and not config.estimator.mixes,
        "it limits the gradient of soft reads only",
    ),
    "train.momentum": (lambda config: config.train.optimizer != "sgd", "other optimizers have no such setting"),
    "train.warmup_fraction": (lambda config: config.train.schedule != "one_cycle", "only one_cycle has a warm-up"),
    "encoder.num_heads": (lambda config: config.encoder.self_attention_layers == 0, "there are no layers with heads"),
    "encoder.feature_cache": (lambda config: True, "features are the same wherever they are kept"),
    "score.length_penalty": (lambda config: config.score.beam_width == 1, "it orders the hypotheses of a beam"),
}
TECHNICAL = ("seed", "train.device", "train.threads", "train.log_every", "train.tensorboard", "train.runs_dir")
# Settings that mean nothing to a model and no longer exist for it, by run folder; each made another group of runs that
# were the same training.
FOREIGN = [
    ("classification-hard", "decoder", "max_length", 30),
    ("classification-hard", "encoder", "dim", 64),
    ("classification-hard", "score", "beam", 5),
    ("whole-image-cnn", "network", "core", "lstm"),
    ("whole-image-cnn", "decoder", "dropout", 0.5),
    ("digit-captions-hard", "attention", "std", 0.5),
    ("digit-captions-hard", "sensor", "patch_size", 5),
    ("dates-soft", "loss", "classify", "last"),
    ("dates-soft", "network", "state_dim", 99),
]


@pytest.fixture(scope="module")
def configs():
    """The configs of all cases."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "sensor.plan is ignored")
        return [
            load_config(case["settings"], file=CONFIGS / f"{case['config']}.yaml" if case["config"] else None)
            for case in CASES
        ]


def test_there_are_many_cases():
    groups = {case["group"] for case in CASES}
    assert len(CASES) > 230 and 80 < len(groups) < 0.6 * len(CASES)
    assert {case["config"] for case in CASES} >= {"", *config_names()}


def test_what_was_the_same_training_still_is(configs):
    first = {}
    for case, config in zip(CASES, configs, strict=True):
        other, expected = first.setdefault(case["group"], (case, config.identity()))
        assert config.identity() == expected, (case, other)


def test_what_was_another_training_still_is_but_for_idle_settings(configs):
    counted = set()
    known = list(zip(CASES, configs, [config.identity() for config in configs], strict=True))
    for (case, config, identity), (other, another, same) in combinations(known, 2):
        if case["group"] == other["group"] or identity != same:
            continue
        one, two = dict(config.items()), dict(another.items())
        differ = {key for key in {*one, *two} if one.get(key) != two.get(key)} - {*TECHNICAL, "data.canvas"}
        for key in differ:
            [prefix] = [prefix for prefix in IDLE if key.startswith(prefix)]
            idle, _ = IDLE[prefix]
            assert idle(config) and idle(another), (key, case, other)
            counted.add(prefix)
    assert counted == IDLE.keys(), "every exception is there for a case"


def test_shipped_models_are_the_training_of_their_config_files():
    for name in shipped_names():
        trained = Run.open(name).config
        assert trained.identity() == load_config(file=CONFIGS / f"{name.replace('-', '_')}.yaml").identity(), name


def test_settings_of_other_models_no_longer_count(tmp_path):
    for run, group, name, value in FOREIGN:
        content = yaml.safe_load((RUNS / run / "config.yaml").read_text())
        assert content[group][name] != value
        content[group][name] = value
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(content))
        assert load_config(file=tmp_path / "config.yaml") == load_config(file=RUNS / run / "config.yaml"), (run, name)
