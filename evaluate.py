"""Score trained models, and see where they look.

    python evaluate.py score RUN                          test error after each glimpse
    python evaluate.py glimpses RUN --out glimpses.png    a picture of what was seen, glimpse by glimpse

RUN is a run folder that train.py made. Nothing else is needed, except the images of a data set of your own.
"""

import argparse
import json
import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Run the command line; returns the exit code: 0, or 2 if something was wrong with the input."""
    options = parse_arguments(arguments)

    from glimpse.config import ConfigError
    from glimpse.data import DataError
    from glimpse.runs import RunError

    try:
        options.command(options)
    except (ConfigError, DataError, RunError) as error:
        print(f"evaluate.py: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="evaluate.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--split", choices=["valid", "test"], default="test", help="which images (default: test)")
    shared.add_argument("--read", choices=["hard", "soft"], help="read this way (default: as the run was scored)")
    shared.add_argument("--device", default="auto", help="auto, cpu, cuda, mps ... (default: auto)")
    shared.add_argument("--threads", type=count, default=0, help="CPU threads (default: torch's own choice)")

    score = commands.add_parser(
        "score",
        parents=[shared],
        help="test error after each glimpse",
        description="Error after each glimpse, with 95%% intervals, for one greedy rollout, one sampled rollout and "
        "the average of several; and how often a glimpse is centred on a digit.",
    )
    score.add_argument("runs", nargs="+", metavar="RUN", help="run folders")
    score.add_argument("--rollouts", type=count, default=10, help="how many sampled rollouts to average (default: 10)")
    score.add_argument("--limit", type=count, help="score the first so many images only")
    score.add_argument("--batch-size", type=count, help="images at a time (default: score.batch_size of the run)")
    score.add_argument("--seed", type=natural, default=0, help="decides what is sampled (default: 0)")
    score.add_argument("--json", action="store_true", help="print JSON instead of a table")
    score.set_defaults(command=run_score)

    glimpses = commands.add_parser(
        "glimpses",
        parents=[shared],
        help="a picture of what was seen, glimpse by glimpse",
        description="Draw images with the squares that were read, and the patches as the network got them.",
    )
    glimpses.add_argument("run", metavar="RUN", help="run folder")
    glimpses.add_argument("--out", type=Path, default=Path("glimpses.png"), help="picture to write (PNG, PDF, SVG)")
    glimpses.add_argument("--images", type=int, nargs="+", default=[0, 1, 2], help="which images, by their index")
    glimpses.set_defaults(command=run_glimpses)
    return parser.parse_args(arguments)


def natural(text: str, least: int = 0) -> int:
    """A whole number of at least 0."""
    value = int(text)
    if value < least:
        raise argparse.ArgumentTypeError(f"must be at least {least}, got {value}")
    return value


def count(text: str) -> int:
    """A whole number of at least 1."""
    return natural(text, 1)


def run_score(options: argparse.Namespace) -> None:
    """Score each run; all is read before anything is printed as JSON."""
    from glimpse.build import load_run
    from glimpse.classification import score
    from glimpse.processes import processes
    from glimpse.view.tables import score_table

    results = []
    with processes(options.device, options.threads) as here:
        for folder in options.runs:
            run, model, splits = load_run(folder)
            model.to(here.device)
            data = getattr(splits, options.split)
            how = options.read or run.config.score.read or run.config.read
            # A soft read is an expectation: there is nothing to sample, unless the first place is random.
            modes = ["greedy", "sampled", "averaged"] if how == "hard" else ["greedy"]
            scores = {
                mode: score(
                    model,
                    data,
                    how=how,
                    mode=mode,
                    rollouts=options.rollouts,
                    batch_size=options.batch_size or run.config.score.batch_size,
                    limit=options.limit,
                    device=here.device,
                    seed=options.seed,
                )
                for mode in modes
            }
            result = {
                "run": str(folder),
                "split": options.split,
                "read": how,
                "rollouts": options.rollouts if how == "hard" else None,
                "seed": options.seed,
                "scores": scores,
            }
            results.append(result)
            if not options.json:
                names = {"greedy": "greedy" if how == "hard" else "soft", "averaged": f"mean of {options.rollouts}"}
                images = scores["greedy"]["images"]
                print(f"{folder}: {how} read, {images:,} {options.split} images\n")
                print(score_table({names.get(mode, mode): values for mode, values in scores.items()}), end="\n\n")
    if options.json:
        print(json.dumps(results, indent=2))


def run_glimpses(options: argparse.Namespace) -> None:
    """Draw a sheet of glimpses."""
    from glimpse.build import load_run
    from glimpse.classifier import RecurrentAttention
    from glimpse.config import ConfigError
    from glimpse.data import take
    from glimpse.processes import processes
    from glimpse.runs import RunError
    from glimpse.view.looks import look
    from glimpse.view.sheet import draw_sheet

    with processes(options.device, options.threads) as here:
        run, model, splits = load_run(options.run)
        if not isinstance(model, RecurrentAttention):
            raise RunError(f"{options.run} sees the whole image: there are no glimpses to draw")
        model.to(here.device)
        data = getattr(splits, options.split)
        if wrong := [index for index in options.images if not 0 <= index < len(data)]:
            raise ConfigError(f"--images must be in 0..{len(data) - 1}, got {wrong[0]}")
        how = options.read or run.config.score.read or run.config.read
        looks = look(model, take(data, options.images), name=options.run, class_names=data.class_names, how=how)
    figure = draw_sheet(looks)
    try:
        figure.savefig(options.out, dpi=150)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot write the picture {options.out}: {error}") from error
    print(f"Wrote {options.out}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
