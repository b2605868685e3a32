"""Settings of the data sets: one class each, whose `build` makes the training, validation and test split.

There are three kinds of data, by base class: images with classes, images with captions, pairs of sentences. A model
accepts those data sets whose settings are of the base class that it names. Every module of this folder is imported, so
a new data set registers itself by its file being here.
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
