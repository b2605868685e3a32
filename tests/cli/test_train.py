"""train.py: in one process, stopped, killed, resumed, from the weights of another run, and in several processes."""

import random
import re
import shutil
import signal
import socket
import time
import warnings

import pytest
import torch
from support.runs import (
    assert_same_run,
    at_step,
    new_engine,
    python,
    resumed,
    rows_without_time,
    silent,
    start_python,
    tiny,
    tiny_config,
    train_main,
    train_tiny,
)

from glimpse import build_data, load
from glimpse.distributed import Processes, choose_device
from glimpse.errors import RunError
from glimpse.evaluation.classify import score
from glimpse.tasks.base import build_task
from glimpse.tasks.build import build_model
from glimpse.training.run import BEST, LAST, Run

pytestmark = pytest.mark.usefixtures("few_test_examples")

SHORT = {"train.epochs": 1, "train.limit": 128}


# A run


def test_training_from_a_config_file(tmp_path):
    """From a file and overrides to a run folder that can be scored."""
    file = tmp_path / "my settings.yaml"
    file.write_text("# Tiny.\nread: soft\nseed: 3\ntrain: {epochs: 9}\n")
    options = {**SHORT, "train.tensorboard": "true", "train.folder": tmp_path / "out"}
    overrides = [option for option in tiny(options) if not option.startswith(("--read=", "--seed="))]
    result = python("train.py", file, *overrides)
    assert result.returncode == 0, result.stderr
    (folder,) = (tmp_path / "out" / "my settings").iterdir()
    assert re.fullmatch(r"seed3-\d{8}-\d{6}", folder.name)
    assert sorted(path.name for path in folder.iterdir()) == [
        BEST,
        "config.yaml",
        LAST,
        "meta.json",
        "metrics.jsonl",
        "result.json",
        "tensorboard",
    ]
    run = Run.open(folder)
    assert run.config == tiny_config({**options, "read": "soft", "seed": 3})
    meta = run.read_json("meta.json")
    assert meta["command"] == ["train.py", str(file), *overrides]
    assert meta["image_shape"] == [1, 60, 60] and meta["class_names"] == list("0123456789")
    scores = run.read_json("result.json")
    assert scores["test"]["images"] == 10_000  # not limited as training and validation are
    assert len(scores["test"]["error"]) == len(scores["test"]["interval"]) == len(scores["test"]["hit"]) == 3
    assert scores["valid"] == run.load(BEST)[1]
    assert "epoch 1/1" in result.stdout and f"Run folder: {folder}" in result.stdout
    assert f"{100 * scores['test']['error'][-1]:.2f}" in result.stdout
    assert "Traceback" not in result.stderr and "Warning" not in result.stderr


def test_test_scores_are_of_the_best_weights(tmp_path, few_test_examples):
    """Those of the checkpoint, which is replaced here, as the best weights are often the last ones."""
    assert train_main([*tiny({**SHORT, "train.lr": 0.05}), f"--run_dir={tmp_path / 'run'}"]) == 0
    run = Run.open(tmp_path / "run")
    initial = build_model(run.config, build_data(run.config.data).train).state_dict()
    run.save(BEST, {f"model.{key}": value for key, value in initial.items()}, {"epoch": 0, "error": 0.25})
    assert train_main(["--resume", str(run.folder)]) == 0
    result = run.read_json("result.json")
    assert result["valid"] == {"epoch": 0, "error": 0.25}
    data = build_data(run.config.data).test
    best = score(load(run.folder), data, limit=few_test_examples)
    last = score(resumed(run).task.model, data, limit=few_test_examples)
    assert result["test"]["hit"] == best.on_target != last.on_target


def test_equal_commands_make_equal_runs(tmp_path):
    for name in "ab":
        torch.manual_seed(ord(name))
        assert train_main([*tiny(SHORT), f"--run-dir={tmp_path / name}"]) == 0
    a, b = (Run(tmp_path / name, tiny_config(SHORT)) for name in "ab")
    assert_same_run(a, b)
    assert a.read_json("result.json")["test"] == b.read_json("result.json")["test"]


def test_import_reads_no_data(tmp_path):
    """Importing the package needs no torch; importing all modules opens no data and no connection."""
    code = """
import importlib, pkgutil, sys
seen = []
sys.addaudithook(lambda event, a: seen.append((event, str(a[:2]))) if event in ("open", "socket.connect") else None)
import glimpse, glimpse.config
assert not {"torch", "torchvision", "matplotlib"} & sys.modules.keys(), "heavy imports"
for module in pkgutil.walk_packages(glimpse.__path__, "glimpse."):
    importlib.import_module(module.name)
assert "torch" in sys.modules
for event, what in seen:
    assert event == "open" and "mnist_idx" not in what and ".gz" not in what and "ubyte" not in what, (event, what)
"""
    result = python("-c", code, environment={"GLIMPSE_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path)})
    assert result.returncode == 0, result.stderr
    assert not (tmp_path / "cache").exists()


def test_public_names_exist():
    import glimpse

    for name in dir(glimpse):
        assert getattr(glimpse, name) is not None, name


def test_unknown_public_name():
    import glimpse

    with pytest.raises(AttributeError, match="module 'glimpse' has no attribute 'glance'"):
        glimpse.glance  # noqa: B018


# Errors


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"train.device": "tpu9"}, r".*device must be auto, cpu, cuda, mps or another torch device, got 'tpu9'"),
        ({"train.device": "cuda:99"}, r".*device 'cuda:99' is not available on this machine: "),
        ({"train.limit": 10}, r"train\.batch_size must be at most 10 \(train.limit\), got 64"),
        ({"init_from": "nowhere"}, r"nowhere is not a run folder: there is no config\.yaml in it"),
        ({"data.kind": "folder", "data.root": "nowhere"}, r".*nowhere.*"),
        ({"data.kind": "torchvision", "data.name": "Cifar10"}, r".*Cifar10.*"),
    ],
)
def test_errors_of_building_the_task(settings, message, tmp_path, capsys):
    assert train_main([*tiny(settings), f"--run_dir={tmp_path / 'run'}"]) == 2
    captured = capsys.readouterr()
    assert re.fullmatch(rf"train\.py: error: {message}.*\n", captured.err)
    assert not (tmp_path / "run").exists()  # nothing is left to clean up


def test_devices():
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("auto").type in ("cpu", "cuda", "mps")


def test_training_with_non_finite_loss(tmp_path, capsys):
    settings = {"train.lr": 1e30, "train.schedule": "constant"}
    assert train_main([*tiny(settings), f"--run_dir={tmp_path / 'run'}"]) == 1
    message = capsys.readouterr().err
    assert re.fullmatch(r"train\.py: error: .* in epoch 1, step 2 of 4: cross_entropy (nan|inf), .*\n", message)
    assert resumed(Run.open(tmp_path / "run")).epoch == 0


# Stopping and resuming

KILLED = {"train.epochs": 12, "train.log_every": 1}


def wait_for_rows(process, run):
    """Wait until the process writes to metrics.jsonl."""
    path = run.folder / "metrics.jsonl"
    before = path.stat().st_mtime_ns if path.exists() else None
    deadline = time.monotonic() + 60
    while process.poll() is None and not (path.exists() and path.stat().st_mtime_ns != before):
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.slow
def test_killed_runs_end_like_unbroken_ones(tmp_path):
    """Killed at random times and resumed each time."""
    assert train_main([*tiny(KILLED), f"--run_dir={tmp_path / 'straight'}"]) == 0
    run, straight = (Run(tmp_path / name, tiny_config(KILLED)) for name in ("killed", "straight"))
    generator = random.Random(0)
    arguments = [*tiny(KILLED), f"--run_dir={run.folder}"]
    ends = []
    for _ in range(3):
        process = start_python("train.py", *arguments)
        wait_for_rows(process, run)
        time.sleep(generator.uniform(0, 0.25))
        process.kill()
        process.communicate()
        ends.append(process.returncode)
        arguments = ["--resume", run.folder]
    assert ends[0] == -signal.SIGKILL
    assert not (run.folder / "result.json").exists() or ends[-1] == 0
    assert train_main(["--resume", str(run.folder)]) == 0
    assert_same_run(run, straight)
    assert run.read_json("result.json")["test"] == straight.read_json("result.json")["test"]


def test_interrupt_prints_how_to_resume(tmp_path):
    run = Run(tmp_path / "run", tiny_config())
    # Background processes ignore interrupts, and their children inherit this.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = start_python("train.py", *tiny({"train.epochs": 1000}), f"--run_dir={run.folder}")
    signal.signal(signal.SIGINT, handler)
    wait_for_rows(process, run)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"python train.py --resume {run.folder}" in out
    assert "Traceback" not in err
    assert resumed(run).epoch >= 0


def test_resume_of_a_finished_run_scores_again(tmp_path, capsys):
    assert train_main([*tiny(SHORT), f"--run_dir={tmp_path / 'run'}"]) == 0
    run = Run(tmp_path / "run", tiny_config(SHORT))
    result, rows, last = run.read_json("result.json"), run.rows(), (run.folder / LAST).read_bytes()
    (run.folder / "result.json").unlink()
    capsys.readouterr()
    assert train_main(["--resume", str(run.folder)]) == 0
    assert run.read_json("result.json") == result
    assert (run.rows(), (run.folder / LAST).read_bytes()) == (rows, last)
    assert "Test, 100 images, weights of epoch 1" in capsys.readouterr().out


def test_run_stopped_before_its_first_checkpoint_can_be_resumed(tmp_path):
    """The process may be killed between the creation of the folder and the first checkpoint."""
    run = new_engine(tmp_path / "run", SHORT).run
    assert train_main(["--resume", str(run.folder)]) == 0
    assert_same_run(run, train_tiny(tmp_path / "straight", SHORT).run)


# Initial weights from another run


@pytest.fixture(scope="module")
def soft(tmp_path_factory):
    """A finished soft run whose std has decreased."""
    settings = {**SHORT, "read": "soft", "attention.std": 0.5, "attention.std_end": 0.3}
    return train_tiny(tmp_path_factory.mktemp("soft") / "run", settings).run


def in_one_process(config):
    return build_task(config, Processes(0, 1, torch.device("cpu")), open_run=Run.open)


def test_hard_run_from_a_soft_one(soft):
    task = in_one_process(tiny_config({"init_from": soft.folder, "seed": 5}))
    fresh = build_model(tiny_config({"seed": 5}), task.data.train).state_dict()
    saved, _ = soft.load(BEST)
    weights = task.model.state_dict()
    own = {"baseline.weight", "baseline.bias"}
    assert own < weights.keys() and not {f"model.{key}" for key in own} & saved.keys()
    for key, value in weights.items():
        if key == "glimpses.attention.std":
            assert torch.equal(value, fresh[key]) and not torch.equal(value, saved[f"model.{key}"])
        else:
            assert torch.equal(value, fresh[key] if key in own else saved[f"model.{key}"]), key
    assert not torch.equal(weights["classify.weight"], fresh["classify.weight"])
    assert task.model.mode == "hard"


def test_soft_run_from_a_hard_one(tmp_path):
    hard = train_tiny(tmp_path, SHORT).run
    model = in_one_process(tiny_config({"init_from": hard.folder, "read": "soft"})).model
    assert model.baseline is None and model.mode == "soft"
    assert torch.equal(model.classify.weight, hard.load(BEST)[0]["model.classify.weight"])


@pytest.mark.parametrize(
    ("settings", "difference"),
    [
        ({"network.state_dim": 24}, r"classify\.weight has shape \(10, 32\), expected \(10, 24\)"),
        ({"attention.places": "grid"}, r"missing keys glimpses\.attention\."),
    ],
)
def test_run_from_another_architecture(settings, difference, soft, tmp_path, capsys):
    message = rf"{soft.folder / BEST} is a checkpoint of another architecture: .*{difference}"
    with pytest.raises(RunError, match=message):
        in_one_process(tiny_config({"init_from": soft.folder, **settings}))
    arguments = [*tiny({"init_from": soft.folder, **settings}), f"--run_dir={tmp_path / 'run'}"]
    assert train_main(arguments) == 2
    assert re.search(message, capsys.readouterr().err)
    assert not (tmp_path / "run").exists()


def test_resume_does_not_need_the_run_of_the_initial_weights(soft, tmp_path):
    source = shutil.copytree(soft.folder, tmp_path / "source")
    settings = {**SHORT, "train.epochs": 2, "init_from": source}
    straight = train_tiny(tmp_path / "straight", settings)
    engine = new_engine(tmp_path / "stopped", settings)
    at_step(engine, 3, lambda terms: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        engine.train(silent)
    shutil.rmtree(source)
    assert train_main(["--resume", str(engine.run.folder)]) == 0
    assert_same_run(engine.run, straight.run)


# Several processes


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def torchrun(*arguments):
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"]
    return python(*launcher, "train.py", *arguments)


def assert_nearly_same_run(run, other):
    """Equal up to rounding."""
    rows, other_rows = rows_without_time(run), rows_without_time(other)
    assert len(rows) == len(other_rows) > 0
    for row, expected in zip(rows, other_rows, strict=True):
        assert row.keys() == expected.keys()
        for key in row:
            if not key.startswith("valid/"):  # counts of a few images, which rounding may change by one
                assert row[key] == pytest.approx(expected[key], rel=1e-4, abs=1e-5), key
    (tensors, _), (other_tensors, _) = run.load(LAST), other.load(LAST)
    assert tensors.keys() == other_tensors.keys()
    for key in tensors:
        if key.startswith("model."):
            torch.testing.assert_close(tensors[key], other_tensors[key], rtol=1e-3, atol=1e-4, msg=key)


TWO = {"train.epochs": 2, "train.optimizer": "sgd", "train.lr": 0.1, "attention.std_end": 0.1, "train.log_every": 1}


@pytest.mark.slow
def test_torchrun_with_two_processes_equals_one_process(tmp_path):
    """Hard reads, with advantages normalized over the whole batch."""
    settings = {**TWO, "loss.normalise": "true", "train.folder": tmp_path / "out"}
    result = torchrun(*tiny(settings))
    assert result.returncode == 0, result.stderr
    (folder,) = (tmp_path / "out" / "default").iterdir()  # one writes
    assert result.stdout.count("epoch 2/2") == result.stdout.count("Test, 10,000 images") == 1
    assert "2 x cpu" in result.stdout
    straight = train_tiny(tmp_path / "straight", settings)
    assert_nearly_same_run(Run(folder, straight.run.config), straight.run)
    assert (folder / "result.json").exists()


@pytest.mark.slow
def test_two_processes_resume_a_run_of_one_process(tmp_path):
    straight = train_tiny(tmp_path / "straight", TWO)
    engine = new_engine(tmp_path / "stopped", TWO)
    at_step(engine, 5, lambda terms: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        engine.train(silent)
    address = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    both = [
        start_python("train.py", "--resume", engine.run.folder, environment={**address, "RANK": rank}) for rank in "01"
    ]
    (first_out, first_err), (second_out, second_err) = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], first_err + second_err
    assert "Resuming after epoch 1" in first_out
    assert second_out == ""
    assert_nearly_same_run(engine.run, straight.run)


def test_batch_that_cannot_be_shared(tmp_path, monkeypatch, capsys):
    with pytest.raises(ValueError, match="train.batch_size must be a multiple of the 3 processes, got 64"):
        build_task(tiny_config(), Processes(0, 3, torch.device("cpu")))
    monkeypatch.setenv("RANK", "1")  # errors name the process
    assert train_main([*tiny({"train.batch_size": 0}), f"--run_dir={tmp_path / 'run'}"]) == 2
    assert capsys.readouterr().err.startswith("train.py: error [process 1]: train.batch_size must be ")


@pytest.mark.slow
def test_torchrun_with_a_batch_that_cannot_be_shared(tmp_path):
    result = torchrun(*tiny({"train.batch_size": 33, "train.folder": tmp_path / "out"}))
    assert result.returncode != 0
    assert (
        "train.py: error [process 0]: train.batch_size must be a multiple of the 2 processes, got 33" in result.stderr
    )
    assert not (tmp_path / "out").exists()


def test_warnings_are_single_lines(capsys):
    """Without the line of code that warns; afterwards Python shows warnings as before."""
    before = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert train_main(["--sensor.plan=crop", "--help"]) == 0
        assert capsys.readouterr().err == (
            "train.py: warning: sensor.plan is ignored: it changes the speed only, and is chosen by the sensor\n"
        )
        assert warnings.showwarning is before
