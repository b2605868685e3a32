"""Compare translators by the length of the source sentence, on the same sentences.

The metric is the error (the fraction of translations that match no reference exactly) on dates, and BLEU on other text.
Intervals are over seeds for several runs of a config. For a single run they are over sentences: Wilson's interval of
the error, and a bootstrap interval of BLEU, which is not a mean over sentences.

Shapes: I sentences, R bootstrap resamples.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from sacrebleu.metrics import BLEU

from glimpse.data.sentence_pairs import SentencePair
from glimpse.evaluation.comparison import group_names, group_runs
from glimpse.evaluation.translate import TrainedTranslator
from glimpse.metrics.statistics import LEVEL, Estimate, over_seeds, wilson_interval
from glimpse.metrics.translations import Translation, by_length, corpus_bleu
from glimpse.seeding import Stream, below, random_bits

Metric = Literal["error", "BLEU"]

ALL = "all"  # the length group of all sentences
RESAMPLINGS = 1000


class ScoredTranslator(NamedTuple):
    """The scores of one run by sentence length."""

    folder: str
    seed: int
    scores: dict[str, Estimate]  # by length group; the intervals are over sentences


class LengthGroup(NamedTuple):
    """The scores of runs that differ only in their seed."""

    name: str
    has_attention: bool  # False: the decoder reads a single annotation of the whole sentence
    runs: list[ScoredTranslator]

    def score(self, lengths: str) -> Estimate:
        """The mean score of a length group, with an interval over seeds; of a single run, over sentences."""
        estimates = [run.scores[lengths] for run in self.runs]
        if len(estimates) == 1:
            return estimates[0]
        mean, low, high = over_seeds([estimate.mean for estimate in estimates])
        return Estimate(mean, max(0.0, low), min(1.0, high))


class LengthComparison(NamedTuple):
    """The scores of groups of runs on the same sentences."""

    metric: Metric
    split: str
    counts: dict[str, int]  # number of sentences of each length group, the last being ALL
    groups: list[LengthGroup]


def compare_lengths(
    runs: Sequence[TrainedTranslator],
    pairs: Sequence[SentencePair],
    *,
    split: str = "test",
    batch_size: int | None = None,
    device: torch.device | str = "cpu",
    log: Callable[[str], None] = print,
) -> LengthComparison:
    """Score translators by the number of source words, and group them by config.

    Args:
        runs: The trained translators.
        pairs: The sentences, with references.
        split: Name of the split that the sentences are from.
        batch_size: Sentences per batch; None: `score.batch_size` of each run.
        device: Device to compute on.
        log: Called with a line of text for each run.

    Raises:
        RunError: If a run is not finished, or two runs have the same config and seed.
    """
    groups = group_runs([translator.run for translator in runs])
    metric: Metric = "error" if any(pair.alignment_spans for pair in pairs) else "BLEU"
    estimate = _error if metric == "error" else bleu_interval
    rows = {**by_length(pairs), ALL: list(range(len(pairs)))}
    scored = []
    for number, translator in enumerate(runs, 1):
        log(f"Scoring {number} of {len(runs)}: {translator.run}")
        translations = translator.translate_pairs(pairs, batch_size=batch_size, device=device)
        scores = {lengths: estimate([translations[row] for row in members]) for lengths, members in rows.items()}
        scored.append(ScoredTranslator(str(translator.run), translator.run.config.seed, scores))
    firsts = [runs[indices[0]].run for indices in groups]
    return LengthComparison(
        metric=metric,
        split=split,
        counts={lengths: len(members) for lengths, members in rows.items()},
        groups=[
            LengthGroup(name, first.config.scored_read is not None, [scored[index] for index in indices])
            for name, first, indices in zip(group_names(firsts), firsts, groups, strict=True)
        ],
    )


def _error(translations: Sequence[Translation]) -> Estimate:
    wrong = sum(translation.words not in translation.pair.references for translation in translations)
    return Estimate(wrong / len(translations), *wilson_interval(wrong, len(translations)))


def bleu_interval(translations: Sequence[Translation]) -> Estimate:
    """Corpus BLEU in [0, 1], with a 95% bootstrap interval over sentences.

    The R resamples are the same in every call. BLEU of a resample is computed from the summed n-gram counts of its
    sentences.
    """
    sentences = [corpus_bleu([translation]) for translation in translations]
    counts = np.array([[*bleu.counts, *bleu.totals, bleu.sys_len, bleu.ref_len] for bleu in sentences])  # (I, 10)
    resamples = below(random_bits(Stream.BOOTSTRAP, shape=(RESAMPLINGS, len(counts))), len(counts))  # (R, I)
    scores = [_bleu_from_counts(counts[rows].sum(0)) for rows in resamples]
    low, high = np.quantile(scores, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    mean = _bleu_from_counts(counts.sum(0))
    return Estimate(mean, min(mean, float(low)), max(mean, float(high)))


def _bleu_from_counts(counts: np.ndarray) -> float:
    correct, total, (length, reference_length) = counts[:4].tolist(), counts[4:8].tolist(), counts[8:].tolist()
    return BLEU.compute_bleu(correct, total, length, reference_length, smooth_method="exp").score / 100
