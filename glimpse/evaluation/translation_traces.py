"""What a translator wrote of some sentences and where it looked: all that pictures of translations are drawn from.

Entry n of the weights and places of a translation belongs to its word n, read just before it was written.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from glimpse.attention.settings import ReadMode
from glimpse.data.sentence_pairs import Pair, Script
from glimpse.evaluation.translate import TrainedTranslator
from glimpse.metrics.translations import Translation


class Aligned(NamedTuple):
    """The translations of a model, and how to show them."""

    name: str  # of the model
    how: ReadMode | None  # None without a choice of places: one annotation stands for the whole sentence
    translations: list[Translation]
    script: Script

    @property
    def attends(self) -> bool:
        """Whether there was a choice of places."""
        return self.how is not None

    @property
    def right(self) -> list[bool]:
        """Which translations are a reference word for word."""
        return [one.words in one.pair.references for one in self.translations]


def align(
    loaded: TrainedTranslator,
    pairs: Sequence[Pair],
    *,
    name: str | None = None,
    how: ReadMode | None = None,
    batch_size: int | None = None,
    device: torch.device | str = "cpu",
) -> Aligned:
    """Let a translator translate sentences, and keep all that can be drawn of it.

    Args:
        loaded: The run, as `loading.load_translator` opens it.
        pairs: The sentences, with or without references.
        name: What to call the model; as its config if not given.
        how: Read hard or soft; as the run was scored if not given.
        batch_size: Sentences at a time; as the run was scored if not given.
        device: Where to compute.
    """
    config = loaded.run.config
    how = how or config.scored_read
    return Aligned(
        name=loaded.run.name if name is None else name,
        how=how if config.attention.has_choice else None,
        translations=loaded.translate_pairs(pairs, how=how, batch_size=batch_size, device=device),
        script=loaded.script,
    )


def check_same_sentences(aligned: Sequence[Aligned]) -> None:
    """Refuse to show models side by side that did not translate the same sentences."""
    if not aligned:
        raise ValueError("aligned must be of at least one model, got none")
    first = aligned[0]
    if not first.translations:
        raise ValueError("aligned must be of at least one sentence, got none")
    sources = [one.pair.source for one in first.translations]
    for other in aligned[1:]:
        if [one.pair.source for one in other.translations] != sources:
            raise ValueError(
                f"aligned must be of the same sentences, but those of {other.name} and {first.name} differ"
            )
