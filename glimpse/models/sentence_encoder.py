"""The sentence encoder, and the translator that gives its decoder a sentence to look at.

Neural Machine Translation by Jointly Learning to Align and Translate (arXiv:1409.0473), 3.2: a recurrent network reads
the source sentence forwards, another backwards, and the two states at a word, side by side, are its annotation: a note
on the word in the light of all others. The decoder is that of captions, and reads the notes through the same
`Attention`, hard or soft.

To compare it with, the plain sequence-to-sequence model (arXiv:1409.3215, arXiv:1406.1078): the encoder hands over ONE
annotation, its two final states, which must hold the whole sentence, however long. It is read through the same
`Attention`, which then has no choice.

Departures from the paper, beside those of the decoder: its output has no maxout layer, and it begins with the mean of
the annotations, not with the backward state at the first word. The paper's source ends with a word of its own; here
there is one annotation for each word that was written, and no other.

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
    """Source sentences as numbers."""

    words: Tensor  # (B, L) int64; after the end of a sentence, anything
    lengths: Tensor  # (B,) int64: words of each, at least one

    def to(self, device: torch.device | str) -> "Sentences":
        """The same sentences elsewhere."""
        return Sentences(self.words.to(device), self.lengths.to(device))


def encode_sentences(vocabulary: Vocabulary, sentences: Sequence[Tokens], width: int | None = None) -> Sentences:
    """Write source sentences as numbers.

    Args:
        vocabulary: The source words; one that is not among them becomes UNKNOWN.
        sentences: At least one word each.
        width: L, at least the words of the longest; as many if not given. Processes that share a batch must agree.
    """
    ids, lengths = vocabulary.encode(sentences)
    words = ids[:, 1:-1]  # neither START nor, of the longest, END
    width = words.shape[1] if width is None else width
    if width < words.shape[1]:
        raise ValueError(f"width must be at least {words.shape[1]}, the words of the longest sentence, got {width}")
    return Sentences(nn.functional.pad(words, (0, width - words.shape[1]), value=PAD), lengths - 1)


class SentenceEncoder(nn.Module):
    """A bidirectional GRU over embedded words; padding never touches it."""

    def __init__(
        self, *, vocabulary_size: int, embed_dim: int, out_dim: int, dropout: float = 0.0, whole: bool = False
    ):
        """Create the encoder.

        Args:
            vocabulary_size: Number of source words.
            embed_dim: Size M of an embedded word.
            out_dim: Size A of an annotation, half of it from each direction.
            dropout: Part of the embedded words, and of the annotations, that is dropped in training. Drawn from the
                noise of the step, so that it too depends on the seed alone.
            whole: Whether one annotation, the two final states, stands for the whole sentence.
        """
        super().__init__()
        if out_dim < 2 or out_dim % 2:
            raise ValueError(f"out_dim must be even, a half for each direction, got {out_dim}")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be at least 0 and less than 1, got {dropout}")
        self.out_dim = out_dim
        self.dropout = dropout
        self.whole = whole
        self.embed = nn.Embedding(vocabulary_size, embed_dim)
        self.gru = nn.GRU(embed_dim, out_dim // 2, batch_first=True, bidirectional=True)

    def forward(self, sentences: Sentences, *, noise: Noise | None = None) -> tuple[Tensor, Tensor | None]:
        """Annotate sentences.

        Args:
            sentences: B of them, of at most L words.
            noise: The random numbers of dropout, in training.

        Returns:
            Annotations (B, L, A), one for each word, and (B, L), true where there is a word; or (B, 1, A) and None, if
            one stands for the whole.
        """
        words, lengths = sentences
        if words.dim() != 2 or lengths.shape != words.shape[:1]:
            raise ValueError(
                "sentences must have words of shape (B, L) and lengths of shape (B,), "
                f"got {tuple(words.shape)} and {tuple(lengths.shape)}"
            )
        if not bool(((lengths >= 1) & (lengths <= words.shape[1])).all()):
            raise ValueError(f"lengths must be in 1..{words.shape[1]}, the words there are, got {lengths.tolist()}")
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
