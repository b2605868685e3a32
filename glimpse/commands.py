"""The commands of evaluate.py, each a function of its options."""

import json
import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from glimpse.build import Loaded, load_runs
from glimpse.classification import Outcome, observe, score
from glimpse.comparison import Comparison, modes_of
from glimpse.comparison import compare as compare_runs
from glimpse.config import ConfigError
from glimpse.data import Batch, DataSet, take
from glimpse.parsing import parse, split
from glimpse.processes import processes
from glimpse.runs import RunError, write_atomically
from glimpse.saliency import pixel_jacobian, saliency, sequential_jacobian
from glimpse.sweep import Job, train_missing
from glimpse.variance import measure
from glimpse.view.animation import save_animation
from glimpse.view.choose import choose
from glimpse.view.comparison import comparison_tables, draw_comparison, group_rows, run_rows, to_csv
from glimpse.view.coverage import draw_coverage
from glimpse.view.looks import Looks, look
from glimpse.view.report import make_report, write_report
from glimpse.view.sheet import draw_sheet
from glimpse.view.tables import Table, score_table
from glimpse.view.variance_plot import draw_variance, variance_table

MOST_IN_REPORT = 4  # models side by side


def score_runs(options: Namespace) -> None:
    """Score each run; all is read before anything is printed as JSON."""
    results = []
    with processes(options.device, options.threads) as here:
        for folder in options.runs:
            [loaded], splits = load_runs([folder])
            how = loaded.how and (options.read or loaded.how)
            modes = modes_of(loaded.model, how)
            scores = {
                mode: score(
                    loaded.model.to(here.device),
                    getattr(splits, options.split),
                    how=how,
                    mode=mode,
                    rollouts=options.rollouts,
                    batch_size=options.batch_size or loaded.run.config.score.batch_size,
                    limit=options.limit,
                    device=here.device,
                    seed=options.seed,
                )
                for mode in modes
            }
            results.append(
                {
                    "run": str(folder),
                    "split": options.split,
                    "read": how,
                    "rollouts": options.rollouts if "averaged" in modes else None,
                    "seed": options.seed,
                    "scores": scores,
                }
            )
            if not options.json:
                names = {"averaged": f"mean of {options.rollouts}"}
                if len(modes) == 1:
                    names["greedy"] = how or "whole image"
                what = f"{how} read" if how else "sees the whole image"
                print(f"{folder}: {what}, {scores['greedy']['images']:,} {options.split} images\n")
                print(score_table({names.get(mode, mode): values for mode, values in scores.items()}), end="\n\n")
    if options.json:
        print(json.dumps(results, indent=2))


def compare(options: Namespace) -> None:
    """Train what is missing, compare, and write the tables and the figure."""
    _, _, settings = split(options.settings)
    if settings and not options.configs:
        raise ConfigError(f"{settings[0].partition('=')[0]} is a setting of a training: it needs --configs")
    jobs = [
        Job(Path(file).stem, parse([*settings, f"--seed={seed}"], file=file))
        for file in options.configs
        for seed in range(options.seeds)
    ]
    if not jobs and not options.runs:
        raise ConfigError("there is nothing to compare: give run folders, or --configs with config files")
    _check_folder(options.out)  # before hours of training, not after
    folders = [*options.runs, *train_missing(jobs)]
    with processes(options.device, options.threads) as here:
        comparison, _, _ = _compare(folders, options, here.device)
    options.out.mkdir(parents=True, exist_ok=True)
    tables = comparison_tables(comparison)
    for table in tables:
        print(f"\n{table.title}\n\n{table.text()}")
    for note in [note for table in tables for note in table.notes]:
        print(f"\n{note}")
    print()
    _save_text("\n".join(table.markdown() for table in tables), options.out / "comparison.md")
    _save_text(to_csv(group_rows(comparison)), options.out / "comparison.csv")
    _save_text(to_csv(run_rows(comparison)), options.out / "runs.csv")
    _save_figure(draw_comparison(comparison), options.out / "comparison.png")


def variance(options: Namespace) -> None:
    """Measure the variance of the gradient, print it and draw it."""
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
    _print_table(variance_table(result))
    _save_figure(draw_variance(result), options.out)


def animate(options: Namespace) -> None:
    """Animate one or two models."""
    if len(options.runs) > 2:
        raise ConfigError(f"one or two runs can be animated side by side, got {len(options.runs)}")
    save_animation(options.out, _look(options), seconds=options.seconds, hold=2 * options.seconds)
    print(f"Wrote {options.out}")


def glimpses(options: Namespace) -> None:
    """Draw a sheet of glimpses."""
    [looks] = _look(options)
    _save_figure(draw_sheet(looks), options.out)


def coverage(options: Namespace) -> None:
    """Draw where the glimpses fall."""
    with processes(options.device, options.threads) as here:
        runs, splits = load_runs(options.runs)
        data = getattr(splits, options.split)
        outcomes = {
            loaded.name: _observe(loaded, data, options.read or loaded.how, here.device, options.limit)
            for loaded in _attending(runs)
        }
    _save_figure(draw_coverage(outcomes, data.image_shape), options.out)


def report(options: Namespace) -> None:
    """Write the report: the comparison, and an explorer of images and glimpses."""
    with processes(options.device, options.threads) as here:
        comparison, runs, data = _compare(options.runs, options, here.device)
        of_group = {group.entries[0].folder: group for group in comparison.groups}
        firsts = [loaded for loaded in runs if str(loaded.run.folder) in of_group]
        shown = _shown(firsts)
        outcomes = {loaded.name: of_group[str(loaded.run.folder)].entries[0].outcomes["greedy"] for loaded in shown}
        indices = _choose(list(outcomes.values()), data, options)
        batch = take(data, indices)
        looks = [
            look(
                loaded.model,
                batch,
                name=of_group[str(loaded.run.folder)].name,
                class_names=data.class_names,
                how=loaded.how,
            )
            for loaded in shown
        ]
        moved = [
            sequential_jacobian(
                loaded.model.answer, looks_of_one.rollout.glimpses.to(here.device), batch.targets.to(here.device)
            ).cpu()
            for loaded, looks_of_one in zip(shown, looks, strict=True)
        ]
        salient = _salient(firsts, batch, here.device)
    figures = [
        ("Error after each glimpse, and against cost.", draw_comparison(comparison)),
        (
            "Where the glimpses fall, over all images.",
            draw_coverage({name: outcome for name, outcome in outcomes.items()}, data.image_shape),
        ),
    ]
    html = make_report(
        title=f"Glimpses: {' and '.join(looks_of_one.name for looks_of_one in looks)}",
        intro=f"{len(runs)} runs of {len(comparison.groups)} models, compared on the same {comparison.images:,} "
        f"{comparison.split} images; {len(indices)} of them can be explored.",
        looks=looks,
        indices=indices,
        moved=moved,
        salient=salient,
        tables=comparison_tables(comparison),
        figures=figures,
    )
    write_report(options.out, html)
    print(f"Wrote {options.out} ({len(html.encode()) / 1e6:.1f} MB)")


def _compare(
    folders: list[str | Path], options: Namespace, device: torch.device
) -> tuple[Comparison, list[Loaded], DataSet]:
    runs, splits = load_runs(folders)
    data = getattr(splits, options.split)
    comparison = compare_runs(
        runs,
        data,
        split=options.split,
        rollouts=options.rollouts,
        limit=options.limit,
        batch_size=options.batch_size or runs[0].run.config.score.batch_size,
        device=device,
        seed=options.seed,
        say=lambda text: print(text, file=sys.stderr),
    )
    return comparison, runs, data


def _shown(runs: list[Loaded]) -> list[Loaded]:
    """The models that a report lets explore: those that choose where to look before those that do not."""
    runs = sorted(_attending(runs), key=lambda loaded: loaded.model.num_choices == 0)
    for loaded in runs[MOST_IN_REPORT:]:
        print(f"{loaded.name} is compared, but not shown: a report shows {MOST_IN_REPORT} models", file=sys.stderr)
    return runs[:MOST_IN_REPORT]


def _attending(runs: list[Loaded]) -> list[Loaded]:
    """Those of the runs that have glimpses."""
    attending = [loaded for loaded in runs if loaded.how is not None]
    if not attending:
        raise RunError(f"{runs[0].run.folder} sees the whole image: there are no glimpses to show")
    return attending


def _salient(runs: list[Loaded], batch: Batch, device: torch.device) -> tuple[str, torch.Tensor] | None:
    """What matters to the first whole-image network of some runs: its name and maps (B, H, W); None without one."""
    for loaded in runs:
        if loaded.how is None:
            jacobian = pixel_jacobian(loaded.model.logits, batch.images.to(device), batch.targets.to(device))
            return loaded.name, saliency(jacobian).cpu()
    return None


def _look(options: Namespace) -> list[Looks]:
    """Let each of the runs look at the images that were asked for."""
    with processes(options.device, options.threads) as here:
        runs, splits = load_runs(options.runs)
        data = getattr(splits, options.split)
        for loaded in runs:
            if loaded.how is None:
                raise RunError(f"{loaded.run.folder} sees the whole image: there are no glimpses to show")
            loaded.model.to(here.device)
        hows = [options.read or loaded.how for loaded in runs]
        outcomes = []
        # Which images to show is a question for the models only if it is about what they make of them.
        if options.images is None:
            outcomes = [_observe(loaded, data, how, here.device) for loaded, how in zip(runs, hows, strict=True)]
        batch = take(data, _choose(outcomes, data, options))
        return [
            look(loaded.model, batch, name=loaded.name, class_names=data.class_names, how=how)
            for loaded, how in zip(runs, hows, strict=True)
        ]


def _choose(outcomes: list[Outcome], data: DataSet, options: Namespace) -> list[int]:
    """The indices of the images that were asked for."""
    if options.images is not None and (options.label is not None or options.mistakes or options.gallery):
        raise ConfigError("--images names the images: it cannot be combined with --class, --mistakes or --gallery")
    if options.images is not None:
        if wrong := [index for index in options.images if index >= len(data)]:
            raise ConfigError(f"--images must be in 0..{len(data) - 1}, got {wrong[0]}")
        return options.images
    label = None
    if options.label is not None:
        if options.label not in data.class_names:
            raise ConfigError(f"--class must be one of {', '.join(data.class_names)}, got {options.label}")
        label = data.class_names.index(options.label)
    try:
        return choose(outcomes, count=options.count, label=label, mistakes=options.mistakes, gallery=options.gallery)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _observe(loaded: Loaded, data: DataSet, how: Any, device: torch.device, limit: int | None = None) -> Outcome:
    """What a run makes of all images, greedily."""
    return observe(
        loaded.model.to(device),
        data,
        how=how,
        batch_size=loaded.run.config.score.batch_size,
        limit=limit,
        device=device,
    )


def _print_table(table: Table) -> None:
    print(f"{table.title}\n\n{table.text()}\n")
    for note in table.notes:
        print(f"{note}\n")


def _check_folder(folder: Path) -> None:
    """Refuse a folder that could not be made or written to."""
    existing = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not existing.is_dir():
        raise ConfigError(f"cannot make the folder {folder}: {existing} is not a folder")
    if not os.access(existing, os.W_OK):
        raise ConfigError(f"cannot make the folder {folder}: {existing} is not writable")


def _save_text(text: str, path: Path) -> None:
    try:
        write_atomically(path, text.encode())
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
    print(f"Wrote {path}")


def _save_figure(figure: Figure, path: Path) -> None:
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot write the picture {path}: {error}") from error
    print(f"Wrote {path}")
