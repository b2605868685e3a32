"""Photographs with captions: COCO's and Karpathy's files, made small on disk."""

import json
from itertools import islice

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from glimpse.data.captions import CaptionBatch, batches_by_length
from glimpse.data.photo_captions import Photo, PhotoCaptions, coco_captions, karpathy_captions, load_photo
from glimpse.data.vocabulary import tokenize_ptb
from glimpse.errors import DataError
from glimpse.seeding import Stream, permutation


def picture(path, value=0, size=(6, 9), **options):
    """Writes an image of one color; size is (height, width)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size[::-1], (value, value, value)).save(path, **options)


def caption(image, number):
    """A caption from which image and number can be read, of a length that differs from image to image."""
    return f"Image{image}, caption{number}" + " more" * (image * 7 % 11) + " and" * number + "."


def make_coco(root, *, train=40, valid=6, captions=3, year=2017):
    """COCO's folders; image i is of color i, those of val go on counting; their ids are 1000 - i."""
    (root / "annotations").mkdir(parents=True, exist_ok=True)
    first = 0
    for name, count in ((f"train{year}", train), (f"val{year}", valid)):
        numbers = range(first, first + count)
        for i in numbers:
            picture(root / name / f"{i:04}.png", i)
        content = {
            "images": [{"id": 1000 - i, "file_name": f"{i:04}.png"} for i in numbers],
            # Caption by caption, not image by image: as in COCO, the order of the two lists has nothing in common.
            "annotations": [{"image_id": 1000 - i, "caption": caption(i, n)} for n in range(captions) for i in numbers],
        }
        (root / "annotations" / f"captions_{name}.json").write_text(json.dumps(content))
        first += count
    return root


def make_karpathy(root, splits, *, folder=None):
    """Karpathy's file for images of colors 0, 1, ..., one for each name of a split."""
    images = []
    for i, split in enumerate(splits):
        picture(root / (folder or "") / f"{i}.png", i)
        sentences = [{"raw": caption(i, n), "tokens": ["not", "used"]} for n in range(2)]
        images.append({"filename": f"{i}.png", "split": split, "sentences": sentences})
        if folder:
            images[-1]["filepath"] = folder
    (root / "dataset.json").write_text(json.dumps({"images": images, "dataset": "tiny"}))
    return root


def edit(path, change):
    """Changes a JSON file in place."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def colors(batches):
    return [batch.images[:, 0, 0, 0].tolist() for batch in batches]


def joined(batches):
    images, captions, boxes, classes = zip(*batches, strict=True)
    return CaptionBatch(torch.cat(images), sum(captions, []), torch.cat(boxes), torch.cat(classes))


def all_of(data, **options):
    return joined(data.in_order(batch_size=7, **options))


@pytest.fixture(scope="module")
def coco(tmp_path_factory):
    return make_coco(tmp_path_factory.mktemp("coco"))


@pytest.fixture(scope="module")
def splits(coco):
    return coco_captions(root=coco, size=(4, 4), valid_fraction=0.2)


def test_coco_splits(coco, splits):
    assert [len(data) for data in splits] == [32, 8, 6]
    train, valid, test = (colors([all_of(data)])[0] for data in splits)
    assert train == sorted(train) and valid == sorted(valid) and test == list(range(40, 46))  # as in the file
    assert sorted(train + valid) == list(range(40))
    assert valid == sorted(permutation(Stream.HOLD_OUT, 0, size=40)[:8].tolist())
    assert splits.valid.files == tuple(coco / "train2017" / f"{i:04}.png" for i in valid)
    assert splits.test.files == tuple(coco / "val2017" / f"{i:04}.png" for i in test)
    assert all(data.skipped == () for data in splits)
    again = coco_captions(root=str(coco), size=(4, 4), valid_fraction=0.2)
    assert [data.files for data in again] == [data.files for data in splits]


def test_coco_of_another_year(tmp_path):
    make_coco(tmp_path, train=10, valid=2, year=2014)
    splits = coco_captions(root=tmp_path, year=2014)
    assert [len(data) for data in splits] == [9, 1, 2] and splits.train.image_shape == (3, 224, 224)


def test_references_belong_to_their_image(splits):
    for data in splits:
        batch = all_of(data)
        for color, captions in zip(batch.images[:, 0, 0, 0].tolist(), batch.captions, strict=True):
            assert captions == [tokenize_ptb(caption(color, n)) for n in range(3)]
        assert batch.images.shape == (len(data), 3, 4, 4) and batch.images.dtype == torch.uint8
        assert batch.boxes.shape == (len(data), 0, 4) and batch.boxes.dtype == torch.float32
        assert batch.classes.shape == (len(data), 0) and batch.classes.dtype == torch.int64


def test_in_order_does_not_depend_on_batch_size(splits):
    by_1, by_7 = (joined(splits.train.in_order(batch_size=size, limit=20)) for size in (1, 7))
    assert torch.equal(by_1.images, by_7.images) and by_1.captions == by_7.captions and len(by_1.images) == 20


def test_vocabulary_is_built_from_the_training_split_only(splits):
    captions = list(splits.train.vocabulary_captions())
    assert captions == [one for captions in all_of(splits.train).captions for one in captions]
    assert len(captions) == 96
    with pytest.raises(ValueError, match='the vocabulary must be built from the "train" split, got "valid"'):
        splits.valid.vocabulary_captions()


def test_words_are_interned(splits):
    assert len({id(word) for words in splits.train.vocabulary_captions() for word in words if word == "more"}) == 1


@pytest.mark.parametrize("folder", [None, "val2014"])
def test_karpathy_splits(tmp_path, folder):
    root = make_karpathy(tmp_path / "data", ["test", "train", "restval", "val", "train"], folder=folder)
    splits = karpathy_captions(root=root, annotations="dataset.json", size=(4, 4))
    assert [colors([all_of(data)])[0] for data in splits] == [[1, 2, 4], [3], [0]]
    assert splits.train.files == tuple(root / (folder or "") / f"{i}.png" for i in (1, 2, 4))
    assert all_of(splits.valid).captions == [[tokenize_ptb(caption(3, 0)), tokenize_ptb(caption(3, 1))]]
    moved = tmp_path / "elsewhere.json"
    (root / "dataset.json").rename(moved)
    for annotations in (moved, str(moved), "../elsewhere.json"):
        again = karpathy_captions(root=root, annotations=annotations, size=(4, 4))
        assert [data.files for data in again] == [data.files for data in splits]


def test_captions_without_words_are_dropped(tmp_path):
    root = make_karpathy(tmp_path, ["train", "val", "test"])
    edit(root / "dataset.json", lambda content: content["images"][1]["sentences"].insert(0, {"raw": " ... !"}))
    splits = karpathy_captions(root=root, annotations="dataset.json")
    assert splits.valid.captions == [(tokenize_ptb(caption(1, 0)), tokenize_ptb(caption(1, 1)))]


def make_photos(tmp_path, lengths, split="train"):
    """Images of colors 0, 1, ... with captions of given lengths that say which image it is."""
    photos = []
    for i, image_lengths in enumerate(lengths):
        picture(tmp_path / f"{i}.png", i, size=(1, 1))
        photos.append(Photo(tmp_path / f"{i}.png", tuple((str(i), *["x"] * (n - 1)) for n in image_lengths)))
    return PhotoCaptions(split=split, photos=photos, size=(1, 1))


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """240 images with one to four captions of 1 to 40 words."""
    rng = np.random.default_rng(0)
    lengths = [rng.integers(1, 41, size=rng.integers(1, 5)).tolist() for _ in range(240)]
    return make_photos(tmp_path_factory.mktemp("many"), lengths)


def test_an_epoch_shows_every_image_once_with_one_of_its_captions(many):
    batches = list(many.epoch(seed=0, epoch=0, batch_size=5))
    assert len(batches) == 48
    seen = joined(batches)
    assert sorted(seen.images[:, 0, 0, 0].tolist()) == list(range(240))
    for color, captions in zip(seen.images[:, 0, 0, 0].tolist(), seen.captions, strict=True):
        assert len(captions) == 1 and captions[0][0] == str(color) and captions[0] in many.captions[color]
    assert len(list(many.epoch(seed=0, epoch=0, batch_size=100))) == 2  # the incomplete one is dropped


def test_every_caption_is_sampled_equally_often(tmp_path):
    data = make_photos(tmp_path, [[1, 2, 3, 4]] * 20)
    sampled = [
        len(words)
        for epoch in range(40)
        for batch in data.epoch(seed=1, epoch=epoch, batch_size=20)
        for (words,) in batch.captions
    ]
    counts = np.bincount(sampled)[1:]  # of 800; within five standard deviations
    assert len(counts) == 4 and (np.abs(counts - 200) < 5 * np.sqrt(800 * 3 / 16)).all()


def test_an_epoch_depends_on_seed_and_number_and_split_alone(many):
    def sampled(data, **options):
        batch = joined(data.epoch(batch_size=6, **options))
        return colors([batch])[0], batch.captions

    whole = sampled(many, seed=1, epoch=2)
    state = torch.get_rng_state()
    np.random.seed(9)
    assert sampled(many, seed=1, epoch=2) == whole
    assert torch.equal(state, torch.get_rng_state())
    photos = [Photo(file, captions) for file, captions in zip(many.files, many.captions, strict=True)]
    other_split = PhotoCaptions(split="valid", photos=photos, size=(1, 1))
    for other in (
        sampled(many, seed=1, epoch=3),
        sampled(many, seed=2, epoch=2),
        sampled(other_split, seed=1, epoch=2),
    ):
        assert other[0] != whole[0]
        by_image = [dict(zip(images, captions, strict=True)) for images, captions in (whole, other)]
        assert by_image[0] != by_image[1]  # different captions, not only a different order


def test_batches_are_sorted_by_length_in_groups_of_32(many):
    batches = list(many.epoch(seed=0, epoch=0, batch_size=5))
    lengths = np.array([[len(words) for (words,) in batch.captions] for batch in batches])
    for group in (lengths[:32], lengths[32:]):
        order = group.min(axis=1).argsort(kind="stable")
        spans = sorted((row.min(), row.max()) for row in group)
        assert all(before[1] <= after[0] for before, after in zip(spans, spans[1:], strict=False))
        assert (order != np.arange(len(order))).any() and abs(np.corrcoef(order, np.arange(len(order)))[0, 1]) < 0.6
    assert lengths[:32].min() < lengths[32:].max() and lengths[32:].min() < lengths[:32].max()


def test_batches_by_length_by_hand():
    batches = batches_by_length([5, 1, 4, 1, 3, 2], 7, 8, batch_size=2)
    expected = np.array([[1, 3], [5, 4], [2, 0]])  # equal lengths in their order
    np.testing.assert_array_equal(batches, expected[permutation(7, 8, size=3)])


@pytest.mark.parametrize("world_size", [2, 3])
def test_shares_of_ranks_make_up_the_batch(many, world_size):
    def first(**options):
        return list(islice(many.epoch(seed=3, epoch=1, batch_size=6, **options), 12))

    shares = [first(rank=rank, world_size=world_size) for rank in range(world_size)]
    for batch, parts in zip(first(), zip(*shares, strict=True), strict=True):
        whole = joined(parts)
        assert torch.equal(batch.images, whole.images) and batch.captions == whole.captions


def test_workers_read_the_same(many):
    photos = [Photo(file, captions) for file, captions in zip(many.files, many.captions, strict=True)]
    other = PhotoCaptions(split="train", photos=photos, size=(1, 1), workers=1)
    options = dict(seed=0, epoch=0, batch_size=60)
    one, two = (joined(data.epoch(**options)) for data in (many, other))
    assert torch.equal(one.images, two.images) and one.captions == two.captions


def gradient(height, width):
    """Red grows downwards, green to the right, blue is 100."""
    pixels = np.full((height, width, 3), 100, np.uint8)
    pixels[..., 0], pixels[..., 1] = np.arange(height)[:, None], np.arange(width)
    return pixels


def test_a_photo_covers_the_size_and_keeps_its_middle(tmp_path):
    Image.fromarray(gradient(40, 80)).save(tmp_path / "wide.png")
    np.testing.assert_array_equal(
        load_photo(tmp_path / "wide.png", (40, 20)).permute(1, 2, 0), gradient(40, 80)[:, 30:50]
    )
    np.testing.assert_array_equal(
        load_photo(tmp_path / "wide.png", (10, 80)).permute(1, 2, 0), gradient(40, 80)[15:25, :]
    )
    half = load_photo(tmp_path / "wide.png", (20, 20)).permute(1, 2, 0).numpy().astype(int)
    # A triangle of four pixels' width, inside: the mean of two neighbors, which is a half that is rounded.
    inside = np.abs(half - (gradient(40, 80)[::2, 20:60:2] + [0.5, 0.5, 0]))[1:-1]
    assert inside.max() <= 0.5


def test_scaling_does_not_alias(tmp_path):
    stripes = np.zeros((64, 64, 3), np.uint8)
    stripes[:, ::2] = 255
    Image.fromarray(stripes).save(tmp_path / "stripes.png")
    found = load_photo(tmp_path / "stripes.png", (16, 16))
    assert (found[:, :, 1:-1].int() - 128).abs().max() <= 4


@pytest.mark.parametrize("mode", ["L", "P", "CMYK", "RGBA", "LA", "1", "transparent"])
def test_every_image_mode_becomes_rgb(tmp_path, mode):
    gray = Image.new("RGB", (8, 6), (255, 255, 255)) if mode == "1" else Image.new("RGB", (8, 6), (102, 102, 102))
    path = tmp_path / ("photo.jpg" if mode in ("L", "CMYK") else "photo.png")
    if mode == "transparent":
        gray.convert("P").save(path, transparency=bytes(range(256)))
    else:
        gray.convert(mode).save(path)
    found = load_photo(path, (6, 8))
    assert found.shape == (3, 6, 8) and (found.int() - gray.getpixel((0, 0))[0]).abs().max() <= 3


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photo_is_upright(tmp_path, orientation):
    """Stored as each of the eight orientations says, a photo is shown the same; large, so that it is decoded small."""
    upright = Image.fromarray(np.kron([[250, 0, 0], [0, 120, 0]], np.ones((96, 96))).astype(np.uint8)).convert("RGB")
    turned = {
        1: [],
        2: [Image.Transpose.FLIP_LEFT_RIGHT],
        3: [Image.Transpose.ROTATE_180],
        4: [Image.Transpose.FLIP_TOP_BOTTOM],
        5: [Image.Transpose.TRANSPOSE],
        6: [Image.Transpose.ROTATE_90],
        7: [Image.Transpose.TRANSVERSE],
        8: [Image.Transpose.ROTATE_270],
    }[orientation]
    stored = upright
    for turn in turned:
        stored = stored.transpose(turn)
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(tmp_path / "photo.jpg", exif=exif, quality=95)
    found = load_photo(tmp_path / "photo.jpg", (24, 36))[0, 6::12, 6::12]
    assert (found.int() - torch.tensor([[250, 0, 0], [0, 120, 0]])).abs().max() <= 6


def test_a_photo_decoded_at_reduced_size_is_as_good(tmp_path):
    """Close to the whole photo decoded and scaled, though its detail is as fine as the sizes can show."""
    coarse = Image.fromarray(np.random.default_rng(0).integers(0, 256, (96, 128, 3), np.uint8))
    coarse.resize((640, 480), Image.Resampling.BICUBIC).save(tmp_path / "photo.jpg", quality=95, subsampling=0)
    with Image.open(tmp_path / "photo.jpg") as image:
        for height, width in ((110, 110), (60, 60), (55, 20), (20, 55)):
            whole = ImageOps.fit(image, (width, height), Image.Resampling.BILINEAR)
            found = load_photo(tmp_path / "photo.jpg", (height, width)).permute(1, 2, 0).numpy()
            assert np.abs(found.astype(int) - np.asarray(whole)).mean() < 4


def test_sixteen_bits_are_refused(tmp_path):
    Image.fromarray(np.full((6, 9), 40_000, np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(DataError, match="deep.png must have 8 bits per channel, got image mode I;16"):
        load_photo(tmp_path / "deep.png", (4, 4))


def damage(path, kind):
    content = path.read_bytes()
    path.write_bytes({"cut": content[: len(content) // 2], "text": b"hello", "empty": b""}[kind])


@pytest.mark.parametrize("workers", [0, 1])
def test_an_image_that_does_not_decode_is_named(tmp_path, workers):
    root = make_karpathy(tmp_path, ["train", "train", "val", "test"])
    damage(root / "1.png", "cut")
    data = karpathy_captions(root=root, annotations="dataset.json", workers=workers).train
    with pytest.raises(DataError, match=f"^cannot read {root}/1.png: "):
        all_of(data)


@pytest.mark.parametrize("kind", ["cut", "text", "empty"])
def test_a_damaged_photo_is_named(tmp_path, kind):
    picture(tmp_path / "photo.jpg", 50, size=(100, 100))
    damage(tmp_path / "photo.jpg", kind)
    with pytest.raises(DataError, match=f"^cannot read {tmp_path}/photo.jpg: "):
        load_photo(tmp_path / "photo.jpg", (4, 4))
    with pytest.raises(DataError, match="^cannot read .*none.jpg: "):
        load_photo(tmp_path / "none.jpg", (4, 4))


@pytest.mark.parametrize("workers", [0, 1])
def test_broken_images_are_left_out(tmp_path, capsys, workers):
    root = make_coco(tmp_path)
    whole = coco_captions(root=root, size=(4, 4))
    path = root / "annotations" / "captions_train2017.json"
    assert capsys.readouterr() == ("", "")
    first, second, third, fourth = (
        whole.train.files[3],
        whole.train.files[20],
        whole.valid.files[1],
        whole.train.files[30],
    )
    damage(first, "cut")
    second.unlink()
    bare = 1000 - int(third.stem)
    edit(path, lambda content: [one.update(caption="!") for one in content["annotations"] if one["image_id"] == bare])
    splits = coco_captions(root=root, size=(4, 4), on_broken_image="skip", workers=workers)
    kept = [[file for file in data.files if file not in (first, second, third)] for data in whole]
    assert [list(data.files) for data in splits] == kept  # every other one is where it was
    assert splits.train.skipped[0].startswith(f"cannot read {first}: ")
    assert splits.train.skipped[1:] == (f"{second} is missing",)
    assert splits.valid.skipped == (f"{third} has no caption",) and splits.test.skipped == ()
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("Left out 3 of 40 images of captions_train2017.json: ") and err.count("\n") == 1
    assert all(str(file) in err for file in (first, second, third)) and not err.endswith("...\n")
    for data, files in zip(splits, kept, strict=True):
        batch = all_of(data)
        assert colors([batch])[0] == [int(file.stem) for file in files]
        assert [captions[0] for captions in batch.captions] == [tokenize_ptb(caption(int(f.stem), 0)) for f in files]
    fourth.unlink()
    coco_captions(root=root, size=(4, 4), on_broken_image="skip")
    err = capsys.readouterr().err
    assert err.startswith("Left out 4 of 40 ") and err.endswith("; ...\n")


def test_an_empty_split_is_refused(tmp_path):
    root = make_karpathy(tmp_path, ["train", "val", "test"])
    (root / "1.png").unlink()
    with pytest.raises(DataError, match=r"dataset.json must have an image .* but valid has none \(1 left out\)"):
        karpathy_captions(root=root, annotations="dataset.json", on_broken_image="skip")
    make_karpathy(tmp_path, ["train", "val"])
    with pytest.raises(DataError, match="but test has none$"):
        karpathy_captions(root=root, annotations="dataset.json")
    make_coco(tmp_path, train=1, valid=1)
    with pytest.raises(DataError, match="annotations must have an image for every split, but train has none$"):
        coco_captions(root=tmp_path)


def test_missing_images_are_counted(tmp_path):
    root = make_coco(tmp_path, train=10)
    for i in (3, 7):
        (root / "train2017" / f"{i:04}.png").unlink()
    with pytest.raises(DataError) as error:
        coco_captions(root=root)
    assert str(error.value) == (
        f"2 of the 10 images of {root}/annotations/captions_train2017.json cannot be used: "
        f"{root}/train2017/0003.png is missing; {root}/train2017/0007.png is missing; "
        'set on_broken_image="skip" (data.on_broken_image in a config) to leave them out'
    )


def test_images_without_captions_are_an_error(tmp_path):
    root = make_coco(tmp_path, train=10)
    path = root / "annotations" / "captions_val2017.json"
    edit(path, lambda content: content.update(annotations=content["annotations"][1:4]))
    with pytest.raises(DataError, match=r"3 of the 6 images of .*val2017.json .*0010.png has no caption; "):
        coco_captions(root=root)


def test_missing_folders(tmp_path):
    with pytest.raises(DataError, match=f"root must be a folder of images, but {tmp_path}/none is not"):
        coco_captions(root=tmp_path / "none")
    with pytest.raises(DataError, match=f"root must be a folder of images, but {tmp_path}/none is not"):
        karpathy_captions(root=tmp_path / "none", annotations="dataset.json")
    root = make_coco(tmp_path / "coco", train=4, valid=1)
    with pytest.raises(DataError, match="root/train2014 must be .*, but .*/train2014 is not a folder"):
        coco_captions(root=root, year=2014)
    (root / "annotations" / "captions_val2017.json").unlink()
    with pytest.raises(DataError, match="cannot read the captions in .*/captions_val2017.json: No such file"):
        coco_captions(root=root)
    with pytest.raises(DataError, match="cannot read the captions in .*/none.json: No such file"):
        karpathy_captions(root=root, annotations="none.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("images"), "images must be a list"),
        (lambda c: c.update(images={}), "images must be a list"),
        (lambda c: c.pop("annotations"), "annotations must be a list"),
        (lambda c: c["images"].append(5), r"images\[3\].id must be an integer, got None"),
        (lambda c: c["images"][1].update(id="7"), r"images\[1\].id must be an integer, got '7'"),
        (lambda c: c["images"][2].pop("file_name"), r"images\[2\].file_name must be a string, got None"),
        (lambda c: c["images"][2].update(id=1000), "ids of images must be unique, got duplicates"),
        (lambda c: c["annotations"][0].pop("caption"), r"annotations\[0\].caption must be a string, got None"),
        (
            lambda c: c["annotations"][4].update(image_id=5),
            r"annotations\[4\].image_id must be the id of an image, got 5",
        ),
    ],
)
def test_broken_coco_file(tmp_path, change, message):
    root = make_coco(tmp_path, train=3, valid=1)
    path = root / "annotations" / "captions_train2017.json"
    edit(path, change)
    with pytest.raises(DataError, match=f"^{path} is broken: {message}$"):
        coco_captions(root=root)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("images"), "images must be a list"),
        (lambda c: c["images"][1].pop("filename"), r"images\[1\].filename must be a string, got None"),
        (lambda c: c["images"][1].update(sentences="x"), r"images\[1\].sentences must be a list, got 'x'"),
        (lambda c: c["images"][1].update(filepath=3), r"images\[1\].filepath must be a string, got 3"),
        (
            lambda c: c["images"][2].update(split="dev"),
            r"images\[2\].split must be one of train, restval, val, test, got 'dev'",
        ),
        (
            lambda c: c["images"][2]["sentences"][1].update(raw=[1]),
            r"images\[2\].sentences\[1\].raw must be a string, got \[1\]",
        ),
    ],
)
def test_broken_karpathy_file(tmp_path, change, message):
    root = make_karpathy(tmp_path, ["train", "val", "test"])
    edit(root / "dataset.json", change)
    with pytest.raises(DataError, match=f"^{root}/dataset.json is broken: {message}$"):
        karpathy_captions(root=root, annotations="dataset.json")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b"[" * 100_000], ids=["empty", "cut", "bytes", "deep"])
def test_invalid_json(tmp_path, content):
    (tmp_path / "dataset.json").write_bytes(content)
    with pytest.raises(DataError, match="dataset.json must be valid JSON: "):
        karpathy_captions(root=tmp_path, annotations="dataset.json")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": (0, 5)}, r"size must be a positive \(height, width\), got \(0, 5\)"),
        ({"size": (5,)}, "size must be a positive"),
        ({"on_broken_image": "ignore"}, 'on_broken_image must be "error" or "skip", got \'ignore\''),
        ({"workers": -1}, "workers must not be negative, got -1"),
        ({"year": 2015}, "year must be 2014 or 2017, got 2015"),
        ({"valid_fraction": 0.0}, "valid_fraction must be between 0 and 1, got 0.0"),
        ({"valid_fraction": 1.0}, "valid_fraction must be between 0 and 1, got 1.0"),
    ],
)
def test_invalid_arguments(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        coco_captions(root=tmp_path, **arguments)
