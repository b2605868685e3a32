"""score: print the scores of runs as tables or JSON."""

import json
from argparse import Namespace

from glimpse.distributed import processes
from glimpse.tasks.base import task_of
from glimpse.training.load import open_runs


def run(options: Namespace) -> None:
    """Open all runs, score them one after the other, and print the scores; JSON is printed at the end."""
    runs = open_runs(options.runs)
    with processes(options.device, options.threads) as workers:
        results = [task_of(run.config).command("score", run)(run, options, workers) for run in runs]
    if options.json:
        print(json.dumps(results, indent=2))
