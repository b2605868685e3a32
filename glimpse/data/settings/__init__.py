"""Settings of the data sets: one class each, whose `build` opens the training, validation and test split.

There are three base classes: images with classes, images with captions, and pairs of sentences. A model accepts the
data sets of one base class. Every module in this folder is imported, so the data sets of a new file are registered
automatically.
"""

from importlib import import_module
from pkgutil import iter_modules

from glimpse.data.settings.base import (
    DATASETS,
    CaptionDataSettings,
    DataSettings,
    ImageDataSettings,
    SentenceDataSettings,
)

__all__ = ["DATASETS", "CaptionDataSettings", "DataSettings", "ImageDataSettings", "SentenceDataSettings"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
