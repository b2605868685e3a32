"""Make the tables of README.md and results/README.md from results/results.csv.

python results/tables.py              write them between their marks
python results/tables.py --check      only check whether they are up to date; exit code 1 if not
"""

import argparse
import sys
from pathlib import Path

from glimpse.errors import ConfigError, RunError
from glimpse.evaluation.result_rows import read_rows
from glimpse.files import write_atomically
from glimpse.training.result_rows import config_and_overrides
from glimpse.training.run import Run
from glimpse.training.zoo import shipped_models
from glimpse.view.result_tables import (
    Published,
    ablation_table,
    caption_results,
    commands_table,
    early_exit_results,
    fill,
    main_table,
    section_table,
    translation_results,
)
from glimpse.view.tables import Table

ROOT = Path(__file__).parents[1]
TEXTS = ("README.md", "results/README.md")
# Published errors in %, by task and read mode; 8 glimpses unless noted.
PUBLISHED = {
    ("cluttered 60x60", "hard"): Published("4.04", "2.63 (tfRAM)"),
    ("cluttered 100x100", "hard"): Published("8.11", "5.9 (tfRAM)"),
    ("cluttered 100x100", "soft"): Published("3.36 (DRAW)"),
    ("translated 60x60", "hard"): Published("1.20", "0.94 (tfRAM)"),
    ("MNIST 28x28", "hard"): Published("1.07, 7 glimpses", "0.85 (Torch)"),
}
SOURCES = (
    "Paper: *Recurrent Models of Visual Attention*, as published at NIPS 2014, with 8 glimpses unless noted; DRAW: "
    "[arXiv:1502.04623](https://arxiv.org/abs/1502.04623). Best public: [tfRAM](https://github.com/slundqui/tfRAM), "
    "with 8 glimpses; [Torch](http://torch.ch/blog/2015/09/21/rmva.html). Each is a single number, without seeds.",
)


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write or check the tables; returns the exit code.

    Args:
        arguments: The command line.
        root: The repository.

    Returns:
        0; 1 if the tables are not up to date; 2 if a file is missing or broken.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a table is not up to date")
    options = parser.parse_args(arguments)
    try:
        tables = make_tables(root / "results" / "results.csv")
        texts = {root / name: (root / name).read_text(encoding="utf-8") for name in TEXTS}
        filled = {path: fill(text, tables) for path, text in texts.items()}
    except (ConfigError, RunError, ValueError, OSError) as error:
        print(f"tables.py: error: {error}", file=sys.stderr)
        return 2
    stale = [path for path, text in filled.items() if text != texts[path]]
    for path in stale:
        if options.check:
            print(f"{path.relative_to(root)} is not up to date: run python results/tables.py")
        else:
            write_atomically(path, filled[path].encode())
            print(f"Wrote {path.relative_to(root)}")
    return 1 if options.check and stale else 0


def make_tables(file: Path) -> dict[str, Table]:
    """Make all tables from the file of results, by the names of their marks."""
    rows = read_rows(file)
    return {
        "main": main_table(rows, PUBLISHED, SOURCES, shipped_by_origin()),
        "controls": section_table(rows, "control", "Controls"),
        "paper": section_table(rows, "paper", "The paper's own recipe"),
        "ablation": ablation_table(rows),
        "parts": section_table(rows, "parts", "Other parts in the default model"),
        "early_exit": early_exit_results(rows),
        "captions": caption_results(rows),
        "translation": translation_results(rows),
        "other": section_table(rows, "other", "Others"),
        "commands": commands_table(rows),
    }


def shipped_by_origin() -> dict[tuple[str, str], str]:
    """Return the names of the shipped models, by config file and overrides, as in the rows."""
    return {config_and_overrides(Run.open(name)): name for name in shipped_models()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
