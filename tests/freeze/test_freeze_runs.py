"""Frozen: run folders that were stopped half-way go on to the weights of the run that was never stopped."""

import shutil

import pytest
from freeze import adapter
from freeze.frozen import IMAGES, RUNS, assert_same_settings, assert_same_weights, read

STORED = read("runs")["runs"]
AS_USER = {"classification-hard", "image-folder", "two-processes"}  # with the test, of 10,000 images but for the folder
SLOW = {"two-processes"}


@pytest.fixture
def copied(tmp_path):
    """Copies a stored run to where it may be written."""

    def copy(name):
        folder = shutil.copytree(RUNS / name, tmp_path / name)
        if name == "image-folder":
            adapter.set_data_root(folder, IMAGES)
        return folder

    return copy


def test_all_are_there():
    assert sorted(STORED) == sorted(folder.name for folder in RUNS.iterdir())


def test_folders_are_as_they_were_written():
    """Nothing in them but what resuming needs, and no path of any machine."""
    for folder in RUNS.iterdir():
        names = {file.name for file in folder.iterdir()}
        assert names == {"config.yaml", "meta.json", "metrics.jsonl", "last.safetensors", "best.safetensors"}
        for name in ("config.yaml", "meta.json"):
            words = (folder / name).read_text().replace('"', " ").split()
            assert not [word for word in words if word.startswith("/") and len(word) > 1]
    assert sum(file.stat().st_size for file in RUNS.rglob("*") if file.is_file()) < 1e6


@pytest.mark.parametrize("name", STORED)
def test_settings(name):
    expected = STORED[name]["settings"]
    found = adapter.load_settings(RUNS / name)
    required = STORED[name]["required"]
    assert_same_settings(found, expected, required, adapter.idle_settings(expected))


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in STORED])
def test_resumed(name, copied):
    expected, folder = STORED[name], copied(name)
    assert_same_weights(adapter.last_weights(folder), expected["before"], expected["machine"], rounding=False)
    if name in AS_USER:
        adapter.resume_as_user(folder, world_size=expected["world_size"])
    else:
        adapter.resume(folder)
    assert_same_weights(adapter.last_weights(folder), expected["after"], expected["machine"])


def test_other_weights_are_noticed():
    """Else the comparisons above would compare nothing: the first epoch is not the second."""
    for name, expected in STORED.items():
        with pytest.raises(AssertionError):
            assert_same_weights(adapter.last_weights(RUNS / name), expected["after"], {})
