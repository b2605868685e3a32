"""Which settings make a training another one, and which data are the same."""

import operator
from functools import reduce

import pytest
import torch
from torch import nn

from glimpse.attention.scorers import SCORERS
from glimpse.attention.settings.base import SCORERS_WITH_DIM, SCORERS_WITH_VALUES
from glimpse.config.index import setting_index
from glimpse.config.schema import diff
from glimpse.distributed import processes
from glimpse.tasks.base import task_of
from glimpse.tasks.settings import MODELS, load_config
from glimpse.training.optimizer import make_optimizer

HARD, SOFT, CNN, CAPTIONS, DATES = [], ["--read=soft"], ["--model=cnn"], ["--model=captioner"], ["--model=translator"]
PHOTOS = ["--model=captioner", "--data.kind=karpathy", "--encoder.kind=backbone"]
FILES = ["--model=cnn", "--data.kind=torchvision"]
TEXT = ["--model=translator", "--data.kind=parallel"]
TSV = [*TEXT, "--data.tsv=pairs.tsv"]
RULE, ONE = ["--attention.policy=center"], ["--num_glimpses=1"]
GRID = ["--attention.kind=grid"]
WHOLE = [*DATES, "--attention.kind=final_state"]
DROPOUT = ["--decoder.dropout=0.3"]

# What changes nothing: a config, and settings that may be added to it.
SAME = [
    *((config, "--seed=3") for config in (HARD, SOFT, CNN, CAPTIONS, DATES)),
    *((config, "--train.device=cpu") for config in (HARD, CNN, CAPTIONS, DATES)),
    (HARD, "--train.threads=2"),
    (HARD, "--train.log_every=7"),
    (HARD, "--train.tensorboard=false"),
    (HARD, "--train.runs_dir=elsewhere"),
    (HARD, "--train.momentum=0.5"),
    ([*HARD, "--train.schedule=cosine"], "--train.warmup_fraction=0.5"),
    (HARD, "--data.canvas=[60, 60]"),
    (HARD, "--loss.glimpse_cost=0.1"),
    (HARD, "--attention.max_grad_norm=null"),
    (HARD, "--network.memory_scorer=bilinear --network.memory_scorer_dim=64"),
    (SOFT, "--estimator.weight=0.5 --estimator.samples=2 --estimator.baseline=leave_one_out"),
    ([*CAPTIONS, *SOFT], "--estimator.soft_fraction=0.5 --estimator.entropy_weight=0.1"),
    ([*DATES, *SOFT], "--estimator.baseline=none"),
    (CAPTIONS, "--encoder.num_heads=8"),
    (CAPTIONS, "--score.length_penalty=1.0"),
    (CAPTIONS, "--data.canvas=[60, 60]"),
    (PHOTOS, "--data.size=[224, 224]"),
    (PHOTOS, "--data.workers=4"),
    (PHOTOS, "--encoder.feature_cache=kept"),
    (FILES, "--data.workers=4 --data.download=true"),
    (TEXT, "--data.valid_fraction=0.2 --data.test_fraction=0.2"),
    (TSV, "--data.train_file=a --data.valid_file=b --data.test_file=c"),
    (TSV, "--data.source_language=fr --data.target_language=it"),
    # All glimpses are placed by a rule.
    *((config, "--estimator.weight=0.5 --estimator.samples=3 --estimator.soft_fraction=0.5") for config in (RULE, ONE)),
    *((config, "--estimator.kind=straight_through") for config in (RULE, ONE, [*GRID, *RULE])),
    *((config, "--estimator.baseline=none") for config in (RULE, ONE, [*RULE, "--network.halting_unit=true"])),
    *((config, "--train.attention_lr_mult=1.0") for config in (RULE, ONE, [*RULE, *SOFT], [*GRID, *RULE])),
    *((config, "--attention.std=0.4 --attention.std_final=null --attention.tanh_mean=false") for config in (RULE, ONE)),
    (RULE, "--attention.first=random"),
    ([*RULE, *SOFT], "--attention.max_grad_norm=null --attention.tanh_mean=false --attention.first=learned"),
    # The decoder has a single annotation to read.
    (WHOLE, "--estimator.weight=0.5 --estimator.baseline=none --estimator.entropy_weight=0.1"),
    (WHOLE, "--estimator.kind=straight_through --estimator.soft_fraction=0.5"),
    (WHOLE, "--read=soft --score.read=hard --train.attention_lr_mult=1.0"),
    ([*WHOLE, "--attention.scorer=bilinear"], "--attention.scorer_dim=5"),
    # Another setting of the group has switched it off.
    (["--network.what=fc"], "--network.conv_channels=8 --network.conv_layers=2"),
    (["--network.readout=state_memory", "--network.memory_scorer=dot"], "--network.memory_scorer_dim=5"),
    (["--estimator.baseline=none"], "--estimator.baseline_weight=0.1"),
    (["--estimator.reward_at=last_step"], "--estimator.discount=0.5"),
    (["--estimator.soft_fraction=0.5"], "--estimator.soft_fraction_anneal=0.5"),
    (HARD, "--estimator.soft_fraction_final=0.0 --estimator.soft_fraction_anneal=0.5"),
    (["--attention.std_final=null"], "--attention.std_anneal=0.5"),
    (["--attention.learn_std=true"], "--attention.std_final=null --attention.std_anneal=0.5"),
    (["--sensor.num_scales=1"], "--sensor.scale_factor=1"),
    *(([*config, "--data.num_distractors=0"], "--data.distractor_size=5") for config in (HARD, CNN, CAPTIONS)),
    *(([*config, "--attention.scorer=bilinear"], "--attention.scorer_dim=5") for config in (GRID, CAPTIONS, DATES)),
    *((config, "--score.read=hard") for config in (HARD, CAPTIONS, DATES)),
    *(([*config, *SOFT], "--score.read=soft") for config in (HARD, CAPTIONS, DATES)),
]
# What does: of these the names of all settings that are then found to differ.
DIFFERENT = [
    (HARD, "--read=soft", None),
    (HARD, "--estimator.weight=0.5", "estimator.weight"),
    (HARD, "--train.epochs=3", "train.epochs"),
    (HARD, "--data.canvas=[60, 61]", "data.canvas"),
    (HARD, "--score.batch_size=9", "score.batch_size"),
    (HARD, "--init_from=mnist-hard", "init_from"),
    (HARD, "--sensor.patch_size=8", "sensor.patch_size"),
    ([*HARD, "--train.optimizer=sgd"], "--train.momentum=0.5", "train.momentum"),
    (HARD, "--train.warmup_fraction=0.5", "train.warmup_fraction"),
    ([*HARD, "--network.halting_unit=true"], "--loss.glimpse_cost=0.1", "loss.glimpse_cost"),
    ([*HARD, "--network.readout=state_memory"], "--network.memory_scorer=scaled_dot", "network.memory_scorer"),
    (SOFT, "--attention.max_grad_norm=null", "attention.max_grad_norm"),
    ([*HARD, "--loss.mix=0.5"], "--attention.max_grad_norm=null", "attention.max_grad_norm"),
    (CNN, "--network.conv_channels=8", "network.conv_channels"),
    ([*CAPTIONS, "--encoder.self_attention_layers=1"], "--encoder.num_heads=8", "encoder.num_heads"),
    ([*CAPTIONS, "--score.beam_width=5"], "--score.length_penalty=1.0", "score.length_penalty"),
    (PHOTOS, "--data.size=[64, 48]", "data.size"),
    (PHOTOS, "--data.on_broken_image=skip", "data.on_broken_image"),
    (FILES, "--data.name=SVHN", "data.name"),
    (TEXT, "--data.train_file=other", "data.train_file"),
    (TSV, "--data.valid_fraction=0.2", "data.valid_fraction"),
    (["--num_glimpses=1", "--attention.first=learned"], "--estimator.weight=0.5", "estimator.weight"),
    (HARD, "--attention.first=random", "attention.first"),
    *((config, "--train.attention_lr_mult=1.0", "train.attention_lr_mult") for config in (HARD, GRID, DATES)),
    ([*WHOLE, "--attention.scorer=scaled_dot"], "--train.attention_lr_mult=1.0", "train.attention_lr_mult"),
    ([*GRID, *RULE, "--attention.scorer=scaled_dot"], "--train.attention_lr_mult=1.0", "train.attention_lr_mult"),
    *(([*RULE, option], "--attention.std=0.4", "attention.std") for option in ("--read=soft", "--score.read=soft")),
    (RULE, "--attention.learn_std=true", None),  # other random numbers for the weights that are made after it
    ([*GRID, *RULE], "--attention.scorer_dim=5", "attention.scorer_dim"),
    (WHOLE, "--attention.scorer_dim=5", "attention.scorer_dim"),
    (WHOLE, "--attention.scorer=bilinear", None),
    ([*WHOLE, *DROPOUT], "--estimator.samples=2", "estimator.samples"),
    ([*WHOLE, *DROPOUT], "--read=soft", None),
    *(
        (
            [*config, "--attention.scorer=dot", "--attention.window=1"],
            "--attention.scorer_dim=5",
            "attention.scorer_dim",
        )
        for config in ([*GRID, "--network.glimpse_dim=256"], [*DATES, "--decoder.state_dim=128"])
    ),
    (HARD, "--network.conv_channels=8", "network.conv_channels"),
    (HARD, "--estimator.baseline_weight=0.1", "estimator.baseline_weight"),
    (HARD, "--estimator.discount=0.5", "estimator.discount"),
    (["--estimator.soft_fraction_final=0.5"], "--estimator.soft_fraction_anneal=0.5", "estimator.soft_fraction_anneal"),
    (HARD, "--attention.std_anneal=0.5", "attention.std_anneal"),
    (HARD, "--sensor.scale_factor=3", "sensor.scale_factor"),
    (HARD, "--data.distractor_size=5", "data.distractor_size"),
    (HARD, "--score.read=soft", "score.read"),
    (SOFT, "--score.read=hard", "score.read"),
]


def identities(options, more):
    """Of a config without and with some settings."""
    given = [f"--{option}".strip() for option in more.split("--") if option]
    one, other = load_config(options), load_config([*options, *given])
    assert one != other
    return one.identity(), other.identity()


def test_what_changes_nothing():
    for options, more in SAME:
        one, other = identities(options, more)
        assert one == other, (options, more)
        assert hash(one) == hash(other)


def test_what_is_another_training():
    for options, more, key in DIFFERENT:
        one, other = identities(options, more)
        assert one != other, (options, more)
        if key is not None:
            assert [name for name, _, _ in diff(dict(one), dict(other))] == [key]


def test_all_other_settings_are_in_it():
    """Of every model and kind: all but technical ones and those that are idle."""
    lines = {
        (f"--model={owner.model}", *([f"--{owner.group}.kind={owner.kind}"] if owner.kind else []))
        for owners in setting_index(MODELS).values()
        for owner in owners
    }
    lines |= {(*line, "--read=soft") for line in lines if line[0] not in ("--model=cnn", "--model=mlp")}
    assert len(lines) > 20
    for line in lines:
        config = load_config(line)
        left_out = {*config.technical, *config.idle()}
        for name in config.groups():
            group = getattr(config, name)
            left_out |= {group.dotted(key) for key in (*group.technical, *group.idle())}
            left_out |= {key for key, _ in group.items()} if name in left_out else set()
        every = [key for key, _ in config.items()]
        assert [key for key, _ in config.identity()] == [key for key in every if key not in left_out]
        hard = "read" in dict(config.identity()) and config.read == "hard"
        assert any(key.startswith("estimator.") for key, _ in config.identity()) == hard


def test_a_folder_is_the_same_from_wherever_it_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for options in (FILES, PHOTOS, TEXT):
        relative = load_config([*options, "--data.root=here"])
        absolute = load_config([*options, f"--data.root={tmp_path / 'here'}"])
        assert relative.identity() == absolute.identity() == relative.with_absolute_paths().identity()
        assert relative.data.identity() != load_config([*options, "--data.root=there"]).data.identity()
    weights = [load_config([*PHOTOS, f"--encoder.weights={file}"]) for file in ("w.pt", tmp_path / "w.pt", "default")]
    assert weights[0].identity() == weights[1].identity() != weights[2].identity()


def test_how_data_differ():
    """Data are compared by themselves, with what null stands for."""
    given = load_config([*PHOTOS, "--data.workers=3", "--data.on_broken_image=skip"]).data
    other = load_config([*PHOTOS, "--data.size=[64, 48]", "--data.on_broken_image=skip"]).data
    assert diff(dict(given.identity()), dict(other.identity())) == [("data.size", (224, 224), (64, 48))]
    digits = load_config(["--model=captioner"]).data
    assert [name for name, _, _ in diff(dict(digits.identity()), dict(load_config().data.identity()))] == [
        *("data.kind", "data.max_digits", "data.num_digits", "data.target")
    ]


def test_the_initial_run_is_the_same_from_wherever_it_is_named(tmp_path, monkeypatch):
    """The name of a shipped model is not a folder."""
    (tmp_path / "runs" / "a").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    names = ("runs/a", "./runs/a", "runs/a/", "runs/../runs/a", str(tmp_path / "runs" / "a"))
    assert len({load_config([f"--init_from={name}"]).identity() for name in names}) == 1
    assert load_config(["--init_from=runs/a"]).identity() != load_config(["--init_from=runs/b"]).identity()
    assert dict(load_config(["--init_from=mnist-hard"]).identity())["init_from"] == "mnist-hard"
    monkeypatch.chdir(tmp_path / "runs")
    assert dict(load_config(["--init_from=a"]).identity())["init_from"] == str(tmp_path / "runs" / "a")


def test_what_scorers_have():
    """The settings, which do not import torch, have a list of it."""
    for name, scorer in SCORERS.items():
        sizes = [
            [(key, value.shape) for key, value in scorer(state_dim=4, annotation_dim=4, dim=dim).named_parameters()]
            for dim in (3, 5)
        ]
        assert (sizes[0] != sizes[1]) == (name in SCORERS_WITH_DIM)
        assert any(key.startswith("value.") for key, _ in sizes[0]) == (name in SCORERS_WITH_VALUES)


def two_steps(options):
    """The weights before and after two training steps, and the validation scores."""
    config = load_config([*options, "--train.batch_size=8", "--train.limit=16", "--score.limit=20"])
    with processes("cpu", 1) as workers:
        task = task_of(config).build(config, workers)
        optimizer = make_optimizer(task.model, config.train)
        before = {name: value.clone() for name, value in task.model.named_parameters()}
        task.model.train()
        for index, batch in enumerate(task.batches(0)):
            task.on_progress((index + 1) / 2)
            for group in optimizer.param_groups:
                group["lr"] = config.train.lr * group["lr_mult"]
            terms = task.loss_terms(task.model, batch, task.noise(0, index)).values()
            optimizer.zero_grad()
            reduce(operator.add, [weight * value for weight, value in terms if weight]).backward()
            nn.utils.clip_grad_norm_(task.model.parameters(), config.train.max_grad_norm)
            optimizer.step()
        task.model.eval()
        return before, dict(task.model.named_parameters()), task.validation_record(task.validate())


@pytest.mark.parametrize(
    ("options", "more", "same"),
    [
        (RULE, ["--estimator.samples=3", "--attention.std=0.4", "--train.attention_lr_mult=1.0"], True),
        ([*RULE, *SOFT], ["--attention.std=0.4"], False),
        (WHOLE, ["--read=soft", "--train.attention_lr_mult=1.0"], True),
        (WHOLE, ["--attention.scorer_dim=5"], False),
    ],
)
def test_equal_identities_train_the_same_weights(options, more, same):
    """But for those of an attention that nothing is chosen by."""
    (before, after, scores), (other_before, other_after, other_scores) = (
        two_steps(options),
        two_steps([*options, *more]),
    )
    equal = scores == other_scores and all(
        torch.equal(one[name], other[name])
        for one, other in ((before, other_before), (after, other_after))
        for name in one
        if ".attention." not in name
    )
    assert equal == same == (load_config(options).identity() == load_config([*options, *more]).identity())
