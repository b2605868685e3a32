"""How translators fare with short and long sentences: runs grouped by config, scored on the very same sentences.

Of dates, which are right or wrong, the score is the error: the share of translations that are not exact. Of other text
it is BLEU. Intervals are over seeds where a group has several runs; of a single run, over sentences: Wilson's for the
error, and for BLEU, which is no mean over sentences, that of the bootstrap.

Shapes: I sentences, R resamplings.
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

ALL = "all"
RESAMPLINGS = 1000


class Scored(NamedTuple):
    """A run, scored by length."""

    folder: str
    seed: int
    scores: dict[str, Estimate]  # by lengths; the intervals are over sentences


class LengthGroup(NamedTuple):
    """Runs that differ in their seed only."""

    name: str
    attends: bool  # or has one annotation for a whole sentence
    runs: list[Scored]

    def score(self, lengths: str) -> Estimate:
        """The mean over the runs; the interval is over seeds, or with a single run over sentences."""
        estimates = [run.scores[lengths] for run in self.runs]
        if len(estimates) == 1:
            return estimates[0]
        mean, low, high = over_seeds([estimate.mean for estimate in estimates])
        return Estimate(mean, max(0.0, low), min(1.0, high))


class LengthComparison(NamedTuple):
    """Groups of runs, scored on the same sentences."""

    metric: Literal["error", "BLEU"]
    split: str
    counts: dict[str, int]  # sentences of each group of lengths, and of ALL
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
    """Score translators on the same sentences, by the number of source words, and group them by config.

    Args:
        runs: As `loading.load_translator` opened them.
        pairs: The sentences, with references.
        split: What to call them.
        batch_size: Sentences at a time; as each run was scored if not given.
        device: Where to compute.
        log: Told of the progress.

    Raises:
        RunError: If a run is not finished, or two have the same config and seed.
    """
    groups = group_runs([loaded.run for loaded in runs])
    metric = "error" if any(pair.alignment_spans for pair in pairs) else "BLEU"
    estimate = _error if metric == "error" else bleu_interval
    rows = {**by_length(pairs), ALL: list(range(len(pairs)))}
    scored = []
    for number, loaded in enumerate(runs, 1):
        log(f"Scoring {number} of {len(runs)}: {loaded.run}")
        translations = loaded.translate_pairs(pairs, batch_size=batch_size, device=device)
        scores = {lengths: estimate([translations[row] for row in members]) for lengths, members in rows.items()}
        scored.append(Scored(str(loaded.run), loaded.run.config.seed, scores))
    firsts = [runs[indices[0]].run for indices in groups]
    return LengthComparison(
        metric=metric,
        split=split,
        counts={lengths: len(members) for lengths, members in rows.items()},
        groups=[
            LengthGroup(name, first.config.attention.has_choice, [scored[index] for index in indices])
            for name, first, indices in zip(group_names(firsts), firsts, groups, strict=True)
        ],
    )


def _error(translations: Sequence[Translation]) -> Estimate:
    wrong = sum(one.words not in one.pair.references for one in translations)
    return Estimate(wrong / len(translations), *wilson_interval(wrong, len(translations)))


def bleu_interval(translations: Sequence[Translation]) -> Estimate:
    """BLEU of the corpus, as a share, with the 95% interval of the bootstrap over its sentences.

    A thousand corpora of as many sentences are drawn from these, the same at every call; the counts that BLEU is made
    of are those of the sentences, summed.
    """
    each = [corpus_bleu([one]) for one in translations]
    counts = np.array([[*one.counts, *one.totals, one.sys_len, one.ref_len] for one in each])  # (I, 10)
    drawn = below(random_bits(Stream.BOOTSTRAP, shape=(RESAMPLINGS, len(each))), len(each))  # (R, I)
    shares = [_bleu_of(counts[rows].sum(0)) for rows in drawn]
    low, high = np.quantile(shares, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    mean = _bleu_of(counts.sum(0))
    return Estimate(mean, min(mean, float(low)), max(mean, float(high)))


def _bleu_of(counts: np.ndarray) -> float:
    correct, total, (said, meant) = counts[:4].tolist(), counts[4:8].tolist(), counts[8:].tolist()
    return BLEU.compute_bleu(correct, total, said, meant, smooth_method="exp").score / 100
