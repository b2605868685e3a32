"""Score trained models, compare them, and draw where they look.

    python evaluate.py score RUN
    python evaluate.py compare RUN RUN ...
    python evaluate.py compare --configs A.yaml B.yaml --seeds 3      trains missing runs first
    python evaluate.py glimpses RUN --out glimpses.png
    python evaluate.py animate RUN [RUN] --out glimpses.gif
    python evaluate.py report RUN RUN ... --out report.html
    python evaluate.py caption RUN photo.jpg ...
    python evaluate.py translate RUN "the 3rd of May, 1998" ... [--out alignment.png]
    python evaluate.py results RUN ... --section main                 updates results/results.csv

RUN is a run folder of train.py, or the name of a shipped model, such as cluttered60-hard. No other files are needed,
except the images or sentences of your own data sets.
`python evaluate.py COMMAND --help` lists the options of a command.
"""

import argparse
import os
import sys
from pathlib import Path

from glimpse.errors import UserError, warnings_as_lines
from glimpse.tasks.settings import is_setting


def main(arguments: list[str]) -> int:
    """Run the command line; returns 0, 1 for a failed training, 2 for invalid input, 130 if interrupted."""
    options = parse_arguments(arguments)

    # Imported late, so that --help and errors in the arguments do not wait for torch.
    from glimpse import cli

    try:
        with warnings_as_lines("evaluate.py"):
            cli.run(options.command, options)
    except UserError as error:
        print(f"evaluate.py: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="evaluate.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    device = argparse.ArgumentParser(add_help=False)
    device.add_argument(
        "--device", default="auto", help="device to compute on: auto, cpu, cuda, cuda:1, mps ... (default: auto)"
    )
    device.add_argument("--threads", type=count, default=0, metavar="N", help="CPU threads (default: chosen by torch)")
    shared = argparse.ArgumentParser(add_help=False, parents=[device])
    shared.add_argument("--split", choices=["valid", "test"], default="test", help="data split (default: test)")
    read = argparse.ArgumentParser(add_help=False)
    read.add_argument(
        "--read", choices=["hard", "soft"], help="read mode (default: that of the validation and test of the run)"
    )

    scoring = argparse.ArgumentParser(add_help=False)
    scoring.add_argument(
        "--rollouts", type=count, default=10, metavar="N", help="sampled rollouts to average per image (default: 10)"
    )
    scoring.add_argument("--limit", type=count, metavar="N", help="score only the first N images or sentences")
    scoring.add_argument(
        "--batch-size",
        type=count,
        metavar="N",
        help="images or sentences per batch (default: score.batch_size of the run)",
    )
    scoring.add_argument(
        "--seed", type=natural, default=0, metavar="N", help="seed of the sampled rollouts (default: 0)"
    )

    choice = argparse.ArgumentParser(add_help=False)
    choice.add_argument("--images", type=natural, nargs="+", metavar="I", help="indices of the images or sentences")
    choice.add_argument("--class", dest="label", metavar="NAME", help="only images of this class")
    choice.add_argument(
        "--mistakes", action="store_true", help="only images or sentences that at least one model gets wrong"
    )
    choice.add_argument(
        "--gallery",
        action="store_true",
        help="instead of the first images: correctly classified ones whose prediction improves most from the first "
        "glimpse to the last, spread over the classes, and one mistake",
    )

    command = commands.add_parser(
        "score",
        parents=[shared, read, scoring],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        help="test scores: error after each glimpse, or BLEU and other metrics of text",
        description="""Score runs, and print a table for each.

classifiers  error after each glimpse with 95% intervals, for a greedy rollout,
             a sampled rollout and the mean prediction of several; fraction of
             glimpses centered on a digit; error and mean number of glimpses
             with early exit, at a threshold chosen on the validation images
captioners   BLEU, ROUGE-L, CIDEr, METEOR (needs Java); for captions of digits
             the fraction that are true and complete
translators  fraction of exact translations, BLEU (sacrebleu); for dates the
             fraction of words with most attention on an aligned source word

--rollouts and --seed apply to classifiers only.""",
    )
    command.add_argument("runs", nargs="+", metavar="RUN", help="run folders or shipped models")
    command.add_argument("--json", action="store_true", help="print JSON instead of tables")
    command.set_defaults(command="score", more="runs")

    command = commands.add_parser(
        "compare",
        parents=[shared, scoring],
        help="tables and a figure of several runs, with paired tests and costs",
        description="Compare runs on the same data, grouped by config. For classifiers: error after each glimpse with "
        "intervals over seeds, error against the mean number of glimpses with early exit, paired tests against the "
        "first group, and computational cost. For translators: error (or BLEU) by the length of the source sentence. "
        "The tables are printed, and written into a folder with a figure.",
        epilog="With --configs, settings can be given as for train.py (--train.epochs 5 --num_glimpses 4); they apply "
        "to all configs. Finished runs among RUN or in runs/CONFIG are used, interrupted ones are resumed, and the "
        "others are trained, so an interrupted comparison continues with the same command. --device, --threads and "
        "--seed apply to the scoring only.",
    )
    command.add_argument("runs", nargs="*", metavar="RUN", help="run folders or shipped models")
    command.add_argument(
        "--configs", nargs="+", default=[], metavar="FILE", help="config files; their missing runs are trained first"
    )
    command.add_argument("--seeds", type=count, metavar="N", help="runs per config, with seeds 0 to N-1 (default: 1)")
    command.add_argument("--out", type=Path, default=Path("comparison"), help="output folder (default: comparison)")
    command.set_defaults(command="compare", more="runs")

    command = commands.add_parser(
        "variance",
        parents=[shared],
        help="gradient variance of REINFORCE with each baseline",
        description="Measure the variance of the REINFORCE gradient with each baseline, for the weights of one hard "
        "model. Nothing is trained.",
    )
    command.add_argument("run", metavar="RUN", help="run folder or shipped model")
    command.add_argument(
        "--images", type=count, default=64, metavar="N", help="images per gradient estimate (default: 64)"
    )
    command.add_argument(
        "--rollouts", type=count, default=4, metavar="N", help="sampled rollouts per image (default: 4)"
    )
    command.add_argument(
        "--repeats", type=count, default=100, metavar="N", help="number of gradient estimates (default: 100)"
    )
    command.add_argument("--seed", type=natural, default=0, metavar="N", help="seed of the rollouts (default: 0)")
    command.add_argument(
        "--out",
        type=Path,
        default=Path("variance.png"),
        help="output path of the figure: PNG, PDF or SVG (default: variance.png)",
    )
    command.set_defaults(command="variance")

    command = commands.add_parser(
        "animate",
        parents=[shared, read, choice],
        help="animation of the glimpses, of two models side by side",
        description="Animate the glimpses of one or two models on the same images, with the class probabilities after "
        "each glimpse; for captioners, the attention for each word.",
    )
    command.add_argument("runs", nargs="+", metavar="RUN", help="one or two run folders or shipped models")
    command.add_argument("--count", type=count, default=6, metavar="N", help="number of images (default: 6)")
    command.add_argument("--seconds", type=seconds, default=0.8, metavar="S", help="seconds per frame (default: 0.8)")
    command.add_argument(
        "--out", type=Path, default=Path("glimpses.gif"), help="output path: GIF or MP4 (default: glimpses.gif)"
    )
    command.set_defaults(command="animate", more="runs")

    command = commands.add_parser(
        "glimpses",
        parents=[shared, read, choice],
        help="picture of the glimpses, or of the attention for each word",
        description="Draw images with the squares that were read, and the patches that the sensor extracted from them. "
        "For captioners, draw the attention over the image for each word, a row per run. For translators, draw the "
        "attention over the source words for each word, a column per run.",
    )
    command.add_argument(
        "runs", nargs="+", metavar="RUN", help="run folder or shipped model; several only of captioners or translators"
    )
    command.add_argument(
        "--count", type=count, default=3, metavar="N", help="number of images or sentences (default: 3)"
    )
    command.add_argument(
        "--self",
        dest="self_attention",
        action="store_true",
        help="for a translator with self-attention: draw the self-attention of each layer and head",
    )
    command.add_argument(
        "--out",
        type=Path,
        default=Path("glimpses.png"),
        help="output path: PNG, PDF or SVG (default: glimpses.png)",
    )
    command.set_defaults(command="glimpses", more="runs")

    command = commands.add_parser(
        "coverage",
        parents=[shared, read],
        help="distribution of the glimpse locations over all images",
        description="Draw the distribution of the locations of each glimpse over all images, with the fraction of "
        "glimpses centered on a digit.",
    )
    command.add_argument("runs", nargs="+", metavar="RUN", help="run folders or shipped models")
    command.add_argument("--limit", type=count, metavar="N", help="use only the first N images")
    command.add_argument(
        "--out",
        type=Path,
        default=Path("coverage.png"),
        help="output path: PNG, PDF or SVG (default: coverage.png)",
    )
    command.set_defaults(command="coverage", more="runs")

    command = commands.add_parser(
        "report",
        parents=[shared, scoring, choice],
        help="HTML page with the comparison and interactive examples",
        description="Write a self-contained HTML page: the comparison of the runs, and examples with their glimpses. "
        "If a whole-image network is among the runs, its saliency is shown beside the glimpses. For "
        "captioners and translators: their scores, and sentences that show the attention for the word under the mouse "
        "pointer.",
    )
    command.add_argument("runs", nargs="+", metavar="RUN", help="run folders or shipped models")
    command.add_argument(
        "--count", type=count, default=100, metavar="N", help="number of images or sentences to show (default: 100)"
    )
    command.add_argument(
        "--out", type=Path, default=Path("report.html"), help="output path: HTML (default: report.html)"
    )
    command.set_defaults(command="report", more="runs")

    command = commands.add_parser(
        "caption",
        parents=[device, read],
        help="caption your own images",
        description="Caption image files, with the run's beam search settings. With --out, also draw the attention "
        "for each word.",
    )
    command.add_argument("run", metavar="RUN", help="run folder or shipped model of a captioner")
    command.add_argument("images", nargs="+", type=Path, metavar="IMAGE", help="image files")
    command.add_argument(
        "--beside", nargs="+", default=[], metavar="RUN", help="other captioners to run on the same images"
    )
    command.add_argument(
        "--out",
        type=Path,
        help="output path of a picture (PNG, PDF, SVG), an animation (GIF, MP4) or an interactive page (HTML); "
        "default: only print the captions",
    )
    command.set_defaults(command="caption", more="images")

    command = commands.add_parser(
        "translate",
        parents=[device, read],
        help="translate your own sentences",
        description="Translate sentences with the run's beam search settings. With --out, also draw "
        "the attention over the source words for each word.",
        epilog="Sentences are tokenized like the run's training data: if it was trained on text files that are already "
        "tokenized, the sentences must be tokenized in the same way, with spaces between tokens.",
    )
    command.add_argument("run", metavar="RUN", help="run folder or shipped model of a translator")
    command.add_argument(
        "sentences", nargs="*", metavar="SENTENCE", help="sentences to translate; - reads lines from standard input"
    )
    command.add_argument("--file", type=Path, help="translate the lines of this file")
    command.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object per line: source words, translated words, attention weights",
    )
    command.add_argument(
        "--out",
        type=Path,
        help="output path of a picture (PNG, PDF, SVG) or an interactive page (HTML); default: only print the "
        "translations",
    )
    command.set_defaults(command="translate", more="sentences")

    command = commands.add_parser(
        "results",
        help="add finished runs to results/results.csv",
        description="Add the settings and test scores of finished runs to the CSV file of results, one row per run and "
        "metric. Existing rows of these runs are replaced. Runs are not scored again, except in section "
        "early_exit, which adds scores with early exit. `python results/tables.py` makes the tables of "
        "results/README.md from the file.",
        epilog="Runs with the same section, task and name count as seeds of one training, and the tables show their "
        "mean. In section ablation, the first row of a task is the reference of the others.",
    )
    command.add_argument("runs", nargs="+", metavar="RUN", help="run folders")
    command.add_argument(
        "--section",
        required=True,
        metavar="NAME",
        help="main, control, paper, ablation, parts, early_exit, captions, translation or other",
    )
    command.add_argument("--name", help="name in the tables (default: the name of the run's config)")
    command.add_argument(
        "--task", help="name of the task in the tables (default: derived from the config: cluttered 60x60)"
    )
    command.add_argument(
        "--csv",
        type=Path,
        default=Path("results/results.csv"),
        metavar="FILE",
        help="CSV file (default: results/results.csv)",
    )
    command.set_defaults(command="results", more="runs")

    defaults = argparse.Namespace(more=None)
    if arguments[:1] == ["compare"]:
        arguments, defaults.settings = extract_settings(arguments)
    options, rest = parser.parse_known_args(arguments, defaults)
    # argparse does not collect positional arguments on both sides of an option: the later ones are in `rest`.
    # They belong to the list that `more` names.
    if rest and (options.more is None or any(word.startswith("-") and word != "-" for word in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    for word in rest:
        getattr(options, options.more).append(Path(word) if options.more == "images" else word)
    return options


def extract_settings(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split a command line into other arguments and training settings; --seed is the seed of the scoring."""
    rest, settings = [], []
    words = iter(arguments)
    for word in words:
        name, equals, _ = word.partition("=")
        if (is_setting(name[2:]) and name != "--seed") or (name.startswith("--") and "." in name):
            settings += [word] if equals else [word, *[value for value in [next(words, None)] if value is not None]]
        else:
            rest.append(word)
    return rest, settings


def natural(text: str, least: int = 0) -> int:
    """Parse a whole number of at least `least`."""
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, got {text}")
    return int(text)


def count(text: str) -> int:
    """Parse a whole number of at least 1."""
    return natural(text, 1)


def seconds(text: str) -> float:
    """Parse the duration of a frame in seconds."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.02 <= value <= 30:
        raise argparse.ArgumentTypeError(f"must be a number of seconds from 0.02 to 30, got {text}")
    return value


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # the reader closed the pipe (`| head`); Python's flush at exit must not fail as well
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)
