"""variance: the gradient variance of REINFORCE with each baseline."""

from argparse import Namespace

from glimpse.distributed import processes
from glimpse.files import FIGURES, check_out
from glimpse.tasks.runs import task_of_runs
from glimpse.training.load import open_runs


def run(options: Namespace) -> None:
    """Measure, print and draw the variances."""
    check_out(options.out, FIGURES)
    runs = open_runs([options.run])
    with processes(options.device, options.threads) as workers:
        task_of_runs(runs).command("variance", runs[0])(runs, options, workers)
