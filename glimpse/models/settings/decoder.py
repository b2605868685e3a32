"""Settings of the decoder, which generates sentences."""

from typing import TYPE_CHECKING

from glimpse.config.schema import Settings

if TYPE_CHECKING:
    from glimpse.attention.annotation import Attention
    from glimpse.models.decoder import Decoder


class DecoderSettings(Settings):
    """decoder: the LSTM that generates words from annotations."""

    group = "decoder"
    embed_dim: int = 128
    """Size of a word embedding."""
    state_dim: int = 256
    """Size of the hidden state."""
    dropout: float = 0.0
    """Dropout probability of the inputs of the output layers."""
    gate: bool = True
    """Whether a learned gate scales the context vector, as in Show, Attend and Tell."""
    min_count: int = 1
    """Minimum number of occurrences in the training captions or translations for a word to be in the vocabulary."""
    max_length: int = 20
    """Maximum number of words of a caption or translation, including the end token."""

    def check(self) -> None:
        """Check the ranges."""
        self.require_positive("embed_dim", "state_dim", "min_count", "max_length")
        self.require(0 <= self.dropout < 1, "dropout", "in [0, 1)")

    def build(self, *, attention: "Attention", annotation_dim: int, vocabulary_size: int) -> "Decoder":
        """Make the decoder with its attention."""
        from glimpse.models.decoder import Decoder

        return Decoder(
            attention=attention,
            vocabulary_size=vocabulary_size,
            embed_dim=self.embed_dim,
            state_dim=self.state_dim,
            annotation_dim=annotation_dim,
            dropout=self.dropout,
            gate=self.gate,
        )
