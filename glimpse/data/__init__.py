"""Data sets: cluttered MNIST from the embedded MNIST files, torchvision's own, and folders of images."""

from glimpse.data.base import Batch, DataError, DataSet, Splits
from glimpse.data.cluttered import ClutteredMNIST, Layout, cluttered_mnist
from glimpse.data.image_data import ImageData
from glimpse.data.images import image_folder, torchvision_data, torchvision_names
from glimpse.data.mnist import load_mnist, unpack_mnist

__all__ = [
    "Batch",
    "ClutteredMNIST",
    "DataError",
    "DataSet",
    "ImageData",
    "Layout",
    "Splits",
    "cluttered_mnist",
    "image_folder",
    "load_mnist",
    "torchvision_data",
    "torchvision_names",
    "unpack_mnist",
]
