"""Data sets: images, captions and sentence pairs, in splits and batches.

Imports `config` and the modules beside the packages.
Start with `base.py`; `cluttered_mnist.py` is the default data set.
"""

from glimpse.files import lazy_exports

_HOMES = {
    "Batch": "base",
    "ClutteredMNIST": "cluttered_mnist",
    "Dataset": "base",
    "ImageData": "image_loader",
    "Layout": "cluttered_mnist",
    "Splits": "base",
    "image_folder": "image_folders",
    "load_mnist": "mnist",
    "torchvision_data": "image_folders",
    "torchvision_names": "image_folders",
    "unpack_mnist": "mnist",
}

__all__ = list(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
