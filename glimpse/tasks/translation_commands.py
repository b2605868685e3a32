"""What the commands of evaluate.py do with trained translators."""

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glimpse.data.parallel_text import numbered_lines
from glimpse.data.sentence_pairs import SentencePair, pairs_of
from glimpse.distributed import Processes
from glimpse.errors import ConfigError, RunError
from glimpse.evaluation.by_length import compare_lengths
from glimpse.evaluation.translate import TrainedTranslator
from glimpse.evaluation.translation_traces import TranslationTrace, trace_translations
from glimpse.files import PAGES
from glimpse.metrics.translations import Translation, TranslationScores
from glimpse.tasks.build import build_data
from glimpse.tasks.runs import check_given_once, check_run_count, check_same_data, unique_names
from glimpse.tasks.sequences import SequenceTask
from glimpse.view.alignment import draw_alignments
from glimpse.view.by_length import draw_lengths, group_rows, length_table, run_rows
from glimpse.view.comparison import to_csv
from glimpse.view.output import publish, save_figure, save_page
from glimpse.view.self_attention_maps import draw_self_attention, trace_self_attention
from glimpse.view.tables import translation_table
from glimpse.view.translation_report import make_translation_report

if TYPE_CHECKING:
    from glimpse.training.run import Run


class TranslationCommands(SequenceTask):
    """The commands for runs that translate."""

    verb = "translates"
    noun = "sentence"
    score_names = TranslationScores.names

    @classmethod
    def score(cls, run: "Run", options: Namespace, processes: Processes) -> dict[str, Any]:
        """See `Task`: with the beam that its test had."""
        loaded, search = cls.load(run), run.config.search()
        read = options.read or run.config.score.read or run.config.read
        pairs = pairs_of(getattr(build_data(run.config.data), options.split), options.limit)
        translations = loaded.translate_pairs(pairs, mode=read, batch_size=options.batch_size, device=processes.device)
        scores = TranslationScores.of(translations).as_dict()
        if not options.json:
            print(f"{run}: {read} read, {search}, {scores['sentences']:,} {options.split} sentences\n")
            print(translation_table({"score": scores}).text(), end="\n\n")
        return {"run": str(run), "split": options.split, "read": read, "beam": search.beam_width, "scores": scores}

    @classmethod
    def compare(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`: scores by the length of the source."""
        check_given_once(runs)
        check_same_data({str(run): run.config for run in runs})
        lengths = compare_lengths(
            [cls.load(run) for run in runs],
            pairs_of(getattr(build_data(runs[0].config.data), options.split), options.limit),
            split=options.split,
            batch_size=options.batch_size,
            device=processes.device,
            log=lambda text: print(text, file=sys.stderr),
        )
        rows = {"comparison.csv": to_csv(group_rows(lengths)), "runs.csv": to_csv(run_rows(lengths))}
        publish(options.out, tables=[length_table(lengths)], rows=rows, figure=draw_lengths(lengths))

    @classmethod
    def translate(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`: the user's sentences, a line each."""
        texts = _texts(options)
        loaded = cls.load(runs[0])
        if options.out is not None:
            _check_places(runs)
        trace = trace_translations(loaded, loaded.read(texts), mode=options.read, device=processes.device)
        unknown = [word for one in trace.translations for word in loaded.unknown_words(one.pair.source)]
        if unknown:
            print(f"Unknown words, replaced by <unknown>: {', '.join(dict.fromkeys(unknown))}", file=sys.stderr)
        for one in trace.translations:
            print(json.dumps(_plain(one)) if options.json else loaded.script.join(one.words))
        if options.out is not None:
            with redirect_stdout(sys.stderr):  # only translations are printed, for whatever reads them
                _show(trace, options.out)

    @classmethod
    def sheet(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`: which source words were attended to for each word; or, with --self, the self-attention."""
        if options.self_attention:
            return cls._self_attention_sheet(runs, options, processes)
        loaded = _load(cls, runs)
        _check_places(runs)
        pairs = _pairs(runs, options)
        # All are translated only if that decides which are shown.
        indices = None if options.mistakes else _named(options, len(pairs))
        traces = _trace(loaded, pairs if indices is None else [pairs[row] for row in indices], options, processes)
        save_figure(draw_alignments(_mistaken(traces, options)[0] if indices is None else traces), options.out)

    @classmethod
    def _self_attention_sheet(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        if len(runs) > 1:
            raise ConfigError(f"--self draws one run at a time, got {len(runs)}")
        if options.mistakes:
            raise ConfigError("--self draws what sentences are read with: choose them with --images or --count")
        [loaded] = _load(cls, runs)
        if loaded.model.mixer is None:
            raise RunError(f"{loaded.run} has no self-attention to draw: its encoder.self_attention_layers is 0")
        pairs = _pairs(runs, options)
        sentences = [pairs[index].source for index in _named(options, len(pairs))]
        save_figure(draw_self_attention(trace_self_attention(loaded, sentences, device=processes.device)), options.out)

    @classmethod
    def report(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`: the scores, and translations whose words show on hover what they were read from."""
        loaded, pairs = _load(cls, runs), _pairs(runs, options)
        indices = None if options.mistakes else _named(options, len(pairs))
        traces = _trace(loaded, pairs, options, processes)
        scores = {its.name: TranslationScores.of(its.translations).as_dict() for its in traces}
        if indices is None:
            traces, indices = _mistaken(traces, options)
        else:
            traces = [_only(its, indices) for its in traces]
        intro = f"Scores on the same {len(pairs):,} {options.split} sentences; {len(indices)} of them are shown."
        save_page(_page(traces, indices, intro, [translation_table(scores)]), options.out)


def _plain(one: Translation) -> dict[str, Any]:
    """A translation for JSON: for each of its words, the attention to every source word."""
    return {
        "source": one.pair.source,
        "words": one.words,
        "log_prob": one.log_prob,
        "weights": one.weights.tolist(),
        "places": one.places.tolist(),
    }


def _texts(options: Namespace) -> list[str]:
    """The sentences of the command line, of standard input where it says so, and of the file."""
    texts = []
    for sentence in options.sentences:
        texts += _lines(sys.stdin.buffer.read(), "standard input") if sentence == "-" else [sentence]
    if options.file is not None:
        try:
            texts += _lines(options.file.read_bytes(), options.file)
        except OSError as error:
            raise ConfigError(f"cannot read {options.file}: {error.strerror}") from error
    if not texts:
        raise ConfigError("there is nothing to translate: give sentences, - for standard input, or --file")
    return texts


def _lines(content: bytes, name: str | Path) -> list[str]:
    return [line for _, line in numbered_lines(content, name)]


def _show(trace: TranslationTrace, out: Path) -> None:
    """Draw translations of the user's own sentences: a sheet, or a page."""
    if out.suffix.lower() in PAGES:
        page = _page([trace], range(len(trace.translations)), "Translations of your sentences.", [])
        save_page(page, out, size=False)
    else:
        save_figure(draw_alignments([trace]), out)


def _page(traces: list[TranslationTrace], indices: Sequence[int], intro: str, tables: list[Any]) -> str:
    title = f"Translations: {' and '.join(its.name for its in traces)}"
    return make_translation_report(title=title, intro=intro, traces=traces, indices=indices, tables=tables)


def _check_places(runs: "Sequence[Run]") -> None:
    """Refuse runs that have no choice of places."""
    for run in runs:
        attention = run.config.attention
        if not attention.has_choice:
            raise RunError(
                f"{run} has one annotation for a whole sentence (attention.kind {attention.kind}): "
                "there is no map of its attention to draw"
            )


def _load(task: type[TranslationCommands], runs: "Sequence[Run]") -> list[TrainedTranslator]:
    """Load runs that are to translate the very same sentences."""
    check_run_count(runs)
    check_given_once(runs)
    check_same_data({str(run): run.config for run in runs})
    return [task.load(run) for run in runs]


def _pairs(runs: "Sequence[Run]", options: Namespace) -> list[SentencePair]:
    """The sentences to choose from; a report shows only what it scores."""
    for name, flag in (("label", "--class"), ("gallery", "--gallery")):
        if getattr(options, name):
            raise ConfigError(
                f"{flag} is for classifiers: choose the sentences of translators with --images, --count or --mistakes"
            )
    if options.mistakes and options.images is not None:
        raise ConfigError("--images names the sentences: it cannot be combined with --mistakes")
    data = getattr(build_data(runs[0].config.data), options.split)
    return pairs_of(data, getattr(options, "limit", None))


def _named(options: Namespace, size: int) -> list[int]:
    """The numbers of the sentences that were asked for, or of the first ones."""
    if options.images is None:
        return list(range(min(options.count, size)))
    if wrong := [index for index in options.images if index >= size]:
        raise ConfigError(f"--images must be in 0..{size - 1}, got {wrong[0]}")
    return options.images


def _mistaken(traces: Sequence[TranslationTrace], options: Namespace) -> tuple[list[TranslationTrace], list[int]]:
    """The first sentences that a model gets wrong, and their numbers."""
    correct = [all(rights) for rights in zip(*(its.correct for its in traces), strict=True)]
    indices = [index for index, good in enumerate(correct) if not good][: options.count]
    if not indices:
        raise ConfigError(f"no sentence matches: no model is wrong on any of the {len(correct):,}")
    return [_only(its, indices) for its in traces], indices


def _only(trace: TranslationTrace, indices: Sequence[int]) -> TranslationTrace:
    return trace._replace(translations=[trace.translations[index] for index in indices])


def _trace(
    loaded: Sequence[TrainedTranslator], pairs: Sequence[SentencePair], options: Namespace, processes: Processes
) -> list[TranslationTrace]:
    return [
        trace_translations(
            its,
            pairs,
            name=name,
            mode=getattr(options, "read", None),
            batch_size=getattr(options, "batch_size", None),
            device=processes.device,
        )
        for its, name in zip(loaded, unique_names([its.run for its in loaded]), strict=True)
    ]
