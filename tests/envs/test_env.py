"""One environment: observations, actions, rewards, rendering, and Gymnasium's conventions."""

import copy
import math
import pickle
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from PIL import Image
from support.tensors import TinyData, draw_bytes, tiny_model

import glimpse.envs
import glimpse.envs.render
from glimpse.attention.sensor import Sensor
from glimpse.data import Batch, ClutteredMNIST, Splits
from glimpse.data.settings.captions import DigitCaptionsSettings
from glimpse.data.settings.images import ClutteredMNISTSettings
from glimpse.envs import IDS, GlimpseEnv
from glimpse.envs.episodes import Episodes
from glimpse.errors import DataError
from glimpse.evaluation.glimpse_traces import trace_of_rollout
from glimpse.view.glimpse_animation import frames

TARGETS = torch.tensor([2, 0, 1, 2, 1])
MARKS = torch.tensor([[1.0, 0, 1], [0, 1, 0], [0, 0, 0], [1, 1, 1], [0, 0, 1]])
OPTIONS = {"num_glimpses": 3, "patch_size": 4, "num_scales": 2, "split": "test"}


def tiny_data(targets=TARGETS, channels=1):
    return TinyData(draw_bytes(5, channels, 10, 14), targets)


def tiny_env(targets=TARGETS, channels=1, **options):
    return GlimpseEnv(data=tiny_data(targets, channels), **{**OPTIONS, **options})


def action_at(x=0.0, y=0.0, label=0, **more):
    return {"location": np.array([x, y], np.float32), "label": label, **more}


def flat_action(x, y, *scores):
    return np.array([x, y, *scores], np.float32)


def locations(env, *actions):
    """The locations after some actions, from the center."""
    env.reset(options={"index": 0})
    return [env.step(action)[0]["location"].tolist() for action in actions]


# Gymnasium's conventions


@pytest.mark.parametrize("name", IDS)
def test_every_id_passes_the_check_of_gymnasium(name):
    check_env(gymnasium.make(name).unwrapped)


@pytest.mark.parametrize("name", IDS)
def test_every_id_passes_the_check_of_stable_baselines(name):
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    # Stable-Baselines3 warns that it has no agent for dictionary actions; it checks the interface all the same.
    checker.check_env(gymnasium.make(name).unwrapped, warn="flat" in name)


@pytest.mark.parametrize(
    "options",
    [
        {"motion": "relative"},
        {"motion": "bounded", "stop": True},
        {"answer": "scores", "reward": "log_likelihood", "first": "random"},
        {"flat": True, "answer": "scores", "stop": True, "reward": "accuracy"},
        {"background": 0.5, "step_cost": 0.1, "channels": 3},
        {"targets": MARKS},
        {"targets": MARKS, "answer": "scores", "reward": "log_likelihood"},
    ],
    ids=str,
)
def test_every_option_passes_the_check(options):
    env = tiny_env(**options)
    env.spec = gymnasium.spec(IDS[0])
    check_env(env, skip_render_check=True, skip_close_check=True)


def test_ids_and_their_spaces():
    assert IDS == (
        "glimpse/Cluttered60-v0",
        "glimpse/Cluttered100-v0",
        "glimpse/Translated60-v0",
        "glimpse/MNIST-v0",
        "glimpse/Cluttered60-flat-v0",
        "glimpse/Cluttered100-flat-v0",
        "glimpse/Translated60-flat-v0",
        "glimpse/MNIST-flat-v0",
    )
    env = gymnasium.make("glimpse/Cluttered100-v0")
    assert env.observation_space["glimpse"] == gymnasium.spaces.Box(0, 1, (4, 12, 12))
    assert env.observation_space["step"].n == 9
    assert env.action_space["label"].n == 10
    assert gymnasium.make("glimpse/MNIST-flat-v0").observation_space.shape == (64 + 2 + 1,)
    assert env.spec.to_json()
    assert env.unwrapped.game.images.shape == (1, 1, 100, 100)


def test_importing_only_registers():
    code = "import sys, gymnasium, glimpse.envs as e; gymnasium.spec(e.IDS[0]); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    assert set(glimpse.envs.__all__) <= set(dir(glimpse.envs))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        glimpse.envs.nothing  # noqa: B018


def test_same_seed_same_episodes():
    first, second = (gymnasium.make("glimpse/Cluttered60-v0", first="random") for _ in range(2))
    for env in (first, second):
        env.action_space.seed(3)
    seen = []
    for seed in (7, None, None):
        one, two = first.reset(seed=seed), second.reset(seed=seed)
        seen.append(one[1]["index"])
        for _ in range(6):
            assert one[0].keys() == two[0].keys()
            for key in one[0]:
                assert np.array_equal(one[0][key], two[0][key])
            assert one[1:] == two[1:]
            one, two = (env.step(env.action_space.sample()) for env in (first, second))
    assert len(set(seen)) == 3  # a reset without a seed continues the random stream
    assert first.reset(seed=8)[1] != first.reset(seed=7)[1]


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_continue_from_the_state_of_the_original(clone):
    env = gymnasium.make("glimpse/Cluttered60-v0")
    env.reset(seed=1)
    env.step(action_at(0.5, 0.5, 3))
    assert len(pickle.dumps(env)) < 50_000  # without the data set
    twin = clone(env)
    for x in (0.1, -0.7):
        ours, theirs = env.step(action_at(x, x, 4)), twin.step(action_at(x, x, 4))
        assert np.array_equal(ours[0]["glimpse"], theirs[0]["glimpse"]) and ours[1:] == theirs[1:]
    (ours, ours_info), (theirs, theirs_info) = env.reset(), twin.reset()
    assert np.array_equal(ours["glimpse"], theirs["glimpse"]) and ours_info == theirs_info
    twin.step(action_at(1.0, 1.0))
    assert env.unwrapped.game.num_actions == 0  # they have nothing in common but the data


def test_closing_twice_is_allowed():
    env = tiny_env()
    env.close()
    env.close()


# Observations


@pytest.mark.parametrize("channels", [1, 3])
def test_a_glimpse_is_that_of_the_sensor(channels):
    env = tiny_env(channels=channels, background=0.25)
    image = draw_bytes(5, channels, 10, 14)[3:4]
    view = Sensor(patch_size=4, num_scales=2, background=0.25).view(image)
    observation, _ = env.reset(options={"index": 3})
    for x, y in ((0.0, 0.0), (-0.9, 0.4), (1.0, -1.0)):
        assert observation["location"].tolist() == [np.float32(x), np.float32(y)]
        expected = view.at(torch.tensor([[x, y]]))[0]
        assert torch.equal(torch.from_numpy(observation["glimpse"]), expected)
        assert env.observation_space.contains(observation)
        following = {0.0: (-0.9, 0.4), -0.9: (1.0, -1.0), 1.0: (0.0, 0.0)}[x]
        observation = env.step(action_at(*following))[0]
    assert env.observation_space["glimpse"].shape == (2 * channels, 4, 4)


def test_a_new_episode_shows_its_own_image():
    data = ClutteredMNIST(split="test", canvas=(60, 60))
    env = gymnasium.make("glimpse/Cluttered60-v0", split="test")
    for index in (3, 0, 9):
        observation, _ = env.reset(options={"index": index})
        view = Sensor(patch_size=12, num_scales=3).view(data.select([index]).images)
        assert torch.equal(torch.from_numpy(observation["glimpse"]), view.at(torch.zeros(1, 2))[0])
        observation = env.step(action_at(0.5, -0.25))[0]
        assert torch.equal(torch.from_numpy(observation["glimpse"]), view.at(torch.tensor([[0.5, -0.25]]))[0])


def test_the_first_patch_is_a_crop():
    env = tiny_env(num_scales=1)
    env.reset(options={"index": 1})
    glimpse = env.step(action_at(0.0, 0.2))[0]["glimpse"]  # pixel (7, 6) is the middle
    crop = draw_bytes(5, 1, 10, 14)[1, :, 4:8, 5:9].numpy() / 255
    np.testing.assert_allclose(glimpse, crop, atol=1e-6)


def test_the_flat_observation_is_the_concatenation():
    flat, dictionary = tiny_env(flat=True, answer="scores"), tiny_env()
    line, seen = flat.reset(options={"index": 2})[0], dictionary.reset(options={"index": 2})[0]
    for step in range(4):
        expected = np.concatenate([seen["glimpse"].ravel(), seen["location"], [np.float32(step / 3)]])
        assert np.array_equal(line, expected) and line.dtype == np.float32
        assert flat.observation_space.contains(line)
        if step < 3:
            line, seen = flat.step(flat_action(0.3, step / 3, 0, 0, 0))[0], dictionary.step(action_at(0.3, step / 3))[0]


def test_step_counts_actions_and_the_last_location_is_not_looked_at():
    env = tiny_env()
    observation, _ = env.reset(options={"index": 0})
    steps, places, ends = [observation["step"]], [], []
    for x in (0.25, 0.5, 0.75):
        observation, _, terminated, truncated, _ = env.step(action_at(x, x))
        steps.append(observation["step"])
        places.append(observation["location"][0])
        ends.append(terminated)
        assert truncated is False
    assert steps == [0, 1, 2, 3]
    assert places == [0.25, 0.5, 0.5]
    assert ends == [False, False, True]
    with pytest.raises(ResetNeeded, match="call reset"):
        env.step(action_at())


def test_stepping_before_the_first_reset_raises():
    with pytest.raises(ResetNeeded, match="call reset"):
        tiny_env().step(action_at())


# Examples


def test_index_chooses_the_example_as_it_is_scored():
    data = ClutteredMNIST(split="train", canvas=(60, 60))
    env = gymnasium.make("glimpse/Cluttered60-v0").unwrapped
    for index in (0, 17, 49_999):
        _, info = env.reset(options={"index": index})
        assert info["index"] == index
        if index < 100:
            batch = data.select([index])
            assert torch.equal(env.game.images, batch.images) and info["target"] == batch.targets[0]


@pytest.mark.parametrize("split", ["valid", "test"])
def test_splits_other_than_training_show_the_scored_examples(split):
    env = gymnasium.make("glimpse/Cluttered60-v0", split=split).unwrapped
    images = []
    for seed in range(3):
        _, info = env.reset(seed=seed)
        images.append(env.game.images.clone())
        env.reset(options={"index": info["index"]})
        assert torch.equal(env.game.images, images[-1])


def test_training_draws_new_clutter():
    env = gymnasium.make("glimpse/Cluttered60-v0").unwrapped
    data = env.game.episodes.data
    _, info = env.reset(seed=0)
    drawn = env.game.images.clone()
    assert info["target"] == data._labels[info["index"]]
    env.reset(options={"index": info["index"]})
    assert not torch.equal(env.game.images, drawn)
    # Without clutter, the digit is the only content, at any place.
    env = gymnasium.make("glimpse/Translated60-v0").unwrapped
    _, info = env.reset(seed=0)
    assert env.game.images.sum() == data._images[info["index"]].sum()


def test_all_examples_and_all_layouts_are_drawn():
    episodes = Episodes(ClutteredMNISTSettings(canvas=28, num_distractors=0), "train")
    index, layout = episodes.draw([np.random.default_rng(0)] * 20_000)
    for drawn in (index, layout):
        assert drawn.min() < 50 and drawn.max() > 49_949
        assert abs(drawn.mean() - 24_999.5) < 500
    assert abs(np.corrcoef(index, layout)[0, 1]) < 0.03
    index, layout = Episodes(tiny_data(), "train").draw([np.random.default_rng(0)] * 1000)
    assert layout is None and set(index) == set(range(5))


def test_data_by_keyword_settings_splits_or_dataset(tmp_path):
    env = gymnasium.make("glimpse/Cluttered60-v0", num_digits=2, target="sum", canvas=[40, 50])
    assert env.action_space["label"].n == 19 and env.unwrapped.game.images.shape == (1, 1, 40, 50)
    env = GlimpseEnv(data=ClutteredMNISTSettings(canvas=30), num_distractors=0)
    assert env.game.images.shape == (1, 1, 30, 30)
    one, two = tiny_data(), tiny_data(TARGETS.flip(0))
    assert GlimpseEnv(data=Splits(one, one, two), split="test").reset(options={"index": 0})[1]["target"] == 1
    for folder in ("cat", "dog"):
        (tmp_path / folder).mkdir()
        for number in range(10):
            Image.new("RGB", (8, 6), (number, 0, 0)).save(tmp_path / folder / f"{number}.png")
    env = gymnasium.make("glimpse/MNIST-v0", kind="folder", root=str(tmp_path), patch_size=4, num_scales=2)
    observation, info = env.reset(seed=0)
    assert observation["glimpse"].shape == (6, 4, 4) and info["target"] in (0, 1)
    for path in tmp_path.glob("*/*.png"):
        path.write_bytes(b"broken")
    with pytest.raises(DataError, match="cannot read"):
        env.reset()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"index": 5}, r"index must be in 0\.\.4, got 5"),
        ({"index": -1}, r"index must be in 0\.\.4, got -1"),
        ({"index": 1.0}, "index must be an integer, got float64"),
        ({"index": [1, 2]}, r"index must be an integer, got int64 of shape \(2,\)"),
        ({"image": 3}, "options of reset are index, got image"),
    ],
)
def test_wrong_options_of_reset(options, message):
    with pytest.raises(ValueError, match=message):
        tiny_env().reset(options=options)


# Actions


def test_absolute_motion_and_its_clipping():
    assert locations(tiny_env(), action_at(0.5, -0.25), action_at(3.0, -1.5)) == [[0.5, -0.25], [1.0, -1.0]]
    assert locations(tiny_env(margin=0.5), action_at(3.0, -1.25)) == [[1.5, -1.25]]


def test_relative_motion():
    ways = [action_at(0.5, -0.25), action_at(0.25, -0.5), action_at(7.0, -1.0)]
    assert locations(tiny_env(motion="relative", num_glimpses=9), *ways) == [[0.5, -0.25], [0.75, -0.75], [1.0, -1.0]]


def test_a_bounded_stride_keeps_its_direction():
    env = tiny_env(motion="bounded", max_stride=0.5, num_glimpses=9)
    (short, long, longer) = locations(env, action_at(0.5, 0.0), action_at(-0.6, 0.8), action_at(-1.0, -1.0))
    np.testing.assert_allclose(short, [0.25, 0.0])
    np.testing.assert_allclose(np.subtract(long, short), [-0.3, 0.4], atol=1e-6)
    np.testing.assert_allclose(np.subtract(longer, long), [-0.5 / math.sqrt(2)] * 2, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "action", "message"),
    [
        ({}, action_at(math.nan), "location must be finite, got nan"),
        ({}, action_at(0, math.inf), "location must be finite, got inf"),
        ({}, {**action_at(), "location": np.zeros(3, np.float32)}, r"location must have shape \(2,\), got \(3,\)"),
        (
            {},
            {**action_at(), "location": np.zeros((1, 2), np.float32)},
            r"location must have shape \(2,\), got \(1, 2\)",
        ),
        ({}, {**action_at(), "location": np.zeros(2, int)}, "location must be floating-point numbers, got int64"),
        ({}, action_at(label=3), r"label must be in 0\.\.2, got 3"),
        ({}, action_at(label=-1), r"label must be in 0\.\.2, got -1"),
        ({}, action_at(label=1.0), "label must be integers, got float64"),
        ({}, action_at(label=[1]), r"label must have shape \(\), got \(1,\)"),
        ({}, action_at(stop=1), "dictionary of location, label, got location, label, stop"),
        ({"stop": True}, action_at(), "dictionary of location, label, stop, got location, label$"),
        ({"stop": True}, action_at(stop=2), r"stop must be in 0\.\.1, got 2"),
        ({}, np.zeros(2), "dictionary of location, label, got ndarray"),
        ({"targets": MARKS}, action_at(label=np.array([0, 2, 0])), r"label must be in 0\.\.1, got 2"),
        ({"targets": MARKS}, action_at(label=1), r"label must have shape \(3,\), got \(\)"),
        ({"answer": "scores"}, action_at(), "dictionary of location, scores"),
        ({"answer": "scores", "flat": True}, flat_action(0, 0, 1), r"action must have shape \(5,\), got \(3,\)"),
        ({"answer": "scores", "flat": True}, flat_action(0, 0, 1, math.nan, 0), "action must be finite, got nan"),
    ],
)
def test_invalid_actions_raise_and_change_nothing(options, action, message):
    env = tiny_env(**options)
    env.reset(options={"index": 0})
    with pytest.raises(ValueError, match=message):
        env.step(action)
    assert env.game.num_actions[0] == 0 and not env.game.over[0]


def test_scores_must_be_finite():
    env = tiny_env(answer="scores")
    env.reset(seed=0)
    scores = np.array([0, 1, np.inf], np.float32)
    with pytest.raises(ValueError, match="scores must be finite, got inf"):
        env.step({"location": np.zeros(2, np.float32), "scores": scores})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"first": "corner"}, "first must be one of center, random, got 'corner'"),
        ({"motion": "fast"}, "motion must be one of absolute, relative, bounded, got 'fast'"),
        ({"answer": "words"}, "answer must be one of label, scores, got 'words'"),
        ({"reward": "money"}, "reward must be one of final, accuracy, log_likelihood, got 'money'"),
        ({"num_glimpses": 0}, "num_glimpses must be at least 1, got 0"),
        ({"max_stride": 0}, "max_stride must be positive and finite, got 0"),
        ({"margin": -1}, "margin must be finite and not negative, got -1"),
        ({"step_cost": math.nan}, "step_cost must be finite and not negative, got nan"),
        ({"flat": True}, "answer must be 'scores' with flat=True"),
        ({"reward": "log_likelihood"}, "answer must be 'scores' with flat=False and reward='log_likelihood'"),
        ({"split": "all"}, "split must be one of train, valid, test, got 'all'"),
        ({"render_mode": "human"}, "render_mode must be None or 'rgb_array', got 'human'"),
        ({"canvas": 60}, "unknown options canvas: .* got TinyData"),
        ({"data": {"canvas": 28}, "colour": 1}, "unknown options colour; .* num_distractors"),
        ({"data": DigitCaptionsSettings()}, "images with classes .* got 'digit_captions'"),
        ({"data": "mnist"}, "images with classes .* got 'str'"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        tiny_env(**options) if "data" not in options else GlimpseEnv(**options)


# Rewards


def play_labels(env, *labels, index=0, **more):
    """The rewards of some answers to an example; example 0 has class 2."""
    env.reset(options={"index": index})
    return [env.step(action_at(label=label, **more))[1] for label in labels]


def test_final_reward():
    assert play_labels(tiny_env(), 2, 2, 1) == [0, 0, 0]
    assert play_labels(tiny_env(), 1, 0, 2) == [0, 0, 1]


def test_accuracy_at_each_step_and_its_cost():
    assert play_labels(tiny_env(reward="accuracy"), 2, 1, 2) == [1, 0, 1]
    assert play_labels(tiny_env(reward="accuracy", step_cost=0.25), 2, 1, 2) == [0.75, -0.25, 0.75]


def test_log_likelihood_of_scores():
    env = tiny_env(answer="scores", reward="log_likelihood")
    env.reset(options={"index": 0})
    scores = np.log([1, 2, 5]).astype(np.float32) / 8
    _, reward, _, _, info = env.step({"location": np.zeros(2), "scores": scores})
    assert reward == pytest.approx(math.log(5 / 8), abs=1e-6) and info["right"] is True
    # Scores outside their box are used as they are.
    _, reward, _, _, info = env.step({"location": np.zeros(2), "scores": -100 * scores})
    weights = np.array([1, 2, 5], float) ** -100
    assert reward == pytest.approx(math.log(weights[2] / weights.sum()), rel=1e-5) and info["right"] is False


def test_several_labels_must_all_be_correct():
    env = tiny_env(MARKS, reward="accuracy")
    assert play_labels(env, np.array([1, 0, 1]), np.array([1, 0, 0]), np.array([1, 1, 1])) == [1, 0, 0]
    env = tiny_env(MARKS, answer="scores", reward="log_likelihood")
    _, info = env.reset(options={"index": 0})
    assert info["target"].tolist() == [1, 0, 1]
    scores = np.log([3, 1 / 3, 0.5]).astype(np.float32) / 8  # probabilities 3/4, 1/4 and 1/3
    _, reward, _, _, info = env.step({"location": np.zeros(2), "scores": scores})
    assert reward == pytest.approx(math.log(3 / 4 * 3 / 4 * 1 / 3), abs=1e-6) and info["right"] is False


def test_stopping_makes_the_answer_the_last():
    env = tiny_env(stop=True, step_cost=0.125)
    env.reset(options={"index": 0})
    observation, reward, terminated, _, _ = env.step(action_at(0.5, 0.5, 2, stop=0))
    assert (reward, terminated) == (-0.125, False)
    observation, reward, terminated, truncated, _ = env.step(action_at(0.9, 0.9, 2, stop=1))
    assert (reward, terminated, truncated) == (0.875, True, False)
    assert observation["location"].tolist() == [0.5, 0.5] and observation["step"] == 2
    with pytest.raises(ResetNeeded):
        env.step(action_at(stop=0))


def test_flat_actions_answer_by_the_highest_score_and_stop_above_zero():
    env = tiny_env(flat=True, answer="scores", stop=True, reward="accuracy")
    env.reset(options={"index": 0})
    line, reward, terminated, _, _ = env.step(flat_action(0.5, -2.0, -0.3, -0.2, -0.1, 0.0))
    assert (reward, terminated) == (1, False) and line[-3:-1].tolist() == [0.5, -1.0]
    _, reward, terminated, _, _ = env.step(flat_action(0, 0, 0.1, 0.2, -0.1, 0.5))
    assert (reward, terminated) == (0, True)


# Rendering


def texts_of(env, monkeypatch):
    """The texts of the frame."""
    figures = []
    monkeypatch.setattr(glimpse.envs.render, "rasterize", lambda figure: figures.append(figure))
    env.render()
    return [text.get_text() for text in figures[0].texts]


def test_the_last_frame_is_that_of_the_animation():
    model = tiny_model("--num_glimpses=3", image_shape=(1, 10, 14)).eval()
    env = tiny_env(answer="scores", render_mode="rgb_array")
    episode = glimpse.envs.play(model, env, options={"index": 3})
    batch = Batch(draw_bytes(5, 1, 10, 14)[3:4], TARGETS[3:4], torch.zeros(1, 0, 4))
    with torch.inference_mode():
        rollout = model(batch.images, sample=False)
    trace = trace_of_rollout(model, batch, rollout, name="agent", class_names=("0", "1", "2"), mode="hard")
    *_, last = frames([trace])
    assert torch.equal(episode.logits, rollout.logits)
    assert np.array_equal(env.render(), last)


def test_frames_show_the_current_glimpse_and_the_last_answer(monkeypatch):
    env = tiny_env(render_mode="rgb_array")
    with pytest.raises(ResetNeeded, match="no episode to draw"):
        env.render()
    env.reset(options={"index": 0})
    assert {"glimpse 1 of 3", "no answer yet"} <= set(texts_of(env, monkeypatch))
    env.step(action_at(0.5, 0.5, 2))
    assert {"glimpse 2 of 3", "predicts 2, 100%: correct"} <= set(texts_of(env, monkeypatch))
    env.step(action_at(label=1))
    assert {"glimpse 3 of 3", "predicts 1, 100%: wrong"} <= set(texts_of(env, monkeypatch))
    env.step(action_at(label=2))
    assert {"glimpse 3 of 3", "predicts 2, 100%: correct"} <= set(texts_of(env, monkeypatch))


def test_several_labels_are_drawn(monkeypatch):
    env = tiny_env(MARKS, render_mode="rgb_array")
    env.reset(options={"index": 0})
    env.step(action_at(label=np.array([1, 0, 1])))
    assert "predicts 0, 2: correct" in texts_of(env, monkeypatch)


def test_rendering_without_a_mode_warns():
    env = tiny_env()
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="render_mode='rgb_array'"):
        assert env.render() is None


def test_enormous_scores_have_a_finite_reward():
    env = gymnasium.make("glimpse/MNIST-v0", answer="scores", reward="log_likelihood")
    env.reset(seed=0)
    scores = np.full(10, -3e38, np.float32)
    _, reward, *_ = env.unwrapped.step({"location": np.zeros(2, np.float32), "scores": scores})
    assert reward == pytest.approx(-math.log(10))
    scores = np.full(10, -1e300)
    scores[(env.unwrapped.game.targets[0].item() + 1) % 10] = 1e300
    _, reward, *_ = env.unwrapped.step({"location": np.zeros(2, np.float32), "scores": scores})
    assert reward == -1.6e7
