"""Caption metrics: BLEU, ROUGE-L and CIDEr-D as computed by coco-caption, and METEOR computed with it.

Papers: BLEU (Papineni et al., 2002), ROUGE (Lin, 2004), CIDEr (arXiv:1411.5726), METEOR (Denkowski and Lavie, 2014).
Published captioning results are computed with the coco-caption tools (the package pycocoevalcap). These functions
reproduce its numbers up to rounding, and its choices where papers leave a choice; only METEOR needs Java.

Three mistakes make scores incomparable with published ones:
    Teacher forcing: a caption must be generated from the model's own previous words, not from those of the reference.
    NLTK's BLEU: it differs from coco-caption's if an n-gram order has no match, as in small corpora or short captions.
    Tokenization: candidates and references must be tokenized, lower-cased and stripped of punctuation in the same way,
    without start and end tokens. Published COCO scores use the Penn Treebank tokenizer of coco-caption.

A corpus consists of one candidate and one or more references per image, all tuples of words. Functions whose names end
in `_each` return a score for each image.
"""

import math
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import chain
from statistics import fmean

from glimpse.data.vocabulary import Tokens

MAX_N = 4  # length of the longest n-grams of CIDEr-D
SIGMA = 6.0  # of CIDEr-D: standard deviation of the Gaussian length penalty, in words
BETA = 1.2  # of ROUGE-L: weight of recall relative to precision
TINY, SMALL = 1e-15, 1e-9  # of BLEU: added to numerators and denominators, to avoid division by zero


def bleu(candidates: Sequence[Tokens], references: Sequence[Sequence[Tokens]], max_n: int = 4) -> tuple[float, ...]:
    """BLEU-1 to BLEU-`max_n` of the corpus.

    Counts are summed over the images before they are divided, so this is not the mean of `bleu_each`. The brevity
    penalty uses the reference whose length is closest to the candidate's; of a tie, the shorter one.
    """
    return _bleu([sum(column) for column in zip(*_bleu_counts(candidates, references, max_n), strict=True)])


def bleu_each(
    candidates: Sequence[Tokens], references: Sequence[Sequence[Tokens]], max_n: int = 4
) -> list[tuple[float, ...]]:
    """BLEU-1 to BLEU-`max_n` of each image; BLEU-n of a candidate shorter than n words is close to zero."""
    return [_bleu(counts) for counts in _bleu_counts(candidates, references, max_n)]


def rouge_l(candidates: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> float:
    """The mean of `rouge_l_each` over the images."""
    return fmean(rouge_l_each(candidates, references))


def rouge_l_each(candidates: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> list[float]:
    """ROUGE-L of each image: the F-score of the longest common subsequence of words, with beta 1.2.

    Precision and recall are each the maximum over the references, which may be different references.
    """
    _check(candidates, references)
    return [_rouge_l(candidate, captions) for candidate, captions in zip(candidates, references, strict=True)]


def cider_d(candidates: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> float:
    """The mean of `cider_d_each` over the images, which coco-caption and most papers report as CIDEr.

    The original CIDEr, without clipping and length penalty, is not computed here, nor by coco-caption.
    """
    return fmean(cider_d_each(candidates, references))


def cider_d_each(candidates: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> list[float]:
    """CIDEr-D of each image, from 0 to 10: the tf-idf similarity of candidate and references.

    For n = 1 to 4, the cosine similarity of the tf-idf vectors of n-grams, where document frequency is the number of
    images with the n-gram in a reference. The candidate's weights are clipped at the reference's, and a difference in
    length is penalized by a Gaussian factor. The score is ten times the mean over n and the references.

    Document frequencies come from the references of this corpus, so scores on different sets of images are not
    comparable, and a corpus of a single image scores 0.
    """
    _check(candidates, references)
    document_frequency = Counter(
        chain.from_iterable(
            {ngram for words in captions for n in range(1, MAX_N + 1) for ngram in _ngrams(words, n)}
            for captions in references
        )
    )
    max_idf = math.log(len(references))  # an n-gram in no reference counts as if it were in one image
    idf = {ngram: max_idf - math.log(images) for ngram, images in document_frequency.items()}

    def tf_idf(words: Tokens, n: int) -> tuple[dict[Tokens, float], float]:
        """The tf-idf weights of the n-grams of a caption, and their norm."""
        weights = {ngram: count * idf.get(ngram, max_idf) for ngram, count in Counter(_ngrams(words, n)).items()}
        return weights, math.sqrt(sum(weight * weight for weight in weights.values()))

    def score(candidate: Tokens, captions: Sequence[Tokens]) -> float:
        total = 0.0
        penalties = [math.exp(-((len(candidate) - len(words)) ** 2) / (2 * SIGMA**2)) for words in captions]
        for n in range(1, MAX_N + 1):
            weights, norm = tf_idf(candidate, n)
            for words, penalty in zip(captions, penalties, strict=True):
                reference_weights, reference_norm = tf_idf(words, n)
                if norm and reference_norm:
                    product = 0.0
                    for ngram, weight in weights.items():
                        reference_weight = reference_weights.get(ngram, 0.0)
                        product += min(weight, reference_weight) * reference_weight
                    total += penalty * product / (norm * reference_norm)
        return 10 * total / (MAX_N * len(captions))

    return [score(candidate, captions) for candidate, captions in zip(candidates, references, strict=True)]


def caption_scores(
    candidates: Sequence[Tokens], references: Sequence[Sequence[Tokens]], *, meteor: bool = True
) -> dict[str, float]:
    """All scores of the corpus by name; METEOR only if requested and available, see `missing_metrics`."""
    scores = {f"BLEU-{n}": score for n, score in enumerate(bleu(candidates, references), 1)}
    scores |= {"ROUGE-L": rouge_l(candidates, references), "CIDEr": cider_d(candidates, references)}
    if meteor and "METEOR" not in missing_metrics():
        scores["METEOR"] = _meteor(candidates, references)
    return scores


def missing_metrics() -> dict[str, str]:
    """The metrics that `caption_scores` cannot compute on this machine, each with a sentence that gives the reason."""
    missing = ["Java (no `java` on the path)"] if shutil.which("java") is None else []
    if find_spec("pycocoevalcap") is None:
        missing.append("the package pycocoevalcap (not installed)")
    return {"METEOR": f"METEOR is left out, because it needs {' and '.join(missing)}."} if missing else {}


def _check(candidates: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> None:
    """Raise a ValueError unless the corpus is valid."""
    if len(candidates) != len(references):
        raise ValueError(
            "candidates and references must be of the same images, "
            f"got {len(candidates)} candidates and references of {len(references)} images"
        )
    if not candidates:
        raise ValueError("there must be at least one image to score, got none")
    for image, (candidate, captions) in enumerate(zip(candidates, references, strict=True)):
        if not captions:
            raise ValueError(f"every image must have at least one reference, image {image} has none")
        for name, words in (("candidate", candidate), *(("reference", words) for words in captions)):
            if isinstance(words, str):
                raise ValueError(
                    "a caption must be a tuple of words, such as ('a', 'dog'), "
                    f"got the string {words!r} as a {name} of image {image}"
                )


def _ngrams(words: Tokens, n: int) -> Iterator[Tokens]:
    return zip(*(words[start:] for start in range(n)), strict=False)


def _bleu_counts(
    candidates: Sequence[Tokens], references: Sequence[Sequence[Tokens]], max_n: int
) -> Iterator[list[int]]:
    """The counts for BLEU of each image.

    Yields:
        Length of the candidate, length of the reference closest in length, then for n = 1 to `max_n` two numbers: the
        clipped number of matching n-grams, and the number of n-grams of the candidate.
    """
    if max_n < 1:
        raise ValueError(f"max_n must be at least 1, got {max_n}")
    _check(candidates, references)
    for candidate, captions in zip(candidates, references, strict=True):
        length = len(candidate)
        closest = min((len(words) for words in captions), key=lambda other: (abs(other - length), other))
        counts = [length, closest]
        for n in range(1, max_n + 1):
            reference_ngrams = [Counter(_ngrams(words, n)) for words in captions]
            matched = 0
            for ngram, count in Counter(_ngrams(candidate, n)).items():
                matched += min(count, max(ngrams.get(ngram, 0) for ngrams in reference_ngrams))
            counts += [matched, max(0, length - n + 1)]
        yield counts


def _bleu(counts: Sequence[int]) -> tuple[float, ...]:
    length, closest, *ngram_counts = counts
    penalty = math.exp(min(0.0, 1 - (closest + SMALL) / (length + TINY)))
    product, scores = 1.0, []
    for n, (matched, possible) in enumerate(zip(ngram_counts[::2], ngram_counts[1::2], strict=True), 1):
        product *= (matched + TINY) / (possible + SMALL)
        scores.append(penalty * product ** (1 / n))
    return tuple(scores)


def _rouge_l(candidate: Tokens, captions: Sequence[Tokens]) -> float:
    # coco-caption splits at spaces, so a caption without words has one empty word.
    candidate = candidate or ("",)
    positions: dict[str, int] = {}
    for position, word in enumerate(candidate):
        positions[word] = positions.get(word, 0) | 1 << position
    precision = recall = 0.0
    for words in captions:
        words = words or ("",)
        common = _longest_common(positions, len(candidate), words)
        precision, recall = max(precision, common / len(candidate)), max(recall, common / len(words))
    if precision == 0:
        return 0.0
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)


def _longest_common(positions: dict[str, int], length: int, words: Tokens) -> int:
    """Length of the longest common subsequence of two captions, bit-parallel (Hyyrö, 2004).

    A row of the dynamic programming table is stored as the bits of an integer, since lengths along a row increase by 0
    or 1: a bit is 0 where they increase. Carries of the addition update all increments of a row at once.

    Args:
        positions: For every word of the first caption, an integer with a bit set for each of its positions.
        length: Length of the first caption.
        words: The second caption.
    """
    all_positions = row = (1 << length) - 1
    for word in words:
        matches = row & positions.get(word, 0)
        row = (row + matches) | (row - matches)
    return length - (row & all_positions).bit_count()


def _meteor(candidates: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> float:
    from pycocoevalcap.meteor.meteor import Meteor

    scorer = Meteor()
    process = scorer.meteor_p
    try:
        score, _ = scorer.compute_score(
            {image: [" ".join(words) for words in captions] for image, captions in enumerate(references)},
            {image: [" ".join(candidate)] for image, candidate in enumerate(candidates)},
        )
        return score
    except (OSError, ValueError) as error:  # broken pipe, or output that is not a number
        process.kill()
        message = process.communicate()[1].decode(errors="replace").strip()
        raise RuntimeError(f"the Java process of METEOR failed: {message or 'no error message'}") from error
    finally:
        # The scorer has no close method, and after a failure its destructor would wait for the lock forever.
        process.kill()
        process.communicate()
        if scorer.lock.locked():
            scorer.lock.release()
