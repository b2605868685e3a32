"""The task of translating: what `telling.py` leaves open, above all how translations are scored.

Shapes: B batch, N words of a translation, L source words.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from sacrebleu.metrics import BLEU
from sacrebleu.metrics.bleu import BLEUScore
from torch import Tensor

from glimpse.attention import Read
from glimpse.data.captions import Words
from glimpse.data.dates import Dates
from glimpse.data.translation import Pair, Script, Translated, TranslationData
from glimpse.runs import Run, RunError
from glimpse.search import beam
from glimpse.sentences import Sentences, Translator, encode_sentences
from glimpse.tasks import evaluating
from glimpse.telling import TellingTask
from glimpse.text import Vocabulary

BUCKET = 5  # source words from one group of lengths to the next


class Translation(NamedTuple):
    """A translation, and where the translator looked for each word of it."""

    pair: Pair  # the source and, if they are known, its references
    words: Words  # N of them
    log_prob: float  # of the words and the end
    weights: Tensor  # (N, L): the attention for each word; (N, 1) if one annotation stands for the whole source
    places: Tensor  # (N,): the source word read for each word; soft: the one most attended to


class Translating(TellingTask):
    """Learns to translate; an `engine.Task`."""

    def __init__(self, *, source_vocabulary: Vocabulary, **settings: Any):
        """Prepare the training.

        Args:
            source_vocabulary: The words to translate from.
            settings: Those of `TellingTask`; the model is a `Translator`, the data `TranslationSplits`.
        """
        super().__init__(**settings)
        self.source_vocabulary = source_vocabulary

    def about(self) -> dict[str, Any]:
        """What a run folder has to say for the model to be used without the data."""
        return {"source_words": self.source_vocabulary.words, "words": self.vocabulary.words}

    def shown(self, batch: Translated) -> tuple[Sentences, list[Words]]:
        """See `TellingTask.shown`."""
        source = encode_sentences(self.source_vocabulary, [pair.source for pair in batch.pairs], batch.width)
        return source.to(self.processes.device), [pair.references[0] for pair in batch.pairs]

    @property
    def goal(self) -> str:
        """The score that selects the best epoch: of dates, which are right or wrong, how many are right; else BLEU."""
        return "exact" if isinstance(self.data.valid, Dates) else "BLEU"

    def scores(self, data: TranslationData, width: int, limit: int | None) -> dict[str, Any]:
        """See `TellingTask.scores`."""
        translations = translate(
            self.model,
            self.source_vocabulary,
            self.vocabulary,
            pairs_of(data, limit),
            how=self.score.read,
            width=width,
            length_penalty=self.score.length_penalty,
            max_length=self.max_length,
            batch_size=self.score.batch_size,
            device=self.processes.device,
        )
        return score_translations(translations)


def pairs_of(data: TranslationData, limit: int | None = None) -> list[Pair]:
    """The pairs of a data set in its fixed order, or the first so many."""
    return [pair for batch in data.in_order(batch_size=1000, limit=limit) for pair in batch.pairs]


@torch.no_grad()
def translate(
    model: Translator,
    source_vocabulary: Vocabulary,
    vocabulary: Vocabulary,
    pairs: Sequence[Pair],
    *,
    how: Read | None = None,
    width: int = 1,
    length_penalty: float = 0.0,
    max_length: int = 20,
    batch_size: int = 500,
    device: torch.device | str = "cpu",
) -> list[Translation]:
    """Let a translator translate sentences.

    Args:
        model: The translator.
        source_vocabulary: The words it reads.
        vocabulary: The words it says.
        pairs: The sentences, with or without references.
        how: Read hard or soft; the model's own way if not given.
        width: Hypotheses that are kept; 1 is greedy.
        length_penalty: With a beam, how much longer translations are favoured.
        max_length: The most words of a translation, its end counted.
        batch_size: Sentences at a time, of about one length.
        device: Where to compute.

    Returns:
        The translations, in the order of the sentences.
    """
    order = sorted(range(len(pairs)), key=lambda index: len(pairs[index].source))
    found: dict[int, Translation] = {}
    with evaluating(model):
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            sentences = encode_sentences(source_vocabulary, [pairs[row].source for row in rows])
            annotations = model.annotate(sentences.to(device))
            said = beam(
                model.decoder, annotations, width=width, length_penalty=length_penalty, max_length=max_length, how=how
            )
            for row, caption in zip(rows, said, strict=True):
                words, weights = vocabulary.decode(caption.words), caption.weights[:, : len(pairs[row].source)]
                found[row] = Translation(pairs[row], words, caption.log_prob, weights.cpu(), caption.places.cpu())
    return [found[row] for row in range(len(pairs))]


def score_translations(translations: Sequence[Translation]) -> dict[str, Any]:
    """Score translations against their references and, where it is known, their attention against the alignment.

    BLEU is sacrebleu's, of the words as they are: data is tokenised before, so sacrebleu must not do so again
    (`tokenize="none"`). It compares only with BLEU of text that was tokenised, and put in lower case or not, alike.

    Args:
        translations: Of sentences with references.

    Returns:
        "sentences"; "exact": share of translations that are a reference word for word; "BLEU", as a share. Where the
        alignment is known also "on_span": of the words that are from some source words, the share for which attention
        was strongest on one of these; None without a choice of places. Last, by the number of source words, as
        "exact_words_6-10": "exact" where the alignment is known, else "BLEU".
    """
    scores: dict[str, Any] = {"sentences": len(translations), "exact": _exact(translations)}
    scores["BLEU"] = bleu(translations)
    aligned = any(one.pair.spans for one in translations)
    if aligned:
        hits = [hit for one in translations for hit in _on_span(one)]
        scores["on_span"] = sum(hits) / len(hits) if hits else None
    for lengths, rows in by_length([one.pair for one in translations]).items():
        members = [translations[row] for row in rows]
        if aligned:
            scores[f"exact_words_{lengths}"] = _exact(members)
        else:
            scores[f"BLEU_words_{lengths}"] = bleu(members)
    return scores


def by_length(pairs: Sequence[Pair]) -> dict[str, list[int]]:
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
    for (start, stop), place in zip(one.pair.spans, one.places.tolist(), strict=False):  # more or fewer may be said
        if stop > start:
            yield start <= place < stop


class LoadedTranslator(NamedTuple):
    """A run that translates: `glimpse.load(RUN).translate(["the 3rd of May, 1998"])`."""

    run: Run
    model: Translator
    source_vocabulary: Vocabulary
    vocabulary: Vocabulary
    script: Script

    def unknown_words(self, sentence: Words) -> list[str]:
        """Those of the source words that it has never learned."""
        return [word for word in sentence if word not in self.source_vocabulary.words]

    def translate(
        self, texts: Sequence[str], *, how: Read | None = None, device: torch.device | str = "cpu"
    ) -> list[Translation]:
        """Translate texts, one sentence each, with the beam of the run's test.

        Args:
            texts: The sentences, split into words as the run's data was.
            how: Read hard or soft; as the run was scored if not given.
            device: Where to compute.

        Raises:
            RunError: As `read`.
        """
        return self.translate_pairs(self.read(texts), how=how, device=device)

    def read(self, texts: Sequence[str]) -> list[Pair]:
        """Split texts into words as the run's data was.

        Raises:
            ValueError: If it is one text, and not a list of them.
            RunError: If a text has no words; or one that the run does not know, if it has never met such words in its
                training, which it has with encoder.min_count above 1.
        """
        if isinstance(texts, str):
            raise ValueError(f"texts must be a list of sentences, got the one text {texts!r}")
        pairs = [Pair(self.script.split(text), ()) for text in texts]
        for number, (text, pair) in enumerate(zip(texts, pairs, strict=True), 1):
            if not pair.source:
                raise RunError(f"sentence {number} must have words, got {text!r}")
            if self.run.config.encoder.min_count == 1 and (unknown := self.unknown_words(pair.source)):
                words = ", ".join(map(repr, unknown))
                raise RunError(f"{self.run} does not know {words} of sentence {number}, {text!r}")
        return pairs

    def translate_pairs(
        self,
        pairs: Sequence[Pair],
        *,
        how: Read | None = None,
        batch_size: int | None = None,
        device: torch.device | str = "cpu",
    ) -> list[Translation]:
        """Translate sentences that are split already, with the beam of the run's test.

        Args:
            pairs: The sentences, with or without references.
            how: Read hard or soft; as the run was scored if not given.
            batch_size: Sentences at a time; as the run was scored if not given.
            device: Where to compute.
        """
        config = self.run.config
        return translate(
            self.model.to(device),
            self.source_vocabulary,
            self.vocabulary,
            pairs,
            how=how or config.score.read,
            width=config.score.beam,
            length_penalty=config.score.length_penalty,
            max_length=config.decoder.max_length,
            batch_size=batch_size or config.score.batch_size,
            device=device,
        )
