"""What translators wrote, made up: every word has its largest weight somewhere else than its neighbours."""

import torch
from support.tensors import draw

from glimpse.data.parallel_text import WHITESPACE
from glimpse.data.sentence_pairs import SentencePair
from glimpse.evaluation.translation_traces import TranslationTrace
from glimpse.metrics.translations import Translation

PAIRS = (
    SentencePair(("on", "the", "3", "rd", "of", "may"), (("0", "5", "-", "3"),), ((5, 6), (5, 6), (0, 0), (2, 4))),
    SentencePair(("2", "$may_$"), (("0", "5"),), ((1, 2), (1, 2))),
)
WORDS = (("0", "5", "-", "3", "more"), ("0", "$6_$"))  # longer than the reference, and wrong; as long, and wrong


def some_aligned(mode="soft", *, words=WORDS, pairs=PAIRS, seed=0, name=None, script=WHITESPACE):
    """What a model wrote of two sentences; without attention there is one weight for each word."""
    translations = []
    for row, (pair, said) in enumerate(zip(pairs, words, strict=True)):
        length = len(pair.source) if mode else 1
        peaks = [(seed + row + 2 * word) % length for word in range(len(said))]
        numbers = draw(len(said), length, seed=seed + row)
        numbers[range(len(said)), peaks] = 2.0
        weights = numbers / numbers.sum(1, keepdim=True)
        translations.append(Translation(pair, said, -1.0, weights, torch.tensor(peaks, dtype=torch.int64)))
    return TranslationTrace(name=name or mode or "none", mode=mode, translations=translations, script=script)
