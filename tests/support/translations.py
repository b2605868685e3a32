"""Made-up translations with attention: each word has its largest weight in another place than its neighbors."""

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
WORDS = (("0", "5", "-", "3", "more"), ("0", "$6_$"))  # wrong: longer than the reference, and as long


def make_translation_trace(mode="soft", *, words=WORDS, pairs=PAIRS, seed=0, name=None, tokenizer=WHITESPACE):
    """A trace of two translations; without attention (mode None) there is one weight per word."""
    translations = []
    for row, (pair, output) in enumerate(zip(pairs, words, strict=True)):
        length = len(pair.source) if mode else 1
        peaks = [(seed + row + 2 * word) % length for word in range(len(output))]
        numbers = draw(len(output), length, seed=seed + row)
        numbers[range(len(output)), peaks] = 2.0
        weights = numbers / numbers.sum(1, keepdim=True)
        translations.append(Translation(pair, output, -1.0, weights, torch.tensor(peaks, dtype=torch.int64)))
    return TranslationTrace(name=name or mode or "none", mode=mode, translations=translations, tokenizer=tokenizer)
