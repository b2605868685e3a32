"""Training the runs that are missing, and only these."""

import shutil

import pytest
from support.runs import tiny_config

from glimpse.errors import ConfigError
from glimpse.training import sweep
from glimpse.training.run import Run
from glimpse.training.sweep import PlannedRun, expected_seconds, find_run, train_missing
from glimpse.view.tables import duration

FAST = {"train.epochs": 2, "train.limit": 128, "score.limit": 50}


def folders_of(runs):
    return [run.folder for run in runs]


def jobs(folder, **settings):
    return [
        PlannedRun("tiny", tiny_config({**FAST, **settings, "seed": seed, "train.folder": str(folder)}))
        for seed in (0, 1)
    ]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two finished runs, and the lines that were logged in their training."""
    folder, lines = tmp_path_factory.mktemp("sweep"), []
    return folder, folders_of(train_missing(jobs(folder), log=lines.append)), lines


def test_trains_all_then_nothing(trained):
    folder, folders, lines = trained
    assert [Run.open(run).config.seed for run in folders] == [0, 1]
    assert all((run / "result.json").exists() and run.parent == folder / "tiny" for run in folders)
    assert lines[0] == "0 of 2 runs are finished; training the others" and "\n2 of 2: tiny, seed 1" in lines
    assert folders_of(train_missing(jobs(folder), log=pytest.fail)) == folders  # any training is logged
    # Runs that differ in threads or device are the same.
    assert folders_of(train_missing(jobs(folder, **{"train.threads": 2}), log=pytest.fail)) == folders


def test_other_settings_are_another_run(trained):
    folder, folders, _ = trained
    [job, _] = jobs(folder, **{"train.lr": 0.1})
    assert find_run(job) is None
    assert find_run(jobs(folder)[0]).folder == folders[0]


def test_resumes_a_stopped_run(tmp_path, trained, capsys, monkeypatch):
    def stop(engine):
        raise KeyboardInterrupt

    [job, _] = jobs(tmp_path)
    train, lines = sweep.train, []
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(sweep, "train", lambda config, **options: train(config, **{**options, "suffix": stop}))
        train_missing([job], log=lines.append)
    assert lines[-1] == "Or run the same command again, which continues from here."
    begun = find_run(job)
    assert begun is not None and not (begun.folder / "result.json").exists()
    capsys.readouterr()
    assert folders_of(train_missing([job])) == [begun.folder]
    assert "Resuming after epoch 1" in capsys.readouterr().out
    straight = Run.open(trained[1][0]).read_json("result.json")
    assert begun.read_json("result.json")["test"] == straight["test"]


def test_resumes_a_given_run_in_another_folder(trained, tmp_path):
    _, folders, _ = trained
    shutil.copytree(folders[0], tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "result.json").unlink()
    [job, _] = jobs(tmp_path / "runs")
    given = Run.open(tmp_path / "elsewhere")
    assert folders_of(train_missing([job], given=[given])) == [given.folder] and given.finished


def test_finished_runs_come_before_unfinished_ones(trained):
    folder, folders, _ = trained
    again = folder / "tiny" / "zzz"
    Run.create(jobs(folder)[0].config, name="tiny", metadata={}, folder=again)
    assert find_run(jobs(folder)[0]).folder == folders[0]


def test_given_runs_are_used(trained, tmp_path):
    _, folders, _ = trained
    elsewhere = jobs(tmp_path)
    assert folders_of(train_missing(elsewhere, given=[Run.open(folder) for folder in folders])) == folders


def test_the_same_training_twice_is_refused(tmp_path):
    first, second = jobs(tmp_path)
    with pytest.raises(ConfigError, match="tiny and other are the same training, seed 0: list it once"):
        train_missing([first, second, PlannedRun("other", first.config)])


def test_time_left_is_logged_before_the_training(trained):
    folder, _, _ = trained

    class Stop(BaseException):
        """Ends the training with the first line."""

    def stop(line):
        raise Stop(line)

    planned = [*jobs(folder), jobs(folder)[0]._replace(config=jobs(folder)[0].config.replace(seed=7))]
    with pytest.raises(Stop, match=r"^2 of 3 runs are finished; training the others, about \d+ s$"):
        train_missing(planned, log=stop)


def test_broken_folders_are_ignored(tmp_path):
    (tmp_path / "tiny" / "odd").mkdir(parents=True)
    (tmp_path / "tiny" / "odd" / "config.yaml").write_text("nonsense: 1\n")
    assert find_run(jobs(tmp_path)[0]) is None


def test_estimate_of_the_time_left(tmp_path, capsys):
    train_missing(jobs(tmp_path))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("epoch")]
    assert len(lines) == 4
    assert all("left in total" in line for line in lines[:2])  # the second run is still to come
    assert all("left in total" not in line for line in lines[2:])


def test_expected_time():
    configs = [
        PlannedRun(str(index), tiny_config({"train.lr": rate})) for index, rate in enumerate((0.1, 0.1, 0.2, 0.3))
    ]
    seconds = {0: 10.0, 2: 40.0}
    assert expected_seconds(configs, seconds, 1) == 10.0  # as the run of the same config
    assert expected_seconds(configs, seconds, 3) == 25.0  # the mean of all


def test_durations():
    assert [duration(seconds) for seconds in (0.4, 89, 91, 3600, 7300)] == [
        "0 s",
        "89 s",
        "2 min",
        "60 min",
        "2 h 2 min",
    ]


def test_errors_are_passed_on(tmp_path):
    config = tiny_config({**FAST, "train.batch_size": 64, "train.limit": 32, "train.folder": str(tmp_path)})
    with pytest.raises(ConfigError, match="train.batch_size must be at most 32"):
        train_missing([PlannedRun("tiny", config)])
