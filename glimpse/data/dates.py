"""Dates in natural language to be translated to ISO 8601: generated on the fly, with the true alignment.

The formats are in `date_formats.py`. Every date from 1900 to 2099 belongs to one split, by a fixed random draw: 85%
training, 5% validation, 10% test. So no test date occurs in training, in any format.
"""

import hashlib
from collections.abc import Iterator
from datetime import date
from functools import cached_property

import numpy as np

from glimpse.data.base import Splits
from glimpse.data.captions import check_training_split
from glimpse.data.date_formats import FIRST, LAST, split_date, write
from glimpse.data.mnist import SPLITS
from glimpse.data.sentence_pairs import PairDataset, SentencePair, Tokenizer
from glimpse.seeding import Stream, below, permutation, random_bits

_SIZES = {"train": 20_000, "valid": 2_000, "test": 5_000}
_TWENTIETHS = {"train": range(3, 20), "valid": range(0, 1), "test": range(1, 3)}

# Purpose of the random numbers: the seed word after the stream and the split.
_TRAINING, _FIXED, _VOCABULARY = 0, 1, 2


class Dates(PairDataset):
    """One split of dates.

    In training, dates and formats are sampled anew in every epoch. The fixed set of `in_order` contains no date twice.
    """

    selection_metric = "exact"  # a translation is right or wrong as a whole
    tokenizer = Tokenizer(split=split_date, detokenize="".join)

    def __len__(self) -> int:
        """Dates in an epoch and in the fixed set: 20,000 for training, 2,000 for validation, 5,000 for testing."""
        return _SIZES[self.split]

    @cached_property
    def days(self) -> np.ndarray:
        """The dates of the split, as `datetime.date` ordinals."""
        count = LAST.toordinal() - FIRST.toordinal() + 1
        twentieth = below(random_bits(Stream.DATE_SPLIT, shape=(count,)), 20)
        return FIRST.toordinal() + np.flatnonzero(np.isin(twentieth, _TWENTIETHS[self.split]))

    def vocabulary_pairs(self) -> Iterator[SentencePair]:
        """20,000 fixed dates of the training split; see `PairDataset.vocabulary_pairs`."""
        check_training_split(self.split)
        return iter(self._sample(20_000, _VOCABULARY, 0, 0, 0))

    def training_pairs(self, rows: np.ndarray, *, seed: int, epoch: int, group: int) -> list[SentencePair]:
        """See `PairDataset.training_pairs`."""
        return self._sample(len(rows), _TRAINING, seed, epoch, group)

    def fixed_pairs(self, rows: slice) -> list[SentencePair]:
        """See `PairDataset.fixed_pairs`; the dates do not depend on the seed of the run."""
        return self._fixed_pairs[rows]

    @cached_property
    def _fixed_pairs(self) -> list[SentencePair]:
        number = SPLITS.index(self.split)
        days = self.days[permutation(Stream.DATE_CHOICE, number, size=len(self.days))[: len(self)]]
        bits = random_bits(Stream.DATE_CONTENT, number, _FIXED, 0, 0, 0, shape=(len(days),))
        return _write(days, bits)

    def _sample(self, count: int, *words: int) -> list[SentencePair]:
        """Sample dates and formats; `words` and the split are the seed."""
        bits = random_bits(Stream.DATE_CONTENT, SPLITS.index(self.split), *words, shape=(2, count))
        return _write(self.days[below(bits[0], len(self.days))], bits[1])

    def digest(self) -> str:
        """The sha256 of the fixed set: source, translation and alignment of each date."""
        sha256 = hashlib.sha256()
        for pair in self._fixed_pairs:
            spans = " ".join(f"{start}-{stop}" for start, stop in pair.alignment_spans)
            sha256.update(f"{' '.join(pair.source)}\t{''.join(pair.references[0])}\t{spans}\n".encode())
        return sha256.hexdigest()


def _write(days: np.ndarray, bits: np.ndarray) -> list[SentencePair]:
    """Write dates, given as ordinals, in formats chosen by the random bits."""
    return [write(date.fromordinal(day), number) for day, number in zip(days.tolist(), bits.tolist(), strict=True)]


def dates() -> Splits[PairDataset]:
    """The three splits of `Dates`."""
    return Splits(*(Dates(split) for split in SPLITS))
