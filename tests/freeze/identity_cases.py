"""Write expected/identity.json: which command lines of train.py mean the same training.

    python tests/freeze/identity_cases.py OLD

OLD is a checkout of commit 46cdd43, the last version that told this by `glimpse.comparison.essence`; its package and
its config files are used. The cases are all config files as they are, and config files with settings changed at random,
from a fixed seed. Every setting that is changed exists for the model and kind of the file, by its name of then.
"""

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

EXPECTED = Path(__file__).parent / "expected" / "identity.json"
CASES = 200

TECHNICAL = [
    ["--seed=3"],
    ["--train.device=cpu"],
    ["--train.threads=2"],
    ["--train.log_every=10"],
    ["--train.tensorboard=false"],
    ["--train.folder=elsewhere"],
]
TRAINING = [
    ["--train.epochs=3"],
    ["--train.lr=0.002"],
    ["--train.optimizer=sgd", "--train.momentum=0.5"],
    ["--train.momentum=0.5"],
    ["--train.schedule=cosine", "--train.warmup=0.3"],
    ["--train.schedule=cosine"],
    ["--score.limit=100"],
]
CLUTTERED = [["--data.canvas=[60, 60]"], ["--data.canvas=[60, 80]"], ["--data.num_digits=2", "--data.target=sum"]]
STORED = [
    ["--data.kind=torchvision"],
    ["--data.kind=torchvision", "--data.workers=3", "--data.download=true"],
    ["--data.kind=torchvision", "--data.name=SVHN"],
    ["--data.kind=folder", "--data.workers=2"],
    ["--data.kind=folder", "--data.test_fraction=0.2"],
]
GLIMPSES = [
    *([["--read=soft"]] * 3),
    *([["--loss.rollouts=2"], ["--loss.baseline=self_critical"], ["--loss.mix=0.5"], ["--loss.classify=last"]] * 2),
    ["--loss.glimpse_cost=0.1"],
    ["--network.halt=true", "--loss.glimpse_cost=0.1"],
    ["--network.readout=attend"],
    ["--network.core=lstm"],
    ["--num_glimpses=4"],
    ["--score.read=soft"],
    ["--sensor.plan=crop"],
    ["--train.places_lr=1.0"],
]
PLANE = [["--attention.std=0.3"], ["--attention.squash=false"], ["--attention.clip=null"], ["--attention.first=random"]]
GRID = [["--attention.grid=[3, 4]"], ["--attention.window=1"], ["--attention.scorer=bilinear"]]
WORDS = [
    *([["--read=soft", "--loss.baseline=none"], ["--loss.entropy=0.02"], ["--loss.mix=0.3"]] * 2),
    ["--decoder.dropout=0.4"],
    ["--decoder.gate=false"],
    ["--attention.scorer=bilinear"],
    ["--attention.scorer_dim=64"],
    ["--encoder.heads=8"],
    ["--encoder.self_attention=1", "--encoder.heads=8"],
    ["--score.beam=3"],
    ["--score.beam=1"],
    ["--score.length_penalty=0.5"],
]
BACKBONE = [["--encoder.weights=null"], ["--encoder.fine_tune_from=2", "--encoder.cache=null"]]
CACHED = [["--encoder.cache=/features"], ["--data.size=[224, 224]"], ["--data.workers=5"], ["--data.broken=skip"]]
DIGITS = [["--encoder.dim=64"], ["--encoder.channels=8"], ["--data.num_digits=3"], ["--network.pixel_mean=0.2"]]
DATES = [["--encoder.dropout=0.2"], ["--encoder.min_count=2"], ["--attention.window=3"]]
PARALLEL = [
    ["--data.test_file=test_2017_flickr.lc.norm.tok"],
    ["--data.valid_fraction=0.2"],
    ["--data.tsv=pairs.tsv", "--data.valid_fraction=0.2"],
    ["--data.tsv=pairs.tsv", "--data.valid_fraction=0.2", "--data.source_language=fr"],
]

BASES = {
    "": [*GLIMPSES, *PLANE, *CLUTTERED, *STORED],
    "cluttered60_hard": [*GLIMPSES, *PLANE, *CLUTTERED],
    "cluttered60_soft": [*GLIMPSES, *PLANE, *CLUTTERED],
    "cluttered60_paper": [*GLIMPSES, *PLANE],
    "cluttered60_grid_hard": [*GLIMPSES, *GRID],
    "cluttered60_attend": [*GLIMPSES, *PLANE, ["--attention.scorer=bilinear"]],
    "cluttered60_cnn": [*CLUTTERED, *STORED, ["--network.conv_channels=16"], ["--network.state_dim=64"]],
    "cluttered60_fc": [*CLUTTERED, *STORED, ["--network.state_dim=64"], ["--network.pixel_std=0.5"]],
    "digit_captions_hard": [*WORDS, *DIGITS],
    "digit_captions_soft": [*WORDS, *DIGITS],
    "flickr8k_hard": [*WORDS, *BACKBONE, *CACHED],
    "coco_soft": [*WORDS, *BACKBONE, ["--data.year=2014"], ["--data.valid_fraction=0.2"]],
    "dates_hard": [*WORDS, *DATES],
    "dates_soft": [*WORDS, *DATES],
    "multi30k_soft": [*WORDS, *PARALLEL],
}

COUNTED = [  # settings that have no effect, which were counted, and which chance seldom puts beside one another
    ("cluttered60_hard", ["--train.schedule=cosine"]),
    ("cluttered60_hard", ["--train.schedule=cosine", "--train.warmup=0.3"]),
    ("cluttered60_hard", ["--attention.clip=null"]),
    ("flickr8k_hard", ["--encoder.cache=elsewhere"]),
    ("dates_soft", ["--encoder.heads=8"]),
    ("dates_soft", ["--score.length_penalty=0.5"]),
]


def made_up() -> list[tuple[str, list[str]]]:
    """Config files, "" for none, with changed settings; every second is one before it with technical changes."""
    numbers = random.Random(0)
    cases: list[tuple[str, list[str]]] = []
    while len(cases) < CASES:
        for name, changes in BASES.items():
            chosen = numbers.sample([*changes, *TRAINING], numbers.choice([0, 1, 1, 2]))
            cases.append((name, [word for words in chosen for word in words]))
            before = numbers.choice([settings for other, settings in cases if other == name])
            more = numbers.sample(TECHNICAL, numbers.choice([1, 2]))
            cases.append((name, [*before, *(word for words in more for word in words)]))
    return cases[:CASES]


def main(old: Path) -> int:
    sys.path.insert(0, str(old))
    os.chdir(old)
    from glimpse.comparison import essence
    from glimpse.parsing import parse
    from glimpse.settings import ConfigError

    files = sorted((old / "configs").glob("*.yaml"))
    groups: dict[str, int] = {}
    found: list[dict[str, Any]] = []
    for name, settings in [*((file.stem, []) for file in files), *made_up(), *COUNTED]:
        try:
            config = parse(settings, file=old / "configs" / f"{name}.yaml" if name else None)
        except ConfigError as error:
            print(f"left out: {name} {' '.join(settings)}: {error}")
            continue
        group = groups.setdefault(repr(essence(config)), len(groups))
        found.append({"config": name, "settings": settings, "group": group})
    lines = ",\n".join(f"  {json.dumps(case)}" for case in found)
    EXPECTED.write_text(f'{{\n "cases": [\n{lines}\n ]\n}}\n')
    print(f"{len(found)} cases in {len(groups)} groups")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
