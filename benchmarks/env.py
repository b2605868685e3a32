"""Measure the steps per second of the vector environment, as ratios within one run.

python benchmarks/env.py                  also SyncVectorEnv, AsyncVectorEnv and, if installed, ap_gym's CircleSquare
python benchmarks/env.py --envs 256       this number of environments only

A step is one action of one environment; the resets between episodes are included. AsyncVectorEnv starts a process for
each environment, so it is left out for more than --most_processes environments. ap_gym is another active-perception
environment, with 28 x 28 images, one 5 x 5 patch and two classes; here there are 60 x 60 images, three 12 x 12 patches
and ten classes.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import gymnasium
import torch
from gymnasium.vector import VectorEnv

sys.path.insert(0, str(Path(__file__).parent))
from timing import side_by_side

import glimpse.envs  # noqa: F401  registers the environments

ID = "glimpse/Cluttered60-v0"
STEPS = 14  # two episodes of six steps, with a reset each


def stepper(env: VectorEnv) -> Callable[[], None]:
    """Return a function that makes some steps, all with the same actions, as the choice of actions is not measured."""
    env.reset(seed=0)
    actions = env.action_space.sample()

    def run() -> None:
        for _ in range(STEPS):
            env.step(actions)

    return run


def circle_square(num_envs: int) -> VectorEnv | None:
    """Make the environment of ap_gym, if it can be imported."""
    try:
        import ap_gym
    except ImportError as error:
        print(f"without ap_gym ({error})", file=sys.stderr)
        return None
    return ap_gym.make_vec("CircleSquare-v0", num_envs=num_envs)


def compare(num_envs: int, most_processes: int, seconds: float) -> None:
    """Print a row for each way to step so many environments."""
    envs = {
        "native": gymnasium.make_vec(ID, num_envs=num_envs, vectorization_mode="vector_entry_point"),
        "SyncVectorEnv": gymnasium.make_vec(ID, num_envs=num_envs, vectorization_mode="sync"),
    }
    if num_envs <= most_processes:
        envs["AsyncVectorEnv"] = gymnasium.make_vec(ID, num_envs=num_envs, vectorization_mode="async")
    if other := circle_square(num_envs):
        envs["ap_gym CircleSquare-v0"] = other
    times = side_by_side({name: stepper(env) for name, env in envs.items()}, seconds)
    for name, duration in times.items():
        rate = num_envs * STEPS / duration
        print(f"{num_envs:>13}  {name:24}{rate:12,.0f}{duration / times['native']:22.1f}", flush=True)
    for env in envs.values():
        env.close()


def main() -> None:
    """Parse the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, nargs="+", default=[1, 64, 256, 1024], help="numbers of environments")
    parser.add_argument("--most_processes", type=int, default=64, help="largest number of processes of AsyncVectorEnv")
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each measurement")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # AsyncVectorEnv forks, and forked OpenMP threads deadlock
    print(f"{'environments':>13}  {'':24}{'steps/s':>12}{'times as long as native':>24}")
    for num_envs in arguments.envs:
        compare(num_envs, arguments.most_processes, arguments.seconds)


if __name__ == "__main__":
    main()
