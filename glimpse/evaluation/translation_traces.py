"""Translate sentences and record the attention at each word, for figures and reports.

Entry n of the weights and places of a translation belongs to its word n: the attention of the decoder step that
predicted the word.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from glimpse.attention.settings import ReadMode
from glimpse.data.sentence_pairs import SentencePair, Tokenizer
from glimpse.evaluation.translate import TrainedTranslator
from glimpse.metrics.translations import Translation


class TranslationTrace(NamedTuple):
    """The translations of sentences by one model, with the attention at each word."""

    name: str  # of the model
    mode: ReadMode | None  # None without attention: the decoder reads a single annotation of the whole sentence
    translations: list[Translation]
    tokenizer: Tokenizer

    @property
    def attends(self) -> bool:
        """Whether the model has attention over the source words."""
        return self.mode is not None

    @property
    def correct(self) -> list[bool]:
        """Whether each translation equals a reference."""
        return [translation.words in translation.pair.references for translation in self.translations]


def trace_translations(
    translator: TrainedTranslator,
    pairs: Sequence[SentencePair],
    *,
    name: str | None = None,
    mode: ReadMode | None = None,
    batch_size: int | None = None,
    device: torch.device | str = "cpu",
) -> TranslationTrace:
    """Translate sentences and record the attention at each word.

    Args:
        translator: The trained translator.
        pairs: The sentences, with or without references.
        name: Display name of the model; None: the name of its run.
        mode: Read mode, "hard" or "soft"; None: that of the run's validation and test.
        batch_size: Sentences per batch; None: `score.batch_size` of the run.
        device: Device to compute on.
    """
    scored_read = translator.run.config.scored_read
    mode = mode or scored_read
    return TranslationTrace(
        name=translator.run.name if name is None else name,
        mode=None if scored_read is None else mode,
        translations=translator.translate_pairs(pairs, mode=mode, batch_size=batch_size, device=device),
        tokenizer=translator.tokenizer,
    )


def check_same_sentences(traces: Sequence[TranslationTrace]) -> None:
    """Raise a ValueError unless all traces are of the same sentences, at least one."""
    if not traces:
        raise ValueError("traces must be of at least one model, got none")
    first = traces[0]
    if not first.translations:
        raise ValueError("traces must be of at least one sentence, got none")
    sources = [translation.pair.source for translation in first.translations]
    for other in traces[1:]:
        if [translation.pair.source for translation in other.translations] != sources:
            raise ValueError(f"traces must be of the same sentences, but those of {other.name} and {first.name} differ")
