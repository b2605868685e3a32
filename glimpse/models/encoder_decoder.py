"""Encoder-decoder models with attention: a captioner and a translator, which differ in their encoder only.

Shapes: B batch, C channels, H height, W width, N words, L places, A annotation size.
"""

import math
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from glimpse.attention.annotation import Annotations
from glimpse.attention.distributions import Noise
from glimpse.attention.reading import renamed_keywords
from glimpse.attention.self_attention import SelfAttentionStack
from glimpse.attention.settings import ReadMode
from glimpse.models.decoder import Decoder, DecoderOutput, OutputContext
from glimpse.models.image_encoders import Encoder
from glimpse.models.sentence_encoder import SentenceEncoder, Sentences

SourceEncoder = TypeVar("SourceEncoder", Encoder, SentenceEncoder)


class EncoderDecoder(nn.Module, Generic[SourceEncoder]):
    """An encoder that annotates a source, and a decoder that reads the annotations to generate a sentence."""

    average_reward: Tensor

    def __init__(self, *, encoder: SourceEncoder, decoder: Decoder, mixer: SelfAttentionStack | None = None):
        """Assemble the model.

        Args:
            encoder: Maps a source to annotations of size `encoder.out_dim`.
            decoder: The decoder.
            mixer: Self-attention over the annotations; None: none. It is not part of the encoder, so that it learns
                with a frozen encoder and applies to cached annotations.
        """
        super().__init__()
        if encoder.out_dim != decoder.annotation_dim:
            raise ValueError(
                f"decoder.annotation_dim must be {encoder.out_dim}, the size of the encoder's annotations, "
                f"got {decoder.annotation_dim}"
            )
        self.encoder: SourceEncoder = encoder
        self.mixer = mixer
        self.decoder = decoder
        self.register_buffer("average_reward", torch.tensor(math.inf))  # running mean; infinite before the first batch

    @property
    def mode(self) -> ReadMode:
        """The read mode of the decoder unless it is given another."""
        return self.decoder.mode

    def attention_parameters(self) -> list[nn.Parameter]:
        """The parameters of the decoder's attention."""
        return self.decoder.attention_parameters()

    def annotate(self, source: Any, *, noise: Noise | None = None) -> Annotations:
        """Encode a source as annotations; the noise is that of dropout in training."""
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
        """Predict each word from those before it and a source (see `annotate` and `Decoder.forward`)."""
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


class Captioner(EncoderDecoder[Encoder]):
    """Captions images; the encoder maps images (B, C, H, W) to annotations (B, L, A) on a grid of places."""

    def __init__(
        self,
        *,
        encoder: Encoder,
        decoder: Decoder,
        mixer: SelfAttentionStack | None = None,
        image_size: tuple[int, int] | None = None,
    ):
        """Assemble the model (see `EncoderDecoder`).

        Args:
            encoder: Maps images to annotations.
            decoder: The decoder.
            mixer: Self-attention over the annotations; None: none.
            image_size: Height and width of the images behind cached annotations; only an attention window needs it.
        """
        super().__init__(encoder=encoder, decoder=decoder, mixer=mixer)
        self.image_size = image_size

    def annotate(self, source: Tensor | Annotations, *, noise: Noise | None = None) -> Annotations:
        """Encode images as annotations.

        Args:
            source: Images (B, C, H, W); or their encodings (B, L, A), floating point, such as cached ones; or
                annotations, which are returned as they are.
            noise: Unused: image encoders draw no random numbers.
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
                raise ValueError("image_size must be given for a window over encoded images, got None")
            grid = self.encoder.grid(*size)
        if self.mixer is not None:
            annotations = self.mixer(annotations)
        return attention.annotate(annotations, grid=grid)


class Translator(EncoderDecoder[SentenceEncoder]):
    """Translates sentences; the encoder maps each word of a sentence to an annotation."""

    def annotate(self, source: Sentences, *, noise: Noise | None = None) -> Annotations:
        """Encode sentences as annotations; the noise is that of dropout in training."""
        annotations, mask = self.encoder(source, noise=noise)
        if self.mixer is not None:
            annotations = self.mixer(annotations, mask)
        return self.decoder.attention.annotate(annotations, mask)
