"""A model that plays in an environment has the glimpses and answers of its own rollout."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import SyncVectorEnv
from support.tensors import TinyData, draw_bytes, tiny_model

from glimpse.attention.distributions import Noise
from glimpse.attention.foveated import FoveatedSensor
from glimpse.envs import GlimpseEnv, GlimpseVectorEnv, env_options, play
from glimpse.losses.policy_gradient import rewards
from glimpse.tasks.build import build_data
from glimpse.training.load import load
from glimpse.training.run import Run

TARGETS = torch.tensor([2, 0, 1, 2, 1])
MARKS = torch.tensor([[1.0, 0, 1], [0, 1, 0], [0, 0, 0], [1, 1, 1], [0, 0, 1]])
IMAGES = draw_bytes(5, 1, 12, 14)
FIVE = {"index": np.arange(5)}


def tiny_envs(model, targets=TARGETS, **options):
    data = TinyData(IMAGES, targets)
    return GlimpseVectorEnv(num_envs=5, data=data, split="test", **{**env_options(model), **options})


@pytest.fixture(scope="module")
def trained(classifiers):
    return classifiers / "hard"


@pytest.mark.parametrize("sample", [False, True])
def test_a_checkpoint_plays_its_own_rollout(trained, sample):
    model = load(trained)
    index = [5, 0, 11, 3, 8, 2]
    batch = build_data(Run.open(trained).config.data).test.select(index)
    env = gymnasium.make_vec(
        "glimpse/Cluttered60-v0",
        num_envs=6,
        vectorization_mode="vector_entry_point",
        split="test",
        reward="accuracy",
        margin=2.0,
        **env_options(model),
    )
    episodes = play(model, env, options={"index": np.array(index)}, sample=sample, noise=Noise(3))
    with torch.no_grad():
        rollout = model(batch.images, mode="hard", sample=sample, noise=Noise(3))
    assert torch.equal(episodes.locations, rollout.locations)
    assert torch.equal(episodes.logits, rollout.logits)
    assert torch.equal(episodes.targets, batch.targets) and episodes.index.tolist() == index
    assert torch.equal(episodes.rewards, rewards(rollout.logits, batch.targets).double())
    assert not torch.equal(rollout.locations[:, 1], rollout.locations[:, 2])  # the locations vary


def test_a_model_with_a_foveated_sensor_plays_its_own_rollout():
    model = tiny_model("--sensor.kind=foveated", "--sensor.growth=1.5").eval()
    episodes = play(model, tiny_envs(model), options=FIVE)
    with torch.no_grad():
        rollout = model(IMAGES, mode="hard", sample=False)
    assert torch.equal(episodes.locations, rollout.locations) and torch.equal(episodes.logits, rollout.logits)
    for other in (tiny_envs(tiny_model()), tiny_envs(model, sensor=FoveatedSensor(patch_size=4, growth=2.0))):
        with pytest.raises(ValueError, match="same settings, got sensor FoveatedSensor.*growth=1.5.* and "):
            play(model, other, options=FIVE)


@pytest.mark.parametrize("core", ["gru", "lstm"])
def test_one_environment_is_a_batch_of_one(core):
    model = tiny_model(f"--network.core={core}")
    env = GlimpseEnv(data=TinyData(IMAGES, TARGETS), split="test", **env_options(model))
    episodes = play(model, env, options={"index": 4})
    with torch.no_grad():
        rollout = model(IMAGES[4:], sample=False)
    assert torch.equal(episodes.locations, rollout.locations) and torch.equal(episodes.logits, rollout.logits)
    assert episodes.index.tolist() == [4] and episodes.targets.tolist() == [1]
    assert episodes.rewards.tolist() == [[0, 0, float(rollout.logits[0, -1].argmax() == 1)]]


def test_the_environment_draws_a_random_first_glimpse():
    model = tiny_model("--attention.first=random")
    episodes = play(model, tiny_envs(model), seed=2, options=FIVE)
    with torch.no_grad():
        rollout = model(IMAGES, sample=False, locations=episodes.locations)
    assert episodes.locations[:, 0].abs().min() > 0
    assert torch.equal(episodes.locations, rollout.locations) and torch.equal(episodes.logits, rollout.logits)


def test_scores_are_the_logits_and_the_model_never_stops():
    model = tiny_model()
    env = tiny_envs(model, answer="scores", reward="log_likelihood", stop=True, step_cost=0.5)
    episodes = play(model, env, options=FIVE)
    expected = rewards(episodes.logits, TARGETS, "log_likelihood").double() - 0.5
    assert torch.equal(episodes.rewards, expected)


def test_several_labels():
    model = tiny_model()
    episodes = play(model, tiny_envs(model, MARKS, reward="accuracy"), options=FIVE)
    assert torch.equal(episodes.rewards, rewards(episodes.logits, MARKS).double())
    assert torch.equal(episodes.targets, MARKS)


def test_a_soft_model_plays_hard():
    model = tiny_model("--read=soft", "--loss.baseline=none")
    episodes = play(model, tiny_envs(model), options=FIVE)
    with torch.no_grad():
        rollout = model(IMAGES, mode="hard", sample=False)
    assert torch.equal(episodes.locations, rollout.locations) and torch.equal(episodes.logits, rollout.logits)


def test_a_clipped_location_is_an_error():
    model = tiny_model()
    model.glimpses.attention.set_std(3.0)
    with pytest.raises(ValueError, match="clipped a location: make it with a larger margin"):
        play(model, tiny_envs(model), options=FIVE, sample=True, noise=Noise(0))


def test_model_and_environment_must_match():
    model = tiny_model()
    with pytest.raises(ValueError, match="must have the same settings, got num_glimpses 3 and 4; patch_size 4 and 5"):
        play(model, tiny_envs(model, num_glimpses=4, patch_size=5))
    with pytest.raises(ValueError, match="must have the same settings, got classes 3 and 4"):
        play(model, GlimpseVectorEnv(data=TinyData(IMAGES, TARGETS, num_classes=4), **env_options(model)))
    with pytest.raises(ValueError, match="flat=False and motion='absolute', got flat=False, motion='relative'"):
        play(model, tiny_envs(model, motion="relative"))
    with pytest.raises(ValueError, match="flat=False and motion='absolute', got flat=True"):
        play(model, tiny_envs(model, flat=True, answer="scores"))
    for option, message in (
        ("--attention.places=grid", "got GridGlimpses"),
        ("--attention.policy=raster", "policy 'raster'"),
        ("--attention.first=learned", "first 'learned'"),
    ):
        with pytest.raises(ValueError, match=message):
            play(tiny_model(option), tiny_envs(model))
    with pytest.raises(ValueError, match="env must be a GlimpseEnv or a GlimpseVectorEnv"):
        play(model, SyncVectorEnv([lambda: gymnasium.make("glimpse/MNIST-v0")]))
