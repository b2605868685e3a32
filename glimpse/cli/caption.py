"""caption: caption image files."""

from argparse import Namespace

from glimpse.distributed import processes
from glimpse.files import FIGURES, PAGES, VIDEOS, check_out
from glimpse.tasks.runs import check_run_count, task_of_runs
from glimpse.training.load import open_runs


def run(options: Namespace) -> None:
    """Print the captions, and draw the attention if there is an output path."""
    if options.out is not None:
        check_out(options.out, (*FIGURES, *VIDEOS, *PAGES))
    folders = [options.run, *options.beside]
    check_run_count(folders)
    runs = open_runs(folders)
    with processes(options.device, options.threads) as workers:
        task_of_runs(runs).command("caption", runs[0])(runs, options, workers)
