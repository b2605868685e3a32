"""The part of compare that is for translators: scores by the length of the source."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from glimpse.build import build_data
from glimpse.commands.files import publish
from glimpse.lengths import compare_lengths
from glimpse.loading import check_given_once, load_translator
from glimpse.processes import processes
from glimpse.runs import Run
from glimpse.translation import pairs_of
from glimpse.view.comparison import to_csv
from glimpse.view.lengths import draw_lengths, group_rows, length_table, run_rows


def compare_translators(folders: Sequence[str | Path], options: Namespace) -> None:
    """Compare runs that translate the same sentences, and write the table and the figure."""
    check_given_once([Run.open(folder) for folder in folders])
    with processes(options.device, options.threads) as here:
        runs = [load_translator(folder) for folder in folders]
        lengths = compare_lengths(
            runs,
            pairs_of(getattr(build_data(runs[0].run.config.data), options.split), options.limit),
            split=options.split,
            batch_size=options.batch_size,
            device=here.device,
            say=lambda text: print(text, file=sys.stderr),
        )
    rows = {"comparison.csv": to_csv(group_rows(lengths)), "runs.csv": to_csv(run_rows(lengths))}
    publish(options.out, tables=[length_table(lengths)], rows=rows, figure=draw_lengths(lengths))
