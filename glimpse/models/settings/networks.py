"""Settings of the networks that classify glimpses or whole images."""

from typing import TYPE_CHECKING, Literal

from glimpse.attention.settings import SCORERS_WITH_DIM, ScorerName
from glimpse.config.schema import Settings

if TYPE_CHECKING:
    from glimpse.attention.state_memory import StateMemory
    from glimpse.models.glimpses import GlimpseNetwork, RecurrentCore


class NetworkSettings(Settings):
    """network: the glimpse network, the recurrent core and the classifier."""

    group = "network"
    what: Literal["fc", "conv"] = "conv"
    """The "what" path, from patches to features: the paper's fully connected layer, or convolutions before it."""
    what_dim: int = 128
    """Size of the features of the patches ("what")."""
    where_dim: int = 128
    """Size of the features of the location ("where")."""
    glimpse_dim: int = 256
    """Size of the glimpse vector, which combines "what" and "where"."""
    conv_channels: int = 32
    """Channels of the convolutions of the "what" path; the first has half as many."""
    conv_layers: int = 4
    """Number of convolutions of the "what" path."""
    core: Literal["rnn", "gru", "lstm"] = "gru"
    """The recurrent core: the paper's ReLU network, a GRU or an LSTM."""
    state_dim: int = 256
    """Size of the hidden state."""
    readout: Literal["last", "state_memory"] = "last"
    """Classify from the last hidden state, or from it and a context vector read from all states so far."""
    memory_scorer: ScorerName = "additive"
    """With readout state_memory: score function of the attention over states."""
    memory_scorer_dim: int = 128
    """With readout state_memory: key size of additive and scaled dot-product scores."""
    halting_unit: bool = False
    """Whether to train a halting unit, which predicts when to stop; it does not affect glimpses or predictions."""
    pixel_mean: float = 0.0
    """Subtracted from the pixels of a glimpse."""
    pixel_std: float = 1.0
    """Divides the pixels of a glimpse."""

    def check(self) -> None:
        """Check the ranges."""
        self.require_positive("what_dim", "where_dim", "glimpse_dim", "state_dim", "pixel_std", "memory_scorer_dim")
        self.require(self.conv_channels >= 2, "conv_channels", "at least 2")
        self.require(self.conv_layers >= 2, "conv_layers", "at least 2")

    def idle(self) -> set[str]:
        """The convolutions, without any; the scorer of the state memory, or its key size, if nothing has them."""
        idle = {"conv_channels", "conv_layers"} if self.what == "fc" else set()
        if self.readout == "last":
            return idle | {"memory_scorer", "memory_scorer_dim"}
        return idle if self.memory_scorer in SCORERS_WITH_DIM else idle | {"memory_scorer_dim"}

    def build_network(self, *, in_channels: int, patch_size: int, location_dim: int = 2) -> "GlimpseNetwork":
        """Make the glimpse network, for locations of `location_dim` numbers."""
        from glimpse.models.glimpses import GlimpseNetwork

        return GlimpseNetwork(
            in_channels=in_channels,
            patch_size=patch_size,
            what=self.what,
            what_dim=self.what_dim,
            where_dim=self.where_dim,
            out_dim=self.glimpse_dim,
            conv_channels=self.conv_channels,
            conv_layers=self.conv_layers,
            location_dim=location_dim,
            pixel_mean=self.pixel_mean,
            pixel_std=self.pixel_std,
        )

    def build_core(self, *, learn_initial: bool) -> "RecurrentCore":
        """Make the recurrent core."""
        from glimpse.models.glimpses import RecurrentCore

        return RecurrentCore(
            kind=self.core, input_dim=self.glimpse_dim, state_dim=self.state_dim, learn_initial=learn_initial
        )

    def build_memory(self) -> "StateMemory | None":
        """Make the state memory; None if the readout does not use one."""
        from glimpse.attention.state_memory import StateMemory

        if self.readout == "last":
            return None
        return StateMemory(state_dim=self.state_dim, scorer=self.memory_scorer, dim=self.memory_scorer_dim)


class MLPSettings(Settings):
    """network: a fully connected network over the whole image."""

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
    """network: a convolutional network over the whole image."""

    conv_channels: int = 32
    """Channels of the second convolution; the first has half as many, the next two have 2 and 4 times as many."""

    def check(self) -> None:
        """Check the ranges."""
        super().check()
        self.require(self.conv_channels >= 2, "conv_channels", "at least 2")
