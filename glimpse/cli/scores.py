"""Commands about numbers: score, compare, variance."""

import json
import sys
from argparse import Namespace
from functools import partial
from pathlib import Path

import torch

from glimpse.classification import observe, summarise
from glimpse.commands.captions import score_captioner
from glimpse.commands.files import FIGURES, check_folder, check_out, publish, save_figure
from glimpse.commands.kinds import kind_of
from glimpse.commands.lengths import compare_translators
from glimpse.commands.translations import score_translator
from glimpse.comparison import Comparison, modes_of
from glimpse.comparison import compare as compare_runs
from glimpse.data import DataSet
from glimpse.loading import Loaded, check_comparable, check_same_images, load_runs
from glimpse.parsing import parse, split
from glimpse.processes import processes
from glimpse.runs import Run
from glimpse.settings import ConfigError
from glimpse.stopping import stop_early
from glimpse.sweep import Job, train_missing
from glimpse.variance import measure
from glimpse.view.comparison import (
    comparison_tables,
    draw_comparison,
    group_rows,
    paired_rows,
    run_rows,
    to_csv,
)
from glimpse.view.stopping import stopping_lines, stopping_rows
from glimpse.view.tables import score_table
from glimpse.view.variance_plot import draw_variance, variance_table

SCORED = {"captioner": score_captioner, "translator": score_translator}  # by what is theirs alone


def score_runs(options: Namespace) -> None:
    """Score each run; all is read before anything is printed as JSON."""
    results = []
    with processes(options.device, options.threads) as here:
        for folder in options.runs:
            model = Run.open(folder).config.model
            if model in SCORED:
                results.append(SCORED[model](folder, options, here))
                continue
            [loaded], splits = load_runs([folder])
            how = loaded.how and (options.read or loaded.how)
            modes = modes_of(loaded.model, how)
            look = partial(
                observe,
                loaded.model.to(here.device),
                how=how,
                rollouts=options.rollouts,
                batch_size=options.batch_size or loaded.run.config.score.batch_size,
                limit=options.limit,
                device=here.device,
                seed=options.seed,
            )
            outcomes = {mode: look(getattr(splits, options.split), mode=mode) for mode in modes}
            scores = {mode: summarise(outcome) for mode, outcome in outcomes.items()}
            early = []
            if how is not None:
                valid = outcomes["greedy"] if options.split == "valid" else look(splits.valid, mode="greedy")
                early = [its.summary() for its in stop_early(valid, outcomes["greedy"])]
            results.append(
                {
                    "run": str(folder),
                    "split": options.split,
                    "read": how,
                    "rollouts": options.rollouts if "averaged" in modes else None,
                    "seed": options.seed,
                    "scores": scores,
                    "stopping": early,
                }
            )
            if not options.json:
                names = {"averaged": f"mean of {options.rollouts}"}
                if len(modes) == 1:
                    names["greedy"] = how or "whole image"
                what = f"{how} read" if how else "sees the whole image"
                print(f"{folder}: {what}, {scores['greedy']['images']:,} {options.split} images\n")
                print(score_table({names.get(mode, mode): values for mode, values in scores.items()}), end="\n\n")
                if early:
                    print(stopping_lines(early), end="\n\n")
    if options.json:
        print(json.dumps(results, indent=2))


def compare(options: Namespace) -> None:
    """Train what is missing, compare, and write the tables and the figure."""
    _, _, settings = split(options.settings)
    if not options.configs and (settings or options.seeds):
        name = settings[0].partition("=")[0] if settings else "--seeds"
        raise ConfigError(f"{name} is about a training: it needs --configs")
    jobs = [
        Job(Path(file).stem, parse([*settings, f"--seed={seed}"], file=file))
        for file in options.configs
        for seed in range(options.seeds or 1)
    ]
    if not jobs and not options.runs:
        raise ConfigError("there is nothing to compare: give run folders, or --configs with config files")
    # All that can be known to be wrong is looked at before hours of training, not after.
    given = [Run.open(folder) for folder in options.runs]
    configs = {str(run): run.config for run in given}
    configs |= {str(file): job.config for file, job in zip(options.configs, jobs[:: options.seeds or 1], strict=True)}
    kind = kind_of(configs)
    if kind != "translator":
        for name, config in configs.items():
            check_comparable(name, config)
    check_same_images(configs)
    check_folder(options.out)
    trained = train_missing(jobs, given=given)
    folders = [*options.runs, *(folder for folder in trained if folder not in [run.folder for run in given])]
    if kind == "translator":
        return compare_translators(folders, options)
    with processes(options.device, options.threads) as here:
        comparison, _, _ = compare_folders(folders, options, here.device)
    rows = {"comparison.csv": to_csv(group_rows(comparison)), "runs.csv": to_csv(run_rows(comparison))}
    if any(group.early() for group in comparison.groups):
        rows["stopping.csv"] = to_csv(stopping_rows(comparison))
    if len(comparison.groups) > 1:
        rows["paired.csv"] = to_csv(paired_rows(comparison))
    publish(options.out, tables=comparison_tables(comparison), rows=rows, figure=draw_comparison(comparison))


def compare_folders(
    folders: list[str | Path], options: Namespace, device: torch.device
) -> tuple[Comparison, list[Loaded], DataSet]:
    """Compare run folders as the options say; returns the runs and the images too."""
    runs, splits = load_runs(folders)
    data = getattr(splits, options.split)
    comparison = compare_runs(
        runs,
        data,
        valid=splits.valid,
        split=options.split,
        rollouts=options.rollouts,
        limit=options.limit,
        batch_size=options.batch_size or runs[0].run.config.score.batch_size,
        device=device,
        seed=options.seed,
        say=lambda text: print(text, file=sys.stderr),
    )
    return comparison, runs, data


def variance(options: Namespace) -> None:
    """Measure the variance of the gradient, print it and draw it."""
    check_out(options.out, FIGURES)
    with processes(options.device, options.threads) as here:
        [loaded], splits = load_runs([options.run])
        result = measure(
            loaded.model.to(here.device),
            getattr(splits, options.split),
            loaded.run.config.loss,
            images=options.images,
            rollouts=options.rollouts,
            repeats=options.repeats,
            seed=options.seed,
            device=here.device,
        )
    table = variance_table(result)
    print(f"{table.title}\n\n{table.text()}\n")
    for note in table.notes:
        print(f"{note}\n")
    save_figure(draw_variance(result), options.out)
