"""Commands for runs that translate: their scores, and translations of one's own sentences."""

import json
import sys
from argparse import Namespace
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from glimpse.build import build_data
from glimpse.commands.alignments import check_maps, show_translations
from glimpse.commands.files import FIGURES, PAGES, check_out
from glimpse.data.parallel import numbered_lines
from glimpse.loading import load_translator
from glimpse.processes import Processes, processes
from glimpse.settings import ConfigError
from glimpse.translation import Translation, pairs_of, score_translations
from glimpse.view.aligned import align
from glimpse.view.tables import translation_table


def score_translator(folder: str, options: Namespace, here: Processes) -> dict[str, Any]:
    """Score the translations of a run, with the beam that its test had."""
    loaded = load_translator(folder)
    config, score = loaded.run.config, loaded.run.config.score
    how = options.read or score.read or config.read
    pairs = pairs_of(getattr(build_data(config.data), options.split), options.limit)
    translations = loaded.translate_pairs(pairs, how=how, batch_size=options.batch_size, device=here.device)
    scores = score_translations(translations)
    if not options.json:
        search = f"beam {score.beam}" if score.beam > 1 else "greedy"
        print(f"{folder}: {how} read, {search}, {scores['sentences']:,} {options.split} sentences\n")
        print(translation_table({"score": scores}).text(), end="\n\n")
    return {"run": str(folder), "split": options.split, "read": how, "beam": score.beam, "scores": scores}


def translate(options: Namespace) -> None:
    """Translate the user's sentences, a line each."""
    texts = _texts(options)
    if options.out is not None:
        check_out(options.out, (*FIGURES, *PAGES))
    with processes(options.device, options.threads) as here:
        loaded = load_translator(options.run)
        if options.out is not None:
            check_maps([loaded])
        aligned = align(loaded, loaded.read(texts), how=options.read, device=here.device)
    translations = aligned.translations
    unknown = [word for one in translations for word in loaded.unknown_words(one.pair.source)]
    if unknown:
        print(f"Unknown words, read as such: {', '.join(dict.fromkeys(unknown))}", file=sys.stderr)
    for one in translations:
        print(json.dumps(_plain(one)) if options.json else loaded.script.join(one.words))
    if options.out is not None:
        with redirect_stdout(sys.stderr):  # only translations are printed, for whatever reads them
            show_translations(aligned, options.out)


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
