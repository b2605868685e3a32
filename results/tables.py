"""Make the tables of README.md and results/README.md from results/results.csv.

python results/tables.py              write them between their marks
python results/tables.py --check      only say whether they are up to date; exit code 1 if not
"""

import argparse
import sys
from pathlib import Path

from glimpse.errors import ConfigError, RunError
from glimpse.evaluation.result_rows import read_rows
from glimpse.files import write_atomically
from glimpse.training.result_rows import origin
from glimpse.training.run import Run
from glimpse.training.zoo import shipped_models
from glimpse.view.result_tables import (
    Published,
    ablation_table,
    captions_table,
    commands_table,
    fill,
    lazy_table,
    main_table,
    section_table,
    translation_table,
)
from glimpse.view.tables import Table

ROOT = Path(__file__).parents[1]
TEXTS = ("README.md", "results/README.md")
# Errors in %, by task and by how the model reads; with 8 glimpses unless said.
PUBLISHED = {
    ("cluttered 60x60", "hard"): Published("4.04", "2.63 (tfRAM)"),
    ("cluttered 100x100", "hard"): Published("8.11", "5.9 (tfRAM)"),
    ("cluttered 100x100", "soft"): Published("3.36 (DRAW)"),
    ("translated 60x60", "hard"): Published("1.20", "0.94 (tfRAM)"),
    ("MNIST 28x28", "hard"): Published("1.07, 7 glimpses", "0.85 (Torch)"),
}
SOURCES = (
    "Paper: *Recurrent Models of Visual Attention*, as published at NIPS 2014, with 8 glimpses unless said; DRAW: "
    "[arXiv:1502.04623](https://arxiv.org/abs/1502.04623). Best public: [tfRAM](https://github.com/slundqui/tfRAM), "
    "with 8 glimpses; [Torch](http://torch.ch/blog/2015/09/21/rmva.html). Each is a single number, without seeds.",
)


def main(arguments: list[str]) -> int:
    """Write or check the tables; returns the exit code: 0, 1 if they are not up to date, 2 if something is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a table is not up to date")
    options = parser.parse_args(arguments)
    try:
        tables = make_tables()
        texts = {ROOT / name: (ROOT / name).read_text(encoding="utf-8") for name in TEXTS}
        filled = {path: fill(text, tables) for path, text in texts.items()}
    except (ConfigError, RunError, ValueError, OSError) as error:
        print(f"tables.py: error: {error}", file=sys.stderr)
        return 2
    stale = [path for path, text in filled.items() if text != texts[path]]
    for path in stale:
        if options.check:
            print(f"{path.relative_to(ROOT)} is not up to date: run python results/tables.py")
        else:
            write_atomically(path, filled[path].encode())
            print(f"Wrote {path.relative_to(ROOT)}")
    return 1 if options.check and stale else 0


def make_tables() -> dict[str, Table]:
    """All tables, by the names that marks have."""
    rows = read_rows(ROOT / "results" / "results.csv")
    return {
        "main": main_table(rows, PUBLISHED, SOURCES, shipped_by_origin()),
        "controls": section_table(rows, "control", "Controls"),
        "paper": section_table(rows, "paper", "The paper's own recipe"),
        "ablation": ablation_table(rows),
        "lazy": lazy_table(rows),
        "captions": captions_table(rows),
        "translation": translation_table(rows),
        "other": section_table(rows, "other", "Others"),
        "commands": commands_table(rows),
    }


def shipped_by_origin() -> dict[tuple[str, str], str]:
    """Names of the shipped models, by config file and settings, as rows have them."""
    found = {}
    for name in shipped_models():
        file, settings = origin(Run.open(name))
        found[file, settings] = name
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
