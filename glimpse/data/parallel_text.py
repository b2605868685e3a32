"""Sentences with their translations from text files.

Either two files for each split, whose lines belong together: already tokenised, words are what is between white space.
Or one file of lines such as "Go on.<tab>Continue.", as Anki's collections of sentence pairs have them: what is after a
second tab is left alone. These are raw text, which `tokenise_raw` splits, and have no splits of their own: which part a
sentence belongs to follows from a hash of its words, so that neither the order of the lines nor other lines have a say,
and pairs of the same source sentence are never parted. Pairs that occur twice are kept once. In validation and test, a
sentence with several translations is one example with several references.
"""

import hashlib
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import regex

from glimpse.data.mnist import SPLITS, Split
from glimpse.data.sentence_pairs import PairDataset, SentencePair, Tokenizer, TranslationSplits
from glimpse.data.vocabulary import SPECIAL, Tokens
from glimpse.errors import DataError

# Letters with the marks that belong to them, digits, and the two joiners of Indic and Persian words; or else one sign.
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}\u200c\u200d]+|\S")


def split_at_spaces(text: str) -> Tokens:
    """Splits a text that is tokenised already."""
    return tuple(map(sys.intern, text.split()))  # a word is kept in memory once, however often it occurs


def tokenise_raw(text: str) -> Tokens:
    """Splits a raw text: lower case, and every sign that is no letter or digit by itself ("don't" is "don ' t").

    Scripts without spaces between words, as Chinese, are not taken apart: their texts must be tokenised by other means.
    """
    return tuple(map(sys.intern, _WORD.findall(unicodedata.normalize("NFC", text.lower()))))


WHITESPACE = Tokenizer(split=split_at_spaces, join=" ".join)
RAW_TEXT = Tokenizer(split=tokenise_raw, join=" ".join)


class ParallelText(PairDataset):
    """One split of pairs that are the same at every visit."""

    def __init__(self, *, split: Split, pairs: Sequence[SentencePair], script: Tokenizer):
        """Keeps the pairs; made by `parallel_files` and `tab_separated`.

        Args:
            split: "train", "valid" or "test".
            pairs: in the fixed order.
            script: how a text of the user's becomes such words.
        """
        super().__init__(split)
        self.pairs = pairs
        self.script = script

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.pairs)

    def vocabulary_pairs(self) -> Iterator[SentencePair]:
        """All pairs; of the training split alone."""
        self.check_train()
        return iter(self.pairs)

    def drawn(self, rows: np.ndarray, *, seed: int, epoch: int, group: int) -> list[SentencePair]:
        """See `PairDataset.drawn`: of several references the first."""
        return [self.pairs[row]._replace(references=self.pairs[row].references[:1]) for row in rows]

    def frozen(self, rows: slice) -> list[SentencePair]:
        """See `PairDataset.frozen`."""
        return list(self.pairs[rows])


def parallel_files(
    *,
    root: str | Path,
    train_file: str,
    valid_file: str,
    test_file: str,
    source_language: str,
    target_language: str,
) -> TranslationSplits:
    """Translations from two files for each split: ROOT/FILE.SOURCE_LANGUAGE and ROOT/FILE.TARGET_LANGUAGE.

    Args:
        root: folder of the files.
        train_file: beginning of the names of the training files.
        valid_file: of those to validate with.
        test_file: of those to test with.
        source_language: ending of the names of the files to translate from.
        target_language: of those to translate into.

    Raises:
        DataError: If a file cannot be read, is empty or not UTF-8, has an empty line, or fewer lines than the other.
    """
    parts = []
    for name in (train_file, valid_file, test_file):
        files = [Path(root, f"{name}.{language}") for language in (source_language, target_language)]
        sources, targets = ([_words(file, *line, WHITESPACE) for line in _file_lines(file)] for file in files)
        if len(sources) != len(targets):
            raise DataError(
                f"{files[0]} and {files[1]} must have as many lines as each other, got {len(sources):,} and "
                f"{len(targets):,}"
            )
        if not sources:
            raise DataError(f"{files[0]} must have a line at least, got none")
        parts.append([SentencePair(source, (target,)) for source, target in zip(sources, targets, strict=True)])
    return _splits(parts, WHITESPACE)


def tab_separated(*, path: str | Path, valid_fraction: float, test_fraction: float) -> TranslationSplits:
    """Translations from one file of lines with a source, a tab and a target.

    Args:
        path: of the file.
        valid_fraction: share of the source sentences to validate with, about.
        test_fraction: share of them to test with, about.

    Raises:
        DataError: If the file cannot be read or is not UTF-8, a line has no tab or no words on a side of it, or a split
            is left without a pair.
    """
    path = Path(path)
    found: dict[Tokens, dict[Tokens, None]] = {}  # the translations of each source
    for number, line in _file_lines(path):
        columns = line.split("\t")
        if len(columns) < 2:
            raise DataError(f"{path}, line {number}, must have a tab between source and target, got {line!r:.60}")
        source, target = (_words(path, number, text, RAW_TEXT) for text in columns[:2])
        found.setdefault(source, {})[target] = None
    parts: dict[Split, list[SentencePair]] = {split: [] for split in SPLITS}
    for source, targets in found.items():
        place = int.from_bytes(hashlib.sha256(" ".join(source).encode()).digest()[:8], "big") / 2**64
        if place < test_fraction:
            parts["test"].append(SentencePair(source, tuple(targets)))
        elif place < test_fraction + valid_fraction:
            parts["valid"].append(SentencePair(source, tuple(targets)))
        else:
            parts["train"] += [SentencePair(source, (target,)) for target in targets]
    for split, pairs in parts.items():
        if not pairs:
            raise DataError(
                f"{path} must leave a pair for every split, but of {len(found):,} source sentences {split} has none"
            )
    return _splits([parts[split] for split in SPLITS], RAW_TEXT)


def _splits(parts: Sequence[Sequence[SentencePair]], script: Tokenizer) -> TranslationSplits:
    splits = zip(SPLITS, parts, strict=True)
    return TranslationSplits(*(ParallelText(split=split, pairs=pairs, script=script) for split, pairs in splits))


def _file_lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    return numbered_lines(content, path)


def numbered_lines(content: bytes, name: str | Path) -> Iterator[tuple[int, str]]:
    """The lines of a text, numbered from 1; only a line feed ends one, as other signs that might are part of texts.

    Args:
        content: in UTF-8.
        name: what to call the text if it is not.

    Raises:
        DataError: If a line is not UTF-8.
    """
    content = content.removeprefix(b"\xef\xbb\xbf")  # with which some begin
    for number, line in enumerate(content.removesuffix(b"\n").split(b"\n") if content else [], 1):
        try:
            yield number, line.removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            raise DataError(f"{name}, line {number}, must be UTF-8, but has other bytes: {error.reason}") from error


def _words(path: Path, number: int, text: str, script: Tokenizer) -> Tokens:
    words = script.split(text)
    if not words:
        raise DataError(f"{path}, line {number}, must have words, got {text!r:.60}")
    if special := [word for word in words if word in SPECIAL]:
        raise DataError(f"{path}, line {number}, must not have the word {special[0]}, which means something else here")
    return words
