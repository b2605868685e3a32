"""results: add finished runs to results.csv."""

from argparse import Namespace

from glimpse.evaluation.result_rows import merge, read_rows, to_csv
from glimpse.training.result_rows import rows_of
from glimpse.training.run import Run
from glimpse.view.output import save


def run(options: Namespace) -> None:
    """Add the rows of runs to the file, in place of earlier rows of the same runs."""
    rows = read_rows(options.csv)
    new = [
        row
        for folder in options.runs
        for row in rows_of(Run.open(folder), section=options.section, name=options.name, task=options.task)
    ]
    merged = merge(rows, new)
    save(to_csv(merged).encode(), options.csv)  # before printing, which fails if the reader closed the pipe
    for row in new:
        print(f"{row.task}, {row.name}, seed {row.seed}: {row.metric} {row.value:.2f}")
    print(f"{len(new)} rows, replacing {len(rows) + len(new) - len(merged)}")
