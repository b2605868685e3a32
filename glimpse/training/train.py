"""From a config to a trained run folder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from glimpse.build import build_task
from glimpse.config import Config
from glimpse.engine import Engine
from glimpse.processes import processes
from glimpse.runs import LAST, Run, RunError, seed_everything
from glimpse.tasks import SeededTask
from glimpse.view.tables import caption_table, score_table, translation_table

# What a location's std has to be depends on the read: a hard one explores with it, and to a soft one it is a blur.
STD = {
    "hard": " --attention.std 0.2 --attention.std_end 0.05 --attention.std_until 0.8",
    "soft": " --attention.std 0.1 --attention.std_end 0.01 --attention.std_until 0.4",
}


def train(
    config: Config,
    *,
    run: Run | None = None,
    name: str = "",
    folder: str | Path | None = None,
    remark: Callable[[Engine], str] = lambda engine: "",
) -> dict[str, Any] | None:
    """Train a new run, or go on with one, and score it on the test set.

    Args:
        config: The settings.
        run: The run to go on with; a new one if not given.
        name: Name of the config, for a new run.
        folder: Where to train a new run, if it is not to be named automatically.
        remark: What to add to the line that is printed after each epoch.

    Returns:
        The test scores; None in a process that is not the main one.
    """
    resumed = run is not None
    if resumed and run.shipped:
        raise RunError(
            f"{run} ships with the package and cannot be resumed; train from its weights with --init_from {run}"
        )
    seed_everything(config.seed)
    with processes(config.train.device, config.train.threads) as here:
        begun = resumed and (run.folder / LAST).exists()
        task = build_task(config, here, run if begun else None)
        if resumed:
            _check_data(run, task)
        if not resumed:
            # Only the main process writes; the others need the settings alone.
            about = {"name": name, **task.about(), **here.about()}
            run = Run.create(config, name=name, about=about, folder=folder) if here.main else Run(".", config)
        engine = Engine(task, run, here)
        if resumed:
            engine.resume()
        if here.main:
            _begin(run, task, engine)
            before = run.read_json("meta.json")
            if changed := [f"{key} {value}" for key, value in here.about().items() if before.get(key, value) != value]:
                print(f"Unlike before, with {', '.join(changed)}: the same up to rounding, not bit for bit")
        try:
            engine.train(lambda line: print(line + remark(engine)))
            if not here.main:
                return None
            run.load_weights(task.model)
            scores = task.test()
        except KeyboardInterrupt:
            if here.main:
                print(f"\nStopped. Go on with:\n    python train.py --resume {run.folder}")
            raise
        run.write_json("result.json", {"seconds": engine.seconds, "valid": engine.best, "test": scores})
        _finish(run, scores, engine.best["epoch"])
    return scores


def _check_data(run: Run, task: SeededTask) -> None:
    """Refuse to go on with other data: with as many, but other, words or classes nothing else would fail."""
    before = run.read_json("meta.json")
    for key, value in task.about().items():
        now, then = list(value), list(before.get(key, value))
        if now != then:
            differ = [f"{one} then, {other} now" for one, other in zip(then, now, strict=False) if one != other]
            count = [f"{len(then)} then, {len(now)} now"] if len(then) != len(now) else []
            raise RunError(
                f"the data of {run} is not what it was begun with: "
                f"other {key.replace('_', ' ')} ({'; '.join([*count, *differ[:3]])})"
            )


def describe(config: Config) -> str:
    """Say in a few words what kind of model it is."""
    if config.model == "captioner":
        return f"captions with {config.read} attention"
    if config.model == "translator":
        attention = f"with {config.read}" if config.attention.places == "words" else "without"
        return f"translation {attention} attention"
    if config.model != "attention":
        return {"cnn": "convolutional", "fc": "fully connected"}[config.model] + " network of the whole image"
    glimpses = f"{config.num_glimpses} glimpse{'s' if config.num_glimpses > 1 else ''}"
    if config.attention.policy == "learned":
        return f"{config.read} attention, {glimpses}"
    return f"{config.read} reads, {glimpses} placed by rule: {config.attention.policy}"


def _begin(run: Run, task: SeededTask, engine: Engine) -> None:
    """Say what is about to happen."""
    config = run.config
    weights = sum(parameter.numel() for parameter in task.model.parameters())
    if config.model == "translator":
        examples = "sentences"
    else:
        channels, height, width = task.data.train.image_shape
        examples = f"images of {channels} x {height} x {width}"
    what = describe(config)
    print(
        f"{what[0].upper()}{what[1:]}; {weights:,} weights; {len(task.data.train):,} {examples}; seed {config.seed}; "
        f"{task.processes.world_size} x {task.processes.device}"
    )
    print(f"Run folder: {run.folder}")
    if engine.epoch:
        print(f"Going on after epoch {engine.epoch}")


def _finish(run: Run, scores: dict[str, Any], epoch: int) -> None:
    """Say how it went, and what to do next."""
    config = run.config
    if config.model == "captioner":
        print(f"\nTest, {scores['images']:,} images, weights of epoch {epoch} (the best in validation):\n")
        print(caption_table({"score": scores}).text())
        print(f"\nRun folder: {run.folder}\n\nNext:")
        print(f"    python evaluate.py report {run.folder}   # point at a word to see where it looked")
        return
    if config.model == "translator":
        print(f"\nTest, {scores['sentences']:,} sentences, weights of epoch {epoch} (the best in validation):\n")
        print(translation_table({"score": scores}).text())
        print(f"\nRun folder: {run.folder}\n\nNext:")
        print(f"    python evaluate.py translate {run.folder} SENTENCE ...")
        return
    how = config.score.read or config.read
    glimpses = config.model == "attention"
    print(
        f"\nTest, {scores['images']:,} images, weights of epoch {epoch} (the best in validation)"
        f"{f', {how} read' if glimpses else ''}:\n"
    )
    print(score_table({("greedy" if how == "hard" else "soft") if glimpses else config.model: scores}))
    print(f"\nRun folder: {run.folder}\n\nNext:")
    if glimpses:
        if how == "hard" and config.attention.policy == "learned":
            print(f"    python evaluate.py score {run.folder}   # sampled and averaged rollouts too")
        other = "soft" if config.read == "hard" else "hard"
        print(f"    python evaluate.py animate {run.folder} --out glimpses.gif   # see where it looks")
        std = STD[other] if config.attention.places == "plane" else ""
        print(f"    python train.py {run.folder / 'config.yaml'} --read {other}{std}   # the same model")
    else:
        print(f"    python evaluate.py compare {run.folder} RUN   # with a model that looks")
