"""Scores of captions by their words: BLEU, ROUGE-L and CIDEr-D as coco-caption computes them, and METEOR through it.

Papers: BLEU (Papineni et al., 2002), ROUGE (Lin, 2004), CIDEr (arXiv:1411.5726), METEOR (Denkowski and Lavie, 2014).
Published captioning results come from the coco-caption tools (the package pycocoevalcap), so it is their numbers that
these functions give, to rounding, with their choices where papers leave one; only METEOR needs Java.

Three ways to get numbers that compare with nothing:
    Teacher-forced BLEU is not BLEU. A caption must be generated from its own words, never told the true ones before.
    NLTK's BLEU is not coco-caption's: the two part wherever no n-gram matches, so most for few or short captions.
    Tokenisation matters. Candidates and references must be split, lower-cased and stripped of punctuation alike, and
    without the words that mark start and end. Published COCO scores use the Penn Treebank tokeniser of coco-caption.

A corpus is one candidate for each image, and one or more references for each image, all of them tuples of words. The
functions that end in `_each` score image by image.
"""

import math
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import chain
from statistics import fmean

from glimpse.data.vocabulary import Tokens

LONGEST = 4  # words in the longest n-gram of CIDEr-D
SIGMA = 6.0  # of CIDEr-D: the standard deviation of the penalty on the difference in length, in words
BETA = 1.2  # of ROUGE-L: how many times as much recall counts as precision
TINY, SMALL = 1e-15, 1e-9  # of BLEU: added above and below the fraction line, so that no count of zero divides


def bleu(candidates: Sequence[Tokens], references: Sequence[Sequence[Tokens]], most: int = 4) -> tuple[float, ...]:
    """BLEU-1 to BLEU-`most` of the corpus.

    All counts are summed over the images before anything is divided, so this is no mean of `bleu_each`. The brevity
    penalty compares with the reference closest in length to the candidate, the shorter of two that are as close.
    """
    return _bleu([sum(column) for column in zip(*_tallies(candidates, references, most), strict=True)])


def bleu_each(
    candidates: Sequence[Tokens], references: Sequence[Sequence[Tokens]], most: int = 4
) -> list[tuple[float, ...]]:
    """BLEU-1 to BLEU-`most` of every image alone; a candidate shorter than n words has a BLEU-n near zero."""
    return [_bleu(tally) for tally in _tallies(candidates, references, most)]


def rouge_l(candidates: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> float:
    """The mean of `rouge_l_each` over the images."""
    return fmean(rouge_l_each(candidates, references))


def rouge_l_each(candidates: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> list[float]:
    """ROUGE-L of every image: an F-score of the longest common subsequence of words, with beta 1.2.

    The best precision and the best recall are taken each over all references, and may be those of different ones.
    """
    _check(candidates, references)
    return [_rouge_l(candidate, captions) for candidate, captions in zip(candidates, references, strict=True)]


def cider_d(candidates: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> float:
    """The mean of `cider_d_each` over the images: what coco-caption, and so nearly every paper, reports as CIDEr.

    The original CIDEr, which neither clips nor looks at length, is not computed here, nor by coco-caption.
    """
    return fmean(cider_d_each(candidates, references))


def cider_d_each(candidates: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> list[float]:
    """CIDEr-D of every image, from 0 to 10: how alike candidate and references are in what is rare elsewhere.

    For n = 1 to 4, the cosine between the n-gram counts of candidate and reference, each n-gram weighted by the
    logarithm of one over the share of images with it in a reference. What the candidate has more of than the reference
    is clipped, and a difference in length costs a Gaussian factor. Ten times the mean over n and the references.

    The weights come from the references of this very corpus: scores of different sets of images do not compare, and
    a corpus of a single image has no rare words, and scores 0.
    """
    _check(candidates, references)
    frequencies = Counter(
        chain.from_iterable(
            {ngram for words in captions for n in range(1, LONGEST + 1) for ngram in _ngrams(words, n)}
            for captions in references
        )
    )
    unseen = math.log(len(references))  # the weight of an n-gram in no reference, as if it were in one image's
    rarity = {ngram: unseen - math.log(images) for ngram, images in frequencies.items()}

    def weigh(words: Tokens, n: int) -> tuple[dict[Tokens, float], float]:
        """The weighted counts of the n-grams of a caption, and the norm of them."""
        weights = {ngram: count * rarity.get(ngram, unseen) for ngram, count in Counter(_ngrams(words, n)).items()}
        return weights, math.sqrt(sum(weight * weight for weight in weights.values()))

    def score(candidate: Tokens, captions: Sequence[Tokens]) -> float:
        total = 0.0
        penalties = [math.exp(-((len(candidate) - len(words)) ** 2) / (2 * SIGMA**2)) for words in captions]
        for n in range(1, LONGEST + 1):
            weights, norm = weigh(candidate, n)
            for words, penalty in zip(captions, penalties, strict=True):
                others, other_norm = weigh(words, n)
                if norm and other_norm:
                    common = 0.0
                    for ngram, weight in weights.items():
                        other = others.get(ngram, 0.0)
                        common += min(weight, other) * other
                    total += penalty * common / (norm * other_norm)
        return 10 * total / (LONGEST * len(captions))

    return [score(candidate, captions) for candidate, captions in zip(candidates, references, strict=True)]


def caption_scores(
    candidates: Sequence[Tokens], references: Sequence[Sequence[Tokens]], *, meteor: bool = True
) -> dict[str, float]:
    """All scores of the corpus by their usual names; METEOR if it is wanted and `missing_metrics` does not name it."""
    scores = {f"BLEU-{n}": score for n, score in enumerate(bleu(candidates, references), 1)}
    scores |= {"ROUGE-L": rouge_l(candidates, references), "CIDEr": cider_d(candidates, references)}
    if meteor and "METEOR" not in missing_metrics():
        scores["METEOR"] = _meteor(candidates, references)
    return scores


def missing_metrics() -> dict[str, str]:
    """The metrics that `caption_scores` cannot compute here, each with the reason, in a sentence to print."""
    lacking = ["Java (no `java` is on the path)"] if shutil.which("java") is None else []
    if find_spec("pycocoevalcap") is None:
        lacking.append("the package pycocoevalcap (it is not installed)")
    return {"METEOR": f"METEOR is left out, for it needs {' and '.join(lacking)}."} if lacking else {}


def _check(candidates: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> None:
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


def _tallies(candidates: Sequence[Tokens], references: Sequence[Sequence[Tokens]], most: int) -> Iterator[list[int]]:
    """The counts that BLEU is made of, for every image.

    Yields:
        The words of the candidate and of the reference closest in length, then for n = 1 to `most` two numbers: the
        n-grams of the candidate that are in a reference, each at most as often as there, and all its n-grams.
    """
    if most < 1:
        raise ValueError(f"most must be at least 1, got {most}")
    _check(candidates, references)
    for candidate, captions in zip(candidates, references, strict=True):
        length = len(candidate)
        tally = [length, min((len(words) for words in captions), key=lambda other: (abs(other - length), other))]
        for n in range(1, most + 1):
            counts = [Counter(_ngrams(words, n)) for words in captions]
            matched = 0
            for ngram, count in Counter(_ngrams(candidate, n)).items():
                matched += min(count, max(others.get(ngram, 0) for others in counts))
            tally += [matched, max(0, length - n + 1)]
        yield tally


def _bleu(tally: Sequence[int]) -> tuple[float, ...]:
    length, closest, *counts = tally
    penalty = math.exp(min(0.0, 1 - (closest + SMALL) / (length + TINY)))
    product, scores = 1.0, []
    for n, (matched, possible) in enumerate(zip(counts[::2], counts[1::2], strict=True), 1):
        product *= (matched + TINY) / (possible + SMALL)
        scores.append(penalty * product ** (1 / n))
    return tuple(scores)


def _rouge_l(candidate: Tokens, captions: Sequence[Tokens]) -> float:
    # coco-caption splits at spaces, so that a caption without words has one word, which is empty.
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
    """The length of the longest common subsequence of two captions.

    This is the usual table of lengths, computed a row at a time: along a row the lengths rise by 0 or 1, so a row is
    the bits of a number, 0 where it rises, and the addition carries each match to the rise that it moves.

    Args:
        positions: For every word of the one caption, a number with a bit for each place that it is at.
        length: Words in that caption.
        words: The other caption.
    """
    all_places = row = (1 << length) - 1
    for word in words:
        matches = row & positions.get(word, 0)
        row = (row + matches) | (row - matches)
    return length - (row & all_places).bit_count()


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
    except (OSError, ValueError) as error:  # the pipe broke, or the answer is no number
        process.kill()
        complaint = process.communicate()[1].decode(errors="replace").strip()
        raise RuntimeError(f"the Java process of METEOR failed: {complaint or 'it gave no reason'}") from error
    finally:
        # The scorer has no method to close it, and after a failure its destructor would wait for the lock for ever.
        process.kill()
        process.communicate()
        if scorer.lock.locked():
            scorer.lock.release()
