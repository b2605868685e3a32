"""What a translator wrote of some sentences and where it looked: all that pictures of translations are drawn from.

Entry n of the weights and places of a translation belongs to its word n, read just before it was written.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from glimpse.attention.settings import ReadMode
from glimpse.data.sentence_pairs import SentencePair, Tokenizer
from glimpse.evaluation.translate import TrainedTranslator
from glimpse.metrics.translations import Translation


class TranslationTrace(NamedTuple):
    """The translations of a model, and how to show them."""

    name: str  # of the model
    mode: ReadMode | None  # None without a choice of places: one annotation stands for the whole sentence
    translations: list[Translation]
    script: Tokenizer

    @property
    def attends(self) -> bool:
        """Whether there was a choice of places."""
        return self.mode is not None

    @property
    def correct(self) -> list[bool]:
        """Which translations are a reference word for word."""
        return [one.words in one.pair.references for one in self.translations]


def trace_translations(
    loaded: TrainedTranslator,
    pairs: Sequence[SentencePair],
    *,
    name: str | None = None,
    mode: ReadMode | None = None,
    batch_size: int | None = None,
    device: torch.device | str = "cpu",
) -> TranslationTrace:
    """Let a translator translate sentences, and keep all that can be drawn of it.

    Args:
        loaded: The run, as `loading.load_translator` opens it.
        pairs: The sentences, with or without references.
        name: What to call the model; as its config if not given.
        mode: Read hard or soft; as the run was scored if not given.
        batch_size: Sentences at a time; as the run was scored if not given.
        device: Where to compute.
    """
    config = loaded.run.config
    mode = mode or config.scored_read
    return TranslationTrace(
        name=loaded.run.name if name is None else name,
        mode=mode if config.attention.has_choice else None,
        translations=loaded.translate_pairs(pairs, mode=mode, batch_size=batch_size, device=device),
        script=loaded.script,
    )


def check_same_sentences(traces: Sequence[TranslationTrace]) -> None:
    """Refuse to show models side by side that did not translate the same sentences."""
    if not traces:
        raise ValueError("traces must be of at least one model, got none")
    first = traces[0]
    if not first.translations:
        raise ValueError("traces must be of at least one sentence, got none")
    sources = [one.pair.source for one in first.translations]
    for other in traces[1:]:
        if [one.pair.source for one in other.translations] != sources:
            raise ValueError(f"traces must be of the same sentences, but those of {other.name} and {first.name} differ")
