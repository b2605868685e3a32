"""Coverage maps: rows from the top, columns from the left."""

import pytest
import torch
from support.tensors import assert_close, draw

from glimpse.evaluation.classify import ClassifierOutcome
from glimpse.view.coverage import BINS, coverage, draw_coverage


def outcome(locations, on_target=None):
    """An outcome of locations (I, M, T, 2)."""
    images, _, steps, _ = locations.shape
    probabilities = torch.full((images, max(steps, 1), 2), 0.5)
    return ClassifierOutcome(
        probabilities, torch.zeros(images, dtype=torch.long), probabilities[..., 0] > 0, locations, on_target
    )


def test_rows_are_from_the_top_and_columns_from_the_left():
    corner = outcome(torch.tensor([[[[0.9, -0.8]]]]))  # right, and above
    expected = torch.zeros(1, 4, 4)
    expected[0, 0, 3] = 1
    assert_close(coverage(corner, bins=4), expected)


def test_shares_by_counting():
    locations = 3 * draw(40, 2, 3, 2, seed=2) - 1.5
    expected = torch.zeros(3, 5, 5)
    for rollouts in locations.tolist():
        for glimpses in rollouts:
            for step, (x, y) in enumerate(glimpses):
                if abs(x) <= 1 and abs(y) <= 1:
                    expected[step, int((y + 1) * 2.5), int((x + 1) * 2.5)] += 1 / 80
    shares = coverage(outcome(locations), bins=5)
    assert_close(shares, expected)
    assert (shares.sum((1, 2)) < 1).all() and (shares.sum((1, 2)) > 0).all()


def test_edges_belong_to_the_image_and_nan_does_not():
    places = [[-1.0, -1.0], [1.0, 1.0], [1.0, -1.0], [1.001, 0.0], [0.0, -1.001], [float("nan"), 0.0]]
    shares = coverage(outcome(torch.tensor(places).view(6, 1, 1, 2)), bins=2)
    assert_close(shares, torch.tensor([[[1.0, 1.0], [0.0, 1.0]]]) / 6)


def test_default_size():
    assert coverage(outcome(torch.zeros(2, 1, 3, 2))).shape == (3, 31, 31)


def map_axes(figure):
    return [axes for axes in figure.axes if axes.get_title().startswith("glimpse ")]


def test_maps_are_drawn_upright_with_the_share_on_the_digit():
    hit = torch.tensor([[[True, False]], [[True, True]], [[True, False]], [[True, False]]])
    locations = torch.tensor([0.0, 0.0, 0.9, -0.8]).view(1, 1, 2, 2).repeat(4, 1, 1, 1)
    first = outcome(locations, hit)
    second = outcome(locations[:, :, :1], hit[:, :, 1:])
    figure = draw_coverage({"first": first, "second": second}, (1, 20, 40))
    panels = map_axes(figure)
    assert [axes.get_title() for axes in panels] == [
        "glimpse 1\non the digit 100.0%",
        "glimpse 2\non the digit 25.0%",
        "glimpse 1\non the digit 25.0%",
    ]
    image = panels[1].images[0]
    assert (image.get_array() == coverage(first, bins=BINS)[1].numpy()).all()
    # The brightest cell is where the glimpse is, right and above, as it is drawn.
    row, column = divmod(int(image.get_array().argmax()), BINS)
    left, right, bottom, top = image.get_extent()
    x = left + (right - left) * (column + 0.5) / BINS
    y = top + (bottom - top) * (row + 0.5) / BINS
    assert x == pytest.approx(0.9, abs=1 / BINS) and y == pytest.approx(-0.8, abs=1 / BINS)
    assert image.origin == "upper" and panels[1].get_ylim()[1] < panels[1].get_ylim()[0]
    box = panels[1].get_window_extent()
    assert box.width / box.height == pytest.approx(2)
    assert {"first", "second"} <= {text.get_text() for text in figure.texts}
    (lines,) = [axes for axes in figure.axes if axes.lines and axes.get_legend()]
    assert [list(line.get_ydata()) for line in lines.lines] == [[1.0, 0.25], [0.25]]
    assert [list(line.get_xdata()) for line in lines.lines] == [[1, 2], [1]]
    assert [text.get_text() for text in lines.get_legend().get_texts()] == ["first", "second"]


def test_each_glimpse_of_the_line_plot_is_below_its_map():
    hit = torch.ones(3, 1, 4, dtype=torch.bool)
    figure = draw_coverage({"model": outcome(torch.zeros(3, 1, 4, 2), hit)}, (1, 30, 30))
    (lines,) = [axes for axes in figure.axes if axes.lines and axes.get_legend()]
    for step, axes in enumerate(map_axes(figure)):
        box = axes.get_window_extent()
        assert lines.transData.transform((step + 1, 1.0))[0] == pytest.approx((box.x0 + box.x1) / 2)


def test_without_digits_there_is_no_hit_rate():
    nowhere = outcome(torch.full((3, 2, 1, 2), 5.0))  # every glimpse off the image: an empty map
    figure = draw_coverage({"model": nowhere}, (3, 31, 31))
    (axes,) = map_axes(figure)
    assert axes.get_title() == "glimpse 1"
    assert axes.get_xlabel() == "fullest cell 0%"
    assert not [axes for axes in figure.axes if axes.get_legend()]


@pytest.mark.parametrize(
    ("steps", "shape", "known"),
    [(1, (1, 60, 60), True), (2, (3, 90, 30), False), (6, (1, 20, 60), True), (13, (1, 60, 60), True)],
)
def test_no_overlap_or_clipping_of_headings(steps, shape, known):
    hit = torch.ones(3, 1, steps, dtype=torch.bool) if known else None
    model = outcome(torch.zeros(3, 1, steps, 2), hit)
    figure = draw_coverage({"a model": model, "another model": model}, shape)
    assert 800 <= figure.bbox.width <= 1200
    figure.draw_without_rendering()
    whole = figure.bbox
    for axes in figure.axes:
        box = axes.get_tightbbox()
        assert whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 and box.y1 <= whole.y1
    for text in figure.texts:
        box = text.get_window_extent()
        assert whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 and box.y1 <= whole.y1
        assert not any(box.overlaps(axes.get_tightbbox()) for axes in figure.axes)
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    assert not [(i, j) for i in range(len(boxes)) for j in range(i) if boxes[i].overlaps(boxes[j])]


def test_models_without_glimpses():
    with pytest.raises(ValueError, match="at least one model, got none"):
        draw_coverage({}, (1, 30, 30))
    blind = outcome(torch.zeros(2, 1, 0, 2))
    with pytest.raises(ValueError, match="must be of a model with glimpses, got one without"):
        coverage(blind)
    with pytest.raises(ValueError, match="cnn is a whole-image network and has no glimpses to map"):
        draw_coverage({"cnn": blind}, (1, 30, 30))
    with pytest.raises(ValueError, match="bins must be at least 1, got 0"):
        coverage(outcome(torch.zeros(2, 1, 1, 2)), bins=0)
