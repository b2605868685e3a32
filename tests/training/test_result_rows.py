"""The rows of results.csv, from finished runs; merging them; and the tables made from them."""

import json
import shlex
from unittest.mock import Mock

import pytest
from support.runs import REPOSITORY, load_script
from support.tensors import tiny_config

from glimpse.errors import ConfigError, RunError
from glimpse.evaluation.classify import evaluate_classifier
from glimpse.evaluation.early_exit import exit_curves
from glimpse.evaluation.result_rows import Row, merge, read_rows, to_csv
from glimpse.tasks.build import make_captioner, make_model, make_translator
from glimpse.tasks.classification import ClassificationTask
from glimpse.tasks.classification_commands import load_runs
from glimpse.tasks.settings import Config
from glimpse.tasks.settings import load_config as parse
from glimpse.training.load import open_runs
from glimpse.training.result_rows import config_and_overrides, rows_of, with_paths_of
from glimpse.training.run import BEST, Run
from glimpse.view.result_tables import (
    ONE_RUN,
    Published,
    ablation_table,
    caption_results,
    cell,
    commands_table,
    early_exit_results,
    estimate,
    fill,
    main_table,
    section_table,
    translation_results,
)

tables = load_script("results/tables")
evaluate = load_script("evaluate").main

CLASSIFIED = {
    "seconds": 600.0,
    "valid": {"epoch": 1, "error": 0.5, "errors": [0.9, 0.5]},
    "test": {"images": 10, "error": [0.75, 0.4], "interval": [[0.5, 0.9], [0.2, 0.6875]]},
}
DESCRIBED = {
    "seconds": 90.0,
    "valid": {"epoch": 1, "error": 0.5, "BLEU-4": 0.25, "true_and_complete": 0.5, "on_digit": 0.1},
    "test": {"images": 100, "BLEU-4": 0.125, "METEOR": None, "true_and_complete": 0.2, "on_digit": 0.5},
}
SMALL = ("--network.what_dim=8", "--network.where_dim=8", "--network.glimpse_dim=12", "--network.state_dim=10")


def make_run(folder, config, *, name="tiny", result=CLASSIFIED, canvas=60):
    """The folder of a finished run, of a model with its initial weights."""
    metadata = {"name": name, "image_shape": [1, canvas, canvas], "class_names": list("0123456789"), "threads": 2}
    if config.model == "captioner":
        metadata["words"] = ["a", "seven"]
        model = make_captioner(config, image_shape=(1, 60, 60), vocabulary_size=6)
    elif config.model == "translator":
        metadata |= {"source_words": ["a", "seven"], "words": ["7"]}
        model = make_translator(config, source_size=6, vocabulary_size=5)
    else:
        model = make_model(config, image_shape=(1, canvas, canvas), num_classes=10)
    run = Run.create(config, name=name, metadata=metadata, folder=folder)
    run.save(BEST, {f"model.{key}": value for key, value in model.state_dict().items()}, {})
    run.write_json("result.json", result)
    return run


def make_row(value=4.0, *, seed=0, **others):
    return Row(
        **{
            "section": "main",
            "name": "hard",
            "task": "cluttered 60x60",
            "config": "configs/cluttered60_hard.yaml",
            "settings": "",
            "seed": seed,
            "read": "hard",
            "glimpses": 6,
            "metric": "test error %",
            "value": value,
            "low": value - 0.5,
            "high": value + 0.5,
            "valid": 5.0,
            "parameters": 1234,
            "epochs": 22,
            "minutes": 10.0,
            "threads": 1,
            "commit": "abc",
            "command": f"python train.py configs/cluttered60_hard.yaml --seed {seed}",
            **others,
        }
    )


# Rows of runs


def test_row_of_a_classifier(tmp_path):
    run = make_run(tmp_path / "run", parse([*SMALL, "--seed=3"], file=REPOSITORY / "configs/cluttered60_soft.yaml"))
    [found] = rows_of(run, section="ablation", name="small")
    settings = "--network.what_dim 8 --network.where_dim 8 --network.glimpse_dim 12 --network.state_dim 10"
    assert found.config == ""  # there is no configs/tiny.yaml
    run.write_json("meta.json", {**run.read_json("meta.json"), "name": "cluttered60_soft"})
    [found] = rows_of(run, section="ablation", name="small")
    model = make_model(run.config, image_shape=(1, 60, 60), num_classes=10)
    assert found == Row(
        section="ablation",
        name="small",
        task="cluttered 60x60",
        config="configs/cluttered60_soft.yaml",
        settings=settings,
        seed=3,
        read="soft",
        glimpses=run.config.num_glimpses,
        metric="test error %",
        value=40.0,
        low=20.0,
        high=68.75,
        valid=50.0,
        parameters=sum(weight.numel() for weight in model.parameters()),
        epochs=run.config.train.epochs,
        minutes=10.0,
        threads=2,
        commit=run.read_json("meta.json")["commit"] or "",
        command=f"python train.py configs/cluttered60_soft.yaml --seed 3 {settings}",
    )


def test_rows_of_early_exit(tmp_path):
    """These are scored again; a model with a halting unit has rows of its own."""
    settings = ("--network.halt=true", "--score.batch_size=500", "--data.canvas=28", "--data.num_distractors=0")
    run = make_run(tmp_path / "run", tiny_config(*settings), canvas=28)
    first, *others = rows_of(run, section="early_exit")
    assert (first.metric, first.value) == ("test error %", 40.0)  # that of the training
    [loaded], splits = load_runs(ClassificationTask, open_runs([run.folder]))
    valid, test = (evaluate_classifier(loaded.model, data, batch_size=500) for data in (splits.valid, splits.test))
    expected = []
    for curve in exit_curves(valid, test):
        summary = curve.summary()
        interval = [round(100 * end, 4) for end in summary["interval"]]
        expected.append((round(100 * summary["error"], 4), *interval, round(100 * summary["valid_error"], 4)))
        expected.append((round(summary["glimpses"], 4), None, None, round(summary["valid_glimpses"], 4)))
    assert [(row.value, row.low, row.high, row.valid) for row in others] == expected
    assert [row.metric for row in others] == [
        "test error stopping early %",
        "mean glimpses",
        "test error halting %",
        "mean glimpses halting",
    ]
    assert {row.group for row in others} == {first.group}
    for settings in (["--model=fc"], ["--num_glimpses=1"]):
        run = make_run(tmp_path / settings[0], tiny_config(*settings))
        with pytest.raises(RunError, match="has no early exit: it gives a single answer"):
            rows_of(run, section="early_exit")


def test_early_exit_table():
    early = {"section": "early_exit", "low": None, "high": None}
    rows = [
        make_row(4.0, section="early_exit"),
        make_row(4.5, **{**early, "low": 4.0, "high": 5.0}, metric="test error stopping early %"),
        make_row(2.25, **early, metric="mean glimpses"),
        make_row(4.25, **{**early, "low": 4.0, "high": 5.0}, metric="test error halting %"),
        make_row(3.0, **early, metric="mean glimpses halting"),
        make_row(9.0),
    ]
    table = early_exit_results(rows)
    start = ["cluttered 60x60", "hard", "hard", "6"]
    assert table.rows == [
        [*start, "confidence", "4.00 (3.50-4.50) †", "4.50 (4.00-5.00) †", "2.25", "1", "10"],
        [*start, "halting unit", "4.00 (3.50-4.50) †", "4.25 (4.00-5.00) †", "3.00", "1", "10"],
    ]
    assert {len(line) for line in table.rows} == {len(table.header)} and len(table.notes) == 2
    assert early_exit_results(rows[-1:]).rows == [] and early_exit_results(rows[-1:]).notes == []


def test_rows_of_a_captioner(tmp_path):
    config = parse(["--score.read=hard"], file=REPOSITORY / "configs/digit_captions_soft.yaml")
    found = rows_of(make_run(tmp_path / "run", config, result=DESCRIBED), section="captions")
    assert [(row.metric, row.value, row.valid) for row in found] == [
        ("BLEU-4", 12.5, 25.0),
        ("true and complete %", 20.0, 50.0),
        ("attention on the digit named %", 50.0, 10.0),
    ]
    # Wilson's interval of 20 of 100, by hand: (0.2192 -+ 0.0786) / 1.0384.
    assert [(row.low, row.high) for row in found] == [(None, None), (13.3367, 28.8829), (None, None)]
    assert {(row.task, row.name, row.read, row.glimpses) for row in found} == {("digit captions", "tiny", "hard", None)}


TRANSLATED = {
    "seconds": 90.0,
    "valid": {"error": 0.5, "sentences": 10, "exact": 0.5, "BLEU": 0.75, "on_span": 0.1},
    "test": {"sentences": 100, "exact": 0.2, "BLEU": 0.625, "on_span": 0.5, "exact_words_1-5": 1.0},
}


@pytest.mark.parametrize(("name", "read"), [("dates_hard", "hard"), ("dates_none", "one annotation")])
def test_rows_of_a_translator(name, read, tmp_path):
    config = parse(file=REPOSITORY / f"configs/{name}.yaml")
    found = rows_of(make_run(tmp_path / "run", config, name=name, result=TRANSLATED), section="translation")
    assert [(row.metric, row.value, row.valid) for row in found] == [
        ("exact %", 20.0, 50.0),
        ("BLEU", 62.5, 75.0),
        ("attention on the aligned words %", 50.0, 10.0),
        ("exact_words_1-5", 100.0, None),
    ]
    assert [(row.low, row.high) for row in found[:2]] == [(13.3367, 28.8829), (None, None)]
    assert {(row.task, row.name, row.read, row.glimpses) for row in found} == {("dates", name, read, None)}
    assert {row.command for row in found} == {f"python train.py configs/{name}.yaml --seed 0"}


def test_a_whole_image_has_no_glimpses(tmp_path):
    [found] = rows_of(make_run(tmp_path / "run", tiny_config("--model=fc")), section="control")
    assert (found.read, found.glimpses) == ("whole image", None)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("cluttered60_hard", ["--loss.reward=accuracy", "--attention.std_end=null", "--loss.normalise=false"]),
        ("cluttered60_soft", ["--attention.places=grid", "--attention.grid=[3, 4]", "--data.canvas=[60, 80]"]),
        ("cluttered60_grid_hard", ["--attention.places=plane", "--attention.std=0.2", "--attention.first=centre"]),
        ("cluttered60_cnn", ["--network.state_dim=64", "--train.epochs=3", "--train.threads=1", "--train.device=cpu"]),
        ("digit_captions_hard", ["--read=soft", "--loss.baseline=none", "--attention.scorer_dim=64"]),
        ("of_no_file", ["--model=fc", "--init_from=a folder/of mine"]),
    ],
)
def test_the_command_reproduces_the_settings(name, settings, tmp_path):
    file = REPOSITORY / f"configs/{name}.yaml"
    config = parse([*settings, "--seed=7"], file=file if file.exists() else None)
    run = Run.create(config, name=name, metadata={"name": name}, folder=tmp_path / "run")
    path, text = config_and_overrides(run)
    assert path == (f"configs/{name}.yaml" if file.exists() else "")
    words = shlex.split(text)
    pairs = [f"{key}={value}" for key, value in zip(words[::2], words[1::2], strict=True)]
    again = parse(pairs, file=REPOSITORY / path if path else None)
    assert again.identity() == with_paths_of(config, again).identity()
    assert len(pairs) <= len(settings)
    assert not [word for word in words if word.startswith(("--train.threads", "--train.device", "--seed"))]


def test_settings_that_exist_only_for_the_run_are_found(tmp_path):
    """The std does not exist for the grid of the file, but for the plane of the run."""
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/odd.yaml").write_text("attention: {places: grid}\n")
    run = Run.create(Config(attention={"std": 0.3}), name="odd", metadata={"name": "odd"}, folder=tmp_path / "run")
    found = config_and_overrides(run, repository=tmp_path)
    assert found == ("configs/odd.yaml", "--attention.kind plane --attention.std 0.3")


def test_paths_are_not_overridden(tmp_path):
    file = REPOSITORY / "configs/flickr8k_cpu_soft.yaml"
    paths = [f"--data.root={tmp_path}", f"--encoder.cache={tmp_path}", f"--encoder.weights={tmp_path / 'lite'}"]
    metadata = {"name": "flickr8k_cpu_soft"}
    run = Run.create(parse(paths, file=file), name=metadata["name"], metadata=metadata, folder=tmp_path / "run")
    assert config_and_overrides(run) == ("configs/flickr8k_cpu_soft.yaml", "")
    random = run.config.replace(encoder={"weights": None})
    assert config_and_overrides(Run(run.folder, random))[1] == "--encoder.weights null"


class Unreachable(type(Config())):
    """A config with a setting that no command line has."""

    def identity(self):
        return (*super().identity(), ("sensor.lens", "wide"))

    def replace(self, **changes):
        return self


def test_settings_without_a_command_are_refused(tmp_path):
    Run.create(Config(), name="default", metadata={}, folder=tmp_path / "run")
    run = Run(tmp_path / "run", Unreachable())
    with pytest.raises(RunError, match=r"cannot write a command line with the settings of .*run: sensor\.lens"):
        config_and_overrides(run)


@pytest.mark.parametrize(
    ("settings", "task"),
    [
        (["--data.canvas=60", "--data.num_distractors=4"], "cluttered 60x60"),
        (["--data.canvas=[60, 100]", "--data.num_distractors=8"], "cluttered 60x100"),
        (["--data.canvas=60", "--data.num_distractors=0"], "translated 60x60"),
        (["--data.canvas=28", "--data.num_distractors=0"], "MNIST 28x28"),
        (["--data.num_digits=2", "--data.target=sum"], "cluttered 60x60, 2 digits (sum)"),
    ],
)
def test_task_names(settings, task):
    assert parse(settings).data.title() == task


def test_data_without_a_name():
    with pytest.raises(ConfigError, match="--task must be given for data.kind folder"):
        tiny_config("--data.kind=folder").data.title()


def test_runs_without_rows(tmp_path):
    run = make_run(tmp_path / "run", tiny_config())
    with pytest.raises(ConfigError, match="--section must be one of main, control, .*, got mian"):
        rows_of(run, section="mian")
    run.write_json("result.json", {"seconds": 1, "test": {}, "valid": {}})
    with pytest.raises(RunError, match=r"result\.json is broken: KeyError\('interval'\)"):
        rows_of(run, section="main")
    (run.folder / "result.json").unlink()
    with pytest.raises(RunError, match="run is not finished; finish it with: python train.py --resume"):
        rows_of(run, section="main")


# The file


def test_file_round_trip(tmp_path):
    rows = [
        make_row(4.25),
        make_row(seed=1, glimpses=None, low=None, high=None, valid=None, threads=None, settings="--a '[1, 2]'"),
    ]
    path = tmp_path / "results.csv"
    assert read_rows(path) == []
    path.write_text(to_csv(rows))
    assert read_rows(path) == rows
    assert len(path.read_text().splitlines()) == 3


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "run", tiny_config()).folder


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("section,", "sektion,"), "columns .*, got unknown sektion, no section"),
        (lambda text: text.replace("section,name", "name,section"), "must have the columns .*, got other order"),
        (lambda text: text.replace(",4.25,", ",four,"), "broken in row 2: value must be a number, got 'four'"),
        (lambda text: text.replace(",4.25,", ",,"), "broken in row 2: value must be a number, got ''"),
        (lambda text: text.replace(",4.25,", ",nan,"), "broken in row 2: value must be a number, got 'nan'"),
        (lambda text: text.replace("\nmain,", "\nmian,"), "broken in row 2: section must be one of main, .*'mian'"),
        (lambda text: text.rsplit(",", 1)[0], "broken in row 2: there must be 19 cells, got 18"),
        (lambda text: text + '"', "cannot read .*: unexpected end of data"),
    ],
)
def test_broken_files_are_refused_and_kept(change, message, finished, tmp_path, capsys):
    path, text = tmp_path / "results.csv", change(to_csv([make_row(4.25)]))
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_rows(path)
    assert evaluate(["results", str(finished), "--section", "main", "--csv", str(path)]) == 2
    assert f"evaluate.py: error: {'cannot read ' if 'cannot' in message else ''}{path}" in capsys.readouterr().err
    assert path.read_text() == text


def test_a_file_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text(to_csv([make_row()]), encoding="utf-8-sig")  # as spreadsheets save it
    assert read_rows(path) == [make_row()]


def test_merge_keeps_the_order_of_first_appearance():
    rows = [
        make_row(name="soft", seed=1),
        make_row(name="hard"),
        make_row(section="control", name="b"),
        make_row(task="MNIST 28x28"),
    ]
    new = [
        make_row(9.0, name="soft"),
        make_row(8.0, name="hard"),
        make_row(section="control", name="a"),
        make_row(section="other"),
    ]
    merged = merge(rows, new)
    assert [(row.section, row.task, row.name, row.seed, row.value) for row in merged] == [
        ("main", "cluttered 60x60", "soft", 0, 9.0),
        ("main", "cluttered 60x60", "soft", 1, 4.0),
        ("main", "cluttered 60x60", "hard", 0, 8.0),
        ("main", "MNIST 28x28", "hard", 0, 4.0),
        ("control", "cluttered 60x60", "b", 0, 4.0),
        ("control", "cluttered 60x60", "a", 0, 4.0),
        ("other", "cluttered 60x60", "hard", 0, 4.0),
    ]
    assert merge(merged, new) == merged
    metrics = [make_row(metric="z"), make_row(metric="a"), make_row(metric="z", seed=1), make_row(metric="a", seed=1)]
    assert merge(metrics[2:], metrics[:2]) == metrics
    assert merge(metrics, metrics[2:3]) == metrics[:3]  # all rows of the run before are replaced


def test_names_of_several_trainings_are_refused():
    with pytest.raises(
        ConfigError,
        match=r"runs of hard \(main, cluttered 60x60\) must differ in their seed only, got "
        r"configs/cluttered60_hard\.yaml; and configs/cluttered60_hard\.yaml --num_glimpses 8: give another --name",
    ):
        merge([make_row()], [make_row(seed=1, settings="--num_glimpses 8")])
    with pytest.raises(ConfigError, match=r"there are two runs of hard \(main, cluttered 60x60\), seed 0"):
        merge([], [make_row(), make_row(5.0)])
    assert (
        len(
            merge([make_row(), make_row(seed=1)], [make_row(seed=seed, settings="--num_glimpses 8") for seed in (0, 1)])
        )
        == 2
    )


def test_rows_are_written_before_the_output(tmp_path, monkeypatch):
    """The pipe of the output may be closed, as in `evaluate.py results ... | head -1`."""
    run, path = make_run(tmp_path / "run", tiny_config()), tmp_path / "results.csv"
    with monkeypatch.context() as patch:
        patch.setattr("builtins.print", Mock(side_effect=BrokenPipeError))
        with pytest.raises(BrokenPipeError):
            evaluate(["results", str(run.folder), "--section", "other", "--task", "toy", "--csv", str(path)])
    assert len(read_rows(path)) == 1


def test_command(tmp_path, capsys):
    runs = [make_run(tmp_path / f"run{seed}", tiny_config(f"--seed={seed}")) for seed in (1, 0)]
    path = tmp_path / "results.csv"
    arguments = ["--section", "ablation", "--name", "tiny one", "--task", "toy", "--csv", str(path)]
    assert evaluate(["results", str(runs[0].folder), *arguments]) == 0
    assert "toy, tiny one, seed 1: test error % 40.00\n1 rows, replacing 0\n" in capsys.readouterr().out
    assert evaluate(["results", *(str(run.folder) for run in runs), *arguments]) == 0
    assert "2 rows, replacing 1\n" in capsys.readouterr().out
    found = read_rows(path)
    assert [(row.section, row.name, row.task, row.seed) for row in found] == [
        ("ablation", "tiny one", "toy", seed) for seed in (0, 1)
    ]


# The tables


def test_estimates():
    # Of 3 and 5: Student's t with one degree of freedom is 12.7062, the standard error 1.
    assert estimate([make_row(30.0), make_row(32.0, seed=1)]) == pytest.approx(
        (31.0, 31 - 12.7062, 31 + 12.7062), abs=1e-3
    )
    assert estimate([make_row(3.0), make_row(5.0, seed=1)]).low == 0.0
    assert estimate([make_row(99.0), make_row(97.0, seed=1)]).high == 100.0
    assert estimate([make_row(99.0, metric="CIDEr"), make_row(97.0, metric="CIDEr", seed=1)]).high > 100
    assert cell([make_row(4.0)]) == "4.00 (3.50-4.50) †"
    assert cell([make_row(4.0), make_row(4.0, seed=1)]) == "4.00 (4.00-4.00)"
    assert cell([make_row(4.0, low=None, high=None)]) == "4.00" and cell([]) == "-"


def test_main_table():
    rows = [
        make_row(30.0),
        make_row(32.0, seed=1, minutes=21.0),
        make_row(8.0, name="soft", read="soft"),
        make_row(section="other"),
    ]
    published = {("cluttered 60x60", "hard"): Published("4.04", "2.63 (them)")}
    table = main_table(rows, published, ["From there."], {("configs/cluttered60_hard.yaml", ""): "cluttered60-hard"})
    assert table.rows == [
        [
            *("cluttered 60x60", "hard", "hard", "6", "31.00 (18.29-43.71)"),
            *("2", "4.04", "2.63 (them)", "16", "`cluttered60-hard`"),
        ],
        ["cluttered 60x60", "soft", "soft", "6", "8.00 (7.50-8.50) †", "1", "-", "-", "10", "`cluttered60-hard`"],
    ]
    assert table.notes == [ONE_RUN, "From there."]
    assert {len(line) for line in table.rows} == {len(table.header)}
    assert main_table(rows[:2], {}, [], {}).rows[0][-4:] == ["-", "-", "16", "-"]
    assert main_table(rows[:2], {}, [], {}).notes == []


def test_section_table():
    rows = [make_row(section="control", name="cnn", read="whole image", glimpses=None), make_row(section="paper")]
    table = section_table(rows, "control", "Controls")
    assert table.rows == [["cluttered 60x60", "cnn", "whole image", "-", "4.00 (3.50-4.50) †", "1", "10"]]


def test_ablations_are_compared_with_the_first():
    rows = [
        make_row(4.0, section="ablation", name="as it is"),
        make_row(5.0, section="ablation", name="as it is", seed=1),
        make_row(4.25, section="ablation", name="no start"),
        make_row(7.0, section="ablation", name="no clip"),
        make_row(1.0, section="ablation", name="no clip", task="MNIST 28x28"),
    ]
    table = ablation_table(rows)
    assert [(line[0], line[1], line[3], line[4]) for line in table.rows] == [
        ("cluttered 60x60", "as it is", "reference", "2"),
        ("cluttered 60x60", "no start", "-0.25", "1"),
        ("cluttered 60x60", "no clip", "+2.50", "1"),
        ("MNIST 28x28", "no clip", "reference", "1"),
    ]


def test_captions_table():
    plain = {"section": "captions", "low": None, "high": None, "glimpses": None}
    rows = [
        make_row(80.0, **{**plain, "low": 75.0, "high": 85.0}, metric="true and complete %", task="digits"),
        make_row(60.0, **plain, metric="BLEU-4", task="digits"),
        make_row(50.0, **plain, metric="grammatical %", task="digits"),
        make_row(70.0, **plain, metric="attention on the digit named %", task="digits"),
        make_row(20.0, **plain, metric="BLEU-4", task="photographs"),
    ]
    table = caption_results(rows)
    shown = ["true and complete %", "BLEU-4", "attention on the digit named %"]
    assert table.header == ["task", "model", "read", *shown, "runs", "minutes"]
    assert table.rows == [
        ["digits", "hard", "hard", "80.00 (75.00-85.00) †", "60.00", "70.00", "1", "10"],
        ["photographs", "hard", "hard", "-", "20.00", "-", "1", "10"],
    ]


def test_translation_table():
    plain = {"section": "translation", "low": None, "high": None, "glimpses": None, "task": "dates"}
    rows = [
        make_row(80.0, **plain, metric="exact %"),
        make_row(60.0, **plain, metric="BLEU"),
        make_row(50.0, **plain, metric="exact_words_1-5"),
        make_row(40.0, **{**plain, "section": "captions"}, metric="BLEU-4"),
    ]
    table = translation_results(rows)
    assert table.header == ["task", "model", "read", "exact %", "BLEU", "runs", "minutes"]
    assert table.rows == [["dates", "hard", "hard", "80.00", "60.00", "1", "10"]]


def test_commands_table():
    rows = [
        make_row(),
        make_row(seed=1, minutes=20.0, threads=2),
        make_row(metric="BLEU-4"),
        make_row(name="soft", threads=None),
    ]
    command = "`python train.py configs/cluttered60_hard.yaml --seed 0`"
    assert commands_table(rows).rows == [
        [f"cluttered 60x60, hard: {command}", "0, 1", "1,234", "22", "13", "1, 2"],
        [f"cluttered 60x60, soft: {command}", "0", "1,234", "22", "10", "-"],
    ]


def test_fill():
    table = section_table([make_row()], "main", "All of it")
    text = "Before.\n<!-- results:a -->\nold\n\n<!-- /results:a -->\nAfter <!-- results:b -->\n<!-- /results:b -->.\n"
    filled = fill(text, {"a": table, "b": table})
    markdown = table.markdown()
    assert filled == (
        f"Before.\n<!-- results:a -->\n{markdown}<!-- /results:a -->\n"
        f"After <!-- results:b -->\n{markdown}<!-- /results:b -->.\n"
    )
    assert fill(filled, {"a": table, "b": table}) == filled
    empty = section_table([], "main", "All of it")
    assert "<!-- results:a -->\n**All of it**: nothing measured yet.\n<!--" in fill(text, {"a": empty, "b": table})
    with pytest.raises(ValueError, match="there is no table results:b; valid: a"):
        fill(text, {"a": table})
    for broken in (text.replace("<!-- /results:a -->", ""), text.replace("<!-- results:b -->", "")):
        with pytest.raises(ValueError, match="must have its <!-- /results:NAME --> after it"):
            fill(broken, {"a": table, "b": table})


def test_tables_are_up_to_date(capsys):
    assert tables.main(["--check"]) == 0, capsys.readouterr()


@pytest.fixture
def repository(tmp_path):
    """A repository with one result and two texts."""
    (tmp_path / "results").mkdir()
    (tmp_path / "results/results.csv").write_text(to_csv([make_row(4.25)]))
    (tmp_path / "README.md").write_text("Ours:\n<!-- results:main -->\n<!-- /results:main -->\n")
    (tmp_path / "results/README.md").write_text("None.\n")
    return tmp_path


def test_tables_script(repository, capsys):
    assert tables.main(["--check"], repository) == 1
    assert capsys.readouterr().out == "README.md is not up to date: run python results/tables.py\n"
    assert tables.main([], repository) == 0 and capsys.readouterr().out == "Wrote README.md\n"
    text = (repository / "README.md").read_text()
    assert "| cluttered 60x60 | hard | hard | 6 | 4.25 (3.75-4.75) † | 1 | 4.04 | 2.63 (tfRAM) | 10 |" in text
    assert text.startswith("Ours:\n") and "arXiv:1502.04623" in text
    assert tables.main(["--check"], repository) == tables.main([], repository) == 0 and capsys.readouterr().out == ""
    assert (repository / "results/README.md").read_text() == "None.\n"


def test_tables_script_with_broken_input(repository, capsys):
    (repository / "README.md").write_text("<!-- results:mian -->\n<!-- /results:mian -->\n")
    assert tables.main([], repository) == 2
    assert "tables.py: error: there is no table results:mian; valid: main, controls" in capsys.readouterr().err


def test_every_row_of_the_repository_can_be_run():
    """Each command names an existing config and valid settings, the same as in the columns of its row."""
    for row in read_rows(REPOSITORY / "results/results.csv"):
        parts = ["python train.py", row.config, f"--seed {row.seed}", row.settings]
        assert row.command == " ".join(filter(None, parts))
        words = shlex.split(row.settings)
        pairs = [f"{key}={value}" for key, value in zip(words[::2], words[1::2], strict=True)]
        parse(pairs, file=REPOSITORY / row.config if row.config else None)
        json.dumps(row.value, allow_nan=False)


def test_names_of_version_0_1_are_read_as_the_present_ones(tmp_path):
    file = tmp_path / "results.csv"
    text = to_csv([make_row(4.0, section="early_exit"), make_row(98.0, metric="attention on the aligned words %")])
    old = text.replace("early_exit,", "lazy,").replace("aligned words", "words meant")
    assert old.count("lazy,") == old.count("words meant") == 1
    file.write_text(old)
    assert to_csv(read_rows(file)) == text
