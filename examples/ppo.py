"""Train a stock agent, Stable-Baselines3's PPO, on a flat environment: python examples/ppo.py.

The agent knows nothing about glimpses: its observations are flat vectors, the last few of them stacked, and its reward
is 1 for every correct answer. On one core this takes under two minutes, and 86.9% of the last answers on test images
are correct (2000 episodes, seed 0), against 10.1% of random ones. Requires `pip install -e ".[rl]"`. Writes the reward
curve to ppo.png (--out).
"""

import argparse
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from matplotlib.figure import Figure
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack

import glimpse.envs  # noqa: F401  registers the environments
from glimpse.metrics.statistics import wilson_interval

ID = "glimpse/MNIST-flat-v0"
GLIMPSES = 4
TASK = {
    "num_glimpses": GLIMPSES,
    "patch_size": 8,
    "num_scales": 2,
    "first": "center",
    "motion": "relative",
    "reward": "accuracy",
}


class GymnasiumVecEnv(VecEnv):
    """Wraps a Gymnasium vector environment as a vector environment of Stable-Baselines3."""

    def __init__(self, num_envs: int, **options: Any):
        """Make the environments; they reset in the step that ends an episode, as Stable-Baselines3 expects."""
        self.env = gymnasium.make_vec(
            ID,
            num_envs=num_envs,
            vectorization_mode="vector_entry_point",
            autoreset_mode="SameStep",
            **{**TASK, **options},
        )
        super().__init__(num_envs, self.env.single_observation_space, self.env.single_action_space)
        self.rewards: list[float] = []  # mean over the environments, of every step

    def reset(self) -> np.ndarray:
        """Reset all environments."""
        return self.env.reset(seed=self._seeds[0])[0]

    def step_async(self, actions: np.ndarray) -> None:
        """Store the actions."""
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Take the stored actions."""
        observation, rewards, ended, _, infos = self.env.step(self._actions)
        self.rewards.append(rewards.mean())
        right = infos["final_info"]["right"] if ended.any() else ended
        env_infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for row in ended.nonzero()[0]:
            env_infos[row] = {"terminal_observation": infos["final_obs"][row], "right": right[row]}
        return observation, rewards.astype(np.float32), ended, env_infos

    def close(self) -> None:
        """Close the environments."""
        self.env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute that all environments share."""
        return [getattr(self.env, attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Not supported."""
        raise NotImplementedError("the environments are one object: make them with other options instead")

    def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **named: Any) -> list[Any]:
        """Not supported."""
        raise NotImplementedError("the environments are one object and have no methods of their own")

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """No environment is wrapped."""
        return [False] * self.num_envs


def last_answers_correct(agent: PPO | None, episodes: int, seed: int) -> np.ndarray:
    """Run one episode per test image; return which last answers are correct. No agent: random actions."""
    envs = VecFrameStack(GymnasiumVecEnv(episodes, split="test"), GLIMPSES)
    envs.seed(seed)
    observation = envs.reset()
    envs.action_space.seed(seed)
    for _ in range(GLIMPSES):
        if agent is None:
            actions = np.stack([envs.action_space.sample() for _ in range(episodes)])
        else:
            actions, _ = agent.predict(observation, deterministic=True)
        observation, _, _, infos = envs.step(actions)
    return np.array([info["right"] for info in infos])


def draw_curve(path: Path, rewards: np.ndarray, num_envs: int) -> None:
    """Plot the smoothed reward per step against the number of steps."""
    window = max(1, len(rewards) // 100)
    smooth = np.convolve(rewards, np.ones(window) / window, "valid")
    steps = (np.arange(len(smooth)) + window) * num_envs
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.plot(steps / 1e6, smooth, color="#0072B2", label="PPO, exploring")
    axes.axhline(0.1, color="#8C8C8C", linestyle="--", label="random")
    axes.set(xlabel="steps, in millions", ylabel="reward per step", ylim=(0, 1), title=f"{ID}, {GLIMPSES} glimpses")
    axes.legend(loc="upper left")
    figure.savefig(path, dpi=150)


def main() -> None:
    """Train, score and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=800_000, help="number of training steps, over all environments")
    parser.add_argument("--envs", type=int, default=256, help="number of environments")
    parser.add_argument("--episodes", type=int, default=2000, help="number of test images")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("ppo.png"), help="output path of the reward curve")
    arguments = parser.parse_args()
    envs = GymnasiumVecEnv(arguments.envs)
    agent = PPO(
        "MlpPolicy",
        VecFrameStack(envs, GLIMPSES),
        n_steps=4 * GLIMPSES,
        batch_size=1024,
        n_epochs=4,
        gamma=0.5,  # low, as every answer is rewarded at once
        learning_rate=1e-3,
        policy_kwargs={"net_arch": [256, 128], "log_std_init": -1.0},
        seed=arguments.seed,
        device="cpu",
    )

    def report(name: str, correct: np.ndarray) -> None:
        low, high = wilson_interval(int(correct.sum()), len(correct))
        interval = f"95% interval {100 * low:.1f} to {100 * high:.1f}"
        print(f"{name:16}{100 * correct.mean():6.1f}% of the last answers correct ({interval})", flush=True)

    report("at random", last_answers_correct(None, arguments.episodes, seed=1))
    report("before training", last_answers_correct(agent, arguments.episodes, seed=1))
    agent.learn(arguments.steps)
    report("after training", last_answers_correct(agent, arguments.episodes, seed=1))
    draw_curve(arguments.out, np.array(envs.rewards), arguments.envs)
    print(f"reward curve: {arguments.out}")


if __name__ == "__main__":
    main()
