"""The sentence encoder: a bidirectional GRU that makes one annotation of each source word.

Neural Machine Translation by Jointly Learning to Align and Translate (arXiv:1409.0473), 3.2: one recurrent network
reads the source sentence forward, another backward, and the annotation of a word is the concatenation of their states
at it. The decoder of the translator is that of the captioner, and reads the annotations by the same `Attention`.

With `whole=True` the model is the sequence-to-sequence baseline (arXiv:1409.3215, arXiv:1406.1078): a single
annotation, the two final states, encodes the whole sentence. `Attention` then puts all weight on it.

Departures from the paper, besides those of the decoder: the output has no maxout layer; the initial state comes from
the mean of the annotations, not from the backward state at the first word; the source has no end-of-sentence token.

Shapes: B batch, L source words, A annotation size, M embedding size.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from glimpse.attention.distributions import Noise
from glimpse.data.vocabulary import PAD, Tokens, Vocabulary


class Sentences(NamedTuple):
    """Source sentences as word indices."""

    words: Tensor  # (B, L) int64; the padding after the end of a sentence may be any word
    lengths: Tensor  # (B,) int64, number of words of each, at least one

    def to(self, device: torch.device | str) -> "Sentences":
        """The same sentences on another device."""
        return Sentences(self.words.to(device), self.lengths.to(device))


def encode_sentences(vocabulary: Vocabulary, sentences: Sequence[Tokens], width: int | None = None) -> Sentences:
    """Convert source sentences to word indices.

    Args:
        vocabulary: The source words; any other word becomes UNKNOWN.
        sentences: At least one word each.
        width: Padded length L; None: the length of the longest sentence. Processes that share a batch must agree on it.
    """
    ids, lengths = vocabulary.encode(sentences)
    words = ids[:, 1:-1]  # neither START nor, of the longest, END
    width = words.shape[1] if width is None else width
    if width < words.shape[1]:
        raise ValueError(f"width must be at least {words.shape[1]}, the length of the longest sentence, got {width}")
    return Sentences(nn.functional.pad(words, (0, width - words.shape[1]), value=PAD), lengths - 1)


class SentenceEncoder(nn.Module):
    """A bidirectional GRU over word embeddings; padding has no effect on it."""

    def __init__(
        self, *, vocabulary_size: int, embed_dim: int, out_dim: int, dropout: float = 0.0, whole: bool = False
    ):
        """Create the encoder.

        Args:
            vocabulary_size: Number of source words.
            embed_dim: Size M of a word embedding.
            out_dim: Size A of an annotation, half of it from each direction.
            dropout: Dropout probability of the word embeddings and of the annotations. It draws from the noise of the
                step, so that it depends on the seed alone.
            whole: Whether to make one annotation of the whole sentence, the two final states.
        """
        super().__init__()
        if out_dim < 2 or out_dim % 2:
            raise ValueError(f"out_dim must be positive and even, a half for each direction, got {out_dim}")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be at least 0 and less than 1, got {dropout}")
        self.out_dim = out_dim
        self.dropout = dropout
        self.whole = whole
        self.embed = nn.Embedding(vocabulary_size, embed_dim)
        self.gru = nn.GRU(embed_dim, out_dim // 2, batch_first=True, bidirectional=True)

    def forward(self, sentences: Sentences, *, noise: Noise | None = None) -> tuple[Tensor, Tensor | None]:
        """Encode sentences as annotations.

        Args:
            sentences: B of them, of at most L words.
            noise: Random numbers of dropout in training; None: from torch's global generator.

        Returns:
            Annotations (B, L, A), one for each word, and a mask (B, L), false at padding; with `whole`, annotations
            (B, 1, A) and None.
        """
        words, lengths = sentences
        if words.dim() != 2 or lengths.shape != words.shape[:1]:
            raise ValueError(
                "sentences must have words of shape (B, L) and lengths of shape (B,), "
                f"got {tuple(words.shape)} and {tuple(lengths.shape)}"
            )
        if not bool(((lengths >= 1) & (lengths <= words.shape[1])).all()):
            raise ValueError(f"lengths must be in 1..{words.shape[1]}, the width of words, got {lengths.tolist()}")
        noise = noise or Noise()
        embedded = self._drop(self.embed(words), noise)
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, final = self.gru(packed)
        if self.whole:
            return self._drop(final.transpose(0, 1).flatten(1).unsqueeze(1), noise), None
        annotations, _ = pad_packed_sequence(states, batch_first=True, total_length=words.shape[1])
        mask = torch.arange(words.shape[1], device=words.device) < lengths.unsqueeze(1)
        return self._drop(annotations, noise), mask

    def _drop(self, x: Tensor, noise: Noise) -> Tensor:
        return noise.dropout(x, self.dropout) if self.training else x
