"""report: an HTML page with scores and interactive examples."""

from argparse import Namespace

from glimpse.distributed import processes
from glimpse.files import PAGES, check_out
from glimpse.tasks.runs import task_of_runs
from glimpse.training.load import open_runs


def run(options: Namespace) -> None:
    """Write the page."""
    check_out(options.out, PAGES)
    runs = open_runs(options.runs)
    with processes(options.device, options.threads) as workers:
        task_of_runs(runs).command("report", runs[0])(runs, options, workers)
