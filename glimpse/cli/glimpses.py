"""glimpses: a picture of the glimpses, or of the attention for each word."""

from argparse import Namespace

from glimpse.distributed import processes
from glimpse.files import FIGURES, check_out
from glimpse.tasks.runs import task_of_runs
from glimpse.training.load import open_runs


def run(options: Namespace) -> None:
    """Draw the picture."""
    check_out(options.out, FIGURES)
    runs = open_runs(options.runs)
    with processes(options.device, options.threads) as workers:
        task_of_runs(runs).command("glimpses", runs[0])(runs, options, workers)
