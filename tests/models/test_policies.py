"""Policies, and the parts of a rollout: who places a glimpse, what a copy refers to, what a step consists of."""

import copy
import pickle
from typing import ClassVar, Literal

import pytest
import torch
from support.tensors import assert_close, draw, draw_bytes, reached, tiny_model, under

from glimpse.attention.distributions import Gaussian, Noise
from glimpse.attention.placement import RULES, PlacementRule
from glimpse.attention.reading import LocationAttention
from glimpse.attention.sensor import Sensor, to_pixels
from glimpse.attention.settings import ATTENTIONS, PlaneSettings
from glimpse.data import Batch
from glimpse.errors import ConfigError
from glimpse.evaluation.glimpse_traces import trace_glimpses
from glimpse.models.early_exit import stop_early
from glimpse.models.glimpses import GLIMPSES, GlimpseNetwork, PlaneGlimpses, RecurrentCore
from glimpse.models.recurrent_attention import FixedPolicy, LearnedPolicy, RecurrentAttention
from glimpse.models.rollout import Rollout
from glimpse.tasks.build import make_model
from glimpse.tasks.settings import load_config

IMAGES = draw_bytes(5, 1, 12, 14)
KINDS = {
    "plane": (),
    "grid": ("--attention.places=grid",),
    "memory": ("--network.readout=attend", "--network.halt=true"),
    "first learned": ("--attention.first=learned",),
    "control": ("--attention.policy=random",),
}


def assert_same_rollout(one, other):
    for name, a, b in zip(one._fields, one, other, strict=True):
        assert (a is None and b is None) or torch.equal(a, b), name


def parts_of(policy):
    """The modules that a policy refers to."""
    first = policy.first if isinstance(policy, LearnedPolicy) else policy
    own = [policy.attention] if isinstance(policy, LearnedPolicy) else []
    return own + ([] if first is None else [first.glimpses])


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_shares_nothing(kind, duplicate):
    model = tiny_model(*KINDS[kind])
    twin = duplicate(model)
    assert_same_rollout(model(IMAGES, noise=Noise(1)), twin(IMAGES, noise=Noise(1)))
    own = {id(part) for part in model.modules()} | {id(p) for p in (*model.parameters(), *model.buffers())}
    others = {id(part) for part in twin.modules()} | {id(p) for p in (*twin.parameters(), *twin.buffers())}
    assert not own & others
    for part in parts_of(twin.policy):
        assert part in (twin.glimpses, twin.glimpses.attention)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert twin(IMAGES, noise=Noise(1)).logits.any()


@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_refers_to_the_parts_of_its_model_and_registers_none(kind):
    model = tiny_model(*KINDS[kind])
    if isinstance(model.policy, LearnedPolicy):
        assert model.policy.attention is model.glimpses.attention
    assert not any(name.startswith("policy") for name in model.state_dict())
    assert not any(name.startswith("policy") for name, _ in model.named_modules(remove_duplicate=False))


def test_a_policy_reads_with_the_parameters_that_are_swapped_in():
    model = tiny_model()
    named = {name: torch.zeros_like(p) for name, p in model.named_parameters() if "attention" in name}
    rollout = torch.func.functional_call(model, named, (IMAGES,), {"sample": False})
    assert not rollout.locations.any() and model(IMAGES, sample=False).locations[:, 1:].any()


@pytest.mark.parametrize("kind", KINDS)
def test_policies_by_name(kind):
    model = tiny_model(*KINDS[kind])
    expected = {"control": ("random", "random", 0, True), "first learned": ("learned", "learned", 3, False)}
    found = (model.policy.name, model.first, model.num_choices, model.is_random)
    assert found == expected.get(kind, ("learned", "center", 2, False))
    assert model.attends and not model.needs_boxes


def test_only_the_oracle_needs_boxes():
    for name in RULES:
        model = tiny_model(f"--attention.policy={name}")
        assert model.needs_boxes == (name == "oracle") and model.is_random == (name == "random")
    whole = tiny_model("--model=cnn")
    assert (whole.attends, whole.needs_boxes, whole.is_random, whole.mode, whole.num_choices) == (
        *(False,) * 3,
        None,
        0,
    )


def test_a_user_defined_rule():
    model = tiny_model()
    rule = PlacementRule("corner", lambda t, scene: torch.full((len(scene.images), 2), -0.5 + t / 4))
    control = RecurrentAttention(
        glimpses=model.glimpses,
        core=model.core,
        num_classes=3,
        num_glimpses=3,
        policy=FixedPolicy(rule, model.glimpses),
        baseline=False,
    )
    assert control(IMAGES).locations[0].tolist() == [[-0.5] * 2, [-0.25] * 2, [0.0] * 2]
    assert control.first == control.policy.name == "corner"
    with pytest.raises(
        ConfigError, match="attention.policy must be one of center, random, raster, oracle, got 'corner'"
    ):
        _ = RULES["corner"]


# The loop


@pytest.mark.parametrize("kind", KINDS)
def test_a_rollout_is_the_stack_of_its_steps(kind):
    model = tiny_model(*KINDS[kind])
    rollout = model(IMAGES, noise=Noise(3))
    scene, state = model.prepare(IMAGES, noise=Noise(3)), model.initial_state(5)
    for t in range(3):
        step = model.look(t, state, scene)
        assert step.before is state
        state = step.state
        again = model.step(step.glimpse.vector, step.before)
        assert torch.equal(again.logits, state.logits) and torch.equal(again.core[0], state.core[0])
        assert torch.equal(state.logits, rollout.logits[:, t])
        for found, expected in zip(step.glimpse, rollout.glimpse(t), strict=True):
            assert (found is None and expected is None) or torch.equal(found, expected)
    assert model.initial_state(5).logits is None


def test_old_names_of_a_rollout():
    rollout = tiny_model(*KINDS["grid"], *KINDS["memory"])(IMAGES)
    assert rollout.glimpses is rollout.glimpse_vectors and rollout.weights is rollout.attention_weights
    assert rollout.halting is rollout.halt_logits is not None and rollout.recalled is rollout.memory_weights is not None


def test_a_rollout_without_glimpses():
    logits = draw(4, 2, 3)
    rollout = Rollout.without_glimpses(logits)
    assert rollout.logits is logits
    assert rollout.locations.shape[:2] == rollout.stds.shape[:2] == rollout.glimpse_vectors.shape[:2] == (4, 0)
    assert rollout.log_probs.shape == rollout.entropies.shape == (4, 0)
    assert rollout.baselines is rollout.attention_weights is rollout.halt_logits is rollout.memory_weights is None


@pytest.mark.parametrize("kind", ["plane", "grid"])
def test_patches_read(kind):
    """The patches of a hard read, encoded again, give its glimpse vector; a grid is read completely."""
    model = tiny_model(*KINDS[kind])
    rollout, view = model(IMAGES, noise=Noise(1)), model.glimpses.sensor.view(IMAGES)
    for t in range(3):
        patches = model.glimpses.patches_read(view, rollout.glimpse(t), "hard")
        assert_close(model.glimpses.network(patches, rollout.locations[:, t]), rollout.glimpse_vectors[:, t], 1e-6)
    assert model.glimpses.pixels_read(3) == {"plane": 3, "grid": 6}[kind] * 2 * 16
    assert model.glimpses.pixels_read(7) == {"plane": 7, "grid": 6}[kind] * 2 * 16


@pytest.mark.parametrize("kind", KINDS)
def test_attention_parameters(kind):
    model = tiny_model(*KINDS[kind])
    named = {id(parameter): name for name, parameter in model.named_parameters()}
    found = {named[id(parameter)] for parameter in model.attention_parameters()}
    assert found == under(model, "glimpses.attention") and found
    assert tiny_model("--model=cnn").attention_parameters() == []


# Old keywords


@pytest.mark.parametrize("kind", ["plane", "cnn"])
def test_old_keywords_are_named(kind):
    model = tiny_model(*KINDS.get(kind, ("--model=cnn",)))
    with pytest.raises(TypeError, match="^the argument how has been renamed to mode$"):
        model(IMAGES, how="soft")
    with pytest.raises(TypeError, match="^the argument given has been renamed to locations$"):
        model(IMAGES, given=torch.zeros(5, 3, 2))
    with pytest.raises(TypeError, match="unexpected keyword argument 'when'"):
        model(IMAGES, when="now")


# Locations of three numbers


class Zoomed:
    """A view that is read at (x, y, log brightness)."""

    def __init__(self, view):
        self.view = view

    def at(self, location):
        return self.view.at(location[:, :2]) * location[:, 2].detach().exp().view(-1, 1, 1, 1)

    def expect(self, attention):
        patches = self.view.expect(Gaussian(attention.mean[:, :2], attention.std[:, :2]))
        return patches * (attention.mean + attention.std.square() / 2)[:, 2].exp().view(-1, 1, 1, 1)

    def rows(self, index):
        return Zoomed(self.view.rows(index))


class ZoomAttention(LocationAttention):
    location_dim = 3


class ZoomGlimpses(PlaneGlimpses):
    def prepare(self, images, *, num_reads, detach=False):
        return Zoomed(super().prepare(images, num_reads=num_reads))

    def patches_read(self, view, glimpse, mode):
        return super().patches_read(Zoomed(view), glimpse, mode)


class ZoomSettings(PlaneSettings):
    kind: Literal["zoom"] = "zoom"
    location_dim: ClassVar[int] = 3

    def build(self, *, state_dim, annotation_dim, read):
        return ZoomAttention(state_dim=state_dim, mode=read, std=self.std)


def test_a_location_has_the_length_that_its_attention_gives_it():
    network = GlimpseNetwork(in_channels=1, patch_size=4, what_dim=4, where_dim=4, out_dim=6, location_dim=3)
    glimpses = ZoomGlimpses(sensor=Sensor(patch_size=4), network=network, attention=ZoomAttention(state_dim=7))
    rule = PlacementRule("whole", lambda t, scene: torch.tensor([[0.0, 0, 1]]).expand(len(scene.images), 3))
    model = RecurrentAttention(
        glimpses=glimpses,
        core=RecurrentCore(input_dim=6, state_dim=7),
        num_classes=3,
        num_glimpses=4,
        policy=LearnedPolicy(glimpses.attention, FixedPolicy(rule, glimpses)),
    )
    rollout = model(IMAGES, noise=Noise(0))
    assert rollout.locations.shape == rollout.stds.shape == (5, 4, 3) and rollout.log_probs.shape == (5, 3)
    assert reached(rollout.log_probs.sum(), model) >= under(model, "glimpses.attention")
    assert torch.equal(model(IMAGES, locations=rollout.locations, noise=Noise(0)).logits, rollout.logits)
    early = stop_early(model, IMAGES, threshold=0.34)
    assert early.logits.shape == (5, 3)


@pytest.fixture
def zoom(monkeypatch):
    """An attention kind whose locations have three numbers."""
    monkeypatch.setitem(ATTENTIONS, "zoom", ZoomSettings)
    monkeypatch.setitem(GLIMPSES, "zoom", ZoomGlimpses)


@pytest.mark.parametrize("first", ["learned", "center", "random", "raster", "oracle"])
@pytest.mark.parametrize("options", [{"mode": "hard"}, {"mode": "soft"}, {"mode": "hard", "straight_through": True}])
def test_an_attention_kind_whose_locations_have_three_numbers(zoom, first, options):
    config = load_config(["--attention.kind=zoom", f"--attention.first={first}", "--num_glimpses=4"])
    model = make_model(config, image_shape=(1, 12, 14), num_classes=3)
    boxes = torch.tensor([[[1.0, 2, 5, 8]]]).expand(5, 1, 4)
    rollout = model(IMAGES, noise=Noise(0), boxes=boxes, **options)
    assert rollout.locations.shape == rollout.stds.shape == (5, 4, 3) and rollout.logits.isfinite().all()
    assert torch.equal(rollout.logits, model(IMAGES, noise=Noise(0), boxes=boxes, **options).logits)
    start = rollout.locations[:, 0]
    if first in ("learned", "random"):
        assert start[:, 2].all()
    else:
        assert not start[:, 2].any()
    loss = rollout.logits.square().sum() if rollout.log_probs is None else rollout.log_probs.sum()
    if "straight_through" in options:
        loss = rollout.logits.square().sum()
    weight, where = torch.autograd.grad(loss, [model.attention.head.weight, model.glimpses.network.where[0].weight])
    assert weight.shape[0] == where.shape[1] == 3 and weight[2].any() and where[:, 2].any()


@pytest.mark.parametrize("read", ["hard", "soft"])
def test_traces_of_locations_of_three_numbers_show_x_and_y(zoom, read):
    config = load_config(["--attention.kind=zoom", "--attention.first=random", f"--read={read}", "--num_glimpses=4"])
    model = make_model(config, image_shape=(1, 12, 14), num_classes=3)
    batch = Batch(IMAGES, torch.zeros(5, dtype=torch.long), torch.zeros(5, 1, 4))
    trace = trace_glimpses(model, batch, name="zoom", class_names=("a", "b", "c"))
    assert trace.points.shape == trace.spread.shape == (5, 4, 2) and trace.boxes.shape[:2] == (5, 4)
    assert_close(trace.points, to_pixels(trace.rollout.locations[..., :2], 12, 14))
