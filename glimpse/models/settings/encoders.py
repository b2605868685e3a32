"""Settings of the encoders, which map an image or a sentence to annotations."""

from typing import TYPE_CHECKING, ClassVar, Literal

from glimpse.config.registry import Registry
from glimpse.config.schema import Settings
from glimpse.errors import ConfigError

if TYPE_CHECKING:
    from glimpse.attention.self_attention import SelfAttentionStack
    from glimpse.models.image_encoders import Encoder
    from glimpse.models.sentence_encoder import SentenceEncoder


class EncoderSettings(Settings):
    """encoder: the network from an image or a sentence to annotations."""

    group = "encoder"
    kind: str
    self_attention_layers: int = 0
    """Layers of self-attention over the annotations, trained even if the encoder is frozen; 0: none."""
    num_heads: int = 4
    """Number of heads of a self-attention layer; must divide the size of an annotation."""

    def check(self) -> None:
        """Check the ranges."""
        self.require_positive("num_heads")
        self.require(self.self_attention_layers >= 0, "self_attention_layers", "at least 0")

    def idle(self) -> set[str]:
        """The number of heads, without self-attention layers."""
        return set() if self.self_attention_layers else {"num_heads"}

    def build_self_attention(self, annotation_dim: int) -> "SelfAttentionStack | None":
        """Make the layers of self-attention over annotations; None if there are none."""
        from glimpse.attention.self_attention import SelfAttentionStack

        layers = self.self_attention_layers
        return SelfAttentionStack(dim=annotation_dim, heads=self.num_heads, num_layers=layers) if layers else None


class ImageEncoderSettings(EncoderSettings):
    """encoder: the network from an image to a grid of annotations."""

    known_dim: ClassVar[bool] = False
    """Whether the settings determine the size of an annotation."""

    @property
    def unfrozen_at(self) -> int | None:
        """The epoch from which an encoder that is frozen at first is trained; None: no such epoch."""
        return None

    @property
    def cache_folder(self) -> str | None:
        """Folder of the feature cache; None: no cache."""
        return None

    @property
    def title(self) -> str:
        """The name of the encoder in messages."""
        return self.kind

    def build(self, *, channels: int, pretrained: bool) -> "Encoder":
        """Make the encoder.

        Args:
            channels: Number of channels of the images.
            pretrained: Whether to load the weights that the settings name; not needed before loading a checkpoint.
        """
        raise NotImplementedError


ENCODERS: Registry[type[EncoderSettings]] = Registry("encoder.kind")


@ENCODERS.register("small")
class SmallEncoderSettings(ImageEncoderSettings):
    """encoder: four convolutions, for digits."""

    known_dim = True
    kind: Literal["small"] = "small"
    """Four convolutions, for digits."""
    dim: int = 128
    """Size of an annotation."""
    channels: int = 16
    """Channels of the first convolution; the next two have 2 and 4 times as many."""
    stride: Literal[8, 12] = 12
    """Distance between neighboring annotations, in pixels."""
    pixel_mean: float = 0.0
    """Subtracted from the image."""
    pixel_std: float = 1.0
    """Divides the image."""

    def check(self) -> None:
        """Check the ranges."""
        super().check()
        self.require_positive("dim", "channels", "pixel_std")

    def build(self, *, channels: int, pretrained: bool) -> "Encoder":
        """See `ImageEncoderSettings`."""
        from glimpse.models.image_encoders import SmallEncoder

        return SmallEncoder(
            in_channels=channels,
            out_dim=self.dim,
            channels=self.channels,
            stride=self.stride,
            pixel_mean=self.pixel_mean,
            pixel_std=self.pixel_std,
        )


@ENCODERS.register("backbone")
class BackboneSettings(ImageEncoderSettings):
    """encoder: a classification network of torchvision or timm, without its classifier."""

    paths = ("feature_cache", "weights")
    technical = ("feature_cache",)
    kind: Literal["backbone"] = "backbone"
    """A classification network of torchvision or timm, without its classifier."""
    name: str = "vgg19"
    """Name of a torchvision network, such as vgg19, or timm:NAME for a network of timm."""
    weights: str | None = "default"
    """default: the pretrained weights that the library downloads; a file; or null: random weights."""
    unfreeze_epoch: int | None = None
    """The epoch, from 1, from which the encoder is trained; null: it stays frozen."""
    feature_cache: str | None = None
    """Folder to cache the features of all images in; null: they are computed in every epoch."""

    def check(self) -> None:
        """Check the ranges."""
        super().check()
        start = self.unfreeze_epoch
        self.require(start is None or start >= 1, "unfreeze_epoch", "null or at least 1")
        self.require(
            start is None or self.feature_cache is None,
            "feature_cache",
            "null with encoder.unfreeze_epoch, as the features then change",
        )

    def is_path(self, name: str, value: object) -> bool:
        """See `Settings`; weights may also be "default"."""
        return value is not None and (name, value) != ("weights", "default")

    @property
    def unfrozen_at(self) -> int | None:
        """See `ImageEncoderSettings`."""
        return self.unfreeze_epoch

    @property
    def cache_folder(self) -> str | None:
        """See `ImageEncoderSettings`."""
        return self.feature_cache

    @property
    def title(self) -> str:
        """See `ImageEncoderSettings`."""
        return self.name

    def build(self, *, channels: int, pretrained: bool) -> "Encoder":
        """See `ImageEncoderSettings`."""
        from glimpse.models.backbones import BackboneEncoder

        try:
            encoder = BackboneEncoder(name=self.name, weights=self.weights if pretrained else None)
        except ValueError as error:
            raise ConfigError(f"encoder: {error}") from error
        if self.unfreeze_epoch is not None:
            encoder.trunk.requires_grad_(True)  # DDP registers the parameters to train at the start
        return encoder


@ENCODERS.register("sentence")
class SentenceEncoderSettings(EncoderSettings):
    """encoder: a bidirectional GRU over the words of a sentence."""

    kind: Literal["sentence"] = "sentence"
    """A bidirectional GRU over the words of a sentence."""
    dim: int = 128
    """Size of an annotation, half of it from each direction."""
    embed_dim: int = 128
    """Size of a source word embedding."""
    dropout: float = 0.0
    """Dropout probability of the word embeddings and of the annotations."""
    min_count: int = 1
    """Minimum occurrences for a word to be in the source vocabulary; above 1, unknown words occur in training too."""

    def check(self) -> None:
        """Check the ranges."""
        super().check()
        self.require_positive("dim", "embed_dim", "min_count")
        self.require(self.dim % 2 == 0, "dim", "even, a half for each direction")
        self.require(0 <= self.dropout < 1, "dropout", "in [0, 1)")

    def build(self, *, vocabulary_size: int, whole: bool) -> "SentenceEncoder":
        """Make the encoder; with `whole`, it makes one annotation of the whole sentence."""
        from glimpse.models.sentence_encoder import SentenceEncoder

        return SentenceEncoder(
            vocabulary_size=vocabulary_size,
            embed_dim=self.embed_dim,
            out_dim=self.dim,
            dropout=self.dropout,
            whole=whole,
        )
