"""Policies, and the parts of a rollout: who places a glimpse, what a copy refers to, what a step consists of."""

import copy
import pickle

import pytest
import torch
from support.tensors import assert_close, draw, draw_bytes, reached, tiny_model, under

from glimpse.attention.distributions import Noise
from glimpse.attention.placement import RULES, PlacementRule
from glimpse.attention.reading import LocationAttention
from glimpse.attention.sensor import Sensor
from glimpse.errors import ConfigError
from glimpse.models.early_exit import stop_early
from glimpse.models.glimpses import GlimpseNetwork, PlaneGlimpses, RecurrentCore
from glimpse.models.recurrent_attention import FixedPolicy, LearnedPolicy, RecurrentAttention
from glimpse.models.rollout import Rollout

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
    """A view that is read at (x, y, brightness)."""

    def __init__(self, view):
        self.view = view

    def at(self, location):
        return self.view.at(location[:, :2]) * location[:, 2].view(-1, 1, 1, 1)

    def rows(self, index):
        return Zoomed(self.view.rows(index))


class ZoomAttention(LocationAttention):
    location_dim = 3


class ZoomGlimpses(PlaneGlimpses):
    def prepare(self, images, *, num_reads, detach=False):
        return Zoomed(super().prepare(images, num_reads=num_reads))


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
