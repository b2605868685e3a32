"""Folders of images and torchvision's data sets, made small on disk."""

import numpy as np
import pytest
import torch
from PIL import Image

from glimpse.data import ImageData, image_folder, load_mnist, torchvision_data, torchvision_names, unpack_mnist
from glimpse.data.image_loader import Subset, make_splits
from glimpse.errors import DataError


def save(path, *, value, size=(6, 9), mode="RGB"):
    """Writes an image of one color; size is (height, width)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = size if mode == "L" else (*size, 3)
    Image.fromarray(np.full(shape, value, np.uint8)).save(path)


def fill(root, *, per_class=10, classes=("cat", "dog"), start=0, **options):
    """Class folders whose images have values start, start + 1, ... in order."""
    for c, name in enumerate(classes):
        for i in range(per_class):
            save(root / name / f"{i:03}.png", value=start + c * per_class + i, **options)


def contents(data, batch_size=4):
    """The value and the target of every image in the fixed order."""
    batches = list(data.in_order(batch_size=batch_size))
    values = torch.cat([batch.images[:, 0, 0, 0] for batch in batches]).tolist()
    return list(zip(values, torch.cat([batch.targets for batch in batches]).tolist(), strict=True))


def test_folder_has_a_fixed_stratified_split(tmp_path):
    fill(tmp_path, per_class=20)
    splits = image_folder(root=tmp_path, valid_fraction=0.1, test_fraction=0.25)
    found = [contents(data) for data in splits]
    assert [len(data) for data in splits] == [len(items) for items in found] == [26, 4, 10]
    assert sorted(sum(found, [])) == [(value, int(value >= 20)) for value in range(40)]
    assert [sum(target for _, target in items) for items in found] == [13, 2, 5]
    again = image_folder(root=str(tmp_path), valid_fraction=0.1, test_fraction=0.25)
    assert [contents(data, batch_size=7) for data in again] == found
    assert len({target for _, target in found[0][:13]}) == 2  # not class by class
    assert splits.train.class_names == ("cat", "dog") and splits.train.num_classes == 2
    assert not splits.train.multi_label


def test_batches(tmp_path):
    fill(tmp_path)
    train = image_folder(root=tmp_path).train
    assert isinstance(train, ImageData) and train.image_shape == (3, 6, 9)
    state = torch.get_rng_state()
    batch = next(train.in_order(batch_size=5))
    assert torch.equal(state, torch.get_rng_state())
    assert batch.images.shape == (5, 3, 6, 9) and batch.images.dtype == torch.uint8
    assert batch.targets.shape == (5,) and batch.targets.dtype == torch.int64
    assert batch.boxes.shape == (5, 0, 4) and batch.boxes.dtype == torch.float32
    assert [len(batch.images) for batch in train.in_order(batch_size=6, limit=8)] == [6, 2]


def test_epochs_and_ranks(tmp_path):
    fill(tmp_path)
    train = image_folder(root=tmp_path).train

    def values(**arguments):
        return [batch.images[:, 0, 0, 0].tolist() for batch in train.epoch(seed=1, batch_size=4, **arguments)]

    whole = values(epoch=0)
    assert [len(batch) for batch in whole] == [4] * 4 and len(set(sum(whole, []))) == 16
    assert values(epoch=0) == whole != values(epoch=1)
    shares = [values(epoch=0, rank=rank, world_size=2) for rank in (0, 1)]
    assert [left + right for left, right in zip(*shares, strict=True)] == whole


def test_workers_read_the_same(tmp_path):
    fill(tmp_path)
    assert contents(image_folder(root=tmp_path, workers=1).train) == contents(image_folder(root=tmp_path).train)


@pytest.mark.parametrize("name", ["valid", "val"])
def test_ready_made_splits(tmp_path, name):
    fill(tmp_path / "train", per_class=3)
    fill(tmp_path / name, per_class=2, start=100)
    fill(tmp_path / "test", per_class=1, start=200)
    splits = image_folder(root=tmp_path)
    assert [sorted(contents(data)) for data in splits] == [
        [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (5, 1)],
        [(100, 0), (101, 0), (102, 1), (103, 1)],
        [(200, 0), (201, 1)],
    ]


def test_missing_split_is_held_out_from_train(tmp_path):
    fill(tmp_path / "train", per_class=10)
    fill(tmp_path / "test", per_class=1, start=200)
    splits = image_folder(root=tmp_path, valid_fraction=0.2)
    assert [len(data) for data in splits] == [16, 4, 2]
    assert {value for value, _ in contents(splits.valid)} < set(range(20))


def test_a_class_may_be_called_train(tmp_path):
    fill(tmp_path, classes=("boat", "test", "train"))
    assert image_folder(root=tmp_path).train.class_names == ("boat", "test", "train")


def test_channels_and_size(tmp_path):
    fill(tmp_path / "gray", mode="L")
    fill(tmp_path / "rgb")
    assert image_folder(root=tmp_path / "gray").train.image_shape == (1, 6, 9)
    for folder, channels in (("gray", 3), ("rgb", 1)):
        data = image_folder(root=tmp_path / folder, channels=channels, size=(12, 5)).test
        batch = next(data.in_order(batch_size=2))
        assert data.image_shape == (channels, 12, 5) and batch.images.shape == (2, channels, 12, 5)
        assert (batch.images == batch.images[:, :1, :1, :1]).all()


def test_jpeg_of_any_size_is_resized(tmp_path):
    fill(tmp_path)
    for i, size in enumerate([(20, 10), (7, 33)]):
        save(tmp_path / "dog" / f"photo{i}.jpg", value=250, size=size)
    splits = image_folder(root=tmp_path, size=(8, 8))
    found = [item for data in splits for item in contents(data)]
    assert len(found) == 22 and [target for value, target in found if value >= 249] == [1, 1]


def test_rotated_photo_is_upright(tmp_path):
    fill(tmp_path, size=(9, 6), per_class=3)
    exif = Image.Exif()
    exif[0x0112] = 6  # stored lying on its side
    Image.new("RGB", (9, 6)).save(tmp_path / "cat" / "photo.jpg", exif=exif)
    assert sum(len(contents(data)) for data in image_folder(root=tmp_path)) == 7


@pytest.mark.parametrize("workers", [0, 1])
def test_other_size_is_named(tmp_path, workers):
    fill(tmp_path)
    save(tmp_path / "dog" / "odd.png", value=1, size=(5, 4))
    splits = image_folder(root=tmp_path, workers=workers)
    with pytest.raises(DataError) as error:
        [contents(data) for data in splits]
    assert str(error.value) == (
        f"{tmp_path}/dog/odd.png is 5 x 4 (height x width) but the first image is 6 x 9; "
        "set size=(height, width) (data.size in a config) to resize all images"
    )


@pytest.mark.parametrize("damage", ["cut", "text", "empty"])
def test_corrupt_image_is_named(tmp_path, damage):
    fill(tmp_path)
    path = tmp_path / "dog" / "004.png"
    path.write_bytes({"cut": path.read_bytes()[:45], "text": b"hello", "empty": b""}[damage])
    with pytest.raises(DataError, match=f"cannot read {path}"):
        [contents(data) for data in image_folder(root=tmp_path)]


def test_corrupt_first_image_is_named(tmp_path):
    fill(tmp_path)
    (tmp_path / "cat" / "000.png").write_bytes(b"hello")
    with pytest.raises(DataError, match=f"cannot read {tmp_path}/cat/000.png"):
        image_folder(root=tmp_path)


def test_sixteen_bit_image_is_refused(tmp_path):
    fill(tmp_path)
    Image.fromarray(np.full((6, 9), 40_000, np.uint16)).save(tmp_path / "dog" / "deep.png")
    with pytest.raises(DataError, match="deep.png must have 8 bits per channel, got image mode I;16"):
        [contents(data) for data in image_folder(root=tmp_path)]


@pytest.mark.parametrize("label", [None, 2, -1])
def test_invalid_label_is_named(label):
    subset = Subset([(Image.new("L", (4, 4)), label)], np.arange(1), "Toy test")
    data = make_splits(subset, subset, subset, class_names=("a", "b"), size=None, channels=None, workers=0).test
    with pytest.raises(DataError, match=rf"image 0 of Toy test must have a label in \[0, 2\), got {label}"):
        list(data.in_order(batch_size=1))


def test_invalid_folders(tmp_path):
    with pytest.raises(DataError, match=f"{tmp_path}/none is not a folder"):
        image_folder(root=tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=f"{tmp_path}/empty must have a subfolder of images per class"):
        image_folder(root=tmp_path / "empty")
    fill(tmp_path / "one")
    (tmp_path / "one" / "cow").mkdir()
    with pytest.raises(DataError, match="no valid file for the classes cow"):
        image_folder(root=tmp_path / "one")
    fill(tmp_path / "few", per_class=2)
    with pytest.raises(DataError, match=r"cat has 2 images, too few to hold out 1 \+ 1 of them"):
        image_folder(root=tmp_path / "few")
    fill(tmp_path / "other" / "train", classes=("cat", "dog"))
    fill(tmp_path / "other" / "test", classes=("cat", "cow"))
    with pytest.raises(DataError, match="other/test must have the same class folders .* in only one of them: cow, dog"):
        image_folder(root=tmp_path / "other")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": (0, 5)}, r"size must be None or a positive \(height, width\), got \(0, 5\)"),
        ({"size": (5,)}, "size must be None or"),
        ({"channels": 2}, "channels must be 1, 3 or None, got 2"),
        ({"workers": -1}, "workers must not be negative, got -1"),
        ({"valid_fraction": 0.0}, "valid_fraction must be between 0 and 1, got 0.0"),
        ({"test_fraction": 1.0}, "test_fraction must be between 0 and 1, got 1.0"),
        ({"valid_fraction": 0.5, "test_fraction": 0.5}, r"valid_fraction \+ test_fraction must be below 1"),
    ],
)
def test_invalid_arguments(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        image_folder(root=tmp_path, **arguments)


def test_torchvision_mnist():
    splits = torchvision_data(name="MNIST", root=unpack_mnist(), valid_fraction=1 / 6)
    assert [len(data) for data in splits] == [50_000, 10_000, 10_000]
    assert splits.train.image_shape == (1, 28, 28) and splits.train.num_classes == 10
    images, labels = load_mnist("test")
    known = {image.tobytes(): label for image, label in zip(images, labels, strict=True)}
    batch = next(splits.test.in_order(batch_size=50))
    assert [known[image.tobytes()] for image in batch.images.numpy()] == batch.targets.tolist()


def test_torchvision_without_class_names_or_validation(tmp_path):
    base = tmp_path / "gtsrb"
    for c in range(3):
        for i in range(10):
            save(base / "GTSRB" / "Training" / f"{c:05}" / f"{i}.ppm", value=10 * c + i, size=(5 + i, 6))
    rows = ["Filename;ClassId"]
    for i in range(4):
        save(base / "GTSRB" / "Final_Test" / "Images" / f"{i}.ppm", value=100 + i)
        rows.append(f"{i}.ppm;{i % 3}")
    (base / "GT-final_test.csv").write_text("\n".join(rows))
    splits = torchvision_data(name="GTSRB", root=tmp_path, size=(6, 6), valid_fraction=0.2)
    assert splits.train.class_names == ("0", "1", "2")
    assert [len(data) for data in splits] == [24, 6, 4]
    assert sorted(contents(splits.train) + contents(splits.valid)) == [(v, v // 10) for v in range(30)]
    assert sorted(contents(splits.test)) == [(100, 0), (101, 1), (102, 2), (103, 0)]
    with pytest.raises(DataError, match="image .* of GTSRB train is .* set size"):
        contents(torchvision_data(name="GTSRB", root=tmp_path).train)


def test_torchvision_with_validation(tmp_path):
    for start, split in enumerate(("train", "valid", "test")):
        fill(tmp_path / "country211" / split, classes=("AD", "AE"), per_class=1, start=100 * start)
    splits = torchvision_data(name="Country211", root=tmp_path)
    assert [sorted(contents(data)) for data in splits] == [
        [(0, 0), (1, 1)],
        [(100, 0), (101, 1)],
        [(200, 0), (201, 1)],
    ]


def test_torchvision_validation_serves_as_test(tmp_path):
    for split, count in (("train", 10), ("val", 3)):
        for i in range(count):
            save(tmp_path / "imagenette2" / split / "n01440764" / f"{i}.jpeg", value=i)
    splits = torchvision_data(name="Imagenette", root=tmp_path)
    assert [len(data) for data in splits] == [9, 1, 3]
    assert splits.test.class_names == ("tench, Tinca tinca",)


def test_torchvision_errors(tmp_path):
    with pytest.raises(DataError, match="name must be one of CIFAR10, .*SVHN.*, got 'CIFAR11'"):
        torchvision_data(name="CIFAR11", root=tmp_path)
    with pytest.raises(DataError, match=f"cannot open CIFAR10 in root {tmp_path}: .*; set download=True"):
        torchvision_data(name="CIFAR10", root=tmp_path)
    with pytest.raises(DataError, match=f"cannot open Food101 in root {tmp_path}: .*; set download=True"):
        torchvision_data(name="Food101", root=tmp_path)
    for name in ("FER2013", "ImageNet"):
        with pytest.raises(DataError, match=f"download must be False: torchvision cannot download {name}"):
            torchvision_data(name=name, root=tmp_path, download=True)


def test_torchvision_names():
    names = torchvision_names()
    assert {"MNIST", "FashionMNIST", "CIFAR10", "SVHN", "STL10", "GTSRB", "Flowers102", "QMNIST"} <= set(names)
    assert not {"VisionDataset", "ImageFolder", "FakeData", "CelebA", "Kitti", "Sintel"} & set(names)
