"""Run folders: their files, failures to write them, and broken or malicious checkpoints."""

import ast
import json
import os
import pickle
import re
import shutil
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from support.runs import REPOSITORY, make_engine, new_engine, resumed, tiny_config, train_main, train_tiny

from glimpse import load
from glimpse.errors import RunError
from glimpse.files import write_atomically
from glimpse.tasks.classification import ClassificationTask
from glimpse.tasks.classification_commands import load_runs
from glimpse.tasks.runs import unique_names
from glimpse.tasks.settings import load_config
from glimpse.training import run as runs
from glimpse.training.checkpoint import CHECKPOINT_FORMAT
from glimpse.training.load import open_runs
from glimpse.training.run import BEST, LAST, Run

METADATA = {"image_shape": [1, 60, 60], "class_names": ["no", "yes"]}


def create(folder=None, **settings):
    return Run.create(tiny_config(settings), name="some", metadata=METADATA, folder=folder)


def contents(folder):
    """All files below a folder, with their content."""
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished training; not to be modified."""
    return train_tiny(tmp_path_factory.mktemp("trained") / "run", {"train.epochs": 1, "train.limit": 64}).run


@pytest.fixture
def copied(trained, tmp_path):
    """A copy of a finished training, to be modified."""
    return Run(shutil.copytree(trained.folder, tmp_path / "run"), trained.config)


# Folders


def test_create(tmp_path):
    config = tiny_config({"seed": 7, "train.folder": tmp_path / "out"})
    run = Run.create(config, name="some", metadata=METADATA)
    assert run.folder.parent == tmp_path / "out" / "some"
    assert re.fullmatch(r"seed7-\d{8}-\d{6}", run.folder.name)
    assert sorted(path.name for path in run.folder.iterdir()) == ["config.yaml", "meta.json"]
    assert load_config(file=run.folder / "config.yaml") == config
    meta = run.read_json("meta.json")
    assert {"command", "started", "commit", "python", "torch", "numpy", "machine"} < meta.keys()
    assert meta["torch"] == torch.__version__
    assert {key: meta[key] for key in METADATA} == METADATA
    opened = Run.open(run.folder)
    assert (opened.folder, opened.config) == (run.folder, config)


def test_commit(tmp_path, monkeypatch):
    commit = create(tmp_path / "a").read_json("meta.json")["commit"]
    assert commit is None or re.fullmatch(r"[0-9a-f]{40}\+?", commit)
    monkeypatch.setenv("PATH", "")
    assert create(tmp_path / "b").read_json("meta.json")["commit"] is None


def test_runs_of_the_same_second_have_their_own_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(time, "strftime", lambda pattern: "20300101-000000")
    names = [create(**{"train.folder": tmp_path}).folder.name for _ in range(3)]
    assert names == ["seed0-20300101-000000", "seed0-20300101-000000-2", "seed0-20300101-000000-3"]


def test_runs_of_the_same_moment_have_their_own_folders(tmp_path, monkeypatch):
    """Another process creates the folder just before this one does."""
    mkdir = Path.mkdir
    rivals = []

    def slow_mkdir(self, *arguments, **options):
        if not rivals:
            rivals.append(self)
            mkdir(self, parents=True)
            (self / "config.yaml").write_text("seed: 1\n")
        mkdir(self, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", slow_mkdir)
    run = create(**{"train.folder": tmp_path})
    assert run.folder != rivals[0]
    assert (rivals[0] / "config.yaml").read_text() == "seed: 1\n"


def test_existing_run_is_refused(copied, capsys):
    before = contents(copied.folder)
    with pytest.raises(RunError, match=rf"{copied.folder} holds a run already: resume it with --resume"):
        create(copied.folder)
    assert train_main(["--run_dir", str(copied.folder)]) == 2
    assert f"train.py: error: {copied.folder} holds a run already" in capsys.readouterr().err
    assert contents(copied.folder) == before


def test_existing_folder_without_a_run_is_used(tmp_path):
    (tmp_path / "note.txt").write_text("mine")
    create(tmp_path)
    assert (tmp_path / "note.txt").read_text() == "mine"


@pytest.mark.parametrize("option", ["run_dir", "train.folder"])
@pytest.mark.parametrize("place", ["file", "file/below", "n" * 300])
def test_folder_that_cannot_be_made(place, option, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert train_main([f"--{option}={tmp_path / place}"]) == 2
    captured = capsys.readouterr()
    message = rf"train\.py: error: cannot write to the run folder {tmp_path}/{place[:200]}.*: [A-Z].*\n"
    assert re.fullmatch(message, captured.err)
    assert captured.out == ""
    assert contents(tmp_path) == {Path("file"): b"mine"}


@pytest.mark.parametrize("place", ["nothing", "file", "empty", "n" * 300])
def test_resume_of_no_run(place, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    assert train_main(["--resume", str(tmp_path / place)]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"train.py: error: {tmp_path / place} is not a run folder")
    assert captured.err.count("\n") == 1


def test_open_names_a_setting_that_cannot_be(copied):
    (copied.folder / "config.yaml").write_text("train: {speed: 3}\n")
    with pytest.raises(
        RunError, match=r"config of this run cannot be used: .*config\.yaml, line 1: .*no setting train\.speed"
    ):
        Run.open(copied.folder)


# Files


@pytest.mark.parametrize("function", ["replace", "fsync"])
def test_failed_write_leaves_the_old_file_whole(function, tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, function, fail)
        with pytest.raises(OSError, match="No space left"):
            write_atomically(path, b"new")
    assert contents(tmp_path) == {Path("file"): b"old"}
    write_atomically(path, b"new")
    assert contents(tmp_path) == {Path("file"): b"new"}


def test_write_is_flushed_before_it_is_renamed(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda *arguments: (done.append("fsync"), fsync(*arguments)))
    monkeypatch.setattr(os, "replace", lambda *arguments: (done.append("replace"), replace(*arguments)))
    write_atomically(tmp_path / "file", b"new")
    assert done[:2] == ["fsync", "replace"]


def test_full_disk_is_named_and_the_old_checkpoint_kept(copied, monkeypatch):
    def fail(*arguments):
        raise OSError(28, "No space left on device")

    before = contents(copied.folder)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(RunError, match=rf"cannot write {copied.folder / LAST}: No space left on device"):
        copied.save(LAST, {"x": torch.zeros(3)}, {})
    assert contents(copied.folder) == before


def test_result_that_cannot_be_written(copied, capsys):
    (copied.folder / "result.json").mkdir()
    assert train_main(["--resume", str(copied.folder)]) == 2
    assert re.search(r"train\.py: error: cannot write .*\n$", capsys.readouterr().err)


def test_metrics_that_cannot_be_written(tmp_path):
    engine = new_engine(tmp_path / "run")
    (tmp_path / "run" / "metrics.jsonl").mkdir()
    with pytest.raises(RunError, match=rf"cannot write to the run folder {tmp_path / 'run'}: Is a directory"):
        engine.train()


def test_rows_without_a_last_one_cut_short(tmp_path):
    run = create(tmp_path)
    assert run.rows() == []
    lines = [json.dumps({"step": step, "loss": step / 2}) for step in (2, 4, 6)]
    path = tmp_path / "metrics.jsonl"
    for cut in range(1, len(lines[2])):
        path.write_text("\n".join([*lines[:2], lines[2][:cut]]))
        assert run.rows() == [{"step": 2, "loss": 1.0}, {"step": 4, "loss": 2.0}]


def test_truncating_the_metrics(tmp_path):
    run = create(tmp_path)
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 2}\n{"step": 4, "epoch": 1}\n{"step": 4, "valid": 1}\n{"step": 6}\n{"st')
    run.truncate_metrics(4)
    assert path.read_text() == '{"step": 2}\n{"step": 4, "epoch": 1}\n{"step": 4, "valid": 1}\n'
    run.truncate_metrics(0)
    assert path.read_text() == ""


# Checkpoints


def test_checkpoint_round_trip(tmp_path):
    run = create(tmp_path)
    tensors = {
        "model.a": torch.randn(3, 4).t(),  # not contiguous
        "model.b": torch.tensor(2.5, requires_grad=True),
        "optimizer.a.step": torch.tensor(7.0, dtype=torch.float64),
        "whole": torch.arange(3),
        "empty": torch.zeros(0, 2),
    }
    state = {"epoch": 3, "best": None, "text": "é", "list": [1, 2.5]}
    run.save(LAST, tensors, state)
    loaded, loaded_state = run.load(LAST)
    assert loaded_state == state
    assert loaded.keys() == tensors.keys()
    for key, value in tensors.items():
        assert torch.equal(loaded[key], value) and loaded[key].dtype == value.dtype
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_weights_round_trip(trained):
    model = make_engine(trained).task.model
    before = {key: value.clone() for key, value in model.state_dict().items()}
    state = trained.load_weights(model)
    assert state["epoch"] == 1
    saved = {key.removeprefix("model."): value for key, value in trained.load(BEST)[0].items()}
    assert saved.keys() == before.keys()
    assert any(not torch.equal(before[key], saved[key]) for key in saved)
    assert all(torch.equal(value, saved[key]) for key, value in model.state_dict().items())


def _truncated(length):
    return lambda path: path.write_bytes(path.read_bytes()[:length])


def _with_state(state):
    def spoil(path):
        tensors, _ = Run(path.parent, tiny_config()).load(path.name)
        save_file(tensors, path, {"format": CHECKPOINT_FORMAT, **({} if state is None else {"state": state})})

    return spoil


BROKEN = {
    "empty": _truncated(0),
    "cut in the length": _truncated(4),
    "cut in the header": _truncated(200),
    "cut in the tensors": _truncated(20_000),
    "last byte missing": _truncated(-1),
    "garbage": lambda path: path.write_bytes(bytes(range(256)) * 64),
    "text": lambda path: path.write_text("not a checkpoint\n" * 100),
    "header without end": lambda path: path.write_bytes(b"\xff" * 8 + path.read_bytes()[8:]),
    "other safetensors": lambda path: save_file({"x": torch.zeros(2)}, path),
    "other format": lambda path: save_file({"x": torch.zeros(2)}, path, {"format": "pt"}),
    "another format of ours": lambda path: save_file(
        {"x": torch.zeros(2)}, path, {"format": "glimpse-0", "state": "{}"}
    ),
    "no state": _with_state(None),
    "state is no JSON": _with_state('{"epoch": 1,'),
}


@pytest.mark.parametrize("name", [LAST, BEST])
@pytest.mark.parametrize("mode", BROKEN)
def test_broken_checkpoint_is_named(mode, name, copied):
    path = copied.folder / name
    BROKEN[mode](path)
    with pytest.raises(
        RunError, match=rf"^{path} is (broken: .|not a checkpoint of this package \({CHECKPOINT_FORMAT}\))"
    ):
        copied.load(name)
    with pytest.raises(RunError, match=str(path)):
        resumed(copied) if name == LAST else copied.load_weights(make_engine(copied).task.model)


def test_broken_checkpoint_on_the_command_line(copied, capsys):
    _truncated(20_000)(copied.folder / LAST)
    assert train_main(["--resume", str(copied.folder)]) == 2
    assert capsys.readouterr().err.startswith(f"train.py: error: {copied.folder / LAST} is broken: ")


def _without_moments(path):
    run = Run(path.parent, tiny_config())
    tensors, state = run.load(LAST)
    run.save(LAST, {**tensors, "optimizer.no.such.weight.exp_avg": torch.zeros(2)}, state)


@pytest.mark.parametrize(
    "spoil",
    [
        _with_state("{}"),
        _with_state("[]"),
        _with_state('{"epoch": "one", "seconds": 1.0, "best": null}'),
        lambda path: shutil.copy(path.with_name(BEST), path),
        _without_moments,
    ],
    ids=["no entries", "a list", "epoch is text", "the other file", "moments of an unknown weight"],
)
def test_checkpoint_that_cannot_be_resumed(spoil, copied):
    path = copied.folder / LAST
    spoil(path)
    with pytest.raises(RunError, match=str(path)):
        resumed(copied)


@pytest.mark.parametrize("name", [LAST, BEST])
def test_missing_checkpoint(name, copied):
    (copied.folder / name).unlink()
    with pytest.raises(RunError, match=rf"{copied.folder / name} is missing"):
        copied.load(name)


@pytest.mark.parametrize(
    ("settings", "difference"),
    [
        ({"network.state_dim": 24}, r"classify\.weight has shape \(10, 32\), expected \(10, 24\)"),
        ({"network.core": "lstm"}, r"core\.\S+ has shape \(96, 32\), expected \(128, 32\)"),
        ({"loss.baseline": "none"}, r"unexpected keys baseline\.bias, baseline\.weight$"),
        ({"attention.first": "learned"}, r"missing keys core\.\S*initial"),
        ({"attention.places": "grid"}, r"missing keys glimpses\.attention\..*; unexpected keys glimpses\.attention\."),
    ],
)
def test_checkpoint_of_another_architecture(settings, difference, copied):
    model = make_engine(Run(copied.folder, tiny_config(settings))).task.model
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(
        RunError, match=rf"{copied.folder / BEST} is a checkpoint of another architecture: .*{difference}"
    ):
        copied.load_weights(model)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_load_needs_the_folder_alone(trained, tmp_path):
    run = Run(shutil.copytree(trained.folder, tmp_path / "elsewhere"), trained.config)
    run.write_json("meta.json", {"image_shape": [1, 60, 60], "class_names": list("0123456789")})
    model = load(run.folder)
    assert not model.training
    assert all(torch.equal(value, run.load(BEST)[0][f"model.{key}"]) for key, value in model.state_dict().items())


@pytest.mark.parametrize("content", [None, "{", "{}", "[1]"], ids=["missing", "cut", "empty", "list"])
def test_load_with_broken_meta(content, copied):
    path = copied.folder / "meta.json"
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(RunError, match=r"meta\.json"):
        load(copied.folder)


# Several runs together


def named(folder, name, **settings):
    return Run.create(tiny_config(settings), name=name, metadata={"name": name}, folder=folder)


def test_runs_are_named_by_config(tmp_path):
    runs = [named(tmp_path / "1", "hard"), named(tmp_path / "2", "soft"), named(tmp_path / "3", "cnn")]
    assert unique_names(runs) == ["hard", "soft", "cnn"]
    assert unique_names(runs[:1]) == ["hard"] and unique_names([]) == []


def test_runs_of_one_config_are_named_by_seed(tmp_path):
    runs = [named(tmp_path / "1", "hard"), named(tmp_path / "2", "hard", seed=4), named(tmp_path / "3", "soft", seed=4)]
    assert unique_names(runs) == ["hard, seed 0", "hard, seed 4", "soft, seed 4"]
    assert unique_names(runs[1:]) == ["hard", "soft"]


def test_runs_of_one_config_and_seed_are_named_by_folder(tmp_path):
    runs = [named(tmp_path / "1", "hard", seed=4), named(tmp_path / "2", "hard", seed=4)]
    assert unique_names(runs) == [f"hard, seed 4, {tmp_path / '1'}", f"hard, seed 4, {tmp_path / '2'}"]


@pytest.mark.parametrize("metadata", [{}, {"name": ""}, {"name": None}])
def test_run_without_a_name_is_named_by_folder(metadata, tmp_path):
    run = create(tmp_path / "my run")
    run.write_json("meta.json", metadata)
    assert unique_names([run]) == ["my run"]
    (run.folder / "meta.json").unlink()
    with pytest.raises(RunError, match=r"meta\.json is broken"):
        unique_names([run])


def saved(folder, name, **settings):
    """A run folder with the initial weights of its model as the best ones."""
    metadata = {"name": name, "image_shape": [1, 60, 60], "class_names": list("0123456789")}
    run = Run.create(tiny_config(settings), name=name, metadata=metadata, folder=folder)
    model = make_engine(run).task.model
    run.save(BEST, {f"model.{key}": value for key, value in model.state_dict().items()}, {"epoch": 1, "error": 0.5})
    return run


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Folders of runs of every kind, on the same data; not to be modified."""
    folder = tmp_path_factory.mktemp("several")
    settings = {
        "hard": {"seed": 3},
        "soft": {"read": "soft"},
        "soft_to_hard": {"read": "soft", "score.read": "hard"},
        "oracle": {"attention.policy": "oracle"},
        "cnn": {"model": "cnn"},
        "fc": {"model": "fc"},
    }
    return {name: saved(folder / name, name, **changes).folder for name, changes in settings.items()}


def test_runs_are_loaded_in_order_with_the_read_mode_of_their_scores(several):
    loaded, splits = load_runs(ClassificationTask, open_runs(list(several.values())))
    assert [entry.name for entry in loaded] == list(several)
    assert [entry.run.folder for entry in loaded] == list(several.values())
    assert [entry.mode for entry in loaded] == ["hard", "soft", "hard", "hard", None, None]
    assert [entry.model.mode for entry in loaded] == ["hard", "soft", "soft", "hard", None, None]
    for entry in loaded:
        assert not entry.model.training
        weights = {f"model.{key}": value for key, value in entry.model.state_dict().items()}
        kept, _ = entry.run.load(BEST)
        assert weights.keys() == kept.keys() and all(torch.equal(value, kept[key]) for key, value in weights.items())
    assert (splits.test.image_shape, len(splits.test)) == ((1, 60, 60), 10_000)


def test_runs_with_other_seeds_have_the_same_images(several, tmp_path):
    other = saved(tmp_path / "other", "hard", seed=8).folder
    loaded, _ = load_runs(ClassificationTask, open_runs([several["hard"], other]))
    assert [entry.name for entry in loaded] == ["hard, seed 3", "hard, seed 8"]
    one, two = (entry.model.classify.weight for entry in loaded)
    assert not torch.equal(one, two)
    (_, first), (_, second) = (
        load_runs(ClassificationTask, open_runs([several["hard"]])),
        load_runs(ClassificationTask, open_runs([other])),
    )
    (one,), (two,) = (data.test.in_order(batch_size=5, limit=5) for data in (first, second))
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize(
    "settings, difference",
    [
        ({"data.num_distractors": 7}, r"data\.num_distractors 4 and 7"),
        ({"data.canvas": 80}, r"data\.canvas \(60, 60\) and \(80, 80\)"),
        ({"data.num_distractors": 0, "data.distractor_size": 9}, r"data\.num_distractors 4 and 0"),
        ({"data.num_distractors": 3, "data.distractor_size": 9}, r"data\.num_distractors 4 and 3; .*_size 8 and 9"),
    ],
)
def test_runs_on_different_images_are_not_compared(settings, difference, several, tmp_path):
    other = create(tmp_path / "other", **settings).folder  # refused before a checkpoint is needed
    message = rf"^{several['hard']} and {other} cannot be compared: they do not have the same images \({difference}\)$"
    with pytest.raises(RunError, match=message):
        load_runs(ClassificationTask, open_runs([several["hard"], several["soft"], other]))


def test_a_run_is_not_compared_with_itself(several, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(several["hard"])
    for again in (several["hard"], link, os.path.relpath(several["hard"])):
        with pytest.raises(RunError, match=r"each run must be given once, got .* twice"):
            load_runs(ClassificationTask, open_runs([several["hard"], several["soft"], again]))


def test_runs_whose_classes_have_other_names_now(several, tmp_path):
    run = Run(shutil.copytree(several["cnn"], tmp_path / "cnn"), tiny_config({"model": "cnn"}))
    names = run.read_json("meta.json")["class_names"]
    run.write_json("meta.json", {**run.read_json("meta.json"), "class_names": [*names[:3], "cat", *names[4:]]})
    with pytest.raises(RunError, match=r"and 10 classes then, .* and 10 now; class cat then, 3 now$"):
        load_runs(ClassificationTask, open_runs([run.folder]))


def test_runs_whose_data_has_changed_are_not_compared(several, tmp_path):
    run = Run(shutil.copytree(several["cnn"], tmp_path / "cnn"), tiny_config({"model": "cnn"}))
    run.write_json("meta.json", {**run.read_json("meta.json"), "image_shape": [1, 60, 50]})
    message = rf"the data of {run.folder} has changed since training: .*\[1, 60, 50\].* then, \[1, 60, 60\].* now"
    with pytest.raises(RunError, match=message):
        load_runs(ClassificationTask, open_runs([several["hard"], run.folder]))


def test_loading_a_folder_that_is_not_a_run(several, tmp_path):
    with pytest.raises(RunError, match=rf"{tmp_path} is not a run folder"):
        load_runs(ClassificationTask, open_runs([several["hard"], tmp_path]))
    with pytest.raises(RunError, match=rf"{BEST} is missing"):
        load_runs(ClassificationTask, open_runs([several["hard"], create(tmp_path / "begun").folder]))


# Nothing is unpickled


class Trap:
    """Creates a folder when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("write", ["torch", "pickle"])
@pytest.mark.parametrize("name", [LAST, BEST])
def test_pickle_in_place_of_a_checkpoint_is_not_executed(name, write, copied, tmp_path, capsys):
    trap, path = Trap(tmp_path / "executed"), copied.folder / name
    if write == "torch":
        torch.save({"model": trap}, path)
    else:
        path.write_bytes(pickle.dumps(trap))
    assert train_main(["--resume", str(copied.folder)]) == 2
    assert f"train.py: error: {path} is broken" in capsys.readouterr().err
    assert not trap.path.exists()
    pickle.loads(pickle.dumps(trap))
    assert trap.path.exists()  # the trap works


def test_code_never_unpickles():
    """No module that unpickles is imported, and no function that unpickles is called."""
    files = [*(REPOSITORY / "glimpse").rglob("*.py"), *REPOSITORY.glob("*.py")]
    assert Path(runs.__file__) in files
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            forbidden = {"pickle", "cPickle", "dill", "joblib", "shelve", "marshal", "cloudpickle"}
            assert not forbidden & {name.split(".")[0] for name in names}, file
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = ast.unparse(node.func.value)
                # torch.load with weights_only runs no code.
                if (owner, node.func.attr) == ("torch", "load"):
                    assert "weights_only=True" in ast.unparse(node), file
                assert (owner, node.func.attr) not in {("np", "load"), ("numpy", "load")}, file
                if (owner, node.func.attr) == ("yaml", "load"):  # a loader of plain values
                    assert ast.unparse(node.args[1]) == "_Loader", file
