"""Train a recurrent attention model, or a network to compare it with.

    python train.py                                  hard attention on 60x60 cluttered MNIST, a quarter of an hour
    python train.py configs/cluttered60_soft.yaml    the very same model, reading softly
    python train.py configs/cluttered60_hard.yaml --seed 3 --train.epochs 5
    python train.py --resume RUN                     continue after a stop, exactly
    torchrun --nproc-per-node 2 train.py CONFIG      share every batch between two processes

CONFIG is a YAML file of settings that differ from the defaults; every setting can be given on the command line too.
    --resume RUN     continue the training of a run folder; takes no settings
    --run_dir DIR    train in this new folder, instead of one named after config, seed and time
    --help-all       all settings of the given CONFIG and options, with their values; --help has the most common ones
"""

import os
import sys
from pathlib import Path

from glimpse.config.help import settings_help
from glimpse.errors import ConfigError, UserError

# The command line is checked before torch is imported, so that --help and mistakes are answered at once.
from glimpse.tasks.settings import load_config, split_arguments

OPTIONS = ("resume", "run_dir")
USAGE = "train.py [CONFIG] [--resume RUN] [--run_dir DIR] [--SETTING VALUE ...]"
COMMON = (
    "seed",
    "read",
    "num_glimpses",
    "init_from",
    "data.kind",
    "data.canvas",
    "data.num_distractors",
    "sensor.patch_size",
    "sensor.num_scales",
    "network.state_dim",
    "attention.kind",
    "attention.std",
    "estimator.baseline",
    "estimator.samples",
    "train.epochs",
    "train.batch_size",
    "train.lr",
    "train.device",
    "train.threads",
    "train.runs_dir",
)


def main(arguments: list[str]) -> int:
    """Run the command line; returns the exit code: 0, 1 if the training failed, 2 if it could not begin."""
    asked = {"-h", "--help", "--help-all"} & set(arguments)
    try:
        words, options, settings = split_arguments([word for word in arguments if word not in asked], OPTIONS)
        if len(words) > 1:
            raise ConfigError(f"there must be one config file, got {', '.join(words)}")
        if "resume" in options and (words or settings or "run_dir" in options):
            raise ConfigError("--resume takes no config and no settings: the run folder has them")
        config = None if "resume" in options else load_config(settings, file=words[0] if words else None)
    except ConfigError as error:
        return fail(error)
    if asked:
        names = None if "--help-all" in asked else COMMON
        print(f"usage: {USAGE}\n\n{__doc__}\n{settings_help(config or load_config(), names)}")
        return 0

    from glimpse.training.run import Run
    from glimpse.training.train import train

    try:
        if config is None:
            run = Run.open(options["resume"])
            train(run.config, run=run)
        else:
            train(config, name=Path(words[0]).stem if words else "default", folder=options.get("run_dir"))
    except UserError as error:
        return fail(error)
    except KeyboardInterrupt:
        return 130
    return 0


def fail(error: UserError) -> int:
    """Print what was wrong; returns the exit code."""
    rank = f" [process {os.environ['RANK']}]" if "RANK" in os.environ else ""
    print(f"train.py: error{rank}: {error}", file=sys.stderr)
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
