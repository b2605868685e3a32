"""translate: translate sentences."""

from argparse import Namespace

from glimpse.distributed import processes
from glimpse.files import FIGURES, PAGES, check_out
from glimpse.tasks.runs import task_of_runs
from glimpse.training.load import open_runs


def run(options: Namespace) -> None:
    """Print one translation per line, and draw the attention if there is an output path."""
    if options.out is not None:
        check_out(options.out, (*FIGURES, *PAGES))
    runs = open_runs([options.run])
    with processes(options.device, options.threads) as workers:
        task_of_runs(runs).command("translate", runs[0])(runs, options, workers)
