"""Scores of translations: sacrebleu's BLEU, exact matches, attention on the aligned words, scores by source length.

Shapes: N words of a translation, L source words.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar, NamedTuple

from sacrebleu.metrics import BLEU
from sacrebleu.metrics.bleu import BLEUScore
from torch import Tensor

from glimpse.data.sentence_pairs import SentencePair
from glimpse.data.vocabulary import Tokens

BUCKET = 5  # width of a group of source lengths, in words


class Translation(NamedTuple):
    """A translation with the attention of each of its words."""

    pair: SentencePair  # the source and, if known, its references
    words: Tokens  # N words
    log_prob: float  # log-probability of the words and END
    weights: Tensor  # (N, L): attention weights of each word; (N, 1) if a single annotation encodes the source
    places: Tensor  # (N,): index of the source word read for each word; soft: of the largest weight


@dataclass(frozen=True)
class TranslationScores:
    """Scores of a set of translations.

    BLEU is sacrebleu's with `tokenize="none"`, since the data is tokenized already. It is comparable only with BLEU of
    text with the same tokenization and case.
    """

    sentences: int
    exact: float  # fraction of translations that are identical to a reference
    translation_bleu: float  # in [0, 1]
    aligned: bool  # whether the data has alignments
    on_span: float | None  # of the aligned words, the fraction whose largest weight is on one of their source words
    by_length: dict[str, float]  # by number of source words, such as "6-10": exact if aligned, else BLEU
    names: ClassVar[dict[str, str]] = {"exact": "exact %", "on_span": "attention on the aligned words %"}

    @classmethod
    def of(cls, translations: Sequence[Translation]) -> "TranslationScores":
        """Score translations of sentences with references."""
        aligned = any(translation.pair.alignment_spans for translation in translations)
        on_span = [word for translation in translations for word in _on_span(translation)] if aligned else []
        groups = by_length([translation.pair for translation in translations])
        score = _exact if aligned else translation_bleu
        return cls(
            sentences=len(translations),
            exact=_exact(translations),
            translation_bleu=translation_bleu(translations),
            aligned=aligned,
            on_span=sum(on_span) / len(on_span) if on_span else None,
            by_length={lengths: score([translations[row] for row in rows]) for lengths, rows in groups.items()},
        )

    def as_dict(self) -> dict[str, Any]:
        """See `Scores`."""
        scores: dict[str, Any] = {"sentences": self.sentences, "exact": self.exact, "BLEU": self.translation_bleu}
        if self.aligned:
            scores["on_span"] = self.on_span
        score = "exact" if self.aligned else "BLEU"
        return scores | {f"{score}_words_{lengths}": value for lengths, value in self.by_length.items()}


def by_length(pairs: Sequence[SentencePair]) -> dict[str, list[int]]:
    """Indices of sentence pairs, grouped by the number of source words, such as "6-10", in ascending order."""
    groups = defaultdict(list)
    for row, pair in enumerate(pairs):
        groups[(len(pair.source) - 1) // BUCKET].append(row)
    return {f"{group * BUCKET + 1}-{(group + 1) * BUCKET}": rows for group, rows in sorted(groups.items())}


def translation_bleu(translations: Sequence[Translation]) -> float:
    """Corpus BLEU in [0, 1]; see `TranslationScores`."""
    return corpus_bleu(translations).score / 100


def corpus_bleu(translations: Sequence[Translation]) -> BLEUScore:
    """Corpus BLEU by sacrebleu, with its n-gram counts and lengths."""
    hypotheses = [" ".join(translation.words) for translation in translations]
    references = [[" ".join(words) for words in translation.pair.references] for translation in translations]
    # One list for each number of a reference; sentences with fewer references than others have None.
    streams: list[Sequence[str]] = [list(stream) for stream in zip_longest(*references)]
    return BLEU(tokenize="none", force=True).corpus_score(hypotheses, streams)


def _exact(translations: Sequence[Translation]) -> float:
    """Fraction of translations that are identical to a reference."""
    return sum(translation.words in translation.pair.references for translation in translations) / len(translations)


def _on_span(translation: Translation) -> Iterator[bool]:
    """For each aligned word, whether the largest attention weight is on one of its source words."""
    if translation.weights.shape[1] != len(translation.pair.source):
        return  # a single annotation: attention has no choice
    # Not strict: a translation may be shorter or longer than the reference that the alignment belongs to.
    for (start, stop), place in zip(translation.pair.alignment_spans, translation.places.tolist(), strict=False):
        if stop > start:
            yield start <= place < stop
