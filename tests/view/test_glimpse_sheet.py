"""The sheet of glimpses shows what was read and predicted; the table of scores."""

import pytest
import torch
from matplotlib.patches import Ellipse, Rectangle

from glimpse.attention.distributions import Gaussian, Noise
from glimpse.data import Batch
from glimpse.evaluation.glimpse_traces import patches_read, trace_of_rollout
from glimpse.tasks.build import make_model
from glimpse.tasks.settings import load_config
from glimpse.view.drawing import CORRECT_COLOR, WRONG_COLOR
from glimpse.view.glimpse_sheet import draw_sheet
from glimpse.view.tables import score_table

NAMES = ("a", "b", "c")


def make(read, places="plane", channels=1, shape=(20, 30)):
    own = "--attention.grid=[2,3]" if places == "grid" else "--attention.squash=false"
    config = load_config(
        [
            f"--read={read}",
            f"--attention.places={places}",
            own,
            "--num_glimpses=3",
            "--sensor.patch_size=4",
            "--sensor.num_scales=2",
            "--network.state_dim=8",
        ]
    )
    model = make_model(config, image_shape=(channels, *shape), num_classes=3).eval()
    images = torch.randint(0, 256, (2, channels, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    batch = Batch(images, torch.tensor([0, 2]), torch.zeros(2, 0, 4))
    with torch.inference_mode():
        rollout = model(images, noise=Noise(1))
    return model, batch, rollout


def sheet(model, batch, rollout, mode):
    return draw_sheet(trace_of_rollout(model, batch, rollout, name="model", class_names=NAMES, mode=mode))


def rectangles(axes):
    return [
        (patch.get_x(), patch.get_y(), patch.get_width(), patch.get_height())
        for patch in axes.patches
        if isinstance(patch, Rectangle)
    ]


@pytest.mark.parametrize("places", ["plane", "grid"])
@pytest.mark.parametrize("channels", [1, 3])
def test_boxes_are_those_of_the_glimpse(places, channels):
    model, batch, rollout = make("hard", places, channels)
    assert not torch.equal(rollout.locations[:, 1], rollout.locations[:, 2])  # else the next would do as well
    figure = sheet(model, batch, rollout, "hard")
    axes = iter(figure.axes)
    for row in range(2):
        trail = next(axes).lines[0].get_xydata()
        centers = (rollout.locations[row] + 1) * torch.tensor([15.0, 10.0])
        torch.testing.assert_close(torch.tensor(trail), centers, check_dtype=False)
        for step in range(3):
            boxes = model.glimpses.sensor.boxes(rollout.locations[row, step], 20, 30)
            expected = [(x0, y0, x1 - x0, y1 - y0) for x0, y0, x1, y1 in boxes.tolist()]
            assert rectangles(next(axes)) == expected
            next(axes)  # the patches
    assert next(axes, None) is None


@pytest.mark.parametrize("growth, marked", [(3.0, True), (1.0, False)])
def test_the_center_of_a_glimpse_wider_than_the_image_is_marked(growth, marked):
    sensor = ["--sensor.kind=foveated", "--sensor.patch_size=8", f"--sensor.growth={growth}"]
    config = load_config([*sensor, "--num_glimpses=3", "--network.state_dim=8"])
    model = make_model(config, image_shape=(1, 20, 30), num_classes=3).eval()
    _, batch, _ = make("hard")
    with torch.inference_mode():
        rollout = model(batch.images, noise=Noise(1))
    axes = sheet(model, batch, rollout, "hard").axes
    for step in range(3):  # after the trail, the glimpse and its patches by turns
        marks = [line.get_xydata() for line in axes[1 + 2 * step].lines]
        center = (rollout.locations[0, step] + 1) * torch.tensor([15.0, 10.0])
        assert len(marks) == marked
        for mark in marks:
            torch.testing.assert_close(torch.tensor(mark[0]), center, check_dtype=False)


@pytest.mark.parametrize("places", ["plane", "grid"])
def test_patches_are_those_that_were_read(places):
    model, batch, rollout = make("hard", places, channels=3)
    patches = patches_read(model, batch.images, rollout, "hard")
    assert patches.shape == (2, 3, 2, 4, 4, 3)
    view = model.glimpses.sensor.view(batch.images)
    for step in range(3):
        read = view.at(rollout.locations[:, step]).unflatten(1, (2, 3))
        torch.testing.assert_close(patches[:, step].permute(0, 1, 4, 2, 3), read)
    strip = sheet(model, batch, rollout, "hard").axes[2].images[0].get_array()
    torch.testing.assert_close(torch.tensor(strip[:, :4, :3].data), patches[0, 0, 0], check_dtype=False)


def test_soft_patches_are_the_expectation_and_the_footprint_is_drawn():
    model, batch, rollout = make("soft")
    patches = patches_read(model, batch.images, rollout, "soft")
    expected = model.glimpses.sensor.view(batch.images).expect(Gaussian(rollout.locations[:, 1], rollout.stds[:, 1]))
    torch.testing.assert_close(patches[:, 1, :, :, :, 0], expected)
    axes = sheet(model, batch, rollout, "soft").axes[1]
    ellipses = [patch for patch in axes.patches if isinstance(patch, Ellipse)]
    spread = (rollout.stds[0, 0] * torch.tensor([15.0, 10.0])).tolist()
    assert [ellipse.width for ellipse in ellipses] == pytest.approx([2 * spread[0], 4 * spread[0]])
    assert [ellipse.height for ellipse in ellipses] == pytest.approx([2 * spread[1], 4 * spread[1]])


def test_soft_grid_shows_its_weights():
    model, batch, rollout = make("soft", "grid")
    patches = patches_read(model, batch.images, rollout, "soft")
    cells = model.glimpses.cells
    view = model.glimpses.sensor.view(batch.images)
    mean = sum(
        weight.view(2, 1, 1, 1) * view.at(cell.expand(2, 2))
        for weight, cell in zip(rollout.attention_weights[:, 2].unbind(1), cells, strict=True)
    )
    torch.testing.assert_close(patches[:, 2, :, :, :, 0], mean)
    axes = sheet(model, batch, rollout, "soft").axes[1]
    shown = torch.tensor(axes.images[1].get_array().data)
    torch.testing.assert_close(shown, rollout.attention_weights[0, 0].view(2, 3))


def test_predictions_are_correct_or_wrong():
    model, batch, rollout = make("hard")
    logits = torch.zeros(2, 3, 3)
    logits[:, :, 0] = 5.0  # always "a": right for the first image only
    figure = sheet(model, batch, rollout._replace(logits=logits), "hard")
    titles = [axes.title for axes in figure.axes if axes.get_title()]
    assert [title.get_text() for title in titles][:2] == ["image\na", "glimpse 1\na  99%"]
    assert [title.get_color() for title in titles] == ["black"] + [CORRECT_COLOR] * 3 + ["black"] + [WRONG_COLOR] * 3


def test_class_names_are_not_interpreted():
    model, batch, rollout = make("hard")
    names = ("$a_$", "a name much longer than its picture is wide", "c")
    figure = draw_sheet(trace_of_rollout(model, batch, rollout, name="model", class_names=names, mode="hard"))
    figure.draw_without_rendering()  # dollar signs are no formulas
    assert figure.axes[0].get_title() == "image\n$a_$"
    assert all(len(line) <= 20 for axes in figure.axes for line in axes.get_title().splitlines())


def test_several_labels_are_named():
    model, batch, rollout = make("hard")
    marks = batch._replace(targets=torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]))
    logits = torch.tensor([1.0, -1.0, 1.0]).expand(2, 3, 3)
    figure = sheet(model, marks, rollout._replace(logits=logits), "hard")
    titles = [axes.title for axes in figure.axes if axes.get_title()]
    assert [title.get_text() for title in titles[:2]] == ["image\na, c", "glimpse 1\na, c"]
    assert titles[1].get_color() == CORRECT_COLOR and titles[5].get_color() == WRONG_COLOR


def test_score_table():
    scores = {"error": [0.5, 0.0312], "interval": [(0.4, 0.6), (0.03, 0.0333)], "hit": [1.0, 0.255]}
    assert score_table({"greedy": scores, "soft": {**scores, "hit": [0.0, 0.0]}}).text().splitlines() == [
        "glimpse                     1          2",
        "----------------------------------------",
        "greedy: error %         50.00       3.12",
        "  95% interval    40.00-60.00  3.00-3.33",
        "  on the digit %        100.0       25.5",
        "soft: error %           50.00       3.12",
        "  95% interval    40.00-60.00  3.00-3.33",
        "  on the digit %          0.0        0.0",
    ]
