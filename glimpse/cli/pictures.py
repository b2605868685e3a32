"""Commands that show what models do: animate, glimpses, coverage, report."""

import sys
from argparse import Namespace

import torch

from glimpse.attention import Read
from glimpse.classification import Outcome, observe
from glimpse.commands.alignments import draw_alignment_sheet, report_translations
from glimpse.commands.captions import animate_captions, draw_caption_sheet, report_captions
from glimpse.commands.files import FIGURES, PAGES, VIDEOS, check_out, save_figure
from glimpse.commands.kinds import kind_of_runs
from glimpse.commands.scores import compare_folders
from glimpse.comparison import Group, by_chance
from glimpse.data import Batch, DataSet, Splits
from glimpse.loading import Loaded, load_runs
from glimpse.processes import processes
from glimpse.runs import RunError
from glimpse.saliency import pixel_jacobian, saliency, sequential_jacobian
from glimpse.settings import ConfigError
from glimpse.view.animation import save_animation
from glimpse.view.choose import choose
from glimpse.view.comparison import comparison_tables, draw_comparison
from glimpse.view.coverage import draw_coverage
from glimpse.view.looks import Looks, look
from glimpse.view.report import MOST_MODELS, make_report, write_report
from glimpse.view.sheet import draw_sheet


def animate(options: Namespace) -> None:
    """Animate one or two models."""
    if len(options.runs) > 2:
        raise ConfigError(f"one or two runs can be animated side by side, got {len(options.runs)}")
    check_out(options.out, VIDEOS)
    if kind_of_runs(options.runs) == "captioner":
        return animate_captions(options)
    save_animation(options.out, _look(options), seconds=options.seconds, hold=2 * options.seconds)
    print(f"Wrote {options.out}")


def glimpses(options: Namespace) -> None:
    """Draw a sheet of glimpses; of captioners and translators, of the places and words attended to."""
    check_out(options.out, FIGURES)
    kind = kind_of_runs(options.runs)
    if kind == "translator":
        return draw_alignment_sheet(options)
    if options.self_attention:
        raise ConfigError(f"--self is for translators, but {options.runs[0]} is a {kind}")
    if kind == "captioner":
        return draw_caption_sheet(options)
    if len(options.runs) > 1:
        raise ConfigError(
            f"one classifier is drawn at a time, got {len(options.runs)} runs; several captioners or translators may be"
        )
    [looks] = _look(options)
    save_figure(draw_sheet(looks), options.out)


def coverage(options: Namespace) -> None:
    """Draw where the glimpses fall."""
    check_out(options.out, FIGURES)
    with processes(options.device, options.threads) as here:
        runs, splits = _load_attending(options.runs)
        if len(runs) < len(options.runs):
            print("Runs that see the whole image have no glimpses, and are left out", file=sys.stderr)
        data = getattr(splits, options.split)
        outcomes = {
            loaded.name: _observe(loaded, data, options.read or loaded.how, here.device, options.limit)
            for loaded in runs
        }
    save_figure(draw_coverage(outcomes, data.image_shape), options.out)


def report(options: Namespace) -> None:
    """Write the report: the comparison, and an explorer of images and glimpses."""
    check_out(options.out, PAGES)
    kind = kind_of_runs(options.runs)
    if kind == "captioner":
        return report_captions(options)
    if kind == "translator":
        return report_translations(options)
    with processes(options.device, options.threads) as here:
        _, splits = _load_attending(options.runs)
        data = getattr(splits, options.split)
        _check_choice(options, data, options.limit)
        comparison, runs, data = compare_folders(options.runs, options, here.device)
        # Tables are of all runs; what is explored is the first of each group, under the name that has it in them.
        names = {group.entries[0].folder: _first_run(group) for group in comparison.groups}
        firsts = [loaded._replace(name=names[str(loaded.run)]) for loaded in runs if str(loaded.run) in names]
        shown = _shown(firsts)
        greedy = {entry.folder: entry.outcomes["greedy"] for group in comparison.groups for entry in group.entries}
        outcomes = [greedy[str(loaded.run)] for loaded in shown]
        indices = _choose(outcomes, data, options)
        batch = data.take(indices)
        looks = [
            look(
                loaded.model,
                batch,
                name=loaded.name,
                class_names=data.class_names,
                how=loaded.how,
                given=outcome.locations[indices, 0],
            )
            for loaded, outcome in zip(shown, outcomes, strict=True)
        ]
        targets = batch.targets.to(here.device)
        sensitivity = [
            sequential_jacobian(loaded.model.answer, its.rollout.glimpses.to(here.device), targets).cpu()
            for loaded, its in zip(shown, looks, strict=True)
        ]
        salient = _salient(firsts, batch, here.device)
    by_name = {its.name: outcome for its, outcome in zip(looks, outcomes, strict=True)}
    images = f"{comparison.images:,} {comparison.split} images"
    html = make_report(
        title=f"Glimpses: {' and '.join(its.name for its in looks)}",
        intro=f"{_number(len(runs), 'run')} of {_number(len(comparison.groups), 'model')}, compared on the same "
        f"{images}. {_number(len(indices), 'image')} can be explored, as the first run of each model saw them.",
        looks=looks,
        indices=indices,
        sensitivity=sensitivity,
        salient=salient,
        tables=comparison_tables(comparison),
        figures=[
            ("Error after each glimpse, when stopping early, and against cost.", draw_comparison(comparison)),
            (
                f"Where the glimpses of the first run of each model fall, over {images}.",
                draw_coverage(by_name, data.image_shape),
            ),
        ],
    )
    write_report(options.out, html)
    print(f"Wrote {options.out} ({len(html.encode()) / 1e6:.1f} MB)")


def _first_run(group: Group) -> str:
    """What to call the first run of a group."""
    return group.name if len(group.entries) == 1 else f"{group.name}, seed {group.entries[0].seed}"


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _shown(runs: list[Loaded]) -> list[Loaded]:
    """The models that a report lets explore: those that choose where to look before those that do not."""
    runs = sorted((loaded for loaded in runs if loaded.how), key=lambda loaded: loaded.model.num_choices == 0)
    for loaded in runs[MOST_MODELS:]:
        print(f"{loaded.name} is compared, but not shown: a report shows {MOST_MODELS} models", file=sys.stderr)
    return runs[:MOST_MODELS]


def _load_attending(folders: list[str]) -> tuple[list[Loaded], Splits]:
    """Open runs of which some must have glimpses; says which have none."""
    runs, splits = load_runs(folders)
    attending = [loaded for loaded in runs if loaded.how is not None]
    if not attending:
        raise RunError(f"{runs[0].run} sees the whole image: there are no glimpses to show")
    return attending, splits


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
        runs, splits = _load_attending(options.runs)
        if len(runs) < len(options.runs):
            raise RunError("a run that sees the whole image has no glimpses to show: leave it out")
        data = getattr(splits, options.split)
        _check_choice(options, data)
        hows = [options.read or loaded.how for loaded in runs]
        # What the models make of all images matters if it decides which are shown, or what is seen is left to chance.
        asked = options.mistakes or options.gallery
        outcomes = [
            _observe(loaded, data, how, here.device) if asked or by_chance(loaded.model) else None
            for loaded, how in zip(runs, hows, strict=True)
        ]
        indices = _choose(outcomes, data, options)
        batch = data.take(indices)
        return [
            look(
                loaded.model.to(here.device),
                batch,
                name=loaded.name,
                class_names=data.class_names,
                how=how,
                given=None if outcome is None else outcome.locations[indices, 0],
            )
            for loaded, how, outcome in zip(runs, hows, outcomes, strict=True)
        ]


def _check_choice(options: Namespace, data: DataSet, limit: int | None = None) -> None:
    """Refuse a choice of images that cannot be."""
    if options.images is not None:
        if options.label is not None or options.mistakes or options.gallery:
            raise ConfigError("--images names the images: it cannot be combined with --class, --mistakes or --gallery")
        last = min(len(data), limit or len(data)) - 1
        if wrong := [index for index in options.images if index > last]:
            raise ConfigError(f"--images must be in 0..{last}, got {wrong[0]}")
    if options.label is not None and options.label not in data.class_names:
        raise ConfigError(f"--class must be one of {', '.join(data.class_names)}, got {options.label}")


def _choose(outcomes: list[Outcome | None], data: DataSet, options: Namespace) -> list[int]:
    """The indices of the images that were asked for; outcomes must be there if they matter."""
    if options.images is not None:
        return options.images
    label = None if options.label is None else data.class_names.index(options.label)
    if not (options.mistakes or options.gallery):
        return _first(data, options.count, label, None if outcomes[0] is None else len(outcomes[0].right))
    try:
        return choose(outcomes, count=options.count, label=label, mistakes=options.mistakes, gallery=options.gallery)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _first(data: DataSet, count: int, label: int | None, limit: int | None) -> list[int]:
    """The first images, of a class if that is asked for."""
    found: list[int] = []
    for index, batch in enumerate(data.in_order(batch_size=1, limit=limit)):
        target = batch.targets[0]
        if label is None or (target[label] > 0 if target.dim() else int(target) == label):
            found.append(index)
        if len(found) == count:
            break
    if not found:
        raise ConfigError(f"no image is left: none is of class {data.class_names[label]}")
    return found


def _observe(
    loaded: Loaded, data: DataSet, how: Read | None, device: torch.device, limit: int | None = None
) -> Outcome:
    """What a run makes of all images, greedily."""
    return observe(
        loaded.model.to(device),
        data,
        how=how,
        batch_size=loaded.run.config.score.batch_size,
        limit=limit,
        device=device,
    )
