"""The embedded MNIST: its splits, and unpacking despite crashes, concurrency and corrupt files."""

import gzip
import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torchvision

from glimpse.data import load_mnist, unpack_mnist
from glimpse.data import mnist as mnist_module
from glimpse.errors import DataError

REPOSITORY = Path(__file__).parents[2]
LOAD = "from glimpse.data import load_mnist; print(int(load_mnist('test')[1].sum()))"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder, and no cached arrays of the default one."""
    monkeypatch.setenv("GLIMPSE_CACHE", str(tmp_path / "cache"))
    load_mnist.cache_clear()
    yield tmp_path / "cache"
    load_mnist.cache_clear()


def python(code: str, cache: Path) -> subprocess.Popen:
    environment = {**os.environ, "GLIMPSE_CACHE": str(cache)}
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, text=True
    )


def test_splits_are_those_of_torchvision(cache):
    unpack_mnist()
    both = torchvision.datasets.MNIST(root=str(cache), train=True, download=False)
    test = torchvision.datasets.MNIST(root=str(cache), train=False, download=False)
    expected = {
        "train": (both.data[:50_000], both.targets[:50_000]),
        "valid": (both.data[50_000:], both.targets[50_000:]),
        "test": (test.data, test.targets),
    }
    for split, (images, labels) in expected.items():
        loaded_images, loaded_labels = load_mnist(split)
        assert loaded_images.dtype == np.uint8 and loaded_labels.dtype == np.int64
        np.testing.assert_array_equal(loaded_images, images.numpy())
        np.testing.assert_array_equal(loaded_labels, labels.numpy())


def test_shared_arrays_are_read_only():
    images, labels = load_mnist("valid")
    with pytest.raises(ValueError, match="read-only"):
        images[0] = 0
    with pytest.raises(ValueError, match="read-only"):
        labels[0] = 0


def test_unknown_split():
    with pytest.raises(ValueError, match="split must be one of train, valid, test, got 'dev'"):
        load_mnist("dev")


def test_unpacks_once_and_leaves_no_temporary(cache):
    assert unpack_mnist() == cache
    raw = cache / "MNIST" / "raw"
    assert sorted(path.name for path in raw.iterdir()) == sorted(mnist_module.SHA256)
    before = {path: path.stat().st_mtime_ns for path in raw.iterdir()}
    unpack_mnist()
    assert before == {path: path.stat().st_mtime_ns for path in raw.iterdir()}


def test_files_appear_complete(cache, monkeypatch):
    appeared = []
    replace = os.replace

    def checked_replace(temporary: Path, path: Path) -> None:
        assert not path.exists()
        assert hashlib.sha256(temporary.read_bytes()).hexdigest() == mnist_module.SHA256[path.name]
        replace(temporary, path)
        appeared.append(path.name)

    monkeypatch.setattr(os, "replace", checked_replace)
    unpack_mnist()
    assert appeared == list(mnist_module.SHA256)


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_corrupt_cached_file_is_named_and_can_be_deleted(cache, damage):
    unpack_mnist()
    path = cache / "MNIST" / "raw" / "t10k-images-idx3-ubyte"
    content = bytearray(path.read_bytes())
    if damage == "cut":
        del content[-1]
    else:
        content[5000] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"{path} is corrupt: its sha256 is .*Delete it"):
        load_mnist("test")
    path.unlink()
    assert load_mnist("test")[0].shape == (10_000, 28, 28)


def test_unreadable_cached_file_is_named(tmp_path):
    with pytest.raises(DataError, match=f"cannot read {tmp_path}"):
        mnist_module._verify(tmp_path)


def test_killed_while_unpacking(cache):
    code = f"import os; os.fsync = lambda file: os.kill(os.getpid(), {int(signal.SIGKILL)}); {LOAD}"
    process = python(code, cache)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    left = list((cache / "MNIST" / "raw").iterdir())
    assert len(left) == 1 and left[0].name.endswith(".tmp")
    assert load_mnist("test")[0].shape == (10_000, 28, 28)


@pytest.mark.slow
def test_processes_unpacking_at_once(cache):
    processes = [python(LOAD, cache) for _ in range(2)]
    outputs = {process.communicate()[0].strip() for process in processes}
    assert all(process.returncode == 0 for process in processes)
    assert outputs == {"44434"}
    assert len(list((cache / "MNIST" / "raw").iterdir())) == 4


def test_unwritable_cache_folder(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("GLIMPSE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match=f"cache folder {tmp_path}/file/cache.*GLIMPSE_CACHE"):
        unpack_mnist()


def test_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def full(_: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setenv("GLIMPSE_CACHE", str(tmp_path))
    with pytest.raises(DataError, match="No space left"):
        unpack_mnist()
    assert list((tmp_path / "MNIST" / "raw").iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not gzip", "is missing or corrupt .*reinstall"),
        (gzip.compress(b"digits" * 1000, mtime=0)[:-20], "is missing or corrupt .*reinstall"),
        (gzip.compress(b"other digits", mtime=0), "is corrupt .wrong sha256.: reinstall"),
        (None, "is missing or corrupt .*reinstall"),
    ],
)
def test_corrupt_embedded_file_is_named(tmp_path, content, message):
    packed = tmp_path / "t10k-labels-idx1-ubyte.gz"
    if content is not None:
        packed.write_bytes(content)
    with pytest.raises(DataError, match=f"{packed} {message}"):
        mnist_module._unpack(packed, tmp_path / "t10k-labels-idx1-ubyte")
    assert not (tmp_path / "t10k-labels-idx1-ubyte").exists()
