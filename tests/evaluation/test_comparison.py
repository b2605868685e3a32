"""Comparisons of tiny runs: groups, the same images, intervals, costs, tables and the figure."""

import csv
import io
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.pairs import pairs
from support.runs import tiny, train_main

from glimpse.config.schema import diff
from glimpse.errors import RunError
from glimpse.evaluation.classify import ClassifierOutcome, evaluate_classifier
from glimpse.evaluation.comparison import Comparison, RunGroup, ScoredRun, compare, group_names, rollout_modes
from glimpse.evaluation.cost import Cost
from glimpse.evaluation.early_exit import THRESHOLDS, exit_curves
from glimpse.metrics.statistics import over_seeds, wilson_interval
from glimpse.tasks.classification import ClassificationTask
from glimpse.tasks.classification_commands import load_runs
from glimpse.tasks.settings import Config, load_config
from glimpse.tasks.train_settings import TrainSettings
from glimpse.training.load import open_runs
from glimpse.view.comparison import comparison_tables, group_rows, paired_rows, rows_to_csv, run_rows
from glimpse.view.comparison_figure import draw_comparison
from glimpse.view.drawing import LINE_COLORS, MIN_PERCENT
from glimpse.view.early_exit import early_exit_rows

FAST = {"train.epochs": 1, "train.limit": 128, "score.limit": 100}


@pytest.fixture(scope="module")
def runs(classifiers):
    return classifiers


@pytest.fixture(scope="module")
def comparison(runs):
    folders = [runs / name for name in ("hard", "soft", "cnn", "hard1", "random")]
    loaded, splits = load_runs(ClassificationTask, open_runs(folders))
    options = {"limit": 60, "rollouts": 2, "batch_size": 25, "log": lambda text: None}
    return compare(loaded, splits.test, valid=splits.valid, **options)


def test_runs_are_grouped_by_config(comparison, runs):
    assert [group.name for group in comparison.groups] == ["hard", "soft", "cnn", "random"]
    hard = comparison.groups[0]
    assert [(run.seed, run.folder) for run in hard.runs] == [
        (0, str(runs / "hard")),
        (1, str(runs / "hard1")),
    ]
    assert [group.mode for group in comparison.groups] == ["hard", "soft", None, "hard"]
    assert [group.num_choices for group in comparison.groups] == [2, 2, 0, 0]
    assert [group.rollout_modes for group in comparison.groups] == [
        ("greedy", "sampled", "averaged"),
        ("greedy",),
        ("greedy",),
        ("greedy", "averaged"),
    ]


def test_all_are_scored_on_the_same_images(comparison, runs):
    """Every outcome equals that of the model alone on the first images of the test set."""
    targets = [
        run.outcomes[rollout_mode].targets
        for group in comparison.groups
        for run in group.runs
        for rollout_mode in group.rollout_modes
    ]
    assert all(torch.equal(other, targets[0]) for other in targets) and len(targets[0]) == comparison.images == 60
    for group, folder in zip(comparison.groups, ("hard", "soft", "cnn"), strict=False):
        [loaded], splits = load_runs(ClassificationTask, open_runs([runs / folder]))
        alone = evaluate_classifier(loaded.model, splits.test, mode=loaded.mode, limit=60)
        assert torch.equal(group.runs[0].outcomes["greedy"].correct, alone.correct)


def test_different_images_are_refused(runs, tmp_path):
    other = tmp_path / "other"
    assert train_main([*tiny({**FAST, "data.num_distractors": 2}), "--run_dir", str(other)]) == 0
    with pytest.raises(RunError, match=r"do not have the same images \(data.num_distractors 4 and 2\)"):
        load_runs(ClassificationTask, open_runs([runs / "hard", other]))
    with pytest.raises(RunError, match="each run must be given once"):
        load_runs(ClassificationTask, open_runs([runs / "hard", runs / "soft", runs / "soft" / ".." / "soft"]))


def test_errors_with_intervals(comparison):
    hard, soft, *_ = comparison.groups
    by_run = [(~run.outcomes["greedy"].correct).double().mean(0).tolist() for run in hard.runs]
    for step, estimate in enumerate(hard.errors()):
        mean, low, high = over_seeds([errors[step] for errors in by_run])
        assert estimate == pytest.approx((mean, max(0, low), min(1, high)))
    wrong = int((~soft.runs[0].outcomes["greedy"].correct[:, -1]).sum())
    assert soft.errors()[-1] == pytest.approx((wrong / 60, *wilson_interval(wrong, 60)))
    on_target = torch.cat([run.outcomes["greedy"].on_target for run in hard.runs]).double().mean((0, 1))
    assert hard.on_target() == pytest.approx(on_target.tolist())
    assert comparison.groups[2].on_target() is None


def test_unfinished_runs_are_refused(runs, tmp_path):
    shutil.copytree(runs / "hard", tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    loaded, splits = load_runs(ClassificationTask, open_runs([tmp_path / "run"]))
    with pytest.raises(RunError, match="is not finished; finish it with: python train.py --resume"):
        compare(loaded, splits.test, limit=5)


def test_the_same_seed_twice_is_refused(runs, tmp_path):
    shutil.copytree(runs / "hard", tmp_path / "copy")
    loaded, splits = load_runs(ClassificationTask, open_runs([runs / "hard", runs / "soft", tmp_path / "copy"]))
    with pytest.raises(RunError, match=r"hard and .*copy are runs of the same config with the same seed, 0: give only"):
        compare(loaded, splits.test, limit=5)


@pytest.mark.parametrize(
    "file, content", [("result.json", "{}"), ("result.json", '{"seconds": "x"}'), ("meta.json", "[]")]
)
def test_broken_files_are_named(runs, tmp_path, file, content):
    shutil.copytree(runs / "hard", tmp_path / "run")
    (tmp_path / "run" / file).write_text(content)
    with pytest.raises(RunError, match=rf"run/{file} is broken"):
        loaded, splits = load_runs(ClassificationTask, open_runs([tmp_path / "run"]))
        compare(loaded, splits.test, limit=5, log=lambda text: None)


def test_differences_of_configs():
    one, other = load_config([]), load_config(["--read=soft", "--train.epochs=3"])
    found = diff(dict(one.items()), dict(other.items()))
    assert found == [("read", "hard", "soft"), ("train.epochs", TrainSettings().epochs, 3)]
    assert diff(dict(one.items()), dict(one.items())) == []


def named(name, *settings):
    return SimpleNamespace(config=load_config(settings), name=name)


def test_names_of_groups():
    assert group_names([named("a"), named("b", "--read=soft")]) == ["a", "b"]
    assert group_names([named("a"), named("a", "--read=soft", "--seed=4"), named("b")]) == [
        "a (read hard)",
        "a (read soft)",
        "b",
    ]


def test_rollout_modes():
    from support.tensors import tiny_model

    all_modes, one = ("greedy", "sampled", "averaged"), ("greedy",)
    assert rollout_modes(tiny_model(), "hard") == all_modes and rollout_modes(tiny_model(), "soft") == one
    random_rule = ("greedy", "averaged")  # a rule that places glimpses at random is random in greedy rollouts too
    assert rollout_modes(tiny_model("--attention.first=random"), "soft") == random_rule
    assert rollout_modes(tiny_model("--attention.first=random"), "hard") == all_modes
    assert rollout_modes(tiny_model("--attention.policy=centre", "--attention.first=random"), "hard") == one
    assert rollout_modes(tiny_model("--attention.policy=random"), "soft") == random_rule
    assert rollout_modes(tiny_model("--num_glimpses=1"), "hard") == one
    assert rollout_modes(tiny_model("--model=fc"), None) == one


def made_up(*groups, mode="hard"):
    """A comparison of groups given by name and by the images that each run gets wrong, (S, I, T)."""

    def scored_run(seed, wrong):
        correct = ~torch.tensor(wrong, dtype=torch.bool)
        images, steps = correct.shape
        outcome = ClassifierOutcome(
            torch.zeros(images, steps, 2), torch.zeros(images), correct, torch.zeros(images, 1, steps, 2), None
        )
        return ScoredRun(f"runs/{seed}", seed, {"greedy": outcome}, 80.0)

    cost = Cost(2592, 0.72, 5.03e6, 616940, 2000.0)
    return Comparison(
        [
            RunGroup(name, Config(), mode, 1, [scored_run(seed, wrong) for seed, wrong in enumerate(runs)], cost)
            for name, runs in groups
        ],
        "test",
        len(groups[0][1][0]),
        10,
        "cpu",
    )


def test_tables_literally():
    a = [[[1, 1], [1, 0], [0, 0], [1, 0]]]  # one run: errors 75%, 25%
    b = [[[1, 0], [1, 0], [1, 0], [0, 0]], [[1, 1], [1, 0], [0, 0], [0, 0]]]  # 75%, 0%; 50%, 25%
    error, glimpse, cost, pairs = comparison_tables(made_up(("a", a), ("b", b)))
    assert error.title == "Error after the last glimpse, 4 test images"
    low, high = wilson_interval(1, 4)
    assert error.rows[0] == ["a", "hard", "1", f"25.00 ({100 * low:.2f}-{100 * high:.2f})", "-", "-", "-"]
    # Student's quantile of one degree, 12.7, times the standard error 0.125: clipped to [0, 1].
    assert error.rows[1][3] == "12.50 (0.00-100.00)"
    assert glimpse.rows == [["a", "75.00", "25.00"], ["b", "62.50", "12.50"]]
    assert cost.rows[0] == ["a", "2,592", "72", "5.03 M", "616,940", "2,000", "80 s"]
    # Differences in error, image by image: -0.5, 0, 0, 0.
    assert pairs.title == "Against a, on the same images" and pairs.rows[0][:2] == ["b", "-12.50"]
    half = 3.182446 * 0.25 / 2  # Student's quantile of 3 degrees
    assert pairs.rows[0][2] == f"{100 * (-0.125 - half):+.2f} to {100 * (-0.125 + half):+.2f}"
    assert pairs.rows[0][4] == "-"
    assert len(comparison_tables(made_up(("a", a)))) == 3
    assert "for a single run" in comparison_tables(made_up(("a", a)))[0].notes[1]
    assert "over seeds (Student's t)." in comparison_tables(made_up(("b", b)))[0].notes[1]


def test_tables_without_glimpses():
    tables = comparison_tables(made_up(("cnn", [[[1], [0]]]), ("fc", [[[1], [1]]]), mode=None))
    assert [table.title for table in tables][1] == "Cost"  # no table of glimpses


def test_rows(comparison):
    rows = list(csv.DictReader(io.StringIO(rows_to_csv(run_rows(comparison)))))
    assert len(rows) == 2 * 3 * 3 + 3 + 1 + 2 * 4
    row = next(
        row for row in rows if (row["config"], row["seed"], row["mode"], row["glimpse"]) == ("hard", "1", "greedy", "3")
    )
    correct = comparison.groups[0].runs[1].outcomes["greedy"].correct
    assert float(row["error"]) == pytest.approx(1 - float(correct[:, 2].double().mean()))
    assert json.loads(row["images"]) == 60 and float(row["train_seconds"]) > 0
    grouped = list(csv.DictReader(io.StringIO(rows_to_csv(group_rows(comparison)))))
    assert [row["interval"] for row in grouped if row["glimpse"] == "1"] == ["seeds"] * 3 + ["images"] * 4
    last = [row for row in grouped if row["config"] == "hard" and row["mode"] == "greedy"][-1]
    assert [float(last[key]) for key in ("error", "low", "high")] == pytest.approx(comparison.groups[0].errors()[-1])


@pairs(wrong=[0, 1], number=[1, 2], mode=["hard", None])
def test_figure_of_no_error_and_of_nothing_else(wrong, number, mode):
    figure = draw_comparison(made_up(("$a_$", [[[wrong, wrong]] * 50] * number), mode=mode))
    figure.savefig(io.BytesIO(), format="png")
    low, high = figure.axes[0].get_ylim()
    assert low <= figure.axes[0].lines[0].get_ydata()[0] <= high


def test_long_names_fit_into_the_figure():
    names = [f"cluttered60 (attention.scorer bilinear, attention.scorer_dim {size})" for size in range(5)]
    figure = draw_comparison(made_up(*((name, [[[1], [0]]]) for name in names)))
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.width and box.y0 >= 0


def test_three_models_and_six_controls_differ_in_color_and_marker():
    figure = draw_comparison(made_up(*((f"group {index}", [[[1], [0]]]) for index in range(9))))
    dots = [container.lines[0] for container in figure.axes[-1].containers]
    assert len({dot.get_color() for dot in dots}) == len({dot.get_marker() for dot in dots}) == 9


def test_many_groups_never_share_both_color_and_marker():
    figure = draw_comparison(made_up(*((f"group {index}", [[[1], [0]]]) for index in range(30))))
    dots = [container.lines[0] for container in figure.axes[-1].containers]
    assert len({(dot.get_color(), dot.get_marker()) for dot in dots}) == 30


def test_paired_rows(comparison):
    rows = list(csv.DictReader(io.StringIO(rows_to_csv(paired_rows(comparison)))))
    assert [(row["config"], row["against"]) for row in rows] == [(name, "hard") for name in ("soft", "cnn", "random")]
    expected = comparison.against(comparison.groups[1], comparison.groups[0])
    assert float(rows[0]["difference"]) == expected.difference and float(rows[0]["p_images"]) == expected.p_images


def test_figure(comparison):
    figure = draw_comparison(comparison)
    left, middle, right = figure.axes
    lines = {line.get_color(): line.get_ydata() for line in left.lines}
    for group, color in zip(comparison.groups, LINE_COLORS, strict=False):
        expected = [100 * estimate.mean for estimate in group.errors()]
        assert np.allclose(lines[color], expected)  # a level line for the whole-image network
    band = left.collections[0].get_paths()[0].get_extents()
    ends = [100 * end for estimate in comparison.groups[0].errors() for end in estimate[1:]]
    assert band.y0 == pytest.approx(max(min(ends), MIN_PERCENT)) and band.y1 == pytest.approx(max(ends))
    costs = [container.lines[0].get_xdata()[0] for container in right.containers]
    assert costs == pytest.approx([group.cost.multiply_adds / 1e6 for group in comparison.groups])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["hard", "soft", "cnn", "random"]
    curves = [line for line in middle.lines if line.get_linestyle() in ("-", "--")]
    assert [line.get_color() for line in curves] == [LINE_COLORS[index] for index in (0, 1, 3, 3)]
    for signal, line in zip(("confidence", "halting"), curves[2:], strict=True):
        [exit_curve] = [each for each in comparison.groups[3].runs[0].exit_curves if each.signal == signal]
        assert line.get_xdata() == pytest.approx([point.glimpses for point in exit_curve.scored])
        assert line.get_ydata() == pytest.approx([100 * point.error for point in exit_curve.scored])
    first, second = (run.exit_curves[0] for run in comparison.groups[0].runs)
    assert curves[0].get_xdata()[20] == pytest.approx((first.scored[20].glimpses + second.scored[20].glimpses) / 2)
    picked = [line for line in middle.lines if line.get_linestyle() == "None"]
    assert picked[0].get_xdata()[0] == pytest.approx((first.chosen.glimpses + second.chosen.glimpses) / 2)
    dotted = [line for line in middle.lines if line.get_linestyle() == ":"]
    assert [len(line.get_xdata()) for line in dotted] == [3, 3, 4]


def test_early_exit(comparison, runs):
    """The curves equal those of each run alone; a whole-image network has none."""
    assert [[curves[0].signal for curves in group.exit_curves()] for group in comparison.groups] == [
        ["confidence"],
        ["confidence"],
        [],
        ["confidence", "halting"],
    ]
    [loaded], splits = load_runs(ClassificationTask, open_runs([runs / "hard1"]))
    valid, test = (
        evaluate_classifier(loaded.model, data, limit=60, batch_size=25) for data in (splits.valid, splits.test)
    )
    assert comparison.groups[0].runs[1].exit_curves == exit_curves(valid, test)
    [same] = compare([loaded], splits.valid, valid=splits.valid, limit=60, log=lambda text: None).groups
    [curve] = same.runs[0].exit_curves
    assert curve.valid == curve.scored  # one rollout serves both


def test_table_and_rows_of_early_exit(comparison):
    table = next(table for table in comparison_tables(comparison) if table.title.startswith("Early exit, 60 test"))
    assert [row[:3] for row in table.rows] == [
        ["hard", "confidence", "2"],
        ["soft", "confidence", "1"],
        ["random", "confidence", "1"],
        ["random", "halting unit", "1"],
    ]
    assert {len(row) for row in table.rows} == {len(table.header)} and table.header[-4:] == list("1234")
    assert table.rows[0][-1] == "-" and "at most 0.1 points" in table.notes[0]
    chosen = [run.exit_curves[0].chosen for run in comparison.groups[0].runs]
    assert table.rows[0][5] == f"{50 * (chosen[0].error + chosen[1].error):.2f}"
    assert table.rows[0][6] == f"{(chosen[0].glimpses + chosen[1].glimpses) / 2:.2f}"
    assert table.rows[0][7] == f"{50 * (chosen[0].shares[0] + chosen[1].shares[0]):.1f}"
    rows = list(csv.DictReader(io.StringIO(rows_to_csv(early_exit_rows(comparison)))))
    assert len(rows) == 5 * len(THRESHOLDS)
    picked = [row for row in rows if row["picked"] == "True"]
    assert [(row["config"], row["seed"], row["by"]) for row in picked] == [
        ("hard", "0", "confidence"),
        ("hard", "1", "confidence"),
        ("soft", "0", "confidence"),
        ("random", "0", "confidence"),
        ("random", "0", "halting"),
    ]
    assert float(picked[1]["error"]) == chosen[1].error and float(picked[1]["threshold"]) == chosen[1].threshold
    assert [picked[1][f"took_{number}"] for number in (1, 4)] == [str(chosen[1].shares[0]), ""]


def test_no_early_exit_without_validation_images(runs):
    loaded, splits = load_runs(ClassificationTask, open_runs([runs / "hard"]))
    comparison = compare(loaded, splits.test, limit=20, rollouts=1, log=lambda text: None)
    assert comparison.groups[0].exit_curves() == [] and len(draw_comparison(comparison).axes) == 2
    assert not [table for table in comparison_tables(comparison) if table.title.startswith("Early exit")]
