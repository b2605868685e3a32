"""Settings of the networks, the encoders and the decoder."""

from glimpse.models.settings.decoder import (
    DecoderSettings,
)
from glimpse.models.settings.encoders import (
    ENCODERS,
    BackboneSettings,
    EncoderSettings,
    ImageEncoderSettings,
    SentenceEncoderSettings,
    SmallEncoderSettings,
)
from glimpse.models.settings.networks import (
    CNNSettings,
    MLPSettings,
    NetworkSettings,
)

__all__ = [
    "CNNSettings",
    "MLPSettings",
    "NetworkSettings",
    "BackboneSettings",
    "ENCODERS",
    "EncoderSettings",
    "ImageEncoderSettings",
    "SentenceEncoderSettings",
    "SmallEncoderSettings",
    "DecoderSettings",
]
