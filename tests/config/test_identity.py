"""Which settings make a training another one, and which data are the same."""

from glimpse.config.index import setting_index
from glimpse.config.schema import diff
from glimpse.tasks.settings import MODELS, load_config

HARD, SOFT, CNN, CAPTIONS, DATES = [], ["--read=soft"], ["--model=cnn"], ["--model=captioner"], ["--model=translator"]
PHOTOS = ["--model=captioner", "--data.kind=karpathy", "--encoder.kind=backbone"]
FILES = ["--model=cnn", "--data.kind=torchvision"]
TEXT = ["--model=translator", "--data.kind=parallel"]
TSV = [*TEXT, "--data.tsv=pairs.tsv"]

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
    ([*HARD, "--network.readout=state_memory"], "--network.memory_scorer=dot", "network.memory_scorer"),
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
        hard = "read" in every and config.read == "hard"
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
