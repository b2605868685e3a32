"""score: print or return as JSON what runs are worth."""

import json
from argparse import Namespace

from glimpse.distributed import processes
from glimpse.tasks.base import task_of
from glimpse.training.load import open_runs


def run(options: Namespace) -> None:
    """Score each run; all are opened before the first is scored, and nothing is printed as JSON before the last."""
    runs = open_runs(options.runs)
    with processes(options.device, options.threads) as workers:
        results = [task_of(run.config).score(run, options, workers) for run in runs]
    if options.json:
        print(json.dumps(results, indent=2))
