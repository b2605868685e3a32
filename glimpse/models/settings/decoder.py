"""Settings of the decoder, which writes."""

from typing import TYPE_CHECKING

from glimpse.config.schema import Settings

if TYPE_CHECKING:
    from glimpse.attention.annotation import Attention
    from glimpse.models.decoder import Decoder


class DecoderSettings(Settings):
    """decoder: from annotations to words."""

    group = "decoder"
    embed_dim: int = 128
    """Size of an embedded word."""
    state_dim: int = 256
    """Size of the state."""
    dropout: float = 0.0
    """Dropout of the output."""
    gate: bool = True
    """Whether a gate decides how much of the context vector is used."""
    min_count: int = 1
    """How often a word must occur in the training captions or translations to be in the vocabulary."""
    max_length: int = 20
    """Largest number of words of a caption or translation, its end counted."""

    def check(self) -> None:
        """Check the ranges."""
        self.require_positive("embed_dim", "state_dim", "min_count", "max_length")
        self.require(0 <= self.dropout < 1, "dropout", "in [0, 1)")

    def build(self, *, attention: "Attention", annotation_dim: int, vocabulary_size: int) -> "Decoder":
        """Make the decoder, around its attention to annotations of a size."""
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
