"""The commands of evaluate.py for trained translators."""

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
from glimpse.models.encoder_decoder import Translator
from glimpse.tasks.build import build_data
from glimpse.tasks.runs import check_given_once, check_run_count, check_same_data, unique_names
from glimpse.tasks.sequences import SequenceTask
from glimpse.tasks.settings import TranslationConfig
from glimpse.view.alignment import draw_alignments
from glimpse.view.by_length import draw_lengths, length_group_rows, length_run_rows, length_table
from glimpse.view.comparison import rows_to_csv
from glimpse.view.output import publish, save_figure, save_page
from glimpse.view.self_attention_maps import draw_self_attention, trace_self_attention
from glimpse.view.tables import translation_table
from glimpse.view.translation_report import make_translation_report

if TYPE_CHECKING:
    from glimpse.training.run import Run


class TranslationCommands(SequenceTask[TranslationConfig, Translator, TranslationScores]):
    """The commands for runs that translate."""

    verb = "translates"
    noun = "sentence"
    commands = ("score", "compare", "glimpses", "report", "translate")
    score_names = TranslationScores.names

    @classmethod
    def score(cls, run: "Run", options: Namespace, processes: Processes) -> dict[str, Any]:
        """See `Task`: with the beam search of the run's test."""
        translator, config = cls.load(run), cls.config_of(run)
        search, read = config.search(), options.read or config.score.read or config.read
        pairs = pairs_of(getattr(build_data(run.config.data), options.split), options.limit)
        translations = translator.translate_pairs(
            pairs, mode=read, batch_size=options.batch_size, device=processes.device
        )
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
        rows = {
            "comparison.csv": rows_to_csv(length_group_rows(lengths)),
            "runs.csv": rows_to_csv(length_run_rows(lengths)),
        }
        publish(options.out, tables=[length_table(lengths)], rows=rows, figure=draw_lengths(lengths))

    @classmethod
    def translate(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`: print one translation a line; with `options.out`, draw the attention."""
        texts = _texts(options)
        translator = cls.load(runs[0])
        if options.out is not None:
            _check_has_attention(cls, runs)
        trace = trace_translations(translator, translator.read(texts), mode=options.read, device=processes.device)
        unknown = [word for one in trace.translations for word in translator.unknown_words(one.pair.source)]
        if unknown:
            print(f"Unknown words, replaced by <unknown>: {', '.join(dict.fromkeys(unknown))}", file=sys.stderr)
        for one in trace.translations:
            print(json.dumps(_plain(one)) if options.json else translator.tokenizer.detokenize(one.words))
        if options.out is not None:
            with redirect_stdout(sys.stderr):  # standard output has the translations only
                _draw(trace, options.out)

    @classmethod
    def glimpses(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`: the attention to the source words at each word; with --self, the self-attention."""
        if options.self_attention:
            return cls._self_attention_sheet(runs, options, processes)
        translators = _load(cls, runs)
        _check_has_attention(cls, runs)
        pairs = _pairs(runs, options)
        # All sentences are translated only if their translations decide which to draw.
        indices = None if options.mistakes else _named(options, len(pairs))
        traces = _trace(translators, pairs if indices is None else [pairs[row] for row in indices], options, processes)
        save_figure(draw_alignments(_mistaken(traces, options)[0] if indices is None else traces), options.out)

    @classmethod
    def _self_attention_sheet(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        if len(runs) > 1:
            raise ConfigError(f"--self draws one run at a time, got {len(runs)}")
        if options.mistakes:
            raise ConfigError("--self draws the encoder of sentences: choose them with --images or --count")
        [translator] = _load(cls, runs)
        if translator.model.mixer is None:
            raise RunError(f"{translator.run} has no self-attention to draw: its encoder.self_attention_layers is 0")
        pairs = _pairs(runs, options)
        sentences = [pairs[index].source for index in _named(options, len(pairs))]
        trace = trace_self_attention(translator, sentences, device=processes.device)
        save_figure(draw_self_attention(trace), options.out)

    @classmethod
    def report(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """See `Task`: the scores, and translations whose words show their attention on hover."""
        translators, pairs = _load(cls, runs), _pairs(runs, options)
        indices = None if options.mistakes else _named(options, len(pairs))
        traces = _trace(translators, pairs, options, processes)
        scores = {trace.name: TranslationScores.of(trace.translations).as_dict() for trace in traces}
        if indices is None:
            traces, indices = _mistaken(traces, options)
        else:
            traces = [_only(trace, indices) for trace in traces]
        intro = f"Scores on the same {len(pairs):,} {options.split} sentences; {len(indices)} of them are shown."
        save_page(_page(traces, indices, intro, [translation_table(scores)]), options.out)


def _plain(one: Translation) -> dict[str, Any]:
    """A translation as JSON values, with the attention of each word to every source word."""
    return {
        "source": one.pair.source,
        "words": one.words,
        "log_prob": one.log_prob,
        "weights": one.weights.tolist(),
        "places": one.places.tolist(),
    }


def _texts(options: Namespace) -> list[str]:
    """The sentences from the command line, from standard input for "-", and from the file."""
    texts: list[str] = []
    for sentence in options.sentences:
        texts += _lines(sys.stdin.buffer.read(), "standard input") if sentence == "-" else [sentence]
    if options.file is not None:
        try:
            texts += _lines(options.file.read_bytes(), options.file)
        except OSError as error:
            raise ConfigError(f"cannot read {options.file}: {error.strerror}") from error
    if not texts:
        raise ConfigError("nothing to translate: give sentences, - for standard input, or --file")
    return texts


def _lines(content: bytes, name: str | Path) -> list[str]:
    return [line for _, line in numbered_lines(content, name)]


def _draw(trace: TranslationTrace, out: Path) -> None:
    """Draw translations as a picture or an HTML page, by the suffix of the file."""
    if out.suffix.lower() in PAGES:
        page = _page([trace], range(len(trace.translations)), "Translations of your sentences.", [])
        save_page(page, out, size=False)
    else:
        save_figure(draw_alignments([trace]), out)


def _page(traces: list[TranslationTrace], indices: Sequence[int], intro: str, tables: list[Any]) -> str:
    title = f"Translations: {' and '.join(trace.name for trace in traces)}"
    return make_translation_report(title=title, intro=intro, traces=traces, indices=indices, tables=tables)


def _check_has_attention(task: type[TranslationCommands], runs: "Sequence[Run]") -> None:
    """Raise RunError for a run with a single annotation, whose attention is always 1."""
    for run in runs:
        attention = task.config_of(run).attention
        if not attention.has_choice:
            raise RunError(
                f"{run} has one annotation for a whole sentence (attention.kind {attention.kind}): "
                "there is no map of its attention to draw"
            )


def _load(task: type[TranslationCommands], runs: "Sequence[Run]") -> list[TrainedTranslator]:
    """Load runs that share their data."""
    check_run_count(runs)
    check_given_once(runs)
    check_same_data({str(run): run.config for run in runs})
    return [task.load(run) for run in runs]


def _pairs(runs: "Sequence[Run]", options: Namespace) -> list[SentencePair]:
    """The sentences to choose from; with `options.limit`, the first ones only."""
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
    """The indices of the sentences that the options ask for, by default the first ones."""
    if options.images is None:
        return list(range(min(options.count, size)))
    if wrong := [index for index in options.images if index >= size]:
        raise ConfigError(f"--images must be in 0..{size - 1}, got {wrong[0]}")
    return options.images


def _mistaken(traces: Sequence[TranslationTrace], options: Namespace) -> tuple[list[TranslationTrace], list[int]]:
    """The first sentences that some model translates wrongly, and their indices."""
    correct = [all(verdicts) for verdicts in zip(*(trace.correct for trace in traces), strict=True)]
    indices = [index for index, is_correct in enumerate(correct) if not is_correct][: options.count]
    if not indices:
        raise ConfigError(f"no sentence matches: no model is wrong on any of the {len(correct):,}")
    return [_only(trace, indices) for trace in traces], indices


def _only(trace: TranslationTrace, indices: Sequence[int]) -> TranslationTrace:
    return trace._replace(translations=[trace.translations[index] for index in indices])


def _trace(
    translators: Sequence[TrainedTranslator], pairs: Sequence[SentencePair], options: Namespace, processes: Processes
) -> list[TranslationTrace]:
    return [
        trace_translations(
            translator,
            pairs,
            name=name,
            mode=getattr(options, "read", None),
            batch_size=getattr(options, "batch_size", None),
            device=processes.device,
        )
        for translator, name in zip(translators, unique_names([one.run for one in translators]), strict=True)
    ]
