"""Sentences as words, and words as numbers.

Shapes: B captions, N numbers per caption.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

Tokens = tuple[str, ...]  # a caption: lower-case words without punctuation

PAD, START, END, UNKNOWN = 0, 1, 2, 3
SPECIAL = ("<pad>", "<start>", "<end>", "<unknown>")  # by number; no words of any caption

_DROPPED = frozenset("'`\"“”(){}.?!,:;-–—…") | {"-lrb-", "-rrb-", "-lcb-", "-rcb-"}
_TOKEN = re.compile(
    r"""
    (?:[^\W\d_]\.){2,}                         # initials: u.s.
    | \b(?:mr|mrs|ms|dr|st|jr|sr|vs|etc)\.     # abbreviations
    | -[lr][rc]b-                              # brackets as the Penn Treebank writes them
    | '(?:s|m|d|re|ve|ll)(?![^\W_])            # endings that have been split off already
    | \d+(?:[.,:/]\d+)+(?![^\W_])              # 3,000  2.5  5:30  1/2
    | [^\W_]+(?:[-/&'][^\W_]+)*                # words, with hyphens or apostrophes or without
    | \S                                       # anything else by itself
    """,
    re.VERBOSE,
)
_ENDING = re.compile(r"(.+)(n't|'(?:s|m|d|re|ve|ll))")
_JOINED = {"cannot": 3, "gimme": 3, "gonna": 3, "gotta": 3, "lemme": 3, "wanna": 3}  # where Penn Treebank splits them


def tokenize_ptb(text: str) -> Tokens:
    """Splits a sentence into words, much as the scorer of COCO captions does.

    That scorer runs Stanford's Penn Treebank tokeniser in lower case and drops punctuation. So does this: contractions
    and possessives are split ("don't" is "do n't", "it's" is "it 's", "cannot" is "can not"), full stops, commas,
    colons, quotation marks, round and curly brackets, dashes and ellipses are dropped, and hyphenated words, numbers
    ("3,000", "5:30", "1/2"), initials ("u.s.") and other signs ("&", "%", "$") are kept.

    Where the two differ: only the most common abbreviations keep their full stop; words that begin with an apostrophe
    ("'em") lose it; brackets are dropped, though the scorer's own list misses them in lower case; web and e-mail
    addresses, faces such as ":-)" and square brackets are taken apart sign by sign; nothing is respelt.

    Args:
        text: one sentence or several.

    Returns:
        The words, in lower case.
    """
    words = []
    for token in _TOKEN.findall(text.lower().replace("\u2019", "'")):
        if ending := _ENDING.fullmatch(token):
            words += ending.groups()
        elif token in _JOINED:
            words += token[: _JOINED[token]], token[_JOINED[token] :]
        elif token not in _DROPPED:
            words.append(token)
    return tuple(words)


class Vocabulary:
    """Numbers for words: four special ones (PAD, START, END, UNKNOWN), then the words in their order."""

    def __init__(self, words: Sequence[str]):
        """Numbers the words from 4.

        Args:
            words: the words, without the special ones.
        """
        self.words = tuple(words)
        repeated = sorted(word for word, count in Counter(self.words).items() if count > 1)
        if repeated:
            raise ValueError(f"words must differ from each other, got more than once: {', '.join(repeated)}")
        special = [word for word in SPECIAL if word in self.words]
        if special:
            raise ValueError(f"words must not be one of {', '.join(SPECIAL)}, got {', '.join(special)}")
        self._numbers = {word: number for number, word in enumerate(self.words, start=len(SPECIAL))}

    @classmethod
    def of(cls, captions: Iterable[Tokens], *, min_count: int = 1) -> "Vocabulary":
        """The words of some captions, the most frequent first, ties in alphabetical order.

        Args:
            captions: of the training data.
            min_count: leave out words that occur less often than this.
        """
        if min_count < 1:
            raise ValueError(f"min_count must be at least 1, got {min_count}")
        counts = Counter(word for caption in captions for word in caption)
        return cls(sorted((word for word in counts if counts[word] >= min_count), key=lambda w: (-counts[w], w)))

    def __len__(self) -> int:
        """Count of numbers, the special ones among them."""
        return len(SPECIAL) + len(self.words)

    def encode(self, captions: Sequence[Tokens]) -> tuple[Tensor, Tensor]:
        """Writes captions as numbers.

        Args:
            captions: B of them; a word that is not in the vocabulary becomes UNKNOWN.

        Returns:
            (B, N) int64: START, the words, END, then PAD up to the longest; and (B,) int64, how many words and END
            each has, START not counted.
        """
        ids = torch.full((len(captions), max(map(len, captions), default=0) + 2), PAD)
        for row, caption in zip(ids, captions, strict=True):
            numbers = [START, *(self._numbers.get(word, UNKNOWN) for word in caption), END]
            row[: len(numbers)] = torch.tensor(numbers)
        return ids, torch.tensor([len(caption) + 1 for caption in captions], dtype=torch.int64)

    def decode(self, ids: Sequence[int]) -> Tokens:
        """Reads numbers as words, up to END if there is one; START and PAD say nothing, UNKNOWN is "<unknown>"."""
        words = []
        for number in map(int, ids):
            if not 0 <= number < len(self):
                raise ValueError(f"ids must be in 0..{len(self) - 1}, got {number}")
            if number == END:
                break
            if number not in (PAD, START):
                words.append(SPECIAL[number] if number == UNKNOWN else self.words[number - len(SPECIAL)])
        return tuple(words)
