"""Train a recurrent attention model by REINFORCE on episodes of an environment: python examples/reinforce_in_env.py.

The model is the one of this package, trained like any other agent: it never sees the image, only the glimpses and the
rewards of the environment. The target of the cross-entropy comes from the environment's info. On one core this takes a
minute, and 92.4% of 2000 test images are classified correctly after the last of four glimpses, 81.6% after the first
(seed 0).
"""

import argparse

import gymnasium
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

import glimpse.envs
from glimpse import Config, Noise, RecurrentAttention
from glimpse.attention.settings import PlaneSettings
from glimpse.losses.classification import cross_entropy
from glimpse.losses.policy_gradient import advantages, baseline_error, normalize, reinforce, returns
from glimpse.metrics.statistics import wilson_interval
from glimpse.models.settings import NetworkSettings
from glimpse.tasks.build import make_model

ID = "glimpse/Translated60-v0"
GLIMPSES = 4


def make_envs(model: RecurrentAttention, num_envs: int, split: str) -> VectorEnv:
    """Make environments for the model, with a margin, as sampled locations may lie outside the image."""
    options = glimpse.envs.env_options(model)
    return gymnasium.make_vec(
        ID, num_envs=num_envs, autoreset_mode="Disabled", split=split, reward="accuracy", margin=2.0, **options
    )


def episode_loss(model: RecurrentAttention, envs: VectorEnv, noise: Noise) -> Tensor:
    """Run one episode in every environment; return the sum of cross-entropy, REINFORCE and baseline losses."""
    observation, info = envs.reset()
    state = model.initial_state(envs.num_envs)
    logits, log_probs, baselines, rewards = [], [], [], []
    for step in range(GLIMPSES):
        patches, location = torch.from_numpy(observation["glimpse"]), torch.from_numpy(observation["location"])
        state = model.step(model.glimpses.network(patches, location), state)
        logits.append(state.logits)
        if step + 1 < GLIMPSES:  # the last answer is followed by no glimpse
            attention = model.glimpses.attention.where(state.core[0])
            location = attention.sample(noise)
            log_probs.append(attention.log_prob(location))
            baselines.append(model.baseline(state.core[0].detach()).squeeze(-1))
        action = {"location": location.numpy(), "label": logits[-1].argmax(-1).numpy()}
        observation, reward, *_ = envs.step(action)
        rewards.append(torch.from_numpy(reward).float())
    choice_returns = returns(torch.stack(rewards, 1), GLIMPSES - 1, at="every_step")
    values = torch.stack(baselines, 1)
    policy_loss = reinforce(torch.stack(log_probs, 1), normalize(advantages(choice_returns, values)))
    class_loss = cross_entropy(torch.stack(logits, 1), torch.from_numpy(info["target"]))
    return class_loss + 0.1 * policy_loss + baseline_error(values, choice_returns)


def report(name: str, model: RecurrentAttention, envs: VectorEnv) -> None:
    """Run the greedy policy on test images, and print the share of correct answers."""
    correct = glimpse.envs.play(model, envs, seed=1).rewards  # (B, T), 1 for a correct answer
    low, high = wilson_interval(int(correct[:, -1].sum()), len(correct))
    print(
        f"{name:16}{100 * correct[:, -1].mean():6.1f}% correct after the last glimpse (95% interval {100 * low:.1f} to "
        f"{100 * high:.1f}), {100 * correct[:, 0].mean():.1f}% after the first",
        flush=True,
    )


def main() -> None:
    """Train and score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=3000, help="number of optimizer steps")
    parser.add_argument("--envs", type=int, default=128, help="number of environments, with an episode each per update")
    parser.add_argument("--episodes", type=int, default=2000, help="number of test images")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    config = Config(
        seed=arguments.seed,
        num_glimpses=GLIMPSES,
        network=NetworkSettings(what="fc", state_dim=128, glimpse_dim=128),
        attention=PlaneSettings(std=0.2),
    )
    model = make_model(config, image_shape=(1, 60, 60), num_classes=10)
    train_envs = make_envs(model, arguments.envs, "train")
    test_envs = make_envs(model, arguments.episodes, "test")
    train_envs.reset(seed=arguments.seed)
    noise = Noise(arguments.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=arguments.updates)
    report("before training", model, test_envs)
    for update in range(1, arguments.updates + 1):
        optimizer.zero_grad()
        episode_loss(model, train_envs, noise).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        schedule.step()
        if update % 500 == 0 or update == arguments.updates:
            report(f"update {update}", model, test_envs)


if __name__ == "__main__":
    main()
