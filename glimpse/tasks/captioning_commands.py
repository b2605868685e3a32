"""What the commands of evaluate.py do with trained captioners."""

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from glimpse.data.captions import CaptionSplits
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


class CaptioningCommands(SequenceTask):
    """The commands for runs that write captions."""

    verb = "writes captions"
    noun = "image"
    score_names = CaptionScores.names

    @classmethod
    def score(cls, run: "Run", options: Namespace, processes: Processes) -> dict[str, Any]:
        """See `Task`: with the beam that its test had."""
        search = run.config.search()
        read, scores = _score(cls.load(run), options, processes)
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
        """See `Task`: prints captions of image files, and draws where the models looked if that is asked for."""
        check_run_count(runs)
        check_given_once(runs)
        loaded = [cls.load(run) for run in runs]
        channels, *size = loaded[0].image_shape
        for other in loaded[1:]:
            if other.image_shape != loaded[0].image_shape:
                raise RunError(
                    f"{runs[0]} and {other.run} cannot be shown together: they were trained on images of "
                    f"{loaded[0].image_shape} and {other.image_shape} (channels, height, width)"
                )
        images = torch.stack([load_photo(file, tuple(size)) for file in options.images])
        if channels == 1:  # trained on gray images
            images = images.float().mean(1, keepdim=True).round().to(torch.uint8)
        traces = _trace(loaded, images, (), options, processes)
        width = max(len(its.name) for its in traces)
        for row, file in enumerate(options.images):
            print(file)
            for its in traces:
                caption = " ".join(its.captions[row])
                print(f"    {its.name.ljust(width)}  {caption}" if len(traces) > 1 else f"    {caption}")
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
    def sheet(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`: words, and where the captioners looked for each."""
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
        """See `Task`: the scores, and captions whose words show on hover where the captioner looked."""
        loaded, traces, indices = _trace_data(cls, runs, options, processes)
        scores = {
            trace.name: _score(its, options, processes)[1].as_dict() for its, trace in zip(loaded, traces, strict=True)
        }
        images = next(iter(scores.values()))["images"]
        intro = f"Scores on the same {images:,} {options.split} images; {len(indices)} of them are shown."
        tables = [caption_table(scores, list(missing_metrics().values()))]
        save_page(_page(traces, indices, intro, tables), options.out)


def with_cached_features(
    config: CaptioningConfig,
    data: CaptionSplits,
    model: Captioner,
    processes: Processes,
    log: Callable[[str], None] = print,
) -> CaptionSplits:
    """The same data with the features of the images in their place, if the config has a cache for these."""
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
    title = f"Captions: {' and '.join(its.name for its in traces)}"
    return make_caption_report(title=title, intro=intro, traces=traces, indices=indices, tables=tables)


def _score(loaded: TrainedCaptioner, options: Namespace, processes: Processes) -> tuple[str, CaptionScores]:
    """How a run reads, and its scores."""
    config = loaded.run.config
    read = getattr(options, "read", None) or config.scored_read
    data = with_cached_features(
        config, build_data(config.data), loaded.model, processes, log=lambda text: print(text, file=sys.stderr)
    )
    descriptions = caption_dataset(
        loaded.model.to(processes.device),
        loaded.vocabulary,
        getattr(data, options.split),
        mode=read,
        search=config.search(),
        batch_size=options.batch_size or config.score.batch_size,
        limit=options.limit,
        device=processes.device,
    )
    return read, score_captions(descriptions, meteor=True)


def _trace_data(
    task: type[CaptioningCommands], runs: "Sequence[Run]", options: Namespace, processes: Processes
) -> tuple[list[TrainedCaptioner], list[CaptionTrace], list[int]]:
    """Caption the images of the data that were asked for: the loaded runs, their traces, and which images these are."""
    for name, flag in (("label", "--class"), ("mistakes", "--mistakes"), ("gallery", "--gallery")):
        if getattr(options, name):
            raise ConfigError(f"{flag} is for classifiers: choose the images of captioners with --images or --count")
    check_run_count(runs)
    check_given_once(runs)
    check_same_data({str(run): run.config for run in runs})
    loaded = [task.load(run) for run in runs]
    data = getattr(build_data(runs[0].config.data), options.split)
    size = min(len(data), getattr(options, "limit", None) or len(data))  # a report shows only what it scores
    indices = options.images if options.images is not None else list(range(min(options.count, size)))
    if wrong := [index for index in indices if index >= size]:
        raise ConfigError(f"--images must be in 0..{size - 1}, got {wrong[0]}")
    in_order = enumerate(data.in_order(batch_size=1, limit=max(indices) + 1))
    chosen = {index: batch for index, batch in in_order if index in indices}
    images = torch.cat([chosen[index].images for index in indices])
    references = [chosen[index].captions[0] for index in indices]
    return loaded, _trace(loaded, images, references, options, processes), indices


def _trace(
    loaded: list[TrainedCaptioner],
    images: torch.Tensor,
    references: Sequence[Any],
    options: Namespace,
    processes: Processes,
) -> list[CaptionTrace]:
    return [
        trace_captions(
            its.model.to(processes.device),
            its.vocabulary,
            images,
            name=name,
            references=references,
            mode=getattr(options, "read", None) or its.run.config.score.read,
            search=its.run.config.search(),
            device=processes.device,
        )
        for its, name in zip(loaded, unique_names([its.run for its in loaded]), strict=True)
    ]
