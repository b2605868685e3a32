"""Train a recurrent attention model.

    python train.py                                  hard attention on 60x60 cluttered MNIST, about ten minutes
    python train.py --read soft                      the very same model, reading softly
    python train.py configs/cluttered60_soft.yaml --seed 3 --train.epochs 5
    python train.py --resume RUN                     go on after a stop, exactly
    torchrun --nproc-per-node 2 train.py CONFIG      share every batch between two processes

CONFIG is a YAML file of settings that differ from the defaults; every setting can be given on the command line too.
Beside the settings below:
    --resume RUN     go on with the training of a run folder; takes no settings
    --run_dir DIR    train in this new folder, instead of one named after config, seed and time
"""

import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

# The command line is checked before torch is imported, so that --help and mistakes are answered at once.
from glimpse.config import Config, ConfigError
from glimpse.parsing import make_parser, parse, split

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


def train(config: Config, *, run: Any = None, name: str = "", folder: str | None = None) -> None:
    """Train a new run, or go on with `run`, and score it on the test set."""
    from glimpse.build import build_task
    from glimpse.engine import Engine
    from glimpse.processes import processes
    from glimpse.runs import LAST, Run, seed_everything

    resumed = run is not None
    seed_everything(config.seed)
    with processes(config.train.device, config.train.threads) as here:
        begun = resumed and (run.folder / LAST).exists()
        # What a run began from may be gone when it is resumed, and is not needed.
        task = build_task(dataclasses.replace(config, init_from=None) if begun else config, here)
        if not resumed:
            # Only the main process writes; the others need the settings alone.
            about = {"name": name, **task.about(), **here.about()}
            run = Run.create(config, name=name, about=about, folder=folder) if here.main else Run(".", config)
        engine = Engine(task, run, here)
        if resumed:
            engine.resume()
        if here.main:
            begin(run, task, engine)
            before = run.read_json("meta.json")
            if changed := [f"{key} {value}" for key, value in here.about().items() if before.get(key, value) != value]:
                print(f"Unlike before, with {', '.join(changed)}: the same up to rounding, not bit for bit")
        try:
            engine.train()
            if not here.main:
                return
            run.load_weights(task.model)
            scores = task.test()
        except KeyboardInterrupt:
            if here.main:
                print(f"\nStopped. Go on with:\n    python train.py --resume {run.folder}")
            raise
        run.write_json("result.json", {"seconds": engine.seconds, "valid": engine.best, "test": scores})
        finish(run, scores, engine.best["epoch"])


def begin(run: Any, task: Any, engine: Any) -> None:
    """Say what is about to happen."""
    config = run.config
    weights = sum(parameter.numel() for parameter in task.model.parameters())
    channels, height, width = task.data.train.image_shape
    print(
        f"{config.read.capitalize()} attention, {config.num_glimpses} glimpses, {weights:,} weights; "
        f"{len(task.data.train):,} images of {channels} x {height} x {width}; seed {config.seed}; "
        f"{task.processes.world_size} x {task.processes.device}"
    )
    print(f"Run folder: {run.folder}")
    if engine.epoch:
        print(f"Going on after epoch {engine.epoch}")


def finish(run: Any, scores: dict[str, Any], epoch: int) -> None:
    """Say how it went, and what to do next."""
    from glimpse.view.tables import score_table

    how = run.config.score.read or run.config.read
    print(f"\nTest, {scores['images']:,} images, weights of epoch {epoch} (the best in validation), {how} read:\n")
    print(score_table({"greedy" if how == "hard" else "soft": scores}))
    print(f"\nRun folder: {run.folder}\n\nNext:")
    print(f"    python evaluate.py score {run.folder}   # sampled and averaged rollouts too")
    print(f"    python evaluate.py glimpses {run.folder} --out glimpses.png   # see where it looks")
    other = "soft" if run.config.read == "hard" else "hard"
    print(f"    python train.py {run.folder / 'config.yaml'} --read {other}   # the same model, {other}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
