"""A trained model as an agent: step by step in an environment it looks where it would have looked by itself.

Shapes: B environments, T glimpses, K scales, C channels, G patch side.
"""

from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from glimpse.attention.distributions import Noise
from glimpse.attention.reading import LocationAttention
from glimpse.envs.rules import LOGITS_PER_SCORE, GlimpseRules
from glimpse.models.recurrent_attention import LearnedPolicy, RecurrentAttention


class PlayedEpisodes(NamedTuple):
    """An episode of each of B environments; on the CPU."""

    logits: Tensor  # (B, T, classes): the answer after each glimpse
    locations: Tensor  # (B, T, 2): where each glimpse was
    rewards: Tensor  # (B, T) float64
    index: Tensor  # type: ignore[assignment]  # (B,): which examples they were
    targets: Tensor  # (B,) or (B, classes)


def env_options(model: RecurrentAttention) -> dict[str, Any]:
    """The options of an environment that suits a model: its sensor, and how often and where first it looks."""
    sensor = model.glimpses.sensor
    return {
        "num_glimpses": model.num_glimpses,
        "patch_size": sensor.patch_size,
        "num_scales": sensor.num_scales,
        "scale_factor": sensor.scale_factor,
        "background": sensor.background,
        "first": model.first,
    }


@torch.no_grad()
def play(
    model: RecurrentAttention,
    env: gymnasium.Env | VectorEnv,
    *,
    seed: int | None = None,
    options: dict[str, Any] | None = None,
    sample: bool = False,
    noise: Noise | None = None,
) -> PlayedEpisodes:
    """Let a model play one episode in each environment.

    Logits and locations are exactly those of its own rollout, `model(images, mode="hard", ...)`, on the same images
    with the same `sample` and `noise`, and a random first glimpse given as `locations`. As its samples may lie off the
    image, an environment for `sample=True` needs a `margin`, such as 2.

    Args:
        model: On any device; reads hard.
        env: An environment or a vector environment, wrapped or not, with dictionaries and absolute motion.
        seed: Of the reset.
        options: Of the reset.
        sample: Whether places are sampled, or the most likely ones taken.
        noise: The random numbers to sample with.

    Raises:
        ValueError: If model and environment do not suit each other, or the environment clipped a location.
    """
    game = getattr(env.unwrapped, "game", None)
    if not isinstance(game, GlimpseRules):
        raise ValueError(f"env must be a GlimpseEnv or a GlimpseVectorEnv, wrapped or not, got {env}")
    attention = _attention_for(model, game)
    noise = noise or Noise()
    device = model.classify.weight.device
    many = isinstance(env, VectorEnv)
    observation, info = env.reset(seed=seed, options=options)
    index, targets = (torch.as_tensor(info[name]).view(game.size, *tail) for name, tail in _shapes(game))
    state = model.initial_state(game.size)
    logits, locations, rewards = [], [], []
    place: Tensor | None = None
    for step in range(game.num_glimpses):
        patches, location = (
            torch.from_numpy(observation[name] if many else observation[name][None]).to(device)
            for name in ("glimpse", "location")
        )
        if place is not None and not torch.equal(location, place):
            raise ValueError("the environment clipped a location: make it with a larger margin")
        state = model.step(model.glimpses.network(patches, location), state)
        answer = state.logits
        assert answer is not None  # there has been a glimpse
        place = location
        if step + 1 < game.num_glimpses:
            distribution = attention.where(state.core[0])
            place = distribution.sample(noise) if sample else distribution.mode()
        action = {"location": place.cpu().numpy(), **_answer(game, answer)}
        observation, reward, *_ = env.step(action if many else {name: value[0] for name, value in action.items()})
        logits.append(answer.cpu())
        locations.append(location.cpu())
        rewards.append(torch.as_tensor(reward, dtype=torch.float64).view(game.size))
    return PlayedEpisodes(torch.stack(logits, 1), torch.stack(locations, 1), torch.stack(rewards, 1), index, targets)


def _answer(game: GlimpseRules, logits: Tensor) -> dict[str, np.ndarray]:
    """Logits (B, classes) as the answering part of the actions."""
    if game.answer == "scores":
        parts = {"scores": (logits / LOGITS_PER_SCORE).cpu().numpy()}
    else:
        parts = {"label": ((logits > 0).long() if game.multi_label else logits.argmax(-1)).cpu().numpy()}
    return {**parts, "stop": np.zeros(game.size, np.int64)} if game.can_stop else parts


def _shapes(game: GlimpseRules) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return ("index", ()), ("target", (game.num_classes,) if game.multi_label else ())


def _attention_for(model: RecurrentAttention, game: GlimpseRules) -> LocationAttention:
    """The attention that chooses the places, after a check that model and environment suit each other."""
    policy = model.policy
    attention = policy.attention if isinstance(policy, LearnedPolicy) and policy.first is not None else None
    if not isinstance(attention, LocationAttention):
        raise ValueError(
            "the model must choose points of the plane after a first glimpse that is given, got "
            f"{type(model.glimpses).__name__} with policy {policy.name!r} and first {model.first!r}"
        )
    if game.flat or game.motion != "absolute":
        raise ValueError(
            f"the environment must have dictionaries and absolute motion, got flat={game.flat}, motion={game.motion!r}"
        )
    wanted = env_options(model) | {"classes": model.classify.out_features}
    sensor = game.sensor
    got = {
        "num_glimpses": game.num_glimpses,
        "patch_size": sensor.patch_size,
        "num_scales": sensor.num_scales,
        "scale_factor": sensor.scale_factor,
        "background": sensor.background,
        "first": game.first,
        "classes": game.num_classes,
    }
    if differ := [f"{name} {wanted[name]} and {got[name]}" for name in wanted if wanted[name] != got[name]]:
        raise ValueError(f"model and environment must be alike, got {'; '.join(differ)}")
    return attention
