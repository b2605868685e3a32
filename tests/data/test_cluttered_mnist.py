"""Cluttered MNIST against a slow reference implementation, and the properties of its random numbers."""

from itertools import islice

import numpy as np
import pytest
import torch

from glimpse.data import Batch, ClutteredMNIST, load_mnist
from glimpse.data.cluttered_mnist import cluttered_mnist
from glimpse.errors import DataError
from glimpse.seeding import below, permutation, random_bits

# sha256 of the fixed sets: scores are comparable only as long as these never change.
DIGESTS = {
    ((60, 60), 4, "valid"): "a980ce9bffe57a8d84582e3c022be8e9d8445a70de310555df48ced889d47a42",
    ((60, 60), 4, "test"): "805889fb26b68227d2d285a3c7c934e0782dd09268df25f8a503b3a88cf083c5",
    ((100, 100), 8, "valid"): "933e3c12f62ce9023e33fd64fa3022615f9dee33576fdd7aa372e3afd7ae5474",
    ((100, 100), 8, "test"): "d5c983c6b2853e8f9de220922d9d363f01034d30301a9da0059c9045966e80a6",
    ((60, 60), 0, "valid"): "1a5df993ee773719c5f829ea50f8ed5bc1709a0c1720fc4bad16e0257f4e1c37",
    ((60, 60), 0, "test"): "e6a412508340fdd42b47d55c3edcc74f2ddba345222f572e2cb04fec5bdb5917",
    ((28, 28), 0, "valid"): "be0e71e4e3148ae5624d875a09ee4cdfd2d56998e6183b20d701d9e142ec278a",
    ((28, 28), 0, "test"): "d38f17616b3d765db90bd8fa723257c09189c694f91bd1a704fe334b5c3831b3",
}


def slow_images(data, layout, images, size):
    """Reference implementation in floats: one example and one crop at a time."""
    _, height, width = data.image_shape
    result = []
    for b in range(len(layout.digits)):
        canvas = np.zeros((height, width))
        for d in range(layout.distractors.shape[1]):
            (top, left), (y, x) = layout.crop_corners[b, d], layout.paste_corners[b, d]
            crop = images[layout.distractors[b, d]][top : top + size, left : left + size] / 255
            canvas[y : y + size, x : x + size] += crop
        canvas = np.minimum(canvas, 1)
        for n in range(layout.digits.shape[1]):
            y, x = layout.digit_corners[b, n]
            canvas[y : y + 28, x : x + 28] += images[layout.digits[b, n]] / 255
            canvas = np.clip(canvas, 0, 1)
        result.append(np.round(canvas * 255).astype(np.uint8))
    return np.stack(result)[:, None]


@pytest.mark.parametrize(
    ("split", "canvas", "digits", "distractors", "size"),
    [
        ("train", (60, 60), 1, 4, 8),
        ("valid", (100, 100), 1, 8, 8),
        ("test", (40, 75), 1, 6, 11),
        ("test", (33, 28), 3, 30, 28),  # everything overlaps and saturates
        ("valid", (61, 44), 2, 3, 1),
        ("train", (28, 28), 1, 0, 8),
    ],
)
def test_compose_matches_the_reference_implementation(split, canvas, digits, distractors, size):
    data = ClutteredMNIST(
        split=split,
        canvas=canvas,
        num_digits=digits,
        num_distractors=distractors,
        distractor_size=size,
        target="label" if digits == 1 else "sum",
    )
    layout = data.draw(99, first_digits=np.arange(50, 90))
    batch = data.compose(layout)
    images, labels = load_mnist(split)
    assert batch.images.dtype == torch.uint8 and batch.images.shape == (40, *data.image_shape)
    np.testing.assert_array_equal(batch.images.numpy(), slow_images(data, layout, images, size))
    np.testing.assert_array_equal(batch.targets.numpy(), labels[layout.digits].sum(axis=1))
    assert batch.boxes.dtype == torch.float32 and batch.boxes.shape == (40, digits, 4)
    for b in range(40):
        for n in range(digits):
            y, x = layout.digit_corners[b, n]
            assert batch.boxes[b, n].tolist() == [x, y, x + 28, y + 28]


def test_plain_mnist_is_mnist():
    for split in ("train", "valid", "test"):
        data = ClutteredMNIST(split=split, canvas=(28, 28), num_distractors=0)
        images, labels = load_mnist(split)
        assert len(data) == len(images)
        batches = list(data.in_order(batch_size=7000))
        np.testing.assert_array_equal(torch.cat([b.images for b in batches])[:, 0].numpy(), images)
        np.testing.assert_array_equal(torch.cat([b.targets for b in batches]).numpy(), labels)


def assert_uniform(draws, values):
    """Every value in 0..values-1 occurs and no other, with a chi-square within six standard deviations."""
    counts = np.bincount(draws.ravel(), minlength=values)
    assert len(counts) == values and counts.min() > 0
    expected = draws.size / values
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < (values - 1) + 6 * np.sqrt(2 * (values - 1))


def test_draws_are_uniform_and_inclusive():
    data = ClutteredMNIST(split="valid", canvas=(40, 60), num_digits=2, num_distractors=3, target="sum")
    layout = data.draw(5, first_digits=np.arange(10_000).repeat(10))
    assert_uniform(layout.digits[:, 1], 10_000)
    assert_uniform(layout.digit_corners[..., 0], 40 - 28 + 1)
    assert_uniform(layout.digit_corners[..., 1], 60 - 28 + 1)
    assert_uniform(layout.distractors, 10_000)
    assert_uniform(layout.crop_corners[..., 0], 20 + 1)
    assert_uniform(layout.crop_corners[..., 1], 20 + 1)
    assert_uniform(layout.paste_corners[..., 0], 40 - 8 + 1)
    assert_uniform(layout.paste_corners[..., 1], 60 - 8 + 1)
    columns = np.concatenate([field.reshape(100_000, -1) for field in layout], axis=1)[:, 1:]
    correlation = np.corrcoef(columns.T) - np.eye(columns.shape[1])
    assert np.abs(correlation).max() < 0.02


def test_random_numbers_are_literal():
    assert random_bits(1, 2, 3, shape=(2,)).tolist() == [13279728891206244966, 234311473967787377]
    assert permutation(4, 5, size=8).tolist() == [1, 7, 2, 0, 6, 4, 3, 5]
    bits = np.array([0, 2**32 - 1, 2**32, 2**63, 2**64 - 1], np.uint64)
    assert below(bits, 10).tolist() == [0, 0, 0, 5, 9]
    assert below(bits, np.array([1, 2, 2**31, 7, 2**32 - 1])).tolist() == [0, 0, 0, 3, 2**32 - 2]


@pytest.fixture(scope="module")
def small():
    return ClutteredMNIST(split="valid", canvas=(36, 44), num_distractors=2)


def first_batches(batches, count=3):
    return [Batch(*fields) for fields in islice(batches, count)]


def same(left, right):
    return all(torch.equal(a, b) for one, two in zip(left, right, strict=True) for a, b in zip(one, two, strict=True))


def test_an_epoch_depends_on_seed_and_number_alone(small):
    first = first_batches(small.epoch(seed=1, epoch=2, batch_size=50))
    torch.manual_seed(9)
    np.random.seed(9)
    again = ClutteredMNIST(split="valid", canvas=(36, 44), num_distractors=2)
    assert same(first, first_batches(again.epoch(seed=1, epoch=2, batch_size=50)))
    assert not same(first, first_batches(small.epoch(seed=1, epoch=3, batch_size=50)))
    assert not same(first, first_batches(small.epoch(seed=2, epoch=2, batch_size=50)))
    train = ClutteredMNIST(split="train", canvas=(36, 44), num_distractors=2)
    boxes = [batch.boxes for batch in first_batches(train.epoch(seed=1, epoch=2, batch_size=50))]
    assert not torch.equal(torch.stack(boxes), torch.stack([batch.boxes for batch in first]))
    assert not torch.equal(first[0].boxes, first[1].boxes)


def test_an_epoch_shows_every_digit_once():
    data = ClutteredMNIST(split="valid", canvas=(28, 28), num_distractors=0)
    images = torch.cat([batch.images for batch in data.epoch(seed=0, epoch=0, batch_size=100)])
    seen = sorted(image.tobytes() for image in images.numpy())
    assert seen == sorted(image.tobytes() for image in load_mnist("valid")[0])
    sizes = [len(batch.images) for batch in data.epoch(seed=0, epoch=0, batch_size=3000)]
    assert sizes == [3000, 3000, 3000]


@pytest.mark.parametrize("world_size", [2, 3, 6])
def test_shares_of_ranks_make_up_the_batch(small, world_size):
    whole = first_batches(small.epoch(seed=3, epoch=1, batch_size=12))
    shares = [
        first_batches(small.epoch(seed=3, epoch=1, batch_size=12, rank=rank, world_size=world_size))
        for rank in range(world_size)
    ]
    joined = [Batch(*map(torch.cat, zip(*parts, strict=True))) for parts in zip(*shares, strict=True)]
    assert same(whole, joined)


def test_in_order_does_not_depend_on_batch_size(small):
    by_7, by_100, by_1000 = (list(small.in_order(batch_size=size, limit=250)) for size in (7, 100, 1000))
    assert [len(batch.images) for batch in by_100] == [100, 100, 50]
    joined = [[Batch(*map(torch.cat, zip(*batches, strict=True)))] for batches in (by_7, by_100, by_1000)]
    assert same(joined[0], joined[1]) and same(joined[1], joined[2])
    assert len(joined[0][0].images) == 250
    assert sum(len(batch.images) for batch in small.in_order(batch_size=3000, limit=10**6)) == 10_000


@pytest.mark.parametrize(("canvas", "distractors", "split"), DIGESTS)
def test_fixed_sets_never_change(canvas, distractors, split):
    data = ClutteredMNIST(split=split, canvas=canvas, num_distractors=distractors)
    assert data.digest() == DIGESTS[canvas, distractors, split]


def test_splits_have_their_own_digits_and_layouts():
    splits = cluttered_mnist(canvas=(60, 60), num_distractors=4)
    assert [len(data) for data in splits] == [50_000, 10_000, 10_000]
    for data, name in zip(splits, ("train", "valid", "test"), strict=True):
        layout = data.draw(1, first_digits=np.arange(len(data)))
        assert layout.distractors.max() < len(load_mnist(name)[0])
        batch = next(data.in_order(batch_size=64))
        assert batch.targets.tolist() == load_mnist(name)[1][:64].tolist()
    boxes = [next(data.in_order(batch_size=64)).boxes for data in splits]
    assert not torch.equal(boxes[0], boxes[1]) and not torch.equal(boxes[1], boxes[2])


def targets_of(target, num_digits, count=500):
    data = ClutteredMNIST(split="test", canvas=(30, 30), num_digits=num_digits, num_distractors=0, target=target)
    layout = data.draw(7, first_digits=np.arange(count))
    digits = load_mnist("test")[1][layout.digits]
    return data, digits, data.compose(layout).targets


@pytest.mark.parametrize(("num_digits", "num_classes"), [(2, 55), (3, 220)])
def test_combine(num_digits, num_classes):
    data, digits, targets = targets_of("combine", num_digits)
    assert data.num_classes == len(set(data.class_names)) == num_classes and not data.multi_label
    assert targets.dtype == torch.int64
    names = ["+".join(map(str, sorted(row))) for row in digits.tolist()]
    assert [data.class_names[target] for target in targets] == names
    if num_digits == 2:
        assert data.class_names[:3] == ("0+0", "0+1", "0+2") and data.class_names[54] == "9+9"
        every = np.array([[a, b] for a in range(10) for b in range(10)])
        assert sorted(set(data._targets(every).tolist())) == list(range(55))
        assert torch.equal(data._targets(every), data._targets(every[:, ::-1].copy()))


def test_sum():
    data, digits, targets = targets_of("sum", 2)
    assert data.num_classes == 19 and data.class_names[-1] == "18"
    assert targets.tolist() == [sum(row) for row in digits.tolist()]


def test_mark():
    data, digits, targets = targets_of("mark", 3)
    assert data.multi_label and data.num_classes == 10 and targets.dtype == torch.float32
    assert targets.tolist() == [[float(d in row) for d in range(10)] for row in digits.tolist()]


def test_label():
    data, digits, targets = targets_of("label", 1)
    assert not data.multi_label and data.class_names == tuple("0123456789") and data.num_classes == 10
    assert targets.dtype == torch.int64 and targets.tolist() == digits[:, 0].tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"canvas": (27, 60)}, "canvas must be at least 28 x 28, got 27 x 60"),
        ({"canvas": (60, 27)}, "canvas must be at least 28 x 28, got 60 x 27"),
        ({"num_digits": 0}, "num_digits must be at least 1, got 0"),
        ({"num_distractors": -1}, "num_distractors must not be negative, got -1"),
        ({"num_distractors": 257}, r"must be at most 257, got 1 \+ 257"),
        ({"distractor_size": 0}, r"distractor_size must be in 1..28, got 0"),
        ({"distractor_size": 29}, r"distractor_size must be in 1..28, got 29"),
        ({"target": "product"}, "target must be one of label, mark, combine, sum, got 'product'"),
        ({"num_digits": 2}, "'label' with num_digits 2"),
        ({"target": "sum"}, "'sum' with num_digits 1"),
    ],
)
def test_invalid_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        ClutteredMNIST(**{"split": "test", "canvas": (60, 60), **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, r"seed must be in \[0, 2\*\*32\), got -1"),
        ({"epoch": 2**32}, r"epoch must be in \[0, 2\*\*32\), got 4294967296"),
        ({"rank": 2, "world_size": 2}, "got rank 2 of world_size 2"),
        ({"world_size": 0}, "got rank 0 of world_size 0"),
        ({"batch_size": 0}, "batch_size must be a positive multiple of world_size 1, got 0"),
        ({"batch_size": 9, "world_size": 2}, "positive multiple of world_size 2, got 9"),
    ],
)
def test_invalid_epoch_arguments(small, arguments, message):
    with pytest.raises(ValueError, match=message):
        small.epoch(**{"seed": 0, "epoch": 0, "batch_size": 10, **arguments})


def test_no_whole_batch(small):
    assert len(list(small.epoch(seed=0, epoch=0, batch_size=10_000))) == 1
    with pytest.raises(DataError, match="batch_size must be at most the 10000 examples .* got 10001"):
        small.epoch(seed=0, epoch=0, batch_size=10_001)


def test_invalid_in_order_arguments(small):
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        small.in_order(batch_size=0)
    with pytest.raises(ValueError, match="limit must be at least 1 or None, got 0"):
        small.in_order(batch_size=1, limit=0)


def test_select_gives_examples_by_index(small):
    whole = next(small.in_order(batch_size=10))
    selected = small.select([7, 0, 7])
    for field, expected in zip(selected, whole, strict=True):
        assert torch.equal(field, expected[[7, 0, 7]])
