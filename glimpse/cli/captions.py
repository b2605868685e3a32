"""Commands for runs that write captions: their scores, captions of one's own photographs, and where they looked."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from glimpse.build import build_data, keep_features
from glimpse.caption_metrics import missing_metrics
from glimpse.captioning import describe, score_captions
from glimpse.commands.files import FIGURES, PAGES, VIDEOS, check_out, save_figure
from glimpse.commands.kinds import few, kind_of_runs
from glimpse.data.photos import load_photo
from glimpse.loading import LoadedCaptioner, check_same_images, load_captioner
from glimpse.processes import Processes, processes
from glimpse.runs import Run, RunError, names_of
from glimpse.settings import ConfigError
from glimpse.view.caption_animation import save_caption_animation
from glimpse.view.caption_report import make_caption_report
from glimpse.view.caption_sheet import draw_captions
from glimpse.view.report import write_report
from glimpse.view.tables import caption_table
from glimpse.view.told import Told, tell


def score_captioner(folder: str, options: Namespace, here: Processes) -> dict[str, Any]:
    """Score the captions of a run, with the beam that its test had."""
    loaded = load_captioner(folder)
    how, scores = _scored(loaded, options, here)
    if not options.json:
        beam = loaded.run.config.score.beam
        search = f"beam {beam}" if beam > 1 else "greedy"
        print(f"{folder}: {how} read, {search}, {scores['images']:,} {options.split} images\n")
        table = caption_table({"score": scores}, list(missing_metrics().values()))
        print(table.text(), *table.notes, sep="\n\n", end="\n\n")
    return {
        "run": str(folder),
        "split": options.split,
        "read": how,
        "beam": loaded.run.config.score.beam,
        "scores": scores,
        "left_out": missing_metrics(),
    }


def caption(options: Namespace) -> None:
    """Describe image files of the user's, and draw where the captioners looked if that is asked for."""
    folders = few([options.run, *options.beside])
    if options.out is not None:
        check_out(options.out, (*FIGURES, *VIDEOS, *PAGES))
    with processes(options.device, options.threads) as here:
        if kind_of_runs(folders) != "captioner":
            model = Run.open(options.run).config.model
            raise RunError(f"{options.run} does not write captions: it is a run of model {model}")
        runs = [load_captioner(folder) for folder in folders]
        channels, *size = runs[0].image_shape
        for other in runs[1:]:
            if other.image_shape != runs[0].image_shape:
                raise RunError(
                    f"{folders[0]} and {other.run} cannot be shown together: they were trained on images of "
                    f"{runs[0].image_shape} and {other.image_shape} (channels, height, width)"
                )
        images = torch.stack([load_photo(file, tuple(size)) for file in options.images])
        if channels == 1:  # what was trained on grey images
            images = images.float().mean(1, keepdim=True).round().to(torch.uint8)
        told = _tell(runs, images, (), options, here)
    width = max(len(its.name) for its in told)
    for row, file in enumerate(options.images):
        print(file)
        for its in told:
            said = " ".join(its.captions[row])
            print(f"    {its.name.ljust(width)}  {said}" if len(told) > 1 else f"    {said}")
    if options.out is None:
        return
    if options.out.suffix.lower() in PAGES:
        write_report(options.out, _page(told, list(range(len(images))), "Captions of your images.", []))
        print(f"Wrote {options.out}")
    elif options.out.suffix.lower() in VIDEOS:
        save_caption_animation(options.out, told)
        print(f"Wrote {options.out}")
    else:
        save_figure(draw_captions(told), options.out)


def draw_caption_sheet(options: Namespace) -> None:
    """Draw a sheet of words and where the captioners looked for each."""
    _, told, _ = _show(options)
    save_figure(draw_captions(told), options.out)


def animate_captions(options: Namespace) -> None:
    """Animate one or two captioners."""
    _, told, _ = _show(options)
    save_caption_animation(options.out, told, seconds=options.seconds, hold=2 * options.seconds)
    print(f"Wrote {options.out}")


def report_captions(options: Namespace) -> None:
    """Write the report: the scores, and captions whose words show on hover where the captioner looked."""
    runs, told, indices = _show(options)
    scores = {}
    with processes(options.device, options.threads) as here:
        for loaded, its in zip(runs, told, strict=True):
            scores[its.name] = _scored(loaded, options, here)[1]
    images = next(iter(scores.values()))["images"]
    html = _page(
        told,
        indices,
        f"Scores on the same {images:,} {options.split} images; {len(indices)} of them are shown.",
        [caption_table(scores, list(missing_metrics().values()))],
    )
    write_report(options.out, html)
    print(f"Wrote {options.out} ({len(html.encode()) / 1e6:.1f} MB)")


def _page(told: list[Told], indices: list[int], intro: str, tables: list[Any]) -> str:
    return make_caption_report(
        title=f"Captions: {' and '.join(its.name for its in told)}",
        intro=intro,
        told=told,
        indices=indices,
        tables=tables,
    )


def _scored(loaded: LoadedCaptioner, options: Namespace, here: Processes) -> tuple[str, dict[str, Any]]:
    """How a run reads, and its scores."""
    config, score = loaded.run.config, loaded.run.config.score
    how = getattr(options, "read", None) or score.read or config.read
    data = keep_features(
        config, build_data(config.data), loaded.model, here, say=lambda text: print(text, file=sys.stderr)
    )
    descriptions = describe(
        loaded.model.to(here.device),
        loaded.vocabulary,
        getattr(data, options.split),
        how=how,
        width=score.beam,
        length_penalty=score.length_penalty,
        max_length=config.decoder.max_length,
        batch_size=options.batch_size or score.batch_size,
        limit=options.limit,
        device=here.device,
    )
    return how, score_captions(descriptions, meteor=True)


def _load(folders: Sequence[str | Path]) -> list[LoadedCaptioner]:
    """Open runs of captioners that are to describe the very same images."""
    runs = [load_captioner(folder) for folder in few(folders)]
    check_same_images({str(loaded.run): loaded.run.config for loaded in runs})
    return runs


def _show(options: Namespace) -> tuple[list[LoadedCaptioner], list[Told], list[int]]:
    """The runs, what each of them says of the images of the data that were asked for, and which these are."""
    for name, flag in (("label", "--class"), ("mistakes", "--mistakes"), ("gallery", "--gallery")):
        if getattr(options, name):
            raise ConfigError(f"{flag} is for classifiers: choose the images of captioners with --images or --count")
    with processes(options.device, options.threads) as here:
        runs = _load(options.runs)
        data = getattr(build_data(runs[0].run.config.data), options.split)
        size = min(len(data), getattr(options, "limit", None) or len(data))  # a report shows only what it scores
        indices = options.images if options.images is not None else list(range(min(options.count, size)))
        if wrong := [index for index in indices if index >= size]:
            raise ConfigError(f"--images must be in 0..{size - 1}, got {wrong[0]}")
        in_order = enumerate(data.in_order(batch_size=1, limit=max(indices) + 1))
        chosen = {index: batch for index, batch in in_order if index in indices}
        images = torch.cat([chosen[index].images for index in indices])
        references = [chosen[index].captions[0] for index in indices]
        return runs, _tell(runs, images, references, options, here), indices


def _tell(
    runs: list[LoadedCaptioner],
    images: torch.Tensor,
    references: Sequence[Any],
    options: Namespace,
    here: Processes,
) -> list[Told]:
    names = names_of([loaded.run for loaded in runs])
    return [
        tell(
            loaded.model.to(here.device),
            loaded.vocabulary,
            images,
            name=name,
            references=references,
            how=getattr(options, "read", None) or loaded.run.config.score.read,
            width=loaded.run.config.score.beam,
            length_penalty=loaded.run.config.score.length_penalty,
            max_length=loaded.run.config.decoder.max_length,
            device=here.device,
        )
        for loaded, name in zip(runs, names, strict=True)
    ]
