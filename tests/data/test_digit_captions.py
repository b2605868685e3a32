"""Captioned digits: rendering, positions without overlap, true captions, and reproducibility."""

from itertools import islice

import numpy as np
import pytest
import torch

from glimpse.data import load_mnist
from glimpse.data.captions import CaptionBatch
from glimpse.data.digit_captions import DigitCaptions, digit_captions
from glimpse.data.digit_grammar import Digit, judge
from glimpse.data.vocabulary import Vocabulary
from glimpse.errors import DataError

# sha256 of the fixed sets: scores are comparable only as long as these never change.
DIGESTS = {
    "valid": "f0b032a74cca1a682ac4afd35b731067b6bec00290186946b7014ecee509c181",
    "test": "d082b8f135490b5d8d07f5cc2e961ee164f80373273a4925ba0b7d86db40a6b5",
}
WORDS = """
    zero one two three four five six seven eight nine zeros ones twos threes fours fives sixes sevens eights nines
    a an another the digit and above below left right of to at on in top bottom middle there is are image shows
"""


@pytest.fixture(scope="module")
def valid():
    return DigitCaptions(split="valid")


def scenes_of(batch):
    """The digits of each image, from its boxes and classes."""
    return [
        tuple(Digit(label, *box) for box, label in zip(boxes, labels, strict=True) if label >= 0)
        for boxes, labels in zip(batch.boxes.tolist(), batch.classes.tolist(), strict=True)
    ]


def draw(data, *words, rows=1000):
    return data._sample(9, *words, first_digits=np.arange(rows), num_captions=1)


def test_images_match_the_reference_implementation():
    data = DigitCaptions(split="test", canvas=(70, 130), max_digits=4, num_distractors=5, distractor_size=9)
    scenes = draw(data, 1, 2, 3, rows=60)
    batch = data._render(scenes, data._captions(scenes))
    assert batch.images.shape == (60, 1, 70, 130) and batch.images.dtype == torch.uint8
    assert batch.boxes.shape == (60, 4, 4) and batch.boxes.dtype == torch.float32
    assert batch.classes.shape == (60, 4) and batch.classes.dtype == torch.int64
    pictures, labels = load_mnist("test")
    layout = scenes.layout
    for b in range(60):
        canvas = np.zeros((70, 130), int)
        for d in range(5):
            (top, left), (y, x) = layout.crop_corners[b, d], layout.paste_corners[b, d]
            crop = pictures[layout.distractors[b, d]][top : top + 9, left : left + 9]
            canvas[y : y + 9, x : x + 9] += crop
        for n in range(4):
            if n < scenes.numbers[b]:
                y, x = layout.digit_corners[b, n]
                canvas[y : y + 28, x : x + 28] += pictures[layout.digits[b, n]]
                assert batch.boxes[b, n].tolist() == [x, y, x + 28, y + 28]
                assert batch.classes[b, n] == labels[layout.digits[b, n]]
            else:
                assert batch.boxes[b, n].tolist() == [0, 0, 0, 0] and batch.classes[b, n] == -1
        np.testing.assert_array_equal(batch.images[b, 0].numpy(), np.minimum(canvas, 255))


def test_captions_are_true_of_the_boxes(valid):
    for batch in (
        next(valid.in_order(batch_size=400)),
        *islice(valid.epoch(seed=3, epoch=1, batch_size=40), 5),
    ):
        for scene, captions in zip(scenes_of(batch), batch.captions, strict=True):
            assert all(judge(caption, scene, (84, 84)) == (True, True, True) for caption in captions)


@pytest.mark.parametrize("canvas", [(84, 84), (84, 200), (55, 129)])
def test_digits_do_not_overlap_and_lie_inside(canvas):
    data = DigitCaptions(split="test", canvas=canvas, num_distractors=0)
    scenes = draw(data, 0, 0, 0, rows=200)
    for number, corners in zip(scenes.numbers, scenes.layout.digit_corners, strict=True):
        covered = np.zeros(canvas, int)
        for y, x in corners[:number]:
            covered[y : y + 28, x : x + 28] += 1
        assert covered.sum() == number * 28 * 28 and covered.max() == 1


def assert_distributed(draws, expected):
    """Draws of 0..len(expected)-1 have the expected weights, by a chi-square within six standard deviations."""
    expected = np.asarray(expected) / np.sum(expected) * len(draws)
    chi_square = ((np.bincount(draws, minlength=len(expected)) - expected) ** 2 / expected).sum()
    assert chi_square < (len(expected) - 1) + 6 * np.sqrt(2 * (len(expected) - 1))


def test_numbers_and_places_are_uniform():
    data = DigitCaptions(split="train", canvas=(28, 127), max_digits=2, num_distractors=0)
    scenes = draw(data, 0, 0, 0, rows=50_000)
    assert_distributed(scenes.numbers - 1, [1, 1])
    places = np.arange(100)
    allowed = np.abs(places[:, None] - places) >= 28  # of every pair of left edges
    x = scenes.layout.digit_corners[..., 1]
    two = scenes.numbers == 2
    assert_distributed(x[two, 0], allowed.sum(axis=1))
    assert_distributed(x[two, 1], allowed.sum(axis=0))
    assert_distributed(np.abs(x[two, 0] - x[two, 1]) - 28, 100 - np.arange(28, 100))  # d apart in 100 - d ways
    assert_distributed(x[~two, 0], np.ones(100))
    four = draw(DigitCaptions(split="train"), 0, 0, 0, rows=20_000)
    assert_distributed(four.numbers - 1, [1, 1, 1, 1])
    assert_distributed(four.layout.digits[:, 3] // 5000, np.ones(10))


@pytest.mark.parametrize("split", DIGESTS)
def test_fixed_sets_never_change(split):
    assert DigitCaptions(split=split).digest() == DIGESTS[split]


def test_splits():
    splits = digit_captions(canvas=(90, 84), max_digits=3, num_distractors=2, distractor_size=5)
    assert [len(data) for data in splits] == [50_000, 2_000, 5_000]
    batches = [next(data.in_order(batch_size=50)) for data in splits]
    for batch, name in zip(batches, ("train", "valid", "test"), strict=True):
        assert batch.images.shape == (50, 1, 90, 84) and batch.classes.shape == (50, 3)
        assert batch.classes[:, 0].tolist() == load_mnist(name)[1][:50].tolist()
        assert all(len(set(captions)) == 5 for captions in batch.captions)
    assert not torch.equal(batches[0].boxes, batches[1].boxes) and not torch.equal(batches[1].boxes, batches[2].boxes)


def first(batches, count=3):
    return list(islice(batches, count))


def joined(batches):
    images, captions, boxes, classes = zip(*batches, strict=True)
    return CaptionBatch(torch.cat(images), sum(captions, []), torch.cat(boxes), torch.cat(classes))


def same(left, right):
    return all(
        one == two if isinstance(one, list) else torch.equal(one, two) for one, two in zip(left, right, strict=True)
    )


def test_an_epoch_depends_on_seed_and_number_alone(valid):
    batches = joined(first(valid.epoch(seed=1, epoch=2, batch_size=20)))
    torch.manual_seed(9)
    np.random.seed(9)
    again = DigitCaptions(split="valid")
    assert same(batches, joined(first(again.epoch(seed=1, epoch=2, batch_size=20))))
    for seed, epoch in ((1, 3), (2, 2)):
        other = joined(first(valid.epoch(seed=seed, epoch=epoch, batch_size=20)))
        assert not torch.equal(batches.boxes, other.boxes) and batches.captions != other.captions
    train = DigitCaptions(split="train")
    assert not torch.equal(batches.boxes, joined(first(train.epoch(seed=1, epoch=2, batch_size=20))).boxes)


def test_scenes_do_not_repeat_within_an_epoch(valid):
    batches = list(valid.epoch(seed=0, epoch=0, batch_size=20))
    assert len(batches) == 100 and all(len(batch.images) == 20 for batch in batches)
    boxes = joined(batches).boxes
    crowded = boxes[boxes[:, 2, 2] > 0]  # with three or more digits, equal positions are improbable
    assert len(crowded) > 900 and len(crowded.unique(dim=0)) == len(crowded)


def test_an_epoch_shows_every_first_digit_once():
    data = DigitCaptions(split="valid", canvas=(28, 28), max_digits=1, num_distractors=0)
    batches = list(data.epoch(seed=0, epoch=0, batch_size=50))
    seen = sorted(image.tobytes() for image in joined(batches).images.numpy())
    assert seen == sorted(image.tobytes() for image in load_mnist("valid")[0][:2000])
    assert len(list(data.epoch(seed=0, epoch=0, batch_size=900))) == 2
    assert all(len(captions) == 1 for captions in batches[0].captions)


def test_batches_have_captions_of_similar_length_in_random_order(valid):
    batches = list(valid.epoch(seed=0, epoch=0, batch_size=20))
    lengths = np.array([[len(caption) for (caption,) in batch.captions] for batch in batches])
    assert lengths.max(axis=1).sum() * 20 < 1.05 * lengths.sum()
    means = lengths.mean(axis=1)
    assert means.std() > 2
    group = means[:32]  # the first group
    assert abs(np.corrcoef(group, np.arange(32))[0, 1]) < 0.5


@pytest.mark.parametrize("world_size", [2, 3])
def test_shares_of_ranks_make_up_the_batch(valid, world_size):
    whole = first(valid.epoch(seed=3, epoch=1, batch_size=12))
    shares = [
        first(valid.epoch(seed=3, epoch=1, batch_size=12, rank=rank, world_size=world_size))
        for rank in range(world_size)
    ]
    for batch, parts in zip(whole, zip(*shares, strict=True), strict=True):
        assert same(batch, joined(parts))


def test_in_order_does_not_depend_on_batch_size(valid):
    by_1, by_7, by_100 = (list(valid.in_order(batch_size=size, limit=150)) for size in (1, 7, 100))
    assert [len(batch.images) for batch in by_100] == [100, 50]
    assert same(joined(by_1), joined(by_7)) and same(joined(by_7), joined(by_100))
    assert len(joined(by_1).images) == 150


def test_the_vocabulary_has_every_word_of_the_grammar():
    captions = list(DigitCaptions(split="train").vocabulary_captions())
    assert len(captions) == 20_000
    vocabulary = Vocabulary.of(captions, min_count=100)
    assert set(vocabulary.words) == set(WORDS.split()) == {word for caption in captions for word in caption}
    assert len(vocabulary) == 4 + 43


def test_vocabulary_is_built_from_the_training_split_only(valid):
    with pytest.raises(ValueError, match='the vocabulary must be built from the "train" split, got "valid"'):
        valid.vocabulary_captions()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_digits": 0}, r"max_digits must be in 1\.\.4, got 0"),
        ({"max_digits": 5}, r"max_digits must be in 1\.\.4, got 5"),
        ({"canvas": (84, 83)}, "canvas must have at least 7056 pixels for 4 digits, got 84 x 83 = 6972"),
        ({"canvas": (59, 59), "max_digits": 2}, "canvas must have at least 3528 pixels for 2 digits, got 59 x 59"),
        ({"canvas": (27, 300)}, "canvas must be at least 28 x 28, got 27 x 300"),
        ({"num_distractors": -1}, "num_distractors must not be negative, got -1"),
        ({"distractor_size": 29}, r"distractor_size must be in 1\.\.28, got 29"),
    ],
)
def test_invalid_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        digit_captions(**arguments)


def test_invalid_epoch_and_in_order_arguments(valid):
    with pytest.raises(ValueError, match="got rank 2 of world_size 2"):
        valid.epoch(seed=0, epoch=0, batch_size=10, rank=2, world_size=2)
    with pytest.raises(DataError, match="batch_size must be at most the 2000 examples .* got 2001"):
        valid.epoch(seed=0, epoch=0, batch_size=2001)
    with pytest.raises(ValueError, match="limit must be at least 1 or None, got 0"):
        valid.in_order(batch_size=1, limit=0)
