"""What every data set of translations offers: batches of sentences with their translations.

Shapes: B batch.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from glimpse.data.base import ordered_batches, shuffled_batches
from glimpse.data.captions import GROUP, batches_by_length
from glimpse.data.mnist import SPLITS, Split
from glimpse.data.vocabulary import Tokens
from glimpse.seeding import Stream

Span = tuple[int, int]  # source words, half-open; (0, 0) for none


class Tokenizer(NamedTuple):
    """How a text becomes words, and words a text again."""

    split: Callable[[str], Tokens]  # of a source sentence
    join: Callable[[Tokens], str]  # of a translation


class SentencePair(NamedTuple):
    """A sentence with its translation."""

    source: Tokens
    references: tuple[Tokens, ...]  # one in training; in scoring, all that are known
    alignment_spans: tuple[
        Span, ...
    ] = ()  # for each word of the reference, the source words that it is from; () if unknown


class PairBatch(NamedTuple):
    """A batch of sentences with their translations."""

    pairs: list[SentencePair]  # B of them
    width: int  # words in the longest source of the batch, the shares of other processes included


class PairDataset(ABC):
    """One split of sentences and translations, visited shuffled (training) or in a fixed order (scoring).

    The subclasses say which pairs there are; which of them make up a batch is decided here.
    """

    selection_metric = "BLEU"  # the score that selects the best epoch
    script: Tokenizer

    def __init__(self, split: Split):
        """Keeps the split: "train", "valid" or "test"."""
        self.split = split

    @abstractmethod
    def __len__(self) -> int:
        """Number of pairs in an epoch, and in the fixed order."""

    @abstractmethod
    def vocabulary_pairs(self) -> Iterator[SentencePair]:
        """Pairs to count words in; of training data only."""

    @abstractmethod
    def drawn(self, rows: np.ndarray, *, seed: int, epoch: int, group: int) -> list[SentencePair]:
        """The pairs of a group of rows of an epoch, each with one reference."""

    @abstractmethod
    def frozen(self, rows: slice) -> list[SentencePair]:
        """Some pairs of the fixed order, with all references."""

    def epoch(
        self, *, seed: int, epoch: int, batch_size: int, rank: int = 0, world_size: int = 1
    ) -> Iterator[PairBatch]:
        """Visits the pairs once, shuffled; a last incomplete batch is dropped.

        Translations of a batch are of about the same length and, among those of one length, so are the sources, so that
        little is padded: batches are made in groups of 32, whose pairs are sorted and cut into batches, which come in a
        random order. For the arguments see `Dataset.epoch`: batch i depends on (seed, epoch, i) alone, and the shares
        of all ranks make up the batch.
        """
        order, share = shuffled_batches(
            len(self),
            stream=SPLITS.index(self.split),
            seed=seed,
            epoch=epoch,
            batch_size=batch_size,
            rank=rank,
            world_size=world_size,
        )
        return self._batches(order, share, seed, epoch)

    def _batches(self, order: np.ndarray, share: slice, seed: int, epoch: int) -> Iterator[PairBatch]:
        for group, start in enumerate(range(0, len(order), GROUP)):
            rows = order[start : start + GROUP]
            pairs = self.drawn(rows.ravel(), seed=seed, epoch=epoch, group=group)
            most = 1 + max(len(pair.source) for pair in pairs)
            lengths = [len(pair.references[0]) * most + len(pair.source) for pair in pairs]
            words = (Stream.PAIR_ORDER, SPLITS.index(self.split), seed, epoch, group)
            for batch in batches_by_length(lengths, *words, batch_size=rows.shape[1]):
                yield _batch_of([pairs[row] for row in batch], share)

    def in_order(self, *, batch_size: int, limit: int | None = None) -> Iterator[PairBatch]:
        """Visits every pair once, in a fixed order, the same each time; the last batch may be short."""
        slices = ordered_batches(len(self), batch_size=batch_size, limit=limit)
        return (_batch_of(self.frozen(rows), slice(None)) for rows in slices)

    def check_train(self) -> None:
        """Refuses to count words in what is not training data."""
        if self.split != "train":
            raise ValueError(f'words must be counted in the "train" split, got "{self.split}"')


def _batch_of(pairs: Sequence[SentencePair], share: slice) -> PairBatch:
    """A share of a batch."""
    return PairBatch(list(pairs[share]), max(len(pair.source) for pair in pairs))


class TranslationSplits(NamedTuple):
    """The three parts of a data set of translations."""

    train: PairDataset
    valid: PairDataset
    test: PairDataset


def pairs_of(data: PairDataset, limit: int | None = None) -> list[SentencePair]:
    """The pairs of a data set in its fixed order, or the first so many."""
    return [pair for batch in data.in_order(batch_size=1000, limit=limit) for pair in batch.pairs]
