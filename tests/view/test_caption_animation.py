"""Animations of captions: each word in its frame with its own attention map."""

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from PIL import Image
from support.captions import CAPTIONS, box_by_hand, make_caption_trace
from support.tensors import assert_close, draw_bytes

from glimpse.errors import ConfigError
from glimpse.view.caption_animation import (
    HARD_NOTE,
    WEIGHT_NOTE,
    caption_frames,
    draw_caption_frame,
    save_caption_animation,
)
from glimpse.view.drawing import ATTENTION_COLOR, FADED_BRIGHTNESS, MAP_OPACITY


def words(figure):
    """What is written under the images, and whether it is emphasised."""
    return [(text.get_text(), text.get_bbox_patch() is not None) for text in figure.texts if text.get_fontsize() == 12]


def rectangles(axes):
    return [(*patch.get_xy(), patch.get_width(), patch.get_height()) for patch in axes.patches]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("mode", ["soft", "hard"])
def test_a_frame_has_the_map_of_its_word_of_its_image(mode, channels):
    trace = make_caption_trace(mode, channels=channels)
    for row, caption in enumerate(CAPTIONS):
        for step, word in enumerate(caption, 1):
            figure = draw_caption_frame([trace], row, step)
            (axes,) = figure.axes
            image, cells = axes.images
            assert_close(
                torch.tensor(image.get_array().data), FADED_BRIGHTNESS * trace.images[row].float().mean(0) / 255
            )
            weights = trace.weights[row][step - 1]
            assert_close(torch.tensor(cells.get_array().data)[..., 3], MAP_OPACITY[mode] * weights / weights.max())
            assert cells.get_extent() == [0, 30, 24, 0] and axes.get_xlim() == (0, 25) and axes.get_ylim() == (20, 0)
            x0, y0, x1, y1 = box_by_hand(int(trace.places[row][step - 1]))
            assert rectangles(axes) == ([(x0, y0, x1 - x0, y1 - y0)] if mode == "hard" else [])
            assert words(figure) == [*((word, False) for word in caption[: step - 1]), (word, True)]


def test_an_image_is_first_shown_without_words():
    trace = make_caption_trace(channels=3)
    figure = draw_caption_frame([trace], 1, 0)
    (image,) = figure.axes[0].images
    assert_close(torch.tensor(image.get_array().data), trace.images[1].permute(1, 2, 0) / 255)
    assert [text.get_text() for text in figure.texts] == ["soft, soft attention", WEIGHT_NOTE]
    figure = draw_caption_frame([make_caption_trace("hard")], 1, 0)
    assert figure.texts[-1].get_text() == WEIGHT_NOTE + HARD_NOTE


def test_the_current_word_is_highlighted_in_the_color_of_its_map():
    figure = draw_caption_frame([make_caption_trace()], 0, 2)
    (patch,) = [text.get_bbox_patch() for text in figure.texts if text.get_bbox_patch()]
    assert to_hex(patch.get_facecolor()).upper() == ATTENTION_COLOR


def test_models_side_by_side_and_a_shorter_caption_stays_at_its_end():
    long, short = make_caption_trace("soft"), make_caption_trace("hard", captions=(("yes", "no"), ()), seed=1)
    for step in (2, 3, 4):
        left, right = draw_caption_frame([long, short], 0, step).axes
        for axes, its, word in ((left, long, step - 1), (right, short, 1)):
            weights = its.weights[0][word]
            drawn = torch.tensor(axes.images[1].get_array().data)[..., 3]
            assert_close(drawn, MAP_OPACITY[its.mode] * weights / weights.max())
        assert left.get_position().x1 < right.get_position().x0
    assert words(draw_caption_frame([long, short], 0, 4))[-2:] == [("yes", False), ("no", True)]
    assert len(draw_caption_frame([long, short], 1, 2).axes[1].images) == 1  # who says nothing trace at nothing


def test_frames_are_all_images_word_by_word_as_they_are_drawn():
    traces = [
        make_caption_trace(images=draw_bytes(2, 1, 20, 25) // 50),
        make_caption_trace("hard", captions=(("x",) * 5, ())),
    ]
    traces[1] = traces[1]._replace(images=traces[0].images)
    pictures = list(caption_frames(traces))
    assert len(pictures) == 6 + 3  # one alone, and the words of the longer
    assert len({picture.shape for picture in pictures}) == 1
    height, width, _ = pictures[0].shape
    assert height % 2 == 0 and width == 816 and pictures[0].dtype == np.uint8
    # The image of the first model is 384 pixels wide, from 16 on; the cell of the word has the most red.
    shown = pictures[1:5] + pictures[7:9]
    places = [int(place) for row in traces[0].places for place in row]
    for picture, place in zip(shown, places, strict=True):
        reds = []
        for cell in range(6):
            x0, y0, x1, y1 = box_by_hand(cell)
            x, y = 16 + (x0 + x1) / 2 * 384 / 25, 40 + (y0 + y1) / 2 * 308 / 20
            reds.append(int(picture[int(y), int(x), 0]))
        assert int(np.argmax(reds)) == place
    assert (pictures[4][:, :400] == pictures[5][:, :400]).all() and (pictures[4] != pictures[5]).any()


@pytest.mark.parametrize("models", [1, 2])
def test_no_overlap_or_clipping(models):
    captions = (("mmmmmmmmm", "i") * 10, ("m" * 100,))
    traces = [make_caption_trace("hard", captions=captions, name="m" * 100)] * models
    for row, step in ((0, 20), (1, 1)):
        figure = draw_caption_frame(traces, row, step)
        figure.draw_without_rendering()
        width, height = figure.get_size_inches() * figure.dpi
        images = [axes.get_window_extent() for axes in figure.axes]
        boxes = images + [text.get_window_extent() for text in figure.texts]
        for box in boxes:
            assert box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height
        assert not [(i, j) for i in range(len(boxes)) for j in range(i) if boxes[i].overlaps(boxes[j])]
        assert images[0].width / images[0].height == pytest.approx(25 / 20, rel=0.01)


def read_gif(path):
    with Image.open(path) as gif:
        pictures, times = [], []
        for index in range(gif.n_frames):
            gif.seek(index)
            pictures.append(np.asarray(gif.convert("RGB")).astype(int))
            times.append(gif.info["duration"])
        return pictures, times


def test_the_file_shows_each_frame_for_its_time(tmp_path):
    trace = make_caption_trace(captions=(("a", "dog"), ("one",)))
    save_caption_animation(tmp_path / "a.gif", [trace], seconds=0.31, hold=1.2)
    pictures, times = read_gif(tmp_path / "a.gif")
    assert times == [310, 310, 1200, 310, 1200]
    drawn = list(caption_frames([trace]))
    for index, shown in enumerate(pictures):
        distances = [np.abs(shown - wanted).mean() for wanted in drawn]
        assert int(np.argmin(distances)) == index and min(distances) < 2  # noise has more colors than a GIF
    save_caption_animation(tmp_path / "a.mp4", [trace], seconds=0.1, hold=0.2)
    assert b"ftyp" in (tmp_path / "a.mp4").read_bytes()[:16]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.gif", "a.mp4"]


def test_invalid_arguments(tmp_path):
    trace = make_caption_trace()
    with pytest.raises(ConfigError, match=r"must be a \.gif or an \.mp4 file, got a\.webm"):
        save_caption_animation("a.webm", [trace])
    with pytest.raises(ConfigError, match=r"hold must be in \[0.02, 60\], got 0"):
        save_caption_animation(tmp_path / "a.gif", [trace], hold=0)
    other = make_caption_trace(images=draw_bytes(2, 1, 20, 25, seed=9))
    for show in (
        lambda: draw_caption_frame([trace, other], 0, 0),
        lambda: next(caption_frames([trace, other])),
        lambda: save_caption_animation(tmp_path / "a.gif", [trace, other]),
    ):
        with pytest.raises(ValueError, match="same images"):
            show()
    assert not list(tmp_path.iterdir())
