"""animate: an animation of the glimpses of one or two models."""

from argparse import Namespace

from glimpse.distributed import processes
from glimpse.errors import ConfigError
from glimpse.files import VIDEOS, check_out
from glimpse.tasks.runs import task_of_runs
from glimpse.training.load import open_runs


def run(options: Namespace) -> None:
    """Write the animation."""
    if len(options.runs) > 2:
        raise ConfigError(f"there must be one or two runs to animate, got {len(options.runs)}")
    check_out(options.out, VIDEOS)
    runs = open_runs(options.runs)
    with processes(options.device, options.threads) as workers:
        task_of_runs(runs).command("animate", runs[0])(runs, options, workers)
