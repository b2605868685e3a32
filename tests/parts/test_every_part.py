"""Every registered part: forward, backward, copy, save and load with a tiny config, and a name in the docs.

To add a part, register it, add its tiny config to CASES, and document its name in backticks.
"""

import copy
import json
import re
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest
import torch
import yaml
from PIL import Image
from support.photos import make_coco, make_karpathy
from support.tensors import ALONE, TinyData, draw, draw_bytes

from glimpse.attention import Gaussian, Noise
from glimpse.attention.placement import RULES
from glimpse.attention.scorers import SCORERS
from glimpse.attention.settings import ATTENTIONS, SENSORS, ScorerName
from glimpse.data import Splits
from glimpse.data.mnist import unpack_mnist
from glimpse.data.settings import DATASETS
from glimpse.losses.estimators import ESTIMATORS
from glimpse.losses.policy_gradient import BASELINES, REWARDS
from glimpse.models.glimpses import GLIMPSES, RecurrentCore, what_path
from glimpse.models.sentence_encoder import Sentences
from glimpse.models.settings import ENCODERS, NetworkSettings
from glimpse.tasks.base import TASKS, build_task, task_of
from glimpse.tasks.build import make_captioner, make_model, make_translator
from glimpse.tasks.classification import ClassificationTask
from glimpse.tasks.settings import MODELS, load_config
from glimpse.training.run import BEST, Run

REPOSITORY = Path(__file__).parents[2]
for config_class in MODELS.values():
    import_module(f"glimpse.tasks.{config_class.task}")  # registers the task

# All parts, by kind.
PARTS = {
    "sensor": list(SENSORS),
    "attention": list(ATTENTIONS),
    "glimpses": list(GLIMPSES),
    "rule": list(RULES),
    "scorer": list(SCORERS),
    "what": list(get_args(NetworkSettings.model_fields["what"].annotation)),
    "core": list(get_args(NetworkSettings.model_fields["core"].annotation)),
    "estimator": list(ESTIMATORS),
    "baseline": list(BASELINES),
    "reward": list(REWARDS),
    "dataset": list(DATASETS),
    "encoder": list(ENCODERS),
    "task": list(TASKS),
    "model": list(MODELS),
}
# The registries behind them; the other kinds are the values of a Literal or the keys of a dictionary.
REGISTRIES = {
    "SENSORS", "ATTENTIONS", "GLIMPSES", "RULES", "ESTIMATORS", "BASELINES", "REWARDS", "DATASETS", "ENCODERS", "TASKS",
    "MODELS",
}  # fmt: skip

CLASSIFIER = {
    "num_glimpses": 3,
    "sensor.patch_size": 3,
    "sensor.num_scales": 1,
    "network.what": "fc",
    "network.what_dim": 8,
    "network.where_dim": 8,
    "network.glimpse_dim": 12,
    "network.state_dim": 12,
    "train.batch_size": 8,
}
SEQUENCE = {
    "read": "soft",
    "decoder.embed_dim": 6,
    "decoder.state_dim": 8,
    "decoder.max_length": 8,
    "attention.scorer_dim": 6,
    "train.batch_size": 4,
}
SMALL_ENCODER = {"encoder.dim": 8, "encoder.channels": 2}

# A tiny config of each part: its settings, its arguments, or command-line settings. ROOT is a folder with tiny data.
CASES = {
    "sensor": {"pyramid": {"patch_size": 3, "num_scales": 2}, "foveated": {"patch_size": 4, "growth": 1.5}},
    "attention": {
        "plane": {"std": 0.3, "learn_std": True},
        "grid": {"grid": [2, 3], "scorer_dim": 5, "window": 2},
        "feature_map": {"scorer": "bilinear", "window": 1},
        "words": {"scorer_dim": 5, "window": 2},
        "final_state": {"scorer_dim": 5},
    },
    "glimpses": {"plane": {"attention.kind": "plane"}, "grid": {"attention.kind": "grid", "attention.grid": [2, 3]}},
    "rule": {"center": {}, "random": {}, "raster": {}, "oracle": {}},
    "scorer": {
        "additive": {"state_dim": 4, "annotation_dim": 3, "dim": 5},
        "dot": {"state_dim": 3, "annotation_dim": 3, "dim": 5},
        "bilinear": {"state_dim": 4, "annotation_dim": 3, "dim": 5},
        "scaled_dot": {"state_dim": 4, "annotation_dim": 3, "dim": 5},
    },
    "what": {"fc": {}, "conv": {"conv_channels": 4, "conv_layers": 3}},
    "core": {"rnn": {}, "gru": {}, "lstm": {}},
    "estimator": {"reinforce": {"baseline": "none", "samples": 2}, "straight_through": {"soft_fraction": 0.25}},
    "baseline": {
        "none": {},
        "learned": {},
        "self_critical": {},
        "leave_one_out": {"estimator.samples": 2},
        "moving_average": {},
    },
    "reward": {"accuracy": {}, "log_likelihood": {}, "gain": {}, "above_chance": {}},
    "dataset": {
        "cluttered": {"canvas": 30, "num_distractors": 1},
        "torchvision": {"name": "MNIST", "root": "ROOT/mnist"},
        "folder": {"root": "ROOT/folder", "valid_fraction": 0.3, "test_fraction": 0.3},
        "digit_captions": {"canvas": 30, "num_distractors": 1},
        "coco": {"root": "ROOT/coco", "size": [16, 20], "valid_fraction": 0.3},
        "karpathy": {"root": "ROOT/karpathy", "annotations": "captions.json", "size": [16, 20]},
        "dates": {},
        "parallel": {"root": "ROOT/text", "target_language": "fr"},
    },
    "encoder": {
        "small": {"dim": 8, "channels": 2},
        "backbone": {"name": "squeezenet1_1", "weights": None, "unfreeze_epoch": 1},
        "sentence": {"dim": 6, "embed_dim": 5},
    },
    "task": {
        "classification": {**CLASSIFIER, "data.canvas": 28, "data.num_distractors": 0},
        "captioning": {
            "model": "captioner",
            **SEQUENCE,
            **SMALL_ENCODER,
            "data.kind": "karpathy",
            "data.root": "ROOT/karpathy",
            "data.annotations": "captions.json",
            "data.size": [24, 24],
        },
        "translation": {
            "model": "translator",
            **SEQUENCE,
            "encoder.dim": 6,
            "encoder.embed_dim": 5,
            "data.kind": "parallel",
            "data.root": "ROOT/text",
            "data.target_language": "fr",
        },
    },
    "model": {
        "recurrent_attention": {**CLASSIFIER, "read": "soft"},
        "cnn": {"network.state_dim": 8, "network.conv_channels": 4},
        "mlp": {"network.state_dim": 8},
        "captioner": {**SEQUENCE, **SMALL_ENCODER},
        "translator": {**SEQUENCE, "encoder.dim": 6, "encoder.embed_dim": 5},
    },
}


def case(kind, name):
    if name not in CASES[kind]:
        pytest.fail(f"{kind} {name} has no case: add a tiny config to CASES[{kind!r}]", pytrace=False)
    return CASES[kind][name]


def of(kind):
    return pytest.mark.parametrize("name", PARTS[kind])


# Completeness


@pytest.mark.parametrize("kind", PARTS)
def test_every_part_has_a_case(kind):
    missing = [name for name in PARTS[kind] if name not in CASES[kind]]
    assert not missing, f"without a case in CASES[{kind!r}]: {', '.join(missing)}"
    unknown = [name for name in CASES[kind] if name not in PARTS[kind]]
    assert not unknown, f"CASES[{kind!r}] names no registered part: {', '.join(unknown)}"


def test_every_registry_is_covered():
    assert list(CASES) == list(PARTS)
    sources = [path.read_text() for path in sorted((REPOSITORY / "glimpse").rglob("*.py"))]
    found = {name for text in sources for name in re.findall(r"^(\w+)(?:: .*)? = Registry\(", text, re.MULTILINE)}
    assert found - REGISTRIES == set(), f"registries without tests of their parts: {', '.join(found - REGISTRIES)}"
    assert REGISTRIES - found == set(), f"no registries: {', '.join(REGISTRIES - found)}"
    assert set(get_args(ScorerName)) == set(SCORERS)


DOCS = "\n".join(path.read_text() for path in [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))])


@pytest.mark.parametrize("kind, name", [(kind, name) for kind, names in PARTS.items() for name in names])
def test_every_part_is_documented(kind, name):
    if f"`{name}`" not in DOCS:
        pytest.fail(f"{kind} {name} is not documented: neither README.md nor docs/*.md has `{name}`", pytrace=False)


# What all parts go through


def read_back(settings):
    """A group of settings from its own YAML."""
    values = yaml.safe_load(settings.to_yaml())
    del values["format"]
    return type(settings)(**values)


def settings_of(registry, kind, name, root=None):
    """The settings of a case, after writing them as YAML and reading them back."""
    text = json.dumps(case(kind, name))
    settings = registry[name](**json.loads(text if root is None else text.replace("ROOT", str(root))))
    assert settings.kind == name
    again = read_back(settings)
    assert again == settings and again.identity() == settings.identity()
    return again


def load_options(options, root=None):
    """A config of dotted settings."""
    values = {key: json.dumps(value).strip('"').replace("ROOT", str(root)) for key, value in options.items()}
    return load_config([f"--{key}={value}" for key, value in values.items()])


def seeded(make, seed=0):
    """What a function makes, with weights that depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def check_gradients(loss, module, without=()):
    """Check that all parameters have a finite nonzero gradient, except those in `without`, which must have none."""
    module.zero_grad(set_to_none=True)
    loss.backward()
    for key, parameter in module.named_parameters():
        if key in without:
            assert parameter.grad is None or not parameter.grad.any(), f"{key} has a gradient"
        else:
            assert parameter.grad is not None, f"{key} has no gradient"
            assert parameter.grad.isfinite().all(), f"the gradient of {key} is not finite"
            assert parameter.grad.any(), f"the gradient of {key} is zero"


def weighted_sum(output):
    """A loss of an output; the weights differ, as a plain sum may be constant."""
    assert output.isfinite().all()
    return (output * torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)).sum()


def check_module(make, run, path, *, without=()):
    """Take a module forward, backward, through a copy, and through a file into a module with other weights."""
    module = seeded(make)
    output = run(module)
    if any(parameter.requires_grad for parameter in module.parameters()):
        check_gradients(weighted_sum(output), module, without)
    assert torch.equal(run(copy.deepcopy(module)), output)
    torch.save(module.state_dict(), path / "weights.pt")
    other = seeded(make, seed=1)
    if {key for key, _ in module.named_parameters()} - set(without):
        assert not torch.equal(run(other), output)
    other.load_state_dict(torch.load(path / "weights.pt", weights_only=True))
    assert torch.equal(run(other), output)


# Sensors, attention, networks


@of("sensor")
def test_sensor(name):
    sensor = settings_of(SENSORS, "sensor", name).build()
    images = draw(2, 1, 12, 14)
    mean = torch.tensor([[0.1, -0.3], [0.5, 0.2]], requires_grad=True)
    std = torch.full((2, 2), 0.2, requires_grad=True)

    def reads(of):
        view = of.view(images, 3)
        assert torch.equal(view.rows(torch.tensor([1])).at(mean[1:]), view.at(mean)[1:])
        return view.at(mean), view.expect(Gaussian(mean, std))

    hard, soft = reads(sensor)
    assert hard.shape == soft.shape == (2, sensor.num_scales, sensor.patch_size, sensor.patch_size)
    assert sensor.boxes(mean, 12, 14).shape == (2, sensor.num_scales, 4)
    for gradient in torch.autograd.grad(weighted_sum(soft), (mean, std)):
        assert gradient.isfinite().all() and gradient.any(1).all()
    assert not hard.requires_grad
    assert all(torch.equal(a, b) for a, b in zip(reads(copy.deepcopy(sensor)), (hard, soft), strict=True))


@of("attention")
def test_attention(name, tmp_path):
    settings = settings_of(ATTENTIONS, "attention", name)
    state, annotations = draw(2, 4, seed=1), draw(2, 6, 3, seed=2)
    places = annotations if settings.has_choice else annotations[:, :1]

    def make(read="soft"):
        if name in GLIMPSES:
            return settings.build(state_dim=4, annotation_dim=3, read=read)
        return settings.build(state_dim=4, annotation_dim=3, read=read, axes=2 if name == "feature_map" else 1)

    def memory_of(module):
        if not hasattr(module, "annotate"):
            return SENSORS["pyramid"](patch_size=3, num_scales=1).build().view(draw(2, 1, 12, 14), 1)
        return module.annotate(places, grid=(2, 3) if settings.has_choice else None)

    def run(module, mode="soft"):
        reading = module(state, memory_of(module), mode=mode, noise=Noise(0))
        log_prob = reading.attention.log_prob(reading.place.detach())
        return torch.cat([reading.context.flatten(1), log_prob.unsqueeze(1)], 1)

    # A distribution over a single place does not depend on the parameters.
    without = () if settings.has_choice else {key for key, _ in seeded(make).named_parameters()}
    check_module(make, run, tmp_path, without=without)
    hard = make("hard")
    reading = hard(state, memory_of(hard), noise=Noise(0))
    assert hard.mode == "hard" and reading.log_prob.shape == (2,)
    check_gradients(weighted_sum(reading.log_prob), hard, without)


@of("scorer")
def test_scorer(name, tmp_path):
    options = case("scorer", name)
    state = draw(2, options["state_dim"], seed=1).requires_grad_()
    annotations = draw(2, 5, options["annotation_dim"], seed=2).requires_grad_()

    def run(scorer):
        scores = scorer(state, scorer.key(annotations))
        assert scores.shape == (2, 5)
        return torch.cat([scores, scorer.value(annotations).sum(-1)], 1)

    check_module(lambda: SCORERS[name](**options), run, tmp_path)
    for gradient in torch.autograd.grad(weighted_sum(run(SCORERS[name](**options))), (state, annotations)):
        assert gradient.isfinite().all() and gradient.any()


@of("what")
def test_what_path(name, tmp_path):
    options = {"in_channels": 2, "patch_size": 5, "out_dim": 7, **case("what", name)}
    check_module(lambda: what_path(name, **options), lambda network: network(draw(3, 2, 5, 5)), tmp_path)


@of("core")
def test_core(name, tmp_path):
    glimpses = draw(3, 2, 5)

    def run(core):
        state = core.initial(2)
        for glimpse in glimpses:
            state = core(glimpse, state)
        return state[0]

    options = {"input_dim": 5, "state_dim": 6, "learn_initial": True, **case("core", name)}
    check_module(lambda: RecurrentCore(kind=name, **options), run, tmp_path)


# Models

IMAGES, TARGETS = draw_bytes(8, 1, 12, 14), torch.arange(8) % 3
BOXES = torch.tensor([[[2.0, 3.0, 8.0, 9.0]]]).expand(8, 1, 4)
WORDS = torch.tensor([[1, 4, 5, 2], [1, 6, 2, 0]])


def classifier(config):
    """The function that makes a model, and the one that runs it."""
    return lambda: config.build_model((1, 12, 14), 3), lambda model: model(IMAGES, boxes=BOXES, noise=Noise(0)).logits


def captioner(config):
    return (
        lambda: make_captioner(config.replace(seed=torch.initial_seed()), image_shape=(1, 24, 24), vocabulary_size=7),
        lambda model: model(draw(2, 1, 24, 24), WORDS, noise=Noise(0)).logits,
    )


def translator(config):
    sentences = Sentences(torch.tensor([[4, 5, 6], [5, 4, 0]]), torch.tensor([3, 2]))
    return (
        lambda: make_translator(config.replace(seed=torch.initial_seed()), source_size=7, vocabulary_size=7),
        lambda model: model(sentences, WORDS, noise=Noise(0)).logits,
    )


MAKERS = {"classification": classifier, "captioning": captioner, "translation": translator}


@of("model")
def test_model(name, tmp_path):
    config = load_options({"model": name, **case("model", name)})
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    again = load_config(file=tmp_path / "config.yaml")
    assert again == config and again.model == name
    assert task_of(config) is TASKS[config.task]
    make, run = MAKERS[config.task](again)
    check_module(make, run, tmp_path)


@of("glimpses")
def test_glimpses(name, tmp_path):
    config = load_options({**CLASSIFIER, "read": "soft", **case("glimpses", name)})
    make, run = classifier(config)
    assert type(make().glimpses) is GLIMPSES[name]
    check_module(make, run, tmp_path)
    view = make().glimpses.sensor.view(IMAGES, 1)
    rollout = make()(IMAGES)
    for mode in ("hard", "soft"):
        assert make().glimpses.patches_read(view, rollout.glimpse(1), mode).shape == (8, 1, 3, 3)


@of("rule")
def test_rule(name, tmp_path):
    """A model whose glimpses a rule places, which trains all parameters but the attention's."""
    config = load_options({**CLASSIFIER, "attention.policy": name, **case("rule", name)})
    make, run = classifier(config)
    model = make()
    locations = model(IMAGES, boxes=BOXES, noise=Noise(0)).locations
    assert locations.shape == (8, 3, 2) and (locations.abs() <= 1).all()
    without = {"glimpses.attention.head.weight", "glimpses.attention.head.bias"}
    if not locations.any():  # with zero biases, the "where" features of the center are 0, and so are their gradients
        where = ("where.0.weight", "where.0.bias", "join_where.weight")
        without |= {f"glimpses.network.{key}" for key in where}
    check_module(make, run, tmp_path, without=without)


@of("encoder")
def test_encoder(name, tmp_path):
    settings = settings_of(ENCODERS, "encoder", name)
    if name in sentence_encoders():
        sentences = Sentences(torch.tensor([[4, 5, 6], [5, 4, 0]]), torch.tensor([3, 2]))
        check_module(
            lambda: settings.build(vocabulary_size=7, whole=False), lambda encoder: encoder(sentences)[0], tmp_path
        )
        return

    def make():
        encoder = settings.build(channels=3, pretrained=False)
        if settings.unfrozen_at is not None:
            encoder.unfreeze()
        return encoder

    check_module(make, lambda encoder: encoder(draw(2, 3, 48, 56)), tmp_path)
    encoder = make()
    rows, columns = encoder.grid(48, 56)
    assert encoder(draw(2, 3, 48, 56)).shape == (2, rows * columns, encoder.out_dim)


def sentence_encoders():
    """The encoders of the models that translate: those whose `build` has a vocabulary."""
    return [name for name, cls in ENCODERS.items() if "vocabulary_size" in cls.build.__annotations__]


# Losses: each in a training step of a tiny model with hard attention


def hard_task(estimator_options):
    config = load_options({**CLASSIFIER, "read": "hard", **estimator_options})
    data = TinyData(IMAGES, TARGETS)
    model = make_model(config, image_shape=(1, 12, 14), num_classes=3)
    return ClassificationTask(config, Splits(data, data, data), model, ALONE)


def total_loss(task, noise=None):
    terms = task.loss_terms(task.model, next(task.data.train.in_order(batch_size=8)), noise or Noise(3))
    assert all(value.isfinite() for _, value in terms.values())
    return sum(weight * value for weight, value in terms.values() if weight)


def check_step(options, path):
    """Backward of a training step; the same step of a copy; and of a model whose weights come from a file."""
    task = hard_task(options)
    initial = copy.deepcopy(task.model.state_dict())
    loss = total_loss(task)
    check_gradients(loss, task.model)
    assert all(parameter.grad.any() for parameter in task.model.attention_parameters())
    torch.save(initial, path / "weights.pt")
    other = hard_task({**options, "seed": 1})
    assert not torch.equal(total_loss(other), loss)
    other = hard_task({**options, "seed": 1})
    other.model.load_state_dict(torch.load(path / "weights.pt", weights_only=True))
    twin = copy.deepcopy(other)
    assert torch.equal(total_loss(other), loss) and torch.equal(total_loss(twin), loss)
    assert twin.model is not other.model and twin.estimator == other.estimator


@of("estimator")
def test_estimator(name, tmp_path):
    settings = settings_of(ESTIMATORS, "estimator", name)
    options = {f"estimator.{key}": value for key, value in case("estimator", name).items()}
    check_step({"estimator.kind": name, **options}, tmp_path)
    modes = {settings.mode("hard", Noise(seed), 0.0, torch.zeros(1)) for seed in range(40)}
    assert modes == ({"hard", "soft"} if settings.mixes else {"hard"})
    assert settings.mode("soft", Noise(0), 0.0, torch.zeros(1)) == "soft"


@of("baseline")
def test_baseline(name, tmp_path):
    check_step({"estimator.baseline": name, "estimator.normalize": False, **case("baseline", name)}, tmp_path)


@of("reward")
def test_reward(name, tmp_path):
    check_step({"estimator.reward": name, "estimator.baseline": "none", **case("reward", name)}, tmp_path)


# Data and tasks


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Tiny data on disk."""
    root = tmp_path_factory.mktemp("data")
    (root / "mnist").symlink_to(unpack_mnist())
    for number in range(20):
        path = root / "folder" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (9, 7), 10 * number).save(path)
    make_coco(root / "coco")
    make_karpathy(root / "karpathy")
    (root / "text").mkdir()
    sentences = [f"{number} {thing}" for number in ("one", "two", "three") for thing in ("dog", "cat")]
    for file in ("train", "val", "test"):
        (root / "text" / f"{file}.en").write_text("".join(f"{sentence}\n" for sentence in sentences))
        (root / "text" / f"{file}.fr").write_text("".join(f"le {sentence}\n" for sentence in sentences))
    return root


def same(one, other):
    """Whether two batches are equal."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return one == other


@of("dataset")
def test_dataset(name, root):
    settings = settings_of(DATASETS, "dataset", name, root)
    splits = settings.build()
    again = read_back(settings).build()
    for split in ("train", "valid", "test"):
        data = getattr(splits, split)
        assert len(data) > 0
        first = next(data.in_order(batch_size=2))
        assert same(first, next(getattr(again, split).in_order(batch_size=2)))
    batch = next(splits.train.epoch(seed=1, epoch=2, batch_size=2))
    assert same(batch, next(copy.deepcopy(splits.train).epoch(seed=1, epoch=2, batch_size=2)))
    assert same(batch, next(again.train.epoch(seed=1, epoch=2, batch_size=2)))


@of("task")
def test_task(name, root, tmp_path):
    """A training step, and the model of a run folder."""
    config = load_options(case("task", name), root)
    assert task_of(config) is TASKS[name]
    task = build_task(config, ALONE)
    batch = next(task.batches(0))
    terms = task.loss_terms(task.model, batch, task.noise(0, 0))
    loss = sum(weight * value for weight, value in terms.values() if weight)
    check_gradients(loss, task.model)
    twin = copy.deepcopy(task.model)
    again = task.loss_terms(twin, batch, task.noise(0, 0))
    assert torch.equal(again["cross_entropy"][1], terms["cross_entropy"][1])

    run = Run.create(config, name=name, metadata=task.metadata(), folder=tmp_path / "run")
    run.save(BEST, {f"model.{key}": value for key, value in task.model.state_dict().items()}, {})
    trained = TASKS[name].load(Run.open(tmp_path / "run"))
    loaded = trained.model.state_dict()
    assert loaded.keys() == task.model.state_dict().keys()
    assert all(torch.equal(loaded[key], value) for key, value in task.model.state_dict().items())
