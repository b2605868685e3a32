"""Score trained models, compare them, and see where they look.

    python evaluate.py score RUN
    python evaluate.py compare RUN RUN ...
    python evaluate.py compare --configs A.yaml B.yaml --seeds 3      trains what is missing first
    python evaluate.py animate RUN [RUN] --out glimpses.gif
    python evaluate.py report RUN RUN ... --out report.html
    python evaluate.py caption RUN photo.jpg ...
    python evaluate.py translate RUN "the 3rd of May, 1998" ... [--out alignment.png]
    python evaluate.py results RUN ... --section main                 keeps results/results.csv

RUN is a run folder that train.py made, or the name of a model that ships with the package, as cluttered60-hard. Nothing
else is needed, except the images of a data set of your own.
`python evaluate.py COMMAND --help` lists the options of a command.
"""

import argparse
import os
import sys
from pathlib import Path

from glimpse.tasks.settings import is_setting


def main(arguments: list[str]) -> int:
    """Run the command line; returns the exit code: 0, or 2 if something was wrong with the input."""
    options = parse_arguments(arguments)

    # Only now, so that --help and mistakes are answered at once.
    from glimpse import cli
    from glimpse.errors import UserError

    try:
        cli.run(options.command, options)
    except UserError as error:
        print(f"evaluate.py: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="evaluate.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    device = argparse.ArgumentParser(add_help=False)
    device.add_argument("--device", default="auto", help="auto, cpu, cuda, mps ... (default: auto)")
    device.add_argument("--threads", type=count, default=0, help="CPU threads (default: torch's own choice)")
    shared = argparse.ArgumentParser(add_help=False, parents=[device])
    shared.add_argument(
        "--split", choices=["valid", "test"], default="test", help="which images or sentences (default: test)"
    )
    read = argparse.ArgumentParser(add_help=False)
    read.add_argument("--read", choices=["hard", "soft"], help="read this way (default: as the run was scored)")

    scoring = argparse.ArgumentParser(add_help=False)
    scoring.add_argument(
        "--rollouts", type=count, default=10, help="how many sampled rollouts to average (default: 10)"
    )
    scoring.add_argument("--limit", type=count, help="score the first so many images only")
    scoring.add_argument("--batch-size", type=count, help="images at a time (default: score.batch_size of the run)")
    scoring.add_argument("--seed", type=natural, default=0, help="decides what is sampled (default: 0)")

    choice = argparse.ArgumentParser(add_help=False)
    choice.add_argument("--images", type=natural, nargs="+", help="these images, or sentences, by their index")
    choice.add_argument("--class", dest="label", metavar="NAME", help="only images of this class")
    choice.add_argument("--mistakes", action="store_true", help="only images, or sentences, that a model gets wrong")
    choice.add_argument(
        "--gallery",
        action="store_true",
        help="not the first ones, but those where looking helped most, spread over the classes, and one mistake",
    )

    command = commands.add_parser(
        "score",
        parents=[shared, read, scoring],
        help="test error after each glimpse; of captioners and translators, BLEU and its kin",
        description="Error after each glimpse, with 95% intervals, for one greedy rollout, one sampled rollout and "
        "the average of several; how often a glimpse is centred on a digit; and what is lost by stopping as soon as "
        "the answer is certain, with a threshold picked on the validation images. Of captioners, where --rollouts and "
        "--seed have no say: BLEU, ROUGE-L, CIDEr, METEOR where Java is, and how many captions of digits are true and "
        "complete. Of translators, as little: how many translations are exact, sacrebleu's BLEU, and of dates how "
        "often attention is on the words meant.",
    )
    command.add_argument("runs", nargs="+", metavar="RUN", help="run folders")
    command.add_argument("--json", action="store_true", help="print JSON instead of a table")
    command.set_defaults(command="score", more="runs")

    command = commands.add_parser(
        "compare",
        parents=[shared, scoring],
        help="errors, paired tests and costs of several runs",
        description="Group runs by config, and compare them on the same images: error after each glimpse, with "
        "intervals over seeds, error against mean glimpses when stopping early, paired tests, and what it costs. "
        "Prints tables, and writes them with a figure into a folder. Of translators: how many translations are not "
        "exact, or BLEU, by the length of the source.",
        epilog="The first group is the one that the others are tested against. With --configs, settings may be given "
        "as to train.py (--train.epochs 5 --num_glimpses 4); they hold for all configs. Runs that are given, or found "
        "where train.py puts them (runs/CONFIG), are used; those that were stopped go on, the others are trained. "
        "After an interruption give the same command again. --device, --threads and --seed are those of the scoring.",
    )
    command.add_argument("runs", nargs="*", metavar="RUN", help="run folders")
    command.add_argument("--configs", nargs="+", default=[], metavar="FILE", help="train what is missing of these")
    command.add_argument("--seeds", type=count, help="runs of each config, with seeds 0, 1 ... (default: 1)")
    command.add_argument("--out", type=Path, default=Path("comparison"), help="folder to write (default: comparison)")
    command.set_defaults(command="compare", more="runs")

    command = commands.add_parser(
        "variance",
        parents=[shared],
        help="how noisy the gradient is with each baseline",
        description="Measure the variance of REINFORCE's gradient for each baseline, on one hard model as it is.",
    )
    command.add_argument("run", metavar="RUN", help="run folder")
    command.add_argument("--images", type=count, default=64, help="images of an estimate (default: 64)")
    command.add_argument("--rollouts", type=count, default=4, help="sampled rollouts of each image (default: 4)")
    command.add_argument("--repeats", type=count, default=100, help="estimates to measure with (default: 100)")
    command.add_argument("--seed", type=natural, default=0, help="decides what is sampled (default: 0)")
    command.add_argument("--out", type=Path, default=Path("variance.png"), help="figure to write (PNG, PDF, SVG)")
    command.set_defaults(command="variance")

    command = commands.add_parser(
        "animate",
        parents=[shared, read, choice],
        help="watch the glimpses move, two models side by side",
        description="Animate what one or two models saw of the same images, and what they would answer by then; of "
        "captioners, where they look for each word.",
    )
    command.add_argument("runs", nargs="+", metavar="RUN", help="one or two run folders")
    command.add_argument("--count", type=count, default=6, help="how many images (default: 6)")
    command.add_argument("--seconds", type=seconds, default=0.8, help="how long a glimpse is shown (default: 0.8)")
    command.add_argument("--out", type=Path, default=Path("glimpses.gif"), help="file to write: .gif or .mp4")
    command.set_defaults(command="animate", more="runs")

    command = commands.add_parser(
        "glimpses",
        parents=[shared, read, choice],
        help="a picture of what was seen, glimpse by glimpse",
        description="Draw images with the squares that were read, and the patches as the network got them; of "
        "captioners, where they looked for each word, several runs one under the other; of translators, for each word "
        "the source words that it was read from, several runs side by side.",
    )
    command.add_argument(
        "runs", nargs="+", metavar="RUN", help="run folder; of captioners or translators, one or several"
    )
    command.add_argument("--count", type=count, default=3, help="how many images, or sentences (default: 3)")
    command.add_argument(
        "--self",
        dest="self_attention",
        action="store_true",
        help="of a translator with self-attention: which word of a sentence looked at which, by layer and head",
    )
    command.add_argument("--out", type=Path, default=Path("glimpses.png"), help="picture to write (PNG, PDF, SVG)")
    command.set_defaults(command="glimpses", more="runs")

    command = commands.add_parser(
        "coverage",
        parents=[shared, read],
        help="where each glimpse falls, over all images",
        description="Draw where each glimpse falls, over all images, and how often it is centred on a digit.",
    )
    command.add_argument("runs", nargs="+", metavar="RUN", help="run folders")
    command.add_argument("--limit", type=count, help="take the first so many images only")
    command.add_argument("--out", type=Path, default=Path("coverage.png"), help="picture to write (PNG, PDF, SVG)")
    command.set_defaults(command="coverage", more="runs")

    command = commands.add_parser(
        "report",
        parents=[shared, scoring, choice],
        help="all of it in one page, to step through in a browser",
        description="Write the comparison, and an explorer of images and glimpses, as one HTML file that needs nothing "
        "else. With a whole-image network among the runs, it shows its saliency beside the glimpses. Of captioners: "
        "their scores, and captions whose words show where the model looked when they are pointed at; of translators, "
        "the same, with heat maps.",
    )
    command.add_argument("runs", nargs="+", metavar="RUN", help="run folders")
    command.add_argument(
        "--count", type=count, default=100, help="how many images, or sentences, to explore (default: 100)"
    )
    command.add_argument("--out", type=Path, default=Path("report.html"), help="page to write (default: report.html)")
    command.set_defaults(command="report", more="runs")

    command = commands.add_parser(
        "caption",
        parents=[device, read],
        help="describe your own images in words",
        description="Let a captioner describe image files, with the beam of its test. With --out, draw where it looked "
        "for each word: a sheet (PNG, PDF, SVG), an animation (GIF, MP4) or a page to point at (HTML).",
    )
    command.add_argument("run", metavar="RUN", help="run folder of a captioner")
    command.add_argument("images", nargs="+", type=Path, metavar="IMAGE", help="image files")
    command.add_argument(
        "--beside", nargs="+", default=[], metavar="RUN", help="other captioners to describe the same images"
    )
    command.add_argument("--out", type=Path, help="what to draw (default: only print the captions)")
    command.set_defaults(command="caption", more="images")

    command = commands.add_parser(
        "translate",
        parents=[device, read],
        help="translate your own sentences",
        description="Let a translator translate sentences, a line each, with the beam of its test. With --out, draw "
        "the source words that each word was read from: a sheet (PNG, PDF, SVG) or a page to point at (HTML).",
        epilog="A sentence is split into words as the data of the run was: text files with translations have to be "
        "tokenised, and so have sentences then.",
    )
    command.add_argument("run", metavar="RUN", help="run folder of a translator")
    command.add_argument("sentences", nargs="*", metavar="SENTENCE", help="what to translate; - reads lines of input")
    command.add_argument("--file", type=Path, help="translate the lines of this file")
    command.add_argument(
        "--json", action="store_true", help="print JSON, a line each: the words of both, and where it looked for each"
    )
    command.add_argument("--out", type=Path, help="what to draw (default: only print the translations)")
    command.set_defaults(command="translate", more="sentences")

    command = commands.add_parser(
        "results",
        help="add finished runs to the file of results",
        description="Read settings and test scores off finished runs, and add them to the file of results, a row per "
        "run and metric, or replace their rows in it. Nothing is scored again, but for section lazy, which adds what "
        "stopping early gives. The tables are made from the file by python results/tables.py.",
        epilog="Runs of the same section, name and task are seeds of one training, and are shown as their mean. In "
        "ablations, the first row of a task is what the others are compared with.",
    )
    command.add_argument("runs", nargs="+", metavar="RUN", help="run folders")
    command.add_argument(
        "--section",
        required=True,
        metavar="NAME",
        help="main, control, paper, ablation, lazy, captions, translation or other",
    )
    command.add_argument("--name", help="what to call it (default: the name of the run's config)")
    command.add_argument("--task", help="what it was trained for (default: from the config, as cluttered 60x60)")
    command.add_argument(
        "--csv", type=Path, default=Path("results/results.csv"), help="the file (default: results/results.csv)"
    )
    command.set_defaults(command="results", more="runs")

    given = argparse.Namespace(more=None)
    if arguments[:1] == ["compare"]:
        arguments, given.settings = take_settings(arguments)
    options, rest = parser.parse_known_args(arguments, given)
    # Of a list that an option interrupts, argparse leaves the second part over.
    if rest and (options.more is None or any(word.startswith("-") and word != "-" for word in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    for word in rest:
        getattr(options, options.more).append(Path(word) if options.more == "images" else word)
    return options


def take_settings(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Part a command line from the settings of a training in it; --seed is not one: it decides what is sampled."""
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
    """A whole number of at least 0."""
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, got {text}")
    return int(text)


def count(text: str) -> int:
    """A whole number of at least 1."""
    return natural(text, 1)


def seconds(text: str) -> float:
    """How long a frame can be shown."""
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
    except BrokenPipeError:  # whoever read the output has seen enough; Python's own flush at the end shall not fail too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)
