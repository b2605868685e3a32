"""Scores of translations: BLEU by sacrebleu, exact matches, attention on the aligned words, all by source length.

Shapes: N words of a translation, L source words.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from sacrebleu.metrics import BLEU
from sacrebleu.metrics.bleu import BLEUScore
from torch import Tensor

from glimpse.data.sentence_pairs import SentencePair
from glimpse.data.vocabulary import Tokens

BUCKET = 5  # source words from one group of lengths to the next


class Translation(NamedTuple):
    """A translation, and where the translator looked for each word of it."""

    pair: SentencePair  # the source and, if they are known, its references
    words: Tokens  # N of them
    log_prob: float  # of the words and the end
    weights: Tensor  # (N, L): the attention for each word; (N, 1) if one annotation stands for the whole source
    places: Tensor  # (N,): the source word read for each word; soft: the one most attended to


@dataclass(frozen=True)
class TranslationScores:
    """How good translations are.

    BLEU is sacrebleu's, of the words as they are: data is tokenized before, so sacrebleu must not do so again
    (`tokenize="none"`). It compares only with BLEU of text that was tokenized, and put in lower case or not, alike.
    """

    sentences: int
    exact: float  # share of translations that are a reference word for word
    bleu: float  # as a share
    aligned: bool  # whether it is known which source words a word is from
    on_span: float | None  # of the words with source words, how often attention is strongest on one of these
    by_length: dict[str, float]  # by number of source words, as "6-10": exact where aligned, else BLEU
    names: ClassVar[dict[str, str]] = {"exact": "exact %", "on_span": "attention on the aligned words %"}

    @classmethod
    def of(cls, translations: Sequence[Translation]) -> "TranslationScores":
        """Score translations of sentences with references."""
        aligned = any(one.pair.alignment_spans for one in translations)
        hits = [hit for one in translations for hit in _on_span(one)] if aligned else []
        groups = by_length([one.pair for one in translations])
        score = _exact if aligned else bleu
        return cls(
            sentences=len(translations),
            exact=_exact(translations),
            bleu=bleu(translations),
            aligned=aligned,
            on_span=sum(hits) / len(hits) if hits else None,
            by_length={lengths: score([translations[row] for row in rows]) for lengths, rows in groups.items()},
        )

    def as_dict(self) -> dict[str, Any]:
        """See `Scores`."""
        found: dict[str, Any] = {"sentences": self.sentences, "exact": self.exact, "BLEU": self.bleu}
        if self.aligned:
            found["on_span"] = self.on_span
        score = "exact" if self.aligned else "BLEU"
        return found | {f"{score}_words_{lengths}": value for lengths, value in self.by_length.items()}


def by_length(pairs: Sequence[SentencePair]) -> dict[str, list[int]]:
    """The indices of sentences by their number of source words, as "6-10", short ones first."""
    groups = defaultdict(list)
    for row, pair in enumerate(pairs):
        groups[(len(pair.source) - 1) // BUCKET].append(row)
    return {f"{group * BUCKET + 1}-{(group + 1) * BUCKET}": rows for group, rows in sorted(groups.items())}


def bleu(translations: Sequence[Translation]) -> float:
    """BLEU of the corpus by sacrebleu, as a share; see `score_translations`."""
    return corpus_bleu(translations).score / 100


def corpus_bleu(translations: Sequence[Translation]) -> BLEUScore:
    """BLEU of the corpus, with the counts that it is made of."""
    said = [" ".join(one.words) for one in translations]
    most = max(len(one.pair.references) for one in translations)
    references = [
        [" ".join(one.pair.references[n]) if n < len(one.pair.references) else None for one in translations]
        for n in range(most)
    ]
    return BLEU(tokenize="none", force=True).corpus_score(said, references)


def _exact(translations: Sequence[Translation]) -> float:
    return sum(one.words in one.pair.references for one in translations) / len(translations)


def _on_span(one: Translation) -> Iterator[bool]:
    """For each word said that has source words, whether attention was strongest on one of them."""
    if one.weights.shape[1] != len(one.pair.source):
        return  # there was no choice
    for (start, stop), place in zip(
        one.pair.alignment_spans, one.places.tolist(), strict=False
    ):  # more or fewer may be said
        if stop > start:
            yield start <= place < stop
