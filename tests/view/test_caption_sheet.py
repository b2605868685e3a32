"""The sheet of captions shows the attention of every word, at its place in the image."""

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from support.captions import box_by_hand, make_caption_trace
from support.tensors import assert_close, draw_bytes

from glimpse.view.caption_sheet import HARD_NOTE, MAX_COLUMNS, WEIGHT_NOTE, draw_captions
from glimpse.view.drawing import ATTENTION_COLOR, FADED_BRIGHTNESS, MAP_OPACITY


def rectangles(axes):
    return [(*patch.get_xy(), patch.get_width(), patch.get_height()) for patch in axes.patches]


def texts(figure):
    return [text.get_text() for text in figure.texts]


@pytest.mark.parametrize("channels", [1, 3])
def test_each_panel_has_the_map_of_its_word_of_its_image_of_its_model(channels):
    traces = [make_caption_trace("soft", channels=channels), make_caption_trace("hard", channels=channels, seed=1)]
    panels = iter(draw_captions(traces).axes)
    for row in range(2):
        for trace in traces:
            plain = next(panels)
            shown = trace.images[row].permute(1, 2, 0) / 255
            assert_close(torch.tensor(plain.images[0].get_array().data), shown if channels == 3 else shown[..., 0])
            assert plain.get_title() == "" and len(plain.images) == 1
            for index, word in enumerate(trace.captions[row]):
                axes = next(panels)
                assert axes.get_title() == word
                image, cells = axes.images
                assert_close(torch.tensor(image.get_array().data), FADED_BRIGHTNESS * shown.mean(-1))
                weights = trace.weights[row][index]
                drawn = torch.tensor(cells.get_array().data)
                assert drawn.shape == (2, 3, 4)
                assert_close(drawn[..., 3], MAP_OPACITY[trace.mode] * weights / weights.max())
                assert_close(drawn[..., :3], torch.tensor(to_rgb(ATTENTION_COLOR)).expand(2, 3, 3))
                assert cells.get_extent() == [0, 30, 24, 0]  # over the edge of the image, where it is cut:
                assert axes.get_xlim() == (0, 25) and axes.get_ylim() == (20, 0)
                x0, y0, x1, y1 = box_by_hand(int(trace.places[row][index]))
                assert rectangles(axes) == ([(x0, y0, x1 - x0, y1 - y0)] if trace.mode == "hard" else [])
    assert next(panels, None) is None


def test_pixels_are_brightest_in_the_cell_attended_to():
    trace = make_caption_trace(images=draw_bytes(2, 1, 20, 25) // 50)  # almost black
    figure = draw_captions([trace])
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[::-1, :, 0]  # red, from the bottom up
    panels = [axes for axes in figure.axes if axes.get_title()]
    places = [int(place) for row in trace.places for place in row]
    for axes, place in zip(panels, places, strict=True):
        reds = []
        for cell in range(6):
            x0, y0, x1, y1 = box_by_hand(cell)
            x, y = axes.transData.transform(((x0 + x1) / 2, (y0 + y1) / 2))
            reds.append(pixels[int(y), int(x)])
        assert int(np.argmax(reds)) == place
        assert reds[place] > np.partition(reds, -2)[-2] + 20


def test_captions_and_references_are_written_once():
    references = [[("first", "one"), ("second",), ("third",)], [("$other_$",)]]
    traces = [
        make_caption_trace("soft", references=references),
        make_caption_trace("hard", captions=(("yes",), ()), references=references),
    ]
    lines = texts(draw_captions(traces))
    assert lines == [
        "soft, soft attention",
        "a small dog runs",
        "reference: first one",
        "reference: second",
        "hard, hard attention",
        "yes",
        "soft, soft attention",
        "two $cats_$",
        "reference: $other_$",
        "hard, hard attention",
        "(no words)",
        *lines[11:],
    ]
    assert " ".join(lines[11:]) == WEIGHT_NOTE + HARD_NOTE


@pytest.mark.parametrize("dpi", [100, 150])
def test_long_captions_wrap_without_overlap_or_clipping(dpi):
    long = tuple(f"word{number}" for number in range(2 * MAX_COLUMNS + 1))
    wide = ("mmmmmmmmmmmmmmmmmmmmmmmm",) * 3
    references = [[("mmmmmmmmmm",) * 30], [("$a_", "b") * 20]]
    traces = [
        make_caption_trace("hard", captions=(long, wide), references=references, name="m" * 100),
        make_caption_trace("soft", captions=(wide, long), references=references),
    ]
    figure = draw_captions(traces)
    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    width, height = canvas.get_width_height()
    panels = [axes.get_window_extent() for axes in figure.axes]
    words = panels[1 : 1 + len(long)]
    assert len({round(box.y0) for box in words[:MAX_COLUMNS]}) == 1
    for first, below in zip(words, words[MAX_COLUMNS:], strict=False):  # in the same columns, one row further down
        assert below.x0 == pytest.approx(first.x0) and below.y1 < first.y0
    titles = [axes.title for axes in figure.axes if axes.get_title()]
    boxes = panels + [text.get_window_extent() for text in [*titles, *figure.texts]]
    for box in boxes:
        assert box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height
    assert not [(i, j) for i in range(len(boxes)) for j in range(i) if boxes[i].overlaps(boxes[j])]
    assert panels[0].height / panels[0].width == pytest.approx(20 / 25)


def test_traces_must_be_of_the_same_images():
    with pytest.raises(ValueError, match="same images"):
        draw_captions([make_caption_trace(), make_caption_trace(images=draw_bytes(2, 1, 20, 25, seed=9))])
