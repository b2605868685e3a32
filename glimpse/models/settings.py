"""Settings of the networks."""

from typing import TYPE_CHECKING, ClassVar, Literal

from glimpse.attention.settings import ScorerName
from glimpse.config.registry import Registry
from glimpse.config.schema import Settings
from glimpse.errors import ConfigError

if TYPE_CHECKING:
    from glimpse.attention.annotation import Attention
    from glimpse.attention.self_attention import SelfAttentionStack
    from glimpse.attention.state_memory import StateMemory
    from glimpse.models.decoder import Decoder
    from glimpse.models.glimpse_network import GlimpseNetwork, RecurrentCore
    from glimpse.models.image_encoders import Encoder
    from glimpse.models.sentence_encoder import SentenceEncoder


class NetworkSettings(Settings):
    """network: from glimpses to answers."""

    group = "network"
    what: Literal["fc", "conv"] = "conv"
    """The "what" path: one fully connected layer as in the paper, or convolutions before it."""
    what_dim: int = 128
    """Size of the "what" features."""
    where_dim: int = 128
    """Size of the "where" features."""
    glimpse_dim: int = 256
    """Size of the glimpse vector that joins them."""
    conv_channels: int = 32
    """Channels of the second convolution and of those after it; the first has half as many."""
    conv_layers: int = 4
    """Number of convolutions of the "what" path."""
    core: Literal["rnn", "gru", "lstm"] = "gru"
    """The recurrent core: the paper's ReLU network, or one with gates."""
    state_dim: int = 256
    """Size of the core's state."""
    readout: Literal["last", "state_memory"] = "last"
    """Answer from the core's last state, or from it and what attention reads from all states so far."""
    memory_scorer: ScorerName = "additive"
    """readout state_memory: how the relevance of a state is computed."""
    memory_scorer_dim: int = 128
    """readout state_memory: size of the space where additive and scaled dot-product scores are computed."""
    halting_unit: bool = False
    """Whether a unit learns after which glimpse to stop; it changes nothing about looking and answering."""
    pixel_mean: float = 0.0
    """Subtracted from what was read."""
    pixel_std: float = 1.0
    """Divides what was read."""

    def check(self) -> None:
        """Check the ranges."""
        self.require_positive("what_dim", "where_dim", "glimpse_dim", "state_dim", "pixel_std", "memory_scorer_dim")
        self.require(self.conv_channels >= 2, "conv_channels", "at least 2")
        self.require(self.conv_layers >= 2, "conv_layers", "at least 2")

    def idle(self) -> set[str]:
        """The memory's scorer, where there is no memory."""
        return set() if self.readout == "state_memory" else {"memory_scorer", "memory_scorer_dim"}

    def build_network(self, *, in_channels: int, patch_size: int) -> "GlimpseNetwork":
        """Make the network that encodes glimpses."""
        from glimpse.models.glimpse_network import GlimpseNetwork

        return GlimpseNetwork(
            in_channels=in_channels,
            patch_size=patch_size,
            what=self.what,
            what_dim=self.what_dim,
            where_dim=self.where_dim,
            out_dim=self.glimpse_dim,
            conv_channels=self.conv_channels,
            conv_layers=self.conv_layers,
            pixel_mean=self.pixel_mean,
            pixel_std=self.pixel_std,
        )

    def build_core(self, *, learn_initial: bool) -> "RecurrentCore":
        """Make the recurrent core."""
        from glimpse.models.glimpse_network import RecurrentCore

        return RecurrentCore(
            kind=self.core, input_dim=self.glimpse_dim, state_dim=self.state_dim, learn_initial=learn_initial
        )

    def build_memory(self) -> "StateMemory | None":
        """Make the memory of states, if answers are read from it."""
        from glimpse.attention.state_memory import StateMemory

        if self.readout == "last":
            return None
        return StateMemory(state_dim=self.state_dim, scorer=self.memory_scorer, dim=self.memory_scorer_dim)


class MLPSettings(Settings):
    """network: a fully connected network of the whole image."""

    group = "network"
    state_dim: int = 256
    """Size of the hidden layers."""
    pixel_mean: float = 0.0
    """Subtracted from the image."""
    pixel_std: float = 1.0
    """Divides the image."""

    def check(self) -> None:
        """Check the ranges."""
        self.require_positive("state_dim", "pixel_std")


class CNNSettings(MLPSettings):
    """network: a convolutional network of the whole image."""

    conv_channels: int = 32
    """Channels of the second convolution; the first has half as many, the next two have 2 and 4 times as many."""

    def check(self) -> None:
        """Check the ranges."""
        super().check()
        self.require(self.conv_channels >= 2, "conv_channels", "at least 2")


class EncoderSettings(Settings):
    """encoder: from an image or a sentence to annotations."""

    group = "encoder"
    kind: str
    self_attention_layers: int = 0
    """Layers of self-attention between encoder and decoder, which learn even if the encoder does not; 0 for none."""
    num_heads: int = 4
    """Heads of a self-attention layer; they share the size of an annotation evenly."""

    def check(self) -> None:
        """Check the ranges."""
        self.require_positive("num_heads")
        self.require(self.self_attention_layers >= 0, "self_attention_layers", "at least 0")

    def idle(self) -> set[str]:
        """Heads, where there are no layers."""
        return set() if self.self_attention_layers else {"num_heads"}

    def build_self_attention(self, annotation_dim: int) -> "SelfAttentionStack | None":
        """Make the layers of self-attention over annotations of a size, if there are any."""
        from glimpse.attention.self_attention import SelfAttentionStack

        layers = self.self_attention_layers
        return SelfAttentionStack(dim=annotation_dim, heads=self.num_heads, num_layers=layers) if layers else None


class ImageEncoderSettings(EncoderSettings):
    """encoder: from an image to a map of annotations."""

    known_dim: ClassVar[bool] = False
    """Whether the settings say how large an annotation is."""

    @property
    def unfrozen_at(self) -> int | None:
        """The epoch in which an encoder that is frozen at first begins to learn; None if there is none."""
        return None

    @property
    def cache_folder(self) -> str | None:
        """Folder for the features of all images; None if they are not kept."""
        return None

    @property
    def title(self) -> str:
        """What to call the encoder in messages."""
        return self.kind

    def build(self, *, channels: int, pretrained: bool) -> "Encoder":
        """Make the encoder.

        Args:
            channels: Of the images.
            pretrained: Whether it gets the weights that the settings name; not needed if others will replace them.
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
    """Pixels from one annotation to the next."""
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
    """encoder: a network of torchvision or timm, without its classifier."""

    paths = ("feature_cache", "weights")
    technical = ("feature_cache",)
    kind: Literal["backbone"] = "backbone"
    """A network of torchvision or timm, without its classifier."""
    name: str = "vgg19"
    """A network of torchvision, as vgg19; or of timm, as timm:NAME."""
    weights: str | None = "default"
    """default: those that the library downloads; or a file of them; or null for random ones."""
    unfreeze_epoch: int | None = None
    """The epoch, from 1, in which the encoder begins to learn; null: it stays as it is."""
    feature_cache: str | None = None
    """Folder to keep the features of all images in, so that they are computed once; null: they are not kept."""

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
        """Weights may be "default"."""
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
            encoder.trunk.requires_grad_(True)  # several processes must know from the beginning what will be learned
        return encoder


@ENCODERS.register("sentence")
class SentenceEncoderSettings(EncoderSettings):
    """encoder: a bidirectional GRU over the words of a sentence."""

    kind: Literal["sentence"] = "sentence"
    """A bidirectional GRU over the words of a sentence."""
    dim: int = 128
    """Size of an annotation, half of it from each direction."""
    embed_dim: int = 128
    """Size of an embedded source word."""
    dropout: float = 0.0
    """Dropout of the embedded words and of the annotations."""
    min_count: int = 1
    """How often a word must occur in the training sources to be known; above 1, unknown words are met in training."""

    def check(self) -> None:
        """Check the ranges."""
        super().check()
        self.require_positive("dim", "embed_dim", "min_count")
        self.require(self.dim % 2 == 0, "dim", "even, a half for each direction")
        self.require(0 <= self.dropout < 1, "dropout", "in [0, 1)")

    def build(self, *, vocabulary_size: int, whole: bool) -> "SentenceEncoder":
        """Make the encoder, of which one annotation stands for the whole sentence if that is wanted."""
        from glimpse.models.sentence_encoder import SentenceEncoder

        return SentenceEncoder(
            vocabulary_size=vocabulary_size,
            embed_dim=self.embed_dim,
            out_dim=self.dim,
            dropout=self.dropout,
            whole=whole,
        )


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
