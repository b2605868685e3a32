"""The vector environment equals single environments, step for step and seed for seed."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from support.tensors import TinyData, draw_bytes

from glimpse.envs import IDS, GlimpseEnv, GlimpseVectorEnv

TARGETS = torch.tensor([2, 0, 1, 2, 1])
MARKS = torch.tensor([[1.0, 0, 1], [0, 1, 0], [0, 0, 0], [1, 1, 1], [0, 0, 1]])
OPTIONS = {"num_glimpses": 3, "patch_size": 4, "num_scales": 2}
NUM = 5
MODES = list(AutoresetMode)


def env_options(targets=TARGETS, **options):
    return {"data": TinyData(draw_bytes(5, 1, 10, 14), targets), **OPTIONS, **options}


def both(mode, **options):
    """The vector environment, and a SyncVectorEnv of single ones."""
    options = env_options(**options)
    sync = SyncVectorEnv([lambda: GlimpseEnv(**options)] * NUM, autoreset_mode=mode)
    return GlimpseVectorEnv(num_envs=NUM, autoreset_mode=mode, **options), sync


def assert_same(ours, theirs):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert data_equivalence(one, other, exact=True), (one, other)


def lockstep(native, sync, mode, steps=11):
    """Step both with the same actions; without autoreset, reset those that have ended by a mask."""
    assert_same(native.reset(seed=5), sync.reset(seed=5))
    native.action_space.seed(0)
    ends = 0
    for _ in range(steps):
        actions = native.action_space.sample()
        ours, theirs = native.step(actions), sync.step(actions)
        assert_same(ours, theirs)
        assert native.observation_space.contains(ours[0])
        ends += ours[2].sum()
        if mode == AutoresetMode.DISABLED and ours[2].any():
            assert_same(
                native.reset(options={"reset_mask": ours[2]}), sync.reset(options={"reset_mask": ours[2].copy()})
            )
    assert ends >= NUM


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"motion": "relative", "reward": "accuracy", "step_cost": 0.1},
        {"motion": "bounded", "stop": True, "first": "random"},
        {"answer": "scores", "reward": "log_likelihood", "stop": True},
        {"flat": True, "answer": "scores", "stop": True, "reward": "log_likelihood"},
        {"targets": MARKS, "reward": "accuracy", "background": 0.5},
        {"targets": MARKS, "answer": "scores", "reward": "log_likelihood"},
        {"num_glimpses": 1},
    ],
    ids=str,
)
def test_equal_to_single_environments(mode, options):
    lockstep(*both(mode, **options), mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", IDS)
def test_every_id_is_equal_to_its_single_environments(mode, name):
    native = gymnasium.make_vec(
        name, num_envs=NUM, vectorization_mode="vector_entry_point", autoreset_mode=mode.value, stop=True
    )
    assert native.metadata["autoreset_mode"] is mode
    assert isinstance(native, GlimpseVectorEnv)
    sync = gymnasium.make_vec(
        name, num_envs=NUM, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, stop=True
    )
    assert native.observation_space == sync.observation_space and native.action_space == sync.action_space
    lockstep(native, sync, mode)


def test_equal_to_processes():
    options = env_options()
    native = GlimpseVectorEnv(num_envs=2, **options)
    other = AsyncVectorEnv([lambda: GlimpseEnv(**options)] * 2)
    try:
        assert_same(native.reset(seed=1), other.reset(seed=1))
        for _ in range(5):
            actions = native.action_space.sample()
            assert_same(native.step(actions), other.step(actions))
    finally:
        other.close()


def test_seeds_are_those_of_single_environments():
    native, sync = both(AutoresetMode.NEXT_STEP)
    for seed in (3, np.int64(3), [4, 4, None, 9, 2], None):
        ours, theirs = native.reset(seed=seed), sync.reset(seed=int(seed) if isinstance(seed, np.integer) else seed)
        if seed is not None:
            assert_same(ours, theirs)
            assert native.np_random_seed == sync.np_random_seed
    assert len(native.np_random) == NUM
    for one, other in zip(native.np_random, sync.np_random, strict=True):
        assert one.bit_generator.state == other.bit_generator.state
    fresh = GlimpseVectorEnv(num_envs=2, **env_options())
    assert len(set(fresh.np_random_seed)) == 2  # without a seed, random ones
    with pytest.raises(ValueError, match="one seed for each of the 5 environments, got 2"):
        native.reset(seed=[1, 2])


def test_a_mask_resets_some_and_leaves_the_others():
    native, sync = both(AutoresetMode.DISABLED)
    with pytest.raises(ResetNeeded, match="first reset must begin an episode in every environment"):
        native.reset(options={"reset_mask": np.array([True] + [False] * 4)})
    with pytest.raises(ResetNeeded, match="call reset"):
        native.step(native.action_space.sample())
    native.reset(seed=0), sync.reset(seed=0)
    actions = native.action_space.sample()
    native.step(actions), sync.step(actions)
    mask = np.array([False, True, False, True, False])
    ours = native.reset(seed=50, options={"reset_mask": mask})
    assert_same(ours, sync.reset(seed=50, options={"reset_mask": mask}))
    assert ours[0]["step"].tolist() == [1, 0, 1, 0, 1]
    assert ours[1]["_index"].tolist() == mask.tolist()
    assert_same(native.step(actions), sync.step(actions))


@pytest.mark.parametrize("mask", [np.ones(4, bool), np.ones(5, int), np.zeros(5, bool)], ids=["shape", "type", "empty"])
def test_wrong_masks(mask):
    native = GlimpseVectorEnv(num_envs=NUM, **env_options())
    with pytest.raises(ValueError, match=r"reset_mask must be \(5,\) bool with at least one True, got"):
        native.reset(options={"reset_mask": mask})


def test_without_autoreset_ended_episodes_must_be_reset():
    native = GlimpseVectorEnv(num_envs=NUM, autoreset_mode="Disabled", **env_options(num_glimpses=1))
    native.reset(seed=0)
    native.step(native.action_space.sample())
    with pytest.raises(ResetNeeded, match="call reset"):
        native.step(native.action_space.sample())
    with pytest.raises(ValueError, match="autoreset_mode must be one of NextStep, SameStep, Disabled, got 'Never'"):
        GlimpseVectorEnv(num_envs=NUM, autoreset_mode="Never", **env_options())
    with pytest.raises(ValueError, match="num_envs must be at least 1, got 0"):
        GlimpseVectorEnv(num_envs=0, **env_options())


def test_an_ignored_action_is_not_checked():
    native = GlimpseVectorEnv(num_envs=NUM, **env_options(stop=True))
    native.reset(seed=0)
    actions = native.action_space.sample()
    actions["stop"] = np.array([1, 0, 0, 0, 0])
    native.step(actions)
    actions["location"][0] = np.nan
    actions["stop"][:] = 0
    observation = native.step(actions)[0]
    assert observation["step"].tolist() == [0, 2, 2, 2, 2]
    with pytest.raises(ValueError, match="location must be finite, got nan"):
        native.step(actions)


def test_wrong_shapes_of_batches():
    native = GlimpseVectorEnv(num_envs=NUM, **env_options())
    native.reset(seed=0)
    good = native.action_space.sample()
    with pytest.raises(ValueError, match=r"location must have shape \(5, 2\), got \(2,\)"):
        native.step({**good, "location": np.zeros(2, np.float32)})
    with pytest.raises(ValueError, match=r"label must have shape \(5,\), got \(\)"):
        native.step({**good, "label": 1})


def test_index_chooses_the_examples():
    native = GlimpseVectorEnv(num_envs=3, **env_options())
    assert native.reset(options={"index": np.array([4, 0, 3])})[1]["target"].tolist() == [1, 2, 2]
    assert native.reset(options={"index": 1})[1]["index"].tolist() == [1, 1, 1]
    mask = np.array([False, True, False])
    assert native.reset(options={"index": np.array([9, 2, 9]), "reset_mask": mask})[1]["index"].tolist() == [0, 2, 0]
    assert native.game.index.tolist() == [1, 2, 1]
    with pytest.raises(ValueError, match=r"an integer or integers of shape \(3,\), got int64 of shape \(2,\)"):
        native.reset(options={"index": [1, 2]})
    with pytest.raises(ValueError, match="options of reset are reset_mask, index, got mask"):
        native.reset(options={"mask": mask})


def test_returned_arrays_are_never_written_to_again():
    native = GlimpseVectorEnv(num_envs=NUM, **env_options())
    returned = [native.reset(seed=0)]
    kept = copy.deepcopy(returned)
    for _ in range(6):
        returned.append(native.step(native.action_space.sample()))
        kept.append(copy.deepcopy(returned[-1]))
    for one, other in zip(returned, kept, strict=True):
        assert_same(one, other)
    returned[-1][0]["location"][:] = 9  # nor read
    assert native.step(native.action_space.sample())[0]["location"].max() <= 1


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_continue_from_the_state_of_the_original(clone):
    native = GlimpseVectorEnv(num_envs=NUM, **env_options())
    native.reset(seed=0)
    native.step(native.action_space.sample())
    twin = clone(native)
    for _ in range(6):
        actions = native.action_space.sample()
        assert_same(native.step(actions), twin.step(actions))


def test_frames_are_those_of_the_single_environments():
    options = env_options(num_glimpses=2)
    native = GlimpseVectorEnv(num_envs=2, render_mode="rgb_array", **options)
    single = GlimpseEnv(render_mode="rgb_array", **options)
    native.reset(seed=0), single.reset(seed=1)
    actions = native.action_space.sample()
    native.step(actions), single.step({name: value[1] for name, value in actions.items()})
    frames = native.render()
    assert len(frames) == 2 and np.array_equal(frames[1], single.render())
    assert not np.array_equal(frames[0], frames[1])
    with pytest.warns(UserWarning, match="render_mode='rgb_array'"):
        assert GlimpseVectorEnv(num_envs=2, **options).render() is None
    native.close()
    native.close()
    assert native.closed
