"""The interface of translation data sets: batches of sentences with their translations.

Shapes: B batch.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from glimpse.data.base import ordered_batches, shuffled_batches
from glimpse.data.captions import GROUP_SIZE, batches_by_length
from glimpse.data.mnist import SPLITS, Split
from glimpse.data.vocabulary import Tokens
from glimpse.seeding import Stream

Span = tuple[int, int]  # source words, half-open; (0, 0) for none


class Tokenizer(NamedTuple):
    """Converts text to tokens and tokens to text."""

    split: Callable[[str], Tokens]  # a source sentence to its tokens
    detokenize: Callable[[Tokens], str]  # the tokens of a translation to text


class SentencePair(NamedTuple):
    """A sentence with its translations."""

    source: Tokens
    references: tuple[Tokens, ...]  # one in training, all of them in scoring
    alignment_spans: tuple[Span, ...] = ()  # source words that each word of the reference comes from; () if unknown


class PairBatch(NamedTuple):
    """A batch of sentence pairs."""

    pairs: list[SentencePair]  # B of them
    width: int  # length of the longest source in the global batch, the shares of other processes included


class PairDataset(ABC):
    """One split of sentence pairs, visited shuffled (training) or in a fixed order (scoring).

    Subclasses provide the pairs; this class decides which of them make up a batch.
    """

    selection_metric = "BLEU"  # the validation score that selects the best epoch
    tokenizer: Tokenizer

    def __init__(self, split: Split):
        """Create the split: "train", "valid" or "test"."""
        self.split = split

    @abstractmethod
    def __len__(self) -> int:
        """Number of pairs in an epoch, and in the fixed order."""

    @abstractmethod
    def vocabulary_pairs(self) -> Iterator[SentencePair]:
        """The pairs that the vocabularies are built from; only the training split has them."""

    @abstractmethod
    def training_pairs(self, rows: np.ndarray, *, seed: int, epoch: int, group: int) -> list[SentencePair]:
        """The training pairs of a group of batches, each with one reference.

        Args:
            rows: (R,) indices of the pairs, in the shuffled order of the epoch.
            seed: Seed of the run.
            epoch: Number of the epoch.
            group: Number of the group in the epoch.
        """

    @abstractmethod
    def fixed_pairs(self, rows: slice) -> list[SentencePair]:
        """A slice of the fixed order, with all references."""

    def epoch(
        self, *, seed: int, epoch: int, batch_size: int, rank: int = 0, world_size: int = 1
    ) -> Iterator[PairBatch]:
        """Iterate over the pairs once, shuffled; a last incomplete batch is dropped.

        To keep padding small, batches are made in groups of 32: the pairs of a group are sorted by the length of the
        translation, then of the source, cut into batches, and the batches shuffled. For the arguments see
        `Dataset.epoch`: batch i depends on (seed, epoch, i) alone, and the shares of all ranks make up the batch.
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
        for group, start in enumerate(range(0, len(order), GROUP_SIZE)):
            rows = order[start : start + GROUP_SIZE]
            pairs = self.training_pairs(rows.ravel(), seed=seed, epoch=epoch, group=group)
            source_limit = 1 + max(len(pair.source) for pair in pairs)
            lengths = [len(pair.references[0]) * source_limit + len(pair.source) for pair in pairs]
            words = (Stream.PAIR_ORDER, SPLITS.index(self.split), seed, epoch, group)
            for batch in batches_by_length(lengths, *words, batch_size=rows.shape[1]):
                yield _share_of_batch([pairs[row] for row in batch], share)

    def in_order(self, *, batch_size: int, limit: int | None = None) -> Iterator[PairBatch]:
        """Iterate over all pairs once, in a fixed order, with all references; see `Dataset.in_order`."""
        slices = ordered_batches(len(self), batch_size=batch_size, limit=limit)
        return (_share_of_batch(self.fixed_pairs(rows), slice(None)) for rows in slices)


def _share_of_batch(pairs: Sequence[SentencePair], share: slice) -> PairBatch:
    """The rows of a global batch that belong to one process."""
    return PairBatch(list(pairs[share]), max(len(pair.source) for pair in pairs))


def pairs_of(data: PairDataset, limit: int | None = None) -> list[SentencePair]:
    """The pairs of a data set in its fixed order.

    Args:
        data: The data set.
        limit: Only the first so many; None: all.
    """
    return [pair for batch in data.in_order(batch_size=1000, limit=limit) for pair in batch.pairs]
