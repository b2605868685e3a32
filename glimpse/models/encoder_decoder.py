"""Encoder and decoder joined: captioner and translator, which share all but the encoder.

Shapes: B batch, N words, L places, A annotation size, V vocabulary.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from glimpse.attention.annotation import Annotations
from glimpse.attention.distributions import Noise
from glimpse.attention.reading import renamed_keywords
from glimpse.attention.self_attention import SelfAttentionStack
from glimpse.attention.settings import ReadMode
from glimpse.models.decoder import Decoder, DecoderOutput, OutputContext
from glimpse.models.sentence_encoder import Sentences


class EncoderDecoder(nn.Module):
    """An encoder that makes annotations of its source, and a decoder that writes a sentence while it reads them."""

    average_reward: Tensor

    def __init__(self, *, encoder: nn.Module, decoder: Decoder, mixer: SelfAttentionStack | None = None):
        """Join the parts.

        Args:
            encoder: Makes annotations of size `out_dim`, which it must expose; of what, the subclasses say.
            decoder: The decoder.
            mixer: Self-attention, by which annotations look at each other before they are read. It stands apart from
                the encoder, so that it learns where that is frozen, and takes annotations that were kept.
        """
        super().__init__()
        if encoder.out_dim != decoder.annotation_dim:
            raise ValueError(
                f"the decoder reads annotations of size {decoder.annotation_dim}, the encoder makes {encoder.out_dim}"
            )
        self.encoder: Any = encoder
        self.mixer = mixer
        self.decoder = decoder
        self.register_buffer("average_reward", torch.tensor(math.inf))  # of the last batches; infinite before any

    @property
    def mode(self) -> ReadMode:
        """How it reads unless told otherwise."""
        return self.decoder.mode

    def attention_parameters(self) -> list[nn.Parameter]:
        """The parameters that decide where to look."""
        return self.decoder.attention_parameters()

    def annotate(self, source: Any, *, noise: Noise | None = None) -> Annotations:
        """Prepare a source to be read; the noise is that of dropout in training."""
        raise NotImplementedError

    @renamed_keywords(how="mode")
    def forward(
        self,
        source: Any,
        words: Tensor,
        *,
        mode: ReadMode | None = None,
        sample: bool = True,
        noise: Noise | None = None,
        straight_through: bool = False,
        output_context: OutputContext | None = None,
    ) -> DecoderOutput:
        """Predict given words of a source (see `annotate`, and `Decoder.forward` for the rest)."""
        noise = noise or Noise()
        return self.decoder(
            self.annotate(source, noise=noise),
            words,
            mode=mode,
            sample=sample,
            noise=noise,
            straight_through=straight_through,
            output_context=output_context,
        )


class Captioner(EncoderDecoder):
    """Captions an image.

    The encoder maps images (B, C, H, W) to annotations (B, L, out_dim), and has `grid(height, width)`, the rows and
    columns of the L places in images of that size (see `image_encoders.py`).
    """

    def __init__(
        self,
        *,
        encoder: nn.Module,
        decoder: Decoder,
        mixer: SelfAttentionStack | None = None,
        image_size: tuple[int, int] | None = None,
    ):
        """Join the parts (see `EncoderDecoder`).

        Args:
            encoder: From images to annotations.
            decoder: The decoder.
            mixer: Self-attention between encoder and decoder.
            image_size: Height and width of the images whose annotations may come encoded. Only a window needs it.
        """
        super().__init__(encoder=encoder, decoder=decoder, mixer=mixer)
        self.image_size = image_size

    def annotate(self, source: Tensor | Annotations, *, noise: Noise | None = None) -> Annotations:
        """Prepare images to be read.

        Args:
            source: (B, C, H, W), what the encoder takes; or (B, L, A), floating point, what it would make of them,
                kept from an earlier time; or annotations already prepared, which stay as they are.
            noise: Of no use: the encoders of images draw no random numbers.
        """
        if isinstance(source, Annotations):
            return source
        size, annotations = self.image_size, source
        if source.dim() == 4:
            size, annotations = (source.shape[2], source.shape[3]), self.encoder(source)
        elif source.dim() != 3 or source.shape[2] != self.encoder.out_dim or not source.is_floating_point():
            raise ValueError(
                f"images must have shape (B, C, H, W), or be encoded as floating point (B, L, {self.encoder.out_dim}), "
                f"got {source.dtype} {tuple(source.shape)}"
            )
        attention, grid = self.decoder.attention, None
        if attention.window is not None:
            if size is None:
                raise ValueError("image_size must be given for a window on images that come encoded, got None")
            grid = self.encoder.grid(*size)
        if self.mixer is not None:
            annotations = self.mixer(annotations)
        return attention.annotate(annotations, grid=grid)


class Translator(EncoderDecoder):
    """Translates a sentence; the encoder is a `SentenceEncoder`."""

    def annotate(self, source: Sentences, *, noise: Noise | None = None) -> Annotations:
        """Prepare sentences to be read; the noise is that of dropout in training."""
        annotations, mask = self.encoder(source, noise=noise)
        if self.mixer is not None:
            annotations = self.mixer(annotations, mask)
        return self.decoder.attention.annotate(annotations, mask)
