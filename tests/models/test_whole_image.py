"""Networks of the whole image: what they compute, and that they are trained and scored like a model with glimpses."""

import pytest
import torch
import torch.nn.functional as F
from support.runs import REPOSITORY, new_engine, silent
from support.runs import tiny_config as tiny_run_config
from support.tensors import TinyData, assert_close, draw_bytes, reached, tiny_model, under

from glimpse import losses
from glimpse.attention.distributions import Noise
from glimpse.distributed import Processes
from glimpse.evaluation.classify import evaluate_classifier, score
from glimpse.models.whole_image import WholeImage
from glimpse.tasks.base import build_task
from glimpse.tasks.build import make_model
from glimpse.tasks.settings import load_config

KINDS = ("cnn", "mlp")
SHAPE = (3, 11, 18)  # in color, and neither square nor a multiple of the stride


def make(kind, shape=SHAPE, **settings):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return WholeImage(
            kind=kind, image_shape=shape, num_classes=5, **{"hidden_dim": 7, "conv_channels": 4, **settings}
        )


def some_images(batch=4):
    return draw_bytes(batch, *SHAPE)


# What they compute


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [1, 4])
def test_a_rollout_of_one_step_without_glimpses(kind, batch):
    rollout = make(kind)(some_images(batch))
    assert rollout.logits.shape == (batch, 1, 5)
    assert rollout.locations.shape == rollout.stds.shape == (batch, 0, 2)
    assert rollout.log_probs.shape == rollout.entropies.shape == (batch, 0)
    assert rollout.glimpse_vectors.shape[:2] == (batch, 0)
    assert rollout.baselines is None and rollout.attention_weights is None
    assert make(kind).mode is None and make(kind).num_choices == 0


def by_hand(model, kind, images):
    """The logits, from the weights in the order of the layers."""
    weights = [value.detach() for value in model.parameters()]
    x = (images.float() / 255 - 0.25) / 0.5
    if kind == "cnn":
        for weight, bias in zip(weights[0:8:2], weights[1:8:2], strict=True):
            x = F.conv2d(x, weight, bias, stride=2, padding=1).clamp(min=0)
        x = x.amax((2, 3))
        rest = weights[8:]
    else:
        x = torch.relu(x.reshape(len(x), -1) @ weights[0].T + weights[1])
        rest = weights[2:]
    return torch.relu(x @ rest[0].T + rest[1]) @ rest[2].T + rest[3]


@pytest.mark.parametrize("kind", KINDS)
def test_logits_by_hand(kind):
    model = make(kind, pixel_mean=0.25, pixel_std=0.5)
    expected = by_hand(model, kind, some_images())
    assert_close(model.logits(some_images()), expected, 1e-5)
    assert_close(model(some_images()).logits[:, 0], expected, 1e-5)
    assert expected.std(0).min() > 1e-4  # images have different logits


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uint8_equals_float(kind, dtype):
    model = make(kind, pixel_mean=0.3).to(dtype)
    logits = model(some_images()).logits
    assert logits.dtype == dtype
    for precision in (torch.float32, torch.float64):
        assert_close(logits, model(some_images().to(precision) / 255).logits)


@pytest.mark.parametrize("kind", KINDS)
def test_one_image_alone_equals_it_in_a_batch(kind):
    model, images = make(kind), some_images()
    together = model(images).logits
    for i in range(4):
        assert_close(model(images[i : i + 1]).logits[0], together[i], 1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_other_arguments_have_no_effect(kind):
    model = make(kind)
    plain = model(some_images()).logits
    for mode in ("hard", "soft", None):
        other = model(some_images(), mode=mode, sample=False, noise=Noise(3), boxes=torch.ones(4, 1, 4))
        assert torch.equal(other.logits, plain)


def test_convolutions_are_invariant_to_translation():
    """Translated by the product of the four strides, an image has the same features after max pooling."""
    images = torch.zeros(2, 1, 80, 96)
    images[0, 0, 32:40, 32:40] = images[1, 0, 48:56, 48:56] = draw_bytes(8, 8) / 255
    logits = make("cnn", (1, 80, 96))(images).logits
    assert_close(logits[0], logits[1], 1e-5)
    logits = make("mlp", (1, 80, 96))(images).logits
    assert not torch.allclose(logits[0], logits[1], atol=1e-3)


def test_number_of_weights():
    def count(model):
        return sum(value.numel() for value in model.parameters())

    # 3 -> 2 -> 4 -> 8 -> 16 channels by 3 x 3 kernels, 16 -> 7 -> 5 features.
    assert count(make("cnn")) == (54 + 2) + (72 + 4) + (288 + 8) + (1152 + 16) + (112 + 7) + (35 + 5)
    # 3 x 11 x 18 pixels -> 7 -> 7 -> 5.
    assert count(make("mlp")) == (594 * 7 + 7) + (49 + 7) + (35 + 5)
    assert count(make("cnn", (3, 50, 40))) == count(make("cnn"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_has_a_gradient(kind):
    model = make(kind)
    loss = losses.cross_entropy(model(some_images()).logits, torch.arange(4))
    assert reached(loss, model) == under(model, "")
    loss.backward()
    assert all(value.grad.any() for name, value in model.named_parameters() if name.endswith("weight"))


def test_unknown_kind():
    with pytest.raises(ValueError, match="kind must be 'cnn' or 'mlp', got 'rnn'"):
        make("rnn")


# How they are built, trained and scored


@pytest.mark.parametrize("kind", KINDS)
def test_config_files(kind):
    config = load_config(file=REPOSITORY / "configs" / f"cluttered60_{kind}.yaml".replace("mlp", "fc"))
    model = make_model(config, image_shape=(1, 60, 60), num_classes=10)
    assert isinstance(model, WholeImage) and config.model == kind
    convolutions = [layer for layer in model.modules() if isinstance(layer, torch.nn.Conv2d)]
    assert len(convolutions) == (4 if kind == "cnn" else 0)
    assert model(draw_bytes(2, 1, 60, 60)).logits.shape == (2, 1, 10)


@pytest.mark.parametrize("kind", KINDS)
def test_built_from_the_settings_of_the_network(kind):
    options = (f"--model={kind}", "--network.pixel_mean=0.25", "--network.pixel_std=0.5")
    model = tiny_model(*options, image_shape=SHAPE, num_classes=5)
    assert model.classify[0].weight.shape == (10, 10 if kind == "mlp" else 16)  # state_dim; 4 times conv_channels
    assert_close(model.logits(some_images()), by_hand(model, kind, some_images()), 1e-5)
    with torch.random.fork_rng():
        torch.manual_seed(123)
        again = tiny_model(*options, image_shape=SHAPE, num_classes=5)
    assert torch.equal(model.logits(some_images()), again.logits(some_images()))
    other = tiny_model(*options, "--seed=1", image_shape=SHAPE, num_classes=5)
    assert not torch.equal(model.logits(some_images()), other.logits(some_images()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rollout_mode", ["greedy", "sampled", "averaged"])
def test_scored_at_one_step_without_on_target_rates(kind, rollout_mode):
    images, targets = draw_bytes(30, *SHAPE), torch.arange(30) % 5
    data = TinyData(images, targets, torch.tensor([[[3.0, 3, 9, 9]]]).expand(30, 1, 4), num_classes=5)
    model = make(kind)
    predictions = [int(model(images[i : i + 1]).logits.argmax()) for i in range(30)]
    wrong = sum(prediction != target for prediction, target in zip(predictions, targets.tolist(), strict=True))
    scores = score(model, data, rollout_mode=rollout_mode, rollouts=2, batch_size=7)
    assert scores.as_dict().keys() == {"images", "error", "interval"}
    assert scores.error == [wrong / 30] and len(scores.interval) == 1
    outcome = evaluate_classifier(model, data, rollout_mode=rollout_mode, rollouts=2, batch_size=7)
    assert outcome.locations.shape == (30, 2 if rollout_mode == "averaged" else 1, 0, 2) and outcome.on_target is None
    assert_close(outcome.probabilities[:, 0], model(images).logits[:, 0].softmax(-1), 1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_learns_from_cross_entropy_alone(kind):
    settings = {"model": kind}
    task = build_task(tiny_run_config(settings), Processes(0, 1, torch.device("cpu")))
    batch = next(iter(task.batches(0)))
    terms = task.loss_terms(task.model, batch, Noise(0))
    assert terms.keys() == {"cross_entropy", "error"}
    expected = F.cross_entropy(task.model.logits(batch.images), batch.targets)
    assert_close(terms["cross_entropy"][1], expected)
    task.on_progress(0.5)  # there is no std to change


def test_trains(tmp_path):
    engine = new_engine(tmp_path / "run", {"model": "mlp", "train.epochs": 1, "train.limit": 128, "score.limit": 50})
    before = {name: value.clone() for name, value in engine.task.model.named_parameters()}
    engine.train(silent)
    after = dict(engine.task.model.named_parameters())
    assert not any(torch.equal(value, after[name]) for name, value in before.items())
    row = engine.run.rows()[-1]
    assert row["valid/errors"] == [row["valid/error"]] and row["valid/hits"] is None
