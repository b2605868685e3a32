"""Settings of sensors and attentions.

All modules of this folder are imported, so that adding a file registers a new sensor or attention.
"""

from importlib import import_module
from pkgutil import iter_modules

from glimpse.attention.settings.annotations import FeatureMapSettings, SentenceAttentionSettings
from glimpse.attention.settings.base import (
    ATTENTIONS,
    SCORERS_WITH_DIM,
    SENSORS,
    AnnotationAttentionSettings,
    AttentionSettings,
    GlimpseAttentionSettings,
    ReadMode,
    ScorerName,
    SensorSettings,
)
from glimpse.attention.settings.glimpses import GridSettings, PlaneSettings
from glimpse.attention.settings.pyramid import PyramidSettings

__all__ = [
    "ATTENTIONS",
    "SCORERS_WITH_DIM",
    "SENSORS",
    "AnnotationAttentionSettings",
    "AttentionSettings",
    "FeatureMapSettings",
    "GlimpseAttentionSettings",
    "GridSettings",
    "PlaneSettings",
    "PyramidSettings",
    "ReadMode",
    "ScorerName",
    "SensorSettings",
    "SentenceAttentionSettings",
]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
