"""The feature cache: equal to the encoder, complete or resumed, and refused if anything else is in the folder."""

import json
import multiprocessing
import os
import signal
from collections import namedtuple

import numpy as np
import pytest
import torch
from filelock import FileLock
from PIL import Image
from support.tensors import ALONE, assert_close
from torch import nn

from glimpse import losses
from glimpse.attention.annotation import Attention
from glimpse.attention.distributions import Noise
from glimpse.data.base import Splits
from glimpse.data.photo_captions import Photo, PhotoCaptions
from glimpse.data.vocabulary import Vocabulary
from glimpse.distributed import Processes
from glimpse.errors import DataError
from glimpse.models import feature_cache as features
from glimpse.models.decoder import Decoder
from glimpse.models.encoder_decoder import Captioner
from glimpse.models.feature_cache import cache_features
from glimpse.models.image_encoders import Encoder

SIZES = {"train": 23, "valid": 5, "test": 7}


class Strides(Encoder):
    """One convolution: 2 x 3 places of 4 x 4 pixels in an image of 8 x 12. `batches`: fail after so many."""

    def __init__(self, *, seed=0, out_dim=5, batches=None, scale=1.0):
        super().__init__((0.5, 0.4, 0.3), (0.2, 0.2, 0.2))
        torch.manual_seed(seed)
        self.out_dim = out_dim
        self.layer = nn.Conv2d(3, out_dim, 4, stride=4)
        self.drop = nn.Dropout(0.5)  # cached features must be without it
        self.requires_grad_(False)
        self.batches, self.scale = batches, scale

    def grid(self, height, width):
        return height // 4, width // 4

    def features(self, pixels):
        if self.batches == 0:
            raise RuntimeError("interrupted")
        if self.batches is not None:
            self.batches -= 1
        return self.scale * self.drop(self.layer(pixels))


def make_splits(folder, *, size=(8, 12), workers=0, sizes=SIZES):
    """Images of noise, with two captions each."""
    splits = []
    for split, count in sizes.items():
        photos = []
        for i in range(count):
            file = folder / split / f"{i}.png"
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                noise = np.random.default_rng([i, len(split)]).integers(0, 256, (8, 12, 3), np.uint8)
                Image.fromarray(noise).save(file)
            photos.append(Photo(file, tuple(("a", *["word"] * n, f"{split}{i}") for n in (i % 5, i % 3))))
        splits.append(PhotoCaptions(split=split, photos=photos, size=size, workers=workers))
    return Splits(*splits)


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    return make_splits(tmp_path_factory.mktemp("photos"))


@pytest.fixture(autouse=True)
def sync_after_four(monkeypatch):
    monkeypatch.setattr(features, "_SYNC_INTERVAL", 4)


def cache(splits, folder, encoder=None, *, log=None, name="strides", batch_size=2, processes=ALONE):
    return cache_features(
        splits,
        encoder or Strides(),
        folder,
        name=name,
        batch_size=batch_size,
        processes=processes,
        log=([] if log is None else log).append,
    )


def counts(folder):
    return json.loads((folder / "done.json").read_text())


def cached(splits):
    """All features, in order."""
    return torch.cat([batch.images for data in splits for batch in data.in_order(batch_size=9)])


def assert_features_of(found, splits, encoder=None):
    encoder = (encoder or Strides()).eval()
    for data, photos in zip(found, splits, strict=True):
        images, encoded = (torch.cat([batch.images for batch in one.in_order(batch_size=4)]) for one in (photos, data))
        expected = encoder(images)
        assert encoded.shape == (len(photos), 6, 5) and encoded.dtype == torch.float32
        assert (encoded - expected).abs().max() <= 2**-11 * expected.abs().max()  # half a step of 11 bits
        assert torch.equal(encoded, encoded.half().float()) and encoded.std() > 0.5


def test_features_are_those_of_the_encoder(splits, tmp_path):
    encoder = Strides()
    encoder.train()
    found = cache(splits, tmp_path / "cache", encoder)
    assert encoder.training
    assert_features_of(found, splits)


def test_all_else_is_as_in_the_photographs(splits, tmp_path):
    found = cache(splits, tmp_path / "cache")
    encoder = Strides().eval()
    for data, photos in zip(found, splits, strict=True):
        assert data.image_shape == (3, 8, 12) and len(data) == len(photos) and data.photos is photos
        options = dict(seed=3, epoch=1, batch_size=4)
        pairs = [
            (data.epoch(**options), photos.epoch(**options)),
            (data.epoch(**options, rank=1, world_size=2), photos.epoch(**options, rank=1, world_size=2)),
            (data.in_order(batch_size=3, limit=5), photos.in_order(batch_size=3, limit=5)),
        ]
        for ours, theirs in pairs:
            for one, other in zip(ours, theirs, strict=True):
                assert one.captions == other.captions
                assert one.boxes.shape == other.boxes.shape and one.classes.shape == other.classes.shape
                assert_close(one.images, encoder(other.images), 5e-3)
    assert list(found.train.vocabulary_captions()) == list(splits.train.vocabulary_captions())
    with pytest.raises(ValueError, match='the vocabulary must be built from the "train" split, got "test"'):
        found.test.vocabulary_captions()


def test_a_finished_cache_is_opened_at_once(splits, tmp_path, monkeypatch):
    folder, log = tmp_path / "new" / "cache", []
    first = cached(cache(splits, folder, log=log))
    assert log == [f"Features of 35 images, 6 x 5 each: 2.1e-06 GB in {folder}"]
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    monkeypatch.setattr(PhotoCaptions, "read", None)  # no image may be read, not even in training
    found = cache(splits, str(folder), Strides(batches=0), log=log)
    assert torch.equal(cached(found), first) and len(log) == 1
    list(found.train.epoch(seed=0, epoch=0, batch_size=4))
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("batches", "done"),
    [
        (0, None),
        (1, None),  # two images, not yet synced
        (2, {"train": 4, "valid": 0, "test": 0}),
        (5, {"train": 8, "valid": 0, "test": 0}),
        (13, {"train": 23, "valid": 0, "test": 0}),  # 12 batches of train, one of valid
        (15, {"train": 23, "valid": 5, "test": 0}),
    ],
)
def test_an_interrupted_cache_is_resumed(splits, tmp_path, batches, done):
    folder, log = tmp_path / "cache", []
    with pytest.raises(RuntimeError, match="interrupted"):
        cache(splits, folder, Strides(batches=batches))
    assert (counts(folder) if done else None) == done
    with pytest.raises(RuntimeError, match="interrupted"):  # not mistaken for a complete one
        cache(splits, folder, Strides(batches=0))
    safe = sum(done.values()) if done else 0
    encoder = Strides(batches=100)
    found = cache(splits, folder, encoder, log=log)
    assert log[0].endswith(f"in {folder}" + (f"; {safe} are done" if safe else ""))
    left = [size - (done or {}).get(split, 0) for split, size in SIZES.items()]
    assert 100 - encoder.batches == sum(-(-count // 2) for count in left)  # nothing is computed twice
    assert_features_of(found, splits)
    assert counts(folder) == SIZES


def test_half_an_image_at_the_end_is_dropped(splits, tmp_path):
    folder = tmp_path / "cache"
    with pytest.raises(RuntimeError, match="interrupted"):
        cache(splits, folder, Strides(batches=5))
    with open(folder / "train.f16", "ab") as file:
        file.write(b"\xff" * 77)
    (folder / ".done.json.1.tmp").write_text("{")
    assert_features_of(cache(splits, folder), splits)
    assert sorted(path.name for path in folder.iterdir()) == [
        ".lock",
        "done.json",
        "features.json",
        "test.f16",
        "train.f16",
        "valid.f16",
    ]
    assert (folder / "train.f16").stat().st_size == 23 * 6 * 5 * 2


class Killed(Strides):
    """An encoder whose process is killed when there is one batch left to encode."""

    def features(self, pixels):
        if self.batches == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().features(pixels)


def test_a_killed_process_leaves_a_cache_to_resume(splits, tmp_path):
    arguments = (splits, tmp_path / "cache", Killed(batches=8))
    process = multiprocessing.get_context("fork").Process(target=cache, args=arguments)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert counts(tmp_path / "cache") == {"train": 12, "valid": 0, "test": 0}  # of 14
    assert_features_of(cache(splits, tmp_path / "cache"), splits)


def test_another_encoder_is_refused(splits, tmp_path):
    folder = tmp_path / "cache"
    cache(splits, folder)
    before = (folder / "train.f16").read_bytes()
    advice = "; delete the folder, or choose another$"
    with pytest.raises(
        DataError, match=rf"features in {folder} do not match the encoder and images: weights was \w+, is \w+{advice}"
    ):
        cache(splits, folder, Strides(seed=1))
    shifted = Strides()
    shifted.pixel_mean += 0.01
    with pytest.raises(DataError, match=rf"images: weights was \w+, is \w+{advice}"):
        cache(splits, folder, shifted)
    with pytest.raises(DataError, match=f"images: encoder was strides, is other{advice}"):
        cache(splits, folder, name="other")
    wider = rf"weights was .*; places and size of an annotation was \[6, 5\], is \[6, 4\]{advice}"
    with pytest.raises(DataError, match=wider):
        cache(splits, folder, Strides(out_dim=4))
    assert (folder / "train.f16").read_bytes() == before


def test_other_images_are_refused(splits, tmp_path):
    folder = tmp_path / "cache"
    photos = make_splits(tmp_path / "photos")
    cache(photos, folder)
    with pytest.raises(DataError, match=r"height and width of an image was \[8, 12\], is \[8, 8\]"):
        cache(make_splits(tmp_path / "photos", size=(8, 8)), folder)
    with pytest.raises(DataError, match="images: images of valid was 5, sha256 .*, is 4, sha256 [^;]*; delete"):
        cache(make_splits(tmp_path / "photos", sizes={**SIZES, "valid": 4}), folder)
    file = photos.test.files[2]
    status = file.stat()
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with pytest.raises(DataError, match="images: images of test was 7, sha256 .*, is 7, sha256 [^;]*; delete"):
        cache(photos, folder)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    cache(photos, folder)
    order = list(reversed([Photo(*pair) for pair in zip(photos.test.files, photos.test.captions, strict=True)]))
    with pytest.raises(DataError, match="images: images of test was"):
        cache(photos._replace(test=PhotoCaptions(split="test", photos=order, size=(8, 12))), folder)
    file.rename(file.with_name("renamed.png"))
    order = [
        photo._replace(file=file.with_name("renamed.png")) if photo.file == file else photo for photo in order[::-1]
    ]
    with pytest.raises(DataError, match="images: images of test was"):
        cache(photos._replace(test=PhotoCaptions(split="test", photos=order, size=(8, 12))), folder)
    with pytest.raises(DataError, match=f"cannot read {file}: No such file"):
        cache(photos, folder)


def test_an_interrupted_cache_of_another_encoder_is_refused(splits, tmp_path):
    with pytest.raises(RuntimeError, match="interrupted"):
        cache(splits, tmp_path / "cache", Strides(batches=5))
    with pytest.raises(DataError, match="weights was"):
        cache(splits, tmp_path / "cache", Strides(seed=1))


def test_a_folder_of_other_files_is_refused(splits, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for folder in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(DataError, match=f"^{folder} must be empty or a cache of features, got other files"):
            cache(splits, folder)
    assert os.listdir(tmp_path) == ["notes.txt"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("features.json", "{", "features.json is broken: Expecting .*; delete the folder"),
        ("features.json", "[]", "features.json is broken: it must hold an object; delete the folder"),
        ("done.json", "null", "done.json is broken: it must hold an object; delete the folder"),
        ("done.json", '{"train": 23, "valid": 5}', r"done.json is broken: test must be in 0\.\.7, got None; delete"),
        ("done.json", '{"train": 24}', r"done.json is broken: train must be in 0\.\.23, got 24; delete"),
        ("valid.f16", "x" * 299, "valid.f16 is broken: it must have 300 bytes for the 5 images .*, got 299; delete"),
        ("valid.f16", None, "valid.f16 is broken: it must have 300 bytes for the 5 images .*, got 0; delete"),
    ],
)
def test_broken_files_are_named(splits, tmp_path, name, content, message):
    cache(splits, tmp_path / "cache")
    if content is None:
        (tmp_path / "cache" / name).unlink()
    else:
        (tmp_path / "cache" / name).write_text(content)
    with pytest.raises(DataError, match=message):
        cache(splits, tmp_path / "cache")


def test_too_small_a_disk_is_refused(splits, tmp_path, monkeypatch):
    log = []
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(4000, 1901, 2099))
    message = f"the disk of {tmp_path}/cache must have 2.1e-06 GB free for the features, got 2.1e-06 GB; choose another"
    with pytest.raises(DataError, match=message):
        cache(splits, tmp_path / "cache", log=log)
    assert log == [f"Features of 35 images, 6 x 5 each: 2.1e-06 GB in {tmp_path}/cache"]
    assert os.listdir(tmp_path / "cache") == [".lock"]
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(4000, 1900, 2100))
    with pytest.raises(RuntimeError, match="interrupted"):
        cache(splits, tmp_path / "cache", Strides(batches=5))
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(4000, 0, 2100 - 8 * 60))  # 8 are there already
    cache(splits, tmp_path / "cache")


def test_a_disk_that_cannot_be_written_is_named(splits, tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda file: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(DataError, match=f"cannot write features to {tmp_path}/cache: No space left on device"):
        cache(splits, tmp_path / "cache")


def test_two_processes_do_not_write_at_once(splits, tmp_path):
    writing = f"another process is writing features to {tmp_path}; wait for it"
    with FileLock(tmp_path / ".lock"), pytest.raises(DataError, match=writing):
        cache(splits, tmp_path)
    cache(splits, tmp_path)
    with FileLock(tmp_path / ".lock"):
        cache(splits, tmp_path)  # nothing to write


class Second(Processes):
    """The second of two processes; `calls` plays the first one at each collective call."""

    def mean(self, x):
        assert x == 0
        return torch.tensor(0.5 if next(self.calls) else 0.0)


def test_other_processes_wait_for_the_first(splits, tmp_path):
    second = Second(1, 2, torch.device("cpu"))

    def calls():
        for batches in (2, 2):
            with pytest.raises(RuntimeError, match="interrupted"):
                cache(splits, tmp_path / "cache", Strides(batches=batches))
            yield False
        cache(splits, tmp_path / "cache")
        yield True

    Second.calls, log = calls(), []
    found = cache(splits, tmp_path / "cache", Strides(batches=0), processes=second, log=log)
    assert_features_of(found, splits)
    assert log == []
    Second.calls = iter([True])
    with pytest.raises(DataError, match="other must be a folder that all processes share, got an incomplete cache"):
        cache(splits, tmp_path / "other", processes=second)
    Second.calls = iter([True])
    with pytest.raises(DataError, match="weights was"):
        cache(splits, tmp_path / "cache", Strides(seed=1), processes=second)


def test_the_first_process_synchronizes_whenever_images_are_on_disk(splits, tmp_path):
    class First(Processes):
        met = []

        def mean(self, x):
            self.met.append((float(x), sum(counts(tmp_path / "cache").values())))
            return x / 2

    cache(splits, tmp_path / "cache", processes=First(0, 2, torch.device("cpu")))
    assert First.met == [(0, n) for n in (4, 8, 12, 16, 20, 23, 27, 28, 32, 35)] + [(1, 35)]


@pytest.mark.parametrize("scale", [1e6, float("nan")])
def test_features_too_large_for_16_bits_are_named(splits, tmp_path, scale):
    with pytest.raises(DataError, match=r"features must be finite and below 65,520 .* of .*train/0.png$"):
        cache(splits, tmp_path / "cache", Strides(scale=scale))


def test_an_encoder_that_is_trained_is_refused(splits, tmp_path):
    with pytest.raises(ValueError, match="encoder must be frozen, got parameters that require gradients"):
        cache(splits, tmp_path, Strides().requires_grad_(True))
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        cache(splits, tmp_path, batch_size=0)


def test_workers_read_the_same(splits, tmp_path):
    several = make_splits(splits.train.files[0].parents[1], workers=1)
    assert torch.equal(cached(cache(several, tmp_path / "one")), cached(cache(splits, tmp_path / "none")))


@pytest.mark.parametrize("mode", ["soft", "hard"])
def test_training_is_the_same_up_to_rounding(splits, tmp_path, mode):
    vocabulary = Vocabulary.of(splits.train.vocabulary_captions())

    def train(data):
        encoder = Strides().eval()
        torch.manual_seed(1)
        decoder = Decoder(
            attention=Attention(state_dim=8, annotation_dim=5, dim=6, mode=mode),
            vocabulary_size=len(vocabulary),
            embed_dim=7,
            state_dim=8,
            annotation_dim=5,
        )
        model = Captioner(encoder=encoder, decoder=decoder)
        optimizer = torch.optim.SGD(model.decoder.parameters(), lr=0.5)
        curve = []
        for epoch in range(3):
            for step, batch in enumerate(data.train.epoch(seed=0, epoch=epoch, batch_size=5)):
                words, lengths = vocabulary.encode([one for (one,) in batch.captions])
                output = model(batch.images, words, noise=Noise(10 * epoch + step))
                loss = losses.caption_cross_entropy(output.logits, words[:, 1:], lengths)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                curve.append(loss.item())
        return torch.tensor(curve)

    expected, found = train(splits), train(cache(splits, tmp_path / "cache"))
    assert len(found) == 12 and expected[0] - expected[-1] > 0.5
    assert_close(found, expected, 5e-3)
    assert not torch.equal(found, expected)
