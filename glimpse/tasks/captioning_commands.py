"""The commands of evaluate.py for trained captioners."""

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from glimpse.data.base import Splits
from glimpse.data.captions import CaptionDataset
from glimpse.data.photo_captions import load_photo
from glimpse.distributed import Processes
from glimpse.errors import ConfigError, RunError
from glimpse.evaluation.caption import CaptionScores, TrainedCaptioner, caption_dataset, score_captions
from glimpse.evaluation.caption_traces import CaptionTrace, trace_captions
from glimpse.files import PAGES, VIDEOS
from glimpse.metrics.captions import missing_metrics
from glimpse.models.encoder_decoder import Captioner
from glimpse.models.feature_cache import cache_features
from glimpse.tasks.build import build_data
from glimpse.tasks.runs import check_given_once, check_run_count, check_same_data, unique_names
from glimpse.tasks.sequences import SequenceTask
from glimpse.tasks.settings import CaptioningConfig
from glimpse.view.caption_animation import save_caption_animation
from glimpse.view.caption_report import make_caption_report
from glimpse.view.caption_sheet import draw_captions
from glimpse.view.output import save_figure, save_page
from glimpse.view.tables import caption_table

if TYPE_CHECKING:
    from glimpse.training.run import Run


class CaptioningCommands(SequenceTask[CaptioningConfig, Captioner, CaptionScores]):
    """The commands for runs that write captions."""

    verb = "writes captions"
    noun = "image"
    commands = ("score", "animate", "glimpses", "report", "caption")
    score_names = CaptionScores.names

    @classmethod
    def score(cls, run: "Run", options: Namespace, processes: Processes) -> dict[str, Any]:
        """See `Task`: with the beam search of the run's test."""
        search = cls.config_of(run).search()
        read, scores = _score(cls, cls.load(run), options, processes)
        values = scores.as_dict()
        if not options.json:
            print(f"{run}: {read} read, {search}, {scores.images:,} {options.split} images\n")
            table = caption_table({"score": values}, list(missing_metrics().values()))
            print(table.text(), *table.notes, sep="\n\n", end="\n\n")
        return {
            "run": str(run),
            "split": options.split,
            "read": read,
            "beam": search.beam_width,
            "scores": values,
            "left_out": missing_metrics(),
        }

    @classmethod
    def caption(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`: print captions of image files; with `options.out`, draw the attention at each word."""
        check_run_count(runs)
        check_given_once(runs)
        captioners = [cls.load(run) for run in runs]
        channels, height, width = captioners[0].image_shape
        for other in captioners[1:]:
            if other.image_shape != captioners[0].image_shape:
                raise RunError(
                    f"{runs[0]} and {other.run} cannot be shown together: they were trained on images of "
                    f"{captioners[0].image_shape} and {other.image_shape} (channels, height, width)"
                )
        images = torch.stack([load_photo(file, (height, width)) for file in options.images])
        if channels == 1:  # trained on gray images
            images = images.float().mean(1, keepdim=True).round().to(torch.uint8)
        traces = _trace(cls, captioners, images, (), options, processes)
        longest = max(len(trace.name) for trace in traces)
        for row, file in enumerate(options.images):
            print(file)
            for trace in traces:
                caption = " ".join(trace.captions[row])
                print(f"    {trace.name.ljust(longest)}  {caption}" if len(traces) > 1 else f"    {caption}")
        if options.out is None:
            return
        suffix = options.out.suffix.lower()
        if suffix in PAGES:
            page = _page(traces, list(range(len(images))), "Captions of your images.", [])
            save_page(page, options.out, size=False)
        elif suffix in VIDEOS:
            save_caption_animation(options.out, traces)
            print(f"Wrote {options.out}")
        else:
            save_figure(draw_captions(traces), options.out)

    @classmethod
    def glimpses(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`: the words of each caption, with the attention at each word."""
        if options.self_attention:
            raise ConfigError(f"--self is for models with self-attention, but {runs[0]} {cls.verb}")
        _, traces, _ = _trace_data(cls, runs, options, processes)
        save_figure(draw_captions(traces), options.out)

    @classmethod
    def animate(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`."""
        _, traces, _ = _trace_data(cls, runs, options, processes)
        save_caption_animation(options.out, traces, seconds=options.seconds, hold=2 * options.seconds)
        print(f"Wrote {options.out}")

    @classmethod
    def report(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`: the scores, and captions whose words show their attention on hover."""
        captioners, traces, indices = _trace_data(cls, runs, options, processes)
        scores = {
            trace.name: _score(cls, captioner, options, processes)[1].as_dict()
            for captioner, trace in zip(captioners, traces, strict=True)
        }
        images = next(iter(scores.values()))["images"]
        intro = f"Scores on the same {images:,} {options.split} images; {len(indices)} of them are shown."
        tables = [caption_table(scores, list(missing_metrics().values()))]
        save_page(_page(traces, indices, intro, tables), options.out)


def with_cached_features(
    config: CaptioningConfig,
    data: Splits[CaptionDataset],
    model: Captioner,
    processes: Processes,
    log: Callable[[str], None] = print,
) -> Splits[CaptionDataset]:
    """Replace the images by their encoder features, if the config has a feature cache."""
    folder = config.encoder.cache_folder
    if folder is None:
        return data
    return cache_features(
        data,
        model.encoder,
        folder,
        name=config.encoder.title,
        batch_size=2 if processes.device.type == "cpu" else 64,  # what fits in a CPU's cache is quicker
        log=log,
        processes=processes,
    )


def _page(traces: list[CaptionTrace], indices: list[int], intro: str, tables: list[Any]) -> str:
    title = f"Captions: {' and '.join(trace.name for trace in traces)}"
    return make_caption_report(title=title, intro=intro, traces=traces, indices=indices, tables=tables)


def _score(
    task: type[CaptioningCommands], captioner: TrainedCaptioner, options: Namespace, processes: Processes
) -> tuple[str | None, CaptionScores]:
    """The read mode in which a run is scored, and its scores."""
    config = task.config_of(captioner.run)
    read = getattr(options, "read", None) or config.scored_read
    data = with_cached_features(
        config, build_data(config.data), captioner.model, processes, log=lambda text: print(text, file=sys.stderr)
    )
    results = caption_dataset(
        captioner.model.to(processes.device),
        captioner.vocabulary,
        getattr(data, options.split),
        mode=read,
        search=config.search(),
        batch_size=options.batch_size or config.score.batch_size,
        limit=options.limit,
        device=processes.device,
    )
    return read, score_captions(results, meteor=True)


def _trace_data(
    task: type[CaptioningCommands], runs: "Sequence[Run]", options: Namespace, processes: Processes
) -> tuple[list[TrainedCaptioner], list[CaptionTrace], list[int]]:
    """Load runs and caption the images that the options ask for; returns captioners, traces and image indices."""
    for name, flag in (("label", "--class"), ("mistakes", "--mistakes"), ("gallery", "--gallery")):
        if getattr(options, name):
            raise ConfigError(f"{flag} is for classifiers: choose the images of captioners with --images or --count")
    check_run_count(runs)
    check_given_once(runs)
    check_same_data({str(run): run.config for run in runs})
    captioners = [task.load(run) for run in runs]
    data = getattr(build_data(runs[0].config.data), options.split)
    size = min(len(data), getattr(options, "limit", None) or len(data))  # a report shows only what it scores
    indices = options.images if options.images is not None else list(range(min(options.count, size)))
    if wrong := [index for index in indices if index >= size]:
        raise ConfigError(f"--images must be in 0..{size - 1}, got {wrong[0]}")
    in_order = enumerate(data.in_order(batch_size=1, limit=max(indices) + 1))
    chosen = {index: batch for index, batch in in_order if index in indices}
    images = torch.cat([chosen[index].images for index in indices])
    references = [chosen[index].captions[0] for index in indices]
    return captioners, _trace(task, captioners, images, references, options, processes), indices


def _trace(
    task: type[CaptioningCommands],
    captioners: list[TrainedCaptioner],
    images: torch.Tensor,
    references: Sequence[Any],
    options: Namespace,
    processes: Processes,
) -> list[CaptionTrace]:
    return [
        trace_captions(
            captioner.model.to(processes.device),
            captioner.vocabulary,
            images,
            name=name,
            references=references,
            mode=getattr(options, "read", None) or task.config_of(captioner.run).score.read,
            search=task.config_of(captioner.run).search(),
            device=processes.device,
        )
        for captioner, name in zip(captioners, unique_names([one.run for one in captioners]), strict=True)
    ]
