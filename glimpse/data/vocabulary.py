"""Tokenization of captions, and a vocabulary that converts tokens to ids.

Shapes: B captions, N ids per caption.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

Tokens = tuple[str, ...]  # the words of a caption or sentence

PAD, START, END, UNKNOWN = 0, 1, 2, 3
SPECIAL = ("<pad>", "<start>", "<end>", "<unknown>")  # indexed by id; not allowed as words

_DROPPED = frozenset("'`\"“”(){}.?!,:;-–—…") | {"-lrb-", "-rrb-", "-lcb-", "-rcb-"}
_TOKEN = re.compile(
    r"""
    (?:[^\W\d_]\.){2,}                         # initials: u.s.
    | \b(?:mr|mrs|ms|dr|st|jr|sr|vs|etc)\.     # abbreviations
    | -[lr][rc]b-                              # brackets as the Penn Treebank writes them
    | '(?:s|m|d|re|ve|ll)(?![^\W_])            # endings that are split off already
    | \d+(?:[.,:/]\d+)+(?![^\W_])              # 3,000  2.5  5:30  1/2
    | [^\W_]+(?:[-/&'][^\W_]+)*                # words, also with hyphens or apostrophes
    | \S                                       # any other character by itself
    """,
    re.VERBOSE,
)
_ENDING = re.compile(r"(.+)(n't|'(?:s|m|d|re|ve|ll))")
_JOINED = {
    "cannot": 3,
    "gimme": 3,
    "gonna": 3,
    "gotta": 3,
    "lemme": 3,
    "wanna": 3,
}  # where the Penn Treebank splits them


def tokenize_ptb(text: str) -> Tokens:
    """Tokenize a caption nearly as coco-caption does, which scores COCO captions.

    coco-caption runs Stanford's Penn Treebank tokenizer in lower case and drops punctuation. So does this function:
    contractions and possessives are split ("don't" is "do n't", "it's" is "it 's", "cannot" is "can not"); periods,
    commas, colons, quotation marks, parentheses, curly brackets, dashes and ellipses are dropped; hyphenated words,
    numbers ("3,000", "5:30", "1/2"), initials ("u.s.") and other characters ("&", "%", "$") are kept.

    Differences: only the most common abbreviations keep their period; words that begin with an apostrophe ("'em") lose
    it; parentheses and curly brackets are dropped, which coco-caption keeps: its list has "-LRB-", its tokens "-lrb-";
    web and e-mail addresses, emoticons such as ":-)" and square brackets are split into single characters; spelling is
    not normalized.

    Args:
        text: One or more sentences.

    Returns:
        The words, in lower case.
    """
    words: list[str] = []
    for token in _TOKEN.findall(text.lower().replace("\u2019", "'")):
        if ending := _ENDING.fullmatch(token):
            words += ending.groups()
        elif token in _JOINED:
            words += token[: _JOINED[token]], token[_JOINED[token] :]
        elif token not in _DROPPED:
            words.append(token)
    return tuple(words)


class Vocabulary:
    """Maps words to ids: four special tokens (PAD, START, END, UNKNOWN), then the words in their order."""

    def __init__(self, words: Sequence[str]):
        """Create the vocabulary.

        Args:
            words: The words without the special tokens; their ids start at 4.
        """
        self.words = tuple(words)
        repeated = sorted(word for word, count in Counter(self.words).items() if count > 1)
        if repeated:
            raise ValueError(f"words must be unique, got duplicates: {', '.join(repeated)}")
        special = [word for word in SPECIAL if word in self.words]
        if special:
            raise ValueError(f"words must not be one of {', '.join(SPECIAL)}, got {', '.join(special)}")
        self._ids = {word: token_id for token_id, word in enumerate(self.words, start=len(SPECIAL))}

    @classmethod
    def of(cls, captions: Iterable[Tokens], *, min_count: int = 1) -> "Vocabulary":
        """Build a vocabulary from captions: the most frequent words first, ties in alphabetical order.

        Args:
            captions: Captions of the training split.
            min_count: Leave out words that occur less often than this.
        """
        if min_count < 1:
            raise ValueError(f"min_count must be at least 1, got {min_count}")
        counts = Counter(word for caption in captions for word in caption)
        return cls(sorted((word for word in counts if counts[word] >= min_count), key=lambda w: (-counts[w], w)))

    def __len__(self) -> int:
        """Number of ids, special tokens included."""
        return len(SPECIAL) + len(self.words)

    def encode(self, captions: Sequence[Tokens]) -> tuple[Tensor, Tensor]:
        """Convert captions to a padded batch of ids.

        Args:
            captions: B captions; a word that is not in the vocabulary becomes UNKNOWN.

        Returns:
            Ids (B, N) int64: START, the words, END, then PAD up to the longest; and lengths (B,) int64: the number of
            words and END, without START.
        """
        ids = torch.full((len(captions), max(map(len, captions), default=0) + 2), PAD)
        for row, caption in zip(ids, captions, strict=True):
            caption_ids = [START, *(self._ids.get(word, UNKNOWN) for word in caption), END]
            row[: len(caption_ids)] = torch.tensor(caption_ids)
        return ids, torch.tensor([len(caption) + 1 for caption in captions], dtype=torch.int64)

    def decode(self, ids: Sequence[int]) -> Tokens:
        """Convert ids to words, up to END if there is one; START and PAD are skipped, UNKNOWN is "<unknown>"."""
        words = []
        for token_id in map(int, ids):
            if not 0 <= token_id < len(self):
                raise ValueError(f"ids must be in 0..{len(self) - 1}, got {token_id}")
            if token_id == END:
                break
            if token_id not in (PAD, START):
                words.append(SPECIAL[token_id] if token_id == UNKNOWN else self.words[token_id - len(SPECIAL)])
        return tuple(words)
