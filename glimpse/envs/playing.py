"""A trained model as the agent of an environment, with the same glimpses and answers as in its own rollout.

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
    """One episode in each of B environments; all tensors are on the CPU."""

    logits: Tensor  # (B, T, classes): the answer after each glimpse
    locations: Tensor  # (B, T, 2): of the glimpses
    rewards: Tensor  # (B, T) float64
    index: Tensor  # type: ignore[assignment]  # (B,): the examples; replaces the method of tuples
    targets: Tensor  # (B,) or (B, classes)


def env_options(model: RecurrentAttention) -> dict[str, Any]:
    """Return the options of an environment for a model: its sensor, number of glimpses and first location."""
    return {
        "num_glimpses": model.num_glimpses,
        **model.glimpses.sensor.env_options,
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
    """Run one episode of a model in each environment.

    Logits and locations are exactly those of the model's own rollout, `model(images, mode="hard", ...)`, on the same
    images with the same `sample` and `noise`, and with the environment's random first location, if any, passed as
    `locations`. Sampled locations may lie outside the image, so with `sample=True` the environment needs a `margin`,
    such as 2.

    Args:
        model: On any device; it reads hard.
        env: An environment or a vector environment, wrapped or not, with dictionary spaces and absolute motion.
        seed: Seed of the reset; None: the environment's current random state.
        options: Options of the reset.
        sample: Whether locations are sampled, or the most likely ones taken.
        noise: Random numbers to sample with; None: those of torch's global generator.

    Raises:
        ValueError: If model and environment do not match, or the environment clipped a location.
    """
    game = getattr(env.unwrapped, "game", None)
    if not isinstance(game, GlimpseRules):
        raise ValueError(f"env must be a GlimpseEnv or a GlimpseVectorEnv, wrapped or not, got {env}")
    attention = _attention_for(model, game)
    noise = noise or Noise()
    device = model.classify.weight.device
    is_vector = isinstance(env, VectorEnv)
    observation, info = env.reset(seed=seed, options=options)
    index, targets = (torch.as_tensor(info[name]).view(game.size, *tail) for name, tail in _shapes(game))
    state = model.initial_state(game.size)
    logits, locations, rewards = [], [], []
    chosen: Tensor | None = None
    for step in range(game.num_glimpses):
        patches, location = (
            torch.from_numpy(observation[name] if is_vector else observation[name][None]).to(device)
            for name in ("glimpse", "location")
        )
        if chosen is not None and not torch.equal(location, chosen):
            raise ValueError("the environment clipped a location: make it with a larger margin")
        state = model.step(model.glimpses.network(patches, location), state)
        answer = state.logits
        assert answer is not None  # `step` sets the logits
        chosen = location
        if step + 1 < game.num_glimpses:
            distribution = attention.where(state.core[0])
            chosen = distribution.sample(noise) if sample else distribution.mode()
        action = {"location": chosen.cpu().numpy(), **_answer(game, answer)}
        observation, reward, *_ = env.step(action if is_vector else {name: value[0] for name, value in action.items()})
        logits.append(answer.cpu())
        locations.append(location.cpu())
        rewards.append(torch.as_tensor(reward, dtype=torch.float64).view(game.size))
    return PlayedEpisodes(torch.stack(logits, 1), torch.stack(locations, 1), torch.stack(rewards, 1), index, targets)


def _answer(game: GlimpseRules, logits: Tensor) -> dict[str, np.ndarray]:
    """The answer, from logits (B, classes), and not stopping, as part of the actions."""
    if game.answer == "scores":
        parts = {"scores": (logits / LOGITS_PER_SCORE).cpu().numpy()}
    else:
        parts = {"label": ((logits > 0).long() if game.multi_label else logits.argmax(-1)).cpu().numpy()}
    return {**parts, "stop": np.zeros(game.size, np.int64)} if game.can_stop else parts


def _shapes(game: GlimpseRules) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return ("index", ()), ("target", (game.num_classes,) if game.multi_label else ())


def _attention_for(model: RecurrentAttention, game: GlimpseRules) -> LocationAttention:
    """Check that model and environment match; return the attention that chooses the locations."""
    glimpses, policy = model.glimpses, model.policy
    if not (glimpses.on_plane and isinstance(policy, LearnedPolicy) and policy.first is not None):
        raise ValueError(
            "the model must have attention.kind plane, a learned policy and a first location chosen by a rule, got "
            f"{type(glimpses).__name__} with policy {policy.name!r} and first {model.first!r}"
        )
    if game.flat or game.motion != "absolute":
        raise ValueError(
            f"the environment must have flat=False and motion='absolute', got flat={game.flat}, motion={game.motion!r}"
        )
    expected = env_options(model) | {"classes": model.classify.out_features}
    got = {
        "num_glimpses": game.num_glimpses,
        **game.sensor.env_options,
        "first": game.first,
        "classes": game.num_classes,
    }
    values = {name: (expected.get(name, "none"), got.get(name, "none")) for name in {**expected, **got}}
    if differ := [f"{name} {own} and {other}" for name, (own, other) in values.items() if own != other]:
        raise ValueError(f"model and environment must have the same settings, got {'; '.join(differ)}")
    return glimpses.attention
