"""Measure the speed of a training step and its parts, with the sensor and with a crop loop in its place.

python benchmarks/train.py                     the default model, hard and soft
python benchmarks/train.py --network.what fc   with any setting of the config
"""

import sys
import time
from collections import defaultdict
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from timing import LoopSensor, TunedLoopSensor, side_by_side

from glimpse.attention.sensor_views import View
from glimpse.distributed import processes
from glimpse.tasks.base import build_task
from glimpse.tasks.classification import ClassificationTask
from glimpse.tasks.settings import load_config
from glimpse.tasks.train_settings import TrainSettings
from glimpse.training.optimizer import make_optimizer


class Stepper:
    """Makes training steps and records the time of their parts."""

    def __init__(self, task: ClassificationTask, settings: TrainSettings):
        self.task, self.settings = task, settings
        self.optimizer = make_optimizer(task.model, settings)
        self.shares: dict[str, float] = defaultdict(float)
        self.step = 0
        self.batches = iter(())
        self._time_sensor(task.model.glimpses.sensor)

    def __call__(self) -> None:
        """Make one training step."""
        start = time.perf_counter()
        batch = next(self.batches, None)
        if batch is None:
            self.batches = self.task.batches(0)
            batch = next(self.batches)
        start = self._record("data", start)
        before = self.shares["sensor"]
        terms = self.task.loss_terms(self.task.model, batch, self.task.noise(0, self.step))
        loss = sum(weight * value for weight, value in terms.values() if weight)
        start = self._record("network", start)
        self.shares["network"] -= self.shares["sensor"] - before
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        start = self._record("backward", start)
        nn.utils.clip_grad_norm_(self.task.model.parameters(), self.settings.max_grad_norm)
        self.optimizer.step()
        self._record("optimizer", start)
        self.step += 1

    def _record(self, name: str, start: float) -> float:
        now = time.perf_counter()
        self.shares[name] += now - start
        return now

    def _time_sensor(self, sensor) -> None:
        """Record the time of preparing and reading views as that of the sensor."""

        def timed(function):
            def call(*args, **kwargs):
                start = time.perf_counter()
                result = function(*args, **kwargs)
                self._record("sensor", start)
                return result

            return call

        view = sensor.view

        def watched(*args, **kwargs) -> View:
            result = timed(view)(*args, **kwargs)
            result.at, result.expect = timed(result.at), timed(result.expect)
            return result

        sensor.view = watched


def main(settings: list[str]) -> None:
    """Measure hard, soft, and hard with crop loops."""
    steppers = {}
    with processes() as group:
        for name in ("hard", "soft", "hard, tuned loop", "hard, crop loop"):
            config = load_config([*settings, f"--read={name.split(',')[0]}"])
            task = build_task(config, group)
            if "loop" in name:
                task.model.glimpses.sensor.__class__ = TunedLoopSensor if "tuned" in name else LoopSensor
            task.model.train()
            steppers[name] = Stepper(task, config.train)
        times = side_by_side(steppers, seconds=10)
    batch = config.train.batch_size
    parts = ("data", "sensor", "network", "backward", "optimizer")
    print(f"Training steps of {batch} images, {config.num_glimpses} glimpses, {torch.get_num_threads()} threads:\n")
    print(f"{'':18}{'images/s':>10}{'speed':>8}" + "".join(f"{part:>11}" for part in parts))
    for name, stepper in steppers.items():
        total = sum(stepper.shares.values())
        shares = "".join(f"{100 * stepper.shares[part] / total:10.1f}%" for part in parts)
        print(f"{name:18}{batch / times[name]:10,.0f}{times['hard'] / times[name]:8.2f}{shares}")
    print("\nnetwork: forward, without the sensor; backward: of everything, the soft sensor included")


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(f"usage: python benchmarks/train.py [--SETTING VALUE ...]\n\n{__doc__}")
    else:
        main(sys.argv[1:])
