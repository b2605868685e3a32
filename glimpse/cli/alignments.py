"""Commands that show what translators attend to: heat maps, the report, and maps of self-attention."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from glimpse.build import build_data
from glimpse.commands.files import PAGES, save_figure
from glimpse.commands.kinds import few
from glimpse.data.translation import Pair
from glimpse.loading import check_same_images, load_translator
from glimpse.processes import Processes, processes
from glimpse.runs import RunError, names_of
from glimpse.settings import ConfigError
from glimpse.translation import LoadedTranslator, pairs_of, score_translations
from glimpse.view.aligned import Aligned, align
from glimpse.view.alignment import draw_alignments
from glimpse.view.report import write_report
from glimpse.view.self_maps import draw_self_maps, self_maps
from glimpse.view.tables import translation_table
from glimpse.view.translation_report import make_translation_report


def draw_alignment_sheet(options: Namespace) -> None:
    """Draw which source words were attended to for each word, or with --self, which of them looked at which."""
    if options.self_attention:
        return _draw_self_attention(options)
    runs = _load(options.runs)
    check_maps(runs)
    with processes(options.device, options.threads) as here:
        pairs = _pairs(runs, options)
        # All are translated only if that decides which are shown.
        indices = None if options.mistakes else _named(options, len(pairs))
        wanted = pairs if indices is None else [pairs[index] for index in indices]
        aligned = _align(runs, wanted, options, here)
    save_figure(draw_alignments(aligned if indices is not None else _mistaken(aligned, options)[0]), options.out)


def report_translations(options: Namespace) -> None:
    """Write the report: the scores, and translations whose words show on hover what they were read from."""
    runs = _load(options.runs)
    with processes(options.device, options.threads) as here:
        pairs = _pairs(runs, options)
        indices = None if options.mistakes else _named(options, len(pairs))
        aligned = _align(runs, pairs, options, here)
    scores = {its.name: score_translations(its.translations) for its in aligned}
    if indices is None:
        aligned, indices = _mistaken(aligned, options)
    else:
        aligned = [_only(its, indices) for its in aligned]
    intro = f"Scores on the same {len(pairs):,} {options.split} sentences; {len(indices)} of them are shown."
    tables = [translation_table(scores)]
    html = make_translation_report(title=_title(aligned), intro=intro, aligned=aligned, indices=indices, tables=tables)
    write_report(options.out, html)
    print(f"Wrote {options.out} ({len(html.encode()) / 1e6:.1f} MB)")


def show_translations(aligned: Aligned, out: Path) -> None:
    """Draw translations of one's own sentences: a sheet, or a page."""
    if out.suffix.lower() in PAGES:
        indices = range(len(aligned.translations))
        intro = "Translations of your sentences."
        html = make_translation_report(
            title=_title([aligned]), intro=intro, aligned=[aligned], indices=indices, tables=[]
        )
        write_report(out, html)
        print(f"Wrote {out}")
    else:
        save_figure(draw_alignments([aligned]), out)


def check_maps(runs: Sequence[LoadedTranslator]) -> None:
    """Refuse runs that have no choice of places."""
    for loaded in runs:
        if loaded.run.config.attention.places == "none":
            raise RunError(
                f"{loaded.run} has one annotation for a whole sentence (attention.places none): there is no map of its "
                "attention to draw"
            )


def _draw_self_attention(options: Namespace) -> None:
    if len(options.runs) > 1:
        raise ConfigError(f"--self draws one run at a time, got {len(options.runs)}")
    if options.mistakes:
        raise ConfigError("--self shows how sentences are read: choose them with --images or --count, not --mistakes")
    [loaded] = _load(options.runs)
    if loaded.model.mixer is None:
        raise RunError(f"{loaded.run} has no self-attention to draw: its encoder.self_attention is 0")
    with processes(options.device, options.threads) as here:
        pairs = _pairs([loaded], options)
        sentences = [pairs[index].source for index in _named(options, len(pairs))]
        maps = self_maps(loaded, sentences, device=here.device)
    save_figure(draw_self_maps(maps), options.out)


def _load(folders: Sequence[str | Path]) -> list[LoadedTranslator]:
    """Open runs of translators that are to translate the very same sentences."""
    runs = [load_translator(folder) for folder in few(folders)]
    check_same_images({str(loaded.run): loaded.run.config for loaded in runs})
    return runs


def _pairs(runs: Sequence[LoadedTranslator], options: Namespace) -> list[Pair]:
    """The sentences to choose from; a report shows only what it scores."""
    for name, flag in (("label", "--class"), ("gallery", "--gallery")):
        if getattr(options, name):
            raise ConfigError(
                f"{flag} is for classifiers: choose the sentences of translators with --images, --count or --mistakes"
            )
    if options.mistakes and options.images is not None:
        raise ConfigError("--images names the sentences: it cannot be combined with --mistakes")
    data = getattr(build_data(runs[0].run.config.data), options.split)
    return pairs_of(data, getattr(options, "limit", None))


def _named(options: Namespace, size: int) -> list[int]:
    """The numbers of the sentences that were asked for, or of the first ones."""
    if options.images is None:
        return list(range(min(options.count, size)))
    if wrong := [index for index in options.images if index >= size]:
        raise ConfigError(f"--images must be in 0..{size - 1}, got {wrong[0]}")
    return options.images


def _mistaken(aligned: Sequence[Aligned], options: Namespace) -> tuple[list[Aligned], list[int]]:
    """The first sentences that a model gets wrong, and their numbers."""
    right = [all(rights) for rights in zip(*(its.right for its in aligned), strict=True)]
    indices = [index for index, good in enumerate(right) if not good][: options.count]
    if not indices:
        raise ConfigError(f"no sentence is left: none of the {len(right):,} is translated wrongly by one of the models")
    return [_only(its, indices) for its in aligned], indices


def _only(aligned: Aligned, indices: Sequence[int]) -> Aligned:
    return aligned._replace(translations=[aligned.translations[index] for index in indices])


def _align(
    runs: Sequence[LoadedTranslator], pairs: Sequence[Pair], options: Namespace, here: Processes
) -> list[Aligned]:
    return [
        align(
            loaded,
            pairs,
            name=name,
            how=getattr(options, "read", None),
            batch_size=getattr(options, "batch_size", None),
            device=here.device,
        )
        for loaded, name in zip(runs, names_of([loaded.run for loaded in runs]), strict=True)
    ]


def _title(aligned: Sequence[Aligned]) -> str:
    return f"Translations: {' and '.join(its.name for its in aligned)}"
