"""results: keep the file of results."""

from argparse import Namespace

from glimpse.evaluation.result_rows import merge, read_rows, to_csv
from glimpse.training.result_rows import rows_of
from glimpse.training.run import Run
from glimpse.view.output import save


def run(options: Namespace) -> None:
    """Add finished runs to the file of results, or replace them in it."""
    rows = read_rows(options.csv)
    new = [
        row
        for folder in options.runs
        for row in rows_of(Run.open(folder), section=options.section, name=options.name, task=options.task)
    ]
    merged = merge(rows, new)
    save(to_csv(merged).encode(), options.csv)  # before anything is said: who listens may be gone by then
    for row in new:
        print(f"{row.task}, {row.name}, seed {row.seed}: {row.metric} {row.value:.2f}")
    print(f"{len(new)} rows, in the place of {len(rows) + len(new) - len(merged)}")
