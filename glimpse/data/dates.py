"""Dates as people write them, to be translated to ISO 8601: made on the fly, with the true alignment.

The formats are in `date_formats.py`. Every calendar date of 1900 to 2099 belongs to one split for ever: a fixed draw
for each gives 85% of them to training, 5% to validation and 10% to the test, so that no date of the test occurs in
training, in whatever words.
"""

import hashlib
from collections.abc import Iterator
from datetime import date
from functools import cached_property

import numpy as np

from glimpse.data.date_formats import FIRST, LAST, split_date, write
from glimpse.data.mnist import SPLITS
from glimpse.data.sentence_pairs import PairDataset, SentencePair, Tokenizer, TranslationSplits
from glimpse.seeding import Stream, below, permutation, random_bits

_SIZES = {"train": 20_000, "valid": 2_000, "test": 5_000}
_PARTS = {"train": range(3, 20), "valid": range(0, 1), "test": range(1, 3)}  # of twenty

# Second or third word of a seed, after the stream: which examples it is for.
_TRAINING, _FROZEN, _VOCABULARY = 0, 1, 2


class Dates(PairDataset):
    """One split of dates.

    In training, dates and formats are drawn afresh at every visit. The frozen set that `in_order` visits has no date
    twice.
    """

    selection_metric = "exact"  # a date is right or wrong

    script = Tokenizer(split=split_date, join="".join)

    def __len__(self) -> int:
        """Dates in an epoch and in the frozen set: 20,000 for training, 2,000 for validation, 5,000 for testing."""
        return _SIZES[self.split]

    @cached_property
    def days(self) -> np.ndarray:
        """The calendar dates of the split, as the ordinals of `datetime.date`."""
        count = LAST.toordinal() - FIRST.toordinal() + 1
        part = below(random_bits(Stream.DATE_SPLIT, shape=(count,)), 20)
        return FIRST.toordinal() + np.flatnonzero(np.isin(part, _PARTS[self.split]))

    def vocabulary_pairs(self) -> Iterator[SentencePair]:
        """20,000 dates that are the same for ever; of the training split alone."""
        self.check_train()
        return iter(self._draw(20_000, _VOCABULARY, 0, 0, 0))

    def drawn(self, rows: np.ndarray, *, seed: int, epoch: int, group: int) -> list[SentencePair]:
        """See `PairDataset.drawn`."""
        return self._draw(len(rows), _TRAINING, seed, epoch, group)

    def frozen(self, rows: slice) -> list[SentencePair]:
        """See `PairDataset.frozen`; the dates do not depend on any seed of the user's."""
        return self._frozen[rows]

    @cached_property
    def _frozen(self) -> list[SentencePair]:
        number = SPLITS.index(self.split)
        days = self.days[permutation(Stream.DATE_CHOICE, number, size=len(self.days))[: len(self)]]
        bits = random_bits(Stream.DATE_CONTENT, number, _FROZEN, 0, 0, 0, shape=(len(days),))
        return _write(days, bits)

    def _draw(self, count: int, *words: int) -> list[SentencePair]:
        """Draws dates and formats; they depend on the words and the split."""
        bits = random_bits(Stream.DATE_CONTENT, SPLITS.index(self.split), *words, shape=(2, count))
        return _write(self.days[below(bits[0], len(self.days))], bits[1])

    def digest(self) -> str:
        """The sha256 of the frozen set: of each date its words, its translation and the alignment."""
        sha256 = hashlib.sha256()
        for pair in self._frozen:
            spans = " ".join(f"{start}-{stop}" for start, stop in pair.alignment_spans)
            sha256.update(f"{' '.join(pair.source)}\t{''.join(pair.references[0])}\t{spans}\n".encode())
        return sha256.hexdigest()


def _write(days: np.ndarray, bits: np.ndarray) -> list[SentencePair]:
    """Writes dates, given as ordinals, in formats that depend on the bits."""
    return [write(date.fromordinal(day), number) for day, number in zip(days.tolist(), bits.tolist(), strict=True)]


def dates() -> TranslationSplits:
    """The three splits of `Dates`."""
    return TranslationSplits(*(Dates(split) for split in SPLITS))
