"""coverage: the distribution of glimpse locations over all images."""

from argparse import Namespace

from glimpse.distributed import processes
from glimpse.files import FIGURES, check_out
from glimpse.tasks.runs import task_of_runs
from glimpse.training.load import open_runs


def run(options: Namespace) -> None:
    """Draw the distribution of the glimpse locations."""
    check_out(options.out, FIGURES)
    runs = open_runs(options.runs)
    with processes(options.device, options.threads) as workers:
        task_of_runs(runs).command("coverage", runs[0])(runs, options, workers)
