"""Train a recurrent attention model, or a network to compare it with.

    python train.py                                  hard attention on 60x60 cluttered MNIST, a quarter of an hour
    python train.py configs/cluttered60_soft.yaml    the very same model, reading softly
    python train.py configs/cluttered60_hard.yaml --seed 3 --train.epochs 5
    python train.py --resume RUN                     go on after a stop, exactly
    torchrun --nproc-per-node 2 train.py CONFIG      share every batch between two processes

CONFIG is a YAML file of settings that differ from the defaults; every setting can be given on the command line too.
Beside the settings below:
    --resume RUN     go on with the training of a run folder; takes no settings
    --run_dir DIR    train in this new folder, instead of one named after config, seed and time
"""

import os
import sys
from pathlib import Path

from glimpse.parsing import make_parser, parse, split

# The command line is checked before torch is imported, so that --help and mistakes are answered at once.
from glimpse.settings import ConfigError

USAGE = "train.py [CONFIG] [--resume RUN] [--run_dir DIR] [--SETTING VALUE ...]"


def main(arguments: list[str]) -> int:
    """Run the command line; returns the exit code: 0, 1 if the training failed, 2 if it could not begin."""
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        make_parser(prog="train.py", usage=USAGE).print_help()
        return 0
    try:
        words, options, settings = split(arguments, ["resume", "run_dir"])
        if len(words) > 1:
            raise ConfigError(f"there must be one config file, got {', '.join(words)}")
        if "resume" in options and (words or settings or "run_dir" in options):
            raise ConfigError("--resume takes no config and no settings: the run folder has them")
        config = None if "resume" in options else parse(settings, file=words[0] if words else None)
    except ConfigError as error:
        return fail(error, 2)

    from glimpse.data import DataError
    from glimpse.engine import NonFiniteError
    from glimpse.runs import Run, RunError
    from glimpse.training import train

    try:
        if config is None:
            run = Run.open(options["resume"])
            train(run.config, run=run)
        else:
            train(config, name=Path(words[0]).stem if words else "default", folder=options.get("run_dir"))
    except NonFiniteError as error:
        return fail(error, 1)
    except (ConfigError, DataError, RunError) as error:
        return fail(error, 2)
    except KeyboardInterrupt:
        return 130
    return 0


def fail(error: Exception, code: int) -> int:
    """Say what was wrong."""
    rank = f" [process {os.environ['RANK']}]" if "RANK" in os.environ else ""
    print(f"train.py: error{rank}: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
