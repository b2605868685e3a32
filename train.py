"""Train a recurrent attention model, a captioner, a translator, or a baseline without attention.

    python train.py                                  hard attention on 60x60 cluttered MNIST, 15 minutes on two cores
    python train.py configs/cluttered60_soft.yaml    the same model with soft attention
    python train.py configs/cluttered60_hard.yaml --seed 3 --train.epochs 5
    python train.py --resume RUN                     continue an interrupted run, with identical results
    torchrun --nproc-per-node 2 train.py CONFIG      split each batch between two processes

CONFIG is a YAML file of settings that differ from the defaults; settings on the command line override it.
    --resume RUN     continue the training of a run folder; cannot be combined with settings
    --run-dir DIR    write the run into this new folder (default: runs/CONFIG/seed<N>-<time>)
    --help           the most common settings, with their values for the given CONFIG and options
    --help-all       all settings; they depend on the model and on the kind of each group: add e.g. --model captioner
                     or --data.kind folder to see others
"""

import os
import sys
from pathlib import Path

from glimpse.config.help import settings_help
from glimpse.errors import ConfigError, UserError, warnings_as_lines

# Torch is imported after the command line has been checked, so that --help and error messages do not wait for it.
from glimpse.tasks.settings import MODELS, load_config, split_arguments

OPTIONS = ("resume", "run-dir", "run_dir")  # run_dir is the old spelling
USAGE = "train.py [CONFIG] [--resume RUN] [--run-dir DIR] [--SETTING VALUE ...]"
COMMON = (
    "seed",
    "model",
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
    """Run the command line; returns the exit code: 0, 1 if the training failed, 2 if it could not start."""
    with warnings_as_lines("train.py"):
        return run(arguments)


def run(arguments: list[str]) -> int:
    """See `main`."""
    help_options = {"-h", "--help", "--help-all"} & set(arguments)
    try:
        files, options, settings = split_arguments([word for word in arguments if word not in help_options], OPTIONS)
        run_dir = options.get("run-dir", options.get("run_dir"))
        if len(files) > 1:
            raise ConfigError(f"there must be one config file, got {', '.join(files)}")
        if "resume" in options and (files or settings or run_dir is not None):
            raise ConfigError("--resume takes no config, settings or --run-dir: the run folder has them")
        config = None if "resume" in options else load_config(settings, file=files[0] if files else None)
    except ConfigError as error:
        return fail(error)
    if help_options:
        names = None if "--help-all" in help_options else COMMON
        text = settings_help(config or load_config(), names, choices={"model": list(MODELS)})
        print(f"usage: {USAGE}\n\n{__doc__}\n{text}")
        return 0

    from glimpse.training.run import Run
    from glimpse.training.train import train

    try:
        if config is None:
            resumed = Run.open(options["resume"])
            train(resumed.config, run=resumed)
        else:
            train(config, name=Path(files[0]).stem if files else "default", folder=run_dir)
    except UserError as error:
        return fail(error)
    except KeyboardInterrupt:
        return 130
    return 0


def fail(error: UserError) -> int:
    """Print an error message; returns the exit code."""
    rank = f" [process {os.environ['RANK']}]" if "RANK" in os.environ else ""
    print(f"train.py: error{rank}: {error}", file=sys.stderr)
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
