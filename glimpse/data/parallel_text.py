"""Sentences with their translations from text files.

There are two layouts:

* Two files for each split, one sentence per line; line n of one is the translation of line n of the other. They are
  tokenized already, with spaces between the tokens.
* One file with lines such as "Go on.<tab>Continue.", like Anki's collections of sentence pairs; text after a second tab
  is ignored. Its text is raw and tokenized by `tokenize_raw`. A hash of the source sentence decides which split a pair
  belongs to, so splits depend neither on the order of the lines nor on other lines, and all pairs of a source sentence
  are in one split. Duplicate pairs are removed. In the validation and test split, a sentence with several translations
  is one example with several references.
"""

import hashlib
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import regex

from glimpse.data.base import Splits
from glimpse.data.captions import check_training_split
from glimpse.data.mnist import SPLITS, Split
from glimpse.data.sentence_pairs import PairDataset, SentencePair, Tokenizer
from glimpse.data.vocabulary import SPECIAL, Tokens
from glimpse.errors import DataError

# Letters with their combining marks, digits, and the two joiners of Indic and Persian words; or one other character.
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}\u200c\u200d]+|\S")


def split_at_spaces(text: str) -> Tokens:
    """Split a text that is tokenized already."""
    return tuple(map(sys.intern, text.split()))  # interned: one copy of each word in memory


def tokenize_raw(text: str) -> Tokens:
    """Tokenize raw text in lower case; punctuation is split into single characters ("don't" is "don ' t").

    Text without spaces between words, such as Chinese, is not segmented and must be tokenized beforehand.
    """
    return tuple(map(sys.intern, _WORD.findall(unicodedata.normalize("NFC", text.lower()))))


WHITESPACE = Tokenizer(split=split_at_spaces, detokenize=" ".join)
RAW_TEXT = Tokenizer(split=tokenize_raw, detokenize=" ".join)


class ParallelText(PairDataset):
    """One split of stored sentence pairs."""

    def __init__(self, *, split: Split, pairs: Sequence[SentencePair], tokenizer: Tokenizer):
        """Create the split; called by `parallel_files` and `tab_separated`.

        Args:
            split: "train", "valid" or "test".
            pairs: The pairs, in the fixed order.
            tokenizer: Tokenizer of the pairs.
        """
        super().__init__(split)
        self.pairs = pairs
        self.tokenizer = tokenizer

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.pairs)

    def vocabulary_pairs(self) -> Iterator[SentencePair]:
        """All pairs of the training split; see `PairDataset.vocabulary_pairs`."""
        check_training_split(self.split)
        return iter(self.pairs)

    def training_pairs(self, rows: np.ndarray, *, seed: int, epoch: int, group: int) -> list[SentencePair]:
        """See `PairDataset.training_pairs`; the reference is the first of several."""
        return [self.pairs[row]._replace(references=self.pairs[row].references[:1]) for row in rows]

    def fixed_pairs(self, rows: slice) -> list[SentencePair]:
        """See `PairDataset.fixed_pairs`."""
        return list(self.pairs[rows])


def parallel_files(
    *,
    root: str | Path,
    train_file: str,
    valid_file: str,
    test_file: str,
    source_language: str,
    target_language: str,
) -> Splits[PairDataset]:
    """Read sentence pairs from two files for each split: ROOT/FILE.SOURCE_LANGUAGE and ROOT/FILE.TARGET_LANGUAGE.

    Args:
        root: Folder of the files.
        train_file: Name of the training files without the language suffix.
        valid_file: Name of the validation files without the language suffix.
        test_file: Name of the test files without the language suffix.
        source_language: Suffix of the source files.
        target_language: Suffix of the target files.

    Raises:
        DataError: If a file cannot be read, is empty or not UTF-8, has an empty line, or fewer lines than the other.
    """
    parts = []
    for name in (train_file, valid_file, test_file):
        files = [Path(root, f"{name}.{language}") for language in (source_language, target_language)]
        sources, targets = ([_words(file, *line, WHITESPACE) for line in _file_lines(file)] for file in files)
        if len(sources) != len(targets):
            raise DataError(
                f"{files[0]} and {files[1]} must have the same number of lines, got {len(sources):,} and "
                f"{len(targets):,}"
            )
        if not sources:
            raise DataError(f"{files[0]} must have at least one line, got none")
        parts.append([SentencePair(source, (target,)) for source, target in zip(sources, targets, strict=True)])
    return _make_splits(parts, WHITESPACE)


def tab_separated(*, path: str | Path, valid_fraction: float, test_fraction: float) -> Splits[PairDataset]:
    """Read sentence pairs from one file of lines with a source, a tab and a target.

    Args:
        path: The file.
        valid_fraction: Expected fraction of the source sentences in the validation split.
        test_fraction: Expected fraction of the source sentences in the test split.

    Raises:
        DataError: If the file cannot be read or is not UTF-8, a line has no tab or an empty source or target, or a
            split has no pair.
    """
    path = Path(path)
    translations: dict[Tokens, dict[Tokens, None]] = {}  # of each source; dictionaries as ordered sets
    for number, line in _file_lines(path):
        columns = line.split("\t")
        if len(columns) < 2:
            raise DataError(f"{path}, line {number}, must have a tab between source and target, got {line!r:.60}")
        source, target = (_words(path, number, text, RAW_TEXT) for text in columns[:2])
        translations.setdefault(source, {})[target] = None
    parts: dict[Split, list[SentencePair]] = {split: [] for split in SPLITS}
    for source, targets in translations.items():
        hashed = int.from_bytes(hashlib.sha256(" ".join(source).encode()).digest()[:8], "big") / 2**64  # in [0, 1)
        if hashed < test_fraction:
            parts["test"].append(SentencePair(source, tuple(targets)))
        elif hashed < test_fraction + valid_fraction:
            parts["valid"].append(SentencePair(source, tuple(targets)))
        else:
            parts["train"] += [SentencePair(source, (target,)) for target in targets]
    for split, pairs in parts.items():
        if not pairs:
            raise DataError(
                f"{path} must have a sentence for every split, but none of its {len(translations):,} source sentences "
                f"is in {split}"
            )
    return _make_splits([parts[split] for split in SPLITS], RAW_TEXT)


def _make_splits(parts: Sequence[Sequence[SentencePair]], tokenizer: Tokenizer) -> Splits[PairDataset]:
    splits = zip(SPLITS, parts, strict=True)
    return Splits(*(ParallelText(split=split, pairs=pairs, tokenizer=tokenizer) for split, pairs in splits))


def _file_lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    return numbered_lines(content, path)


def numbered_lines(content: bytes, name: str | Path) -> Iterator[tuple[int, str]]:
    r"""Iterate over lines, numbered from 1; only "\n" or "\r\n" ends a line, not other Unicode line separators.

    Args:
        content: UTF-8 text.
        name: Name of the text in error messages.

    Raises:
        DataError: If a line is not UTF-8.
    """
    content = content.removeprefix(b"\xef\xbb\xbf")  # byte order mark
    for number, line in enumerate(content.removesuffix(b"\n").split(b"\n") if content else [], 1):
        try:
            yield number, line.removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            raise DataError(f"{name}, line {number}, must be UTF-8, got invalid bytes: {error.reason}") from error


def _words(path: Path, number: int, text: str, tokenizer: Tokenizer) -> Tokens:
    """The tokens of one line."""
    words = tokenizer.split(text)
    if not words:
        raise DataError(f"{path}, line {number}, must have words, got {text!r:.60}")
    if special := [word for word in words if word in SPECIAL]:
        raise DataError(f"{path}, line {number}, must not contain the special token {special[0]}")
    return words
