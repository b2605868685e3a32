"""Animations of captions show each word at its time with its own map, and nothing before its time."""

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from PIL import Image
from support.captions import CAPTIONS, box_by_hand, some_told
from support.tensors import assert_close, draw_bytes

from glimpse.errors import ConfigError
from glimpse.view.caption_animation import NOTE, caption_frames, draw_caption_frame, save_caption_animation
from glimpse.view.drawing import ATTENTION_COLOR, FADED_BRIGHTNESS, MAP_OPACITY


def words(figure):
    """What is written under the images, and whether it is emphasised."""
    return [(text.get_text(), text.get_bbox_patch() is not None) for text in figure.texts if text.get_fontsize() == 12]


def rectangles(axes):
    return [(*patch.get_xy(), patch.get_width(), patch.get_height()) for patch in axes.patches]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("mode", ["soft", "hard"])
def test_a_frame_has_the_map_of_its_word_of_its_image(mode, channels):
    told = some_told(mode, channels=channels)
    for row, caption in enumerate(CAPTIONS):
        for step, word in enumerate(caption, 1):
            figure = draw_caption_frame([told], row, step)
            (axes,) = figure.axes
            image, cells = axes.images
            assert_close(
                torch.tensor(image.get_array().data), FADED_BRIGHTNESS * told.images[row].float().mean(0) / 255
            )
            weights = told.weights[row][step - 1]
            assert_close(torch.tensor(cells.get_array().data)[..., 3], MAP_OPACITY[mode] * weights / weights.max())
            assert cells.get_extent() == [0, 30, 24, 0] and axes.get_xlim() == (0, 25) and axes.get_ylim() == (20, 0)
            x0, y0, x1, y1 = box_by_hand(int(told.places[row][step - 1]))
            assert rectangles(axes) == ([(x0, y0, x1 - x0, y1 - y0)] if mode == "hard" else [])
            assert words(figure) == [*((said, False) for said in caption[: step - 1]), (word, True)]


def test_an_image_begins_without_words():
    told = some_told(channels=3)
    figure = draw_caption_frame([told], 1, 0)
    (image,) = figure.axes[0].images
    assert_close(torch.tensor(image.get_array().data), told.images[1].permute(1, 2, 0) / 255)
    assert [text.get_text() for text in figure.texts] == ["soft, soft attention", NOTE]


def test_the_word_being_said_is_emphasised_in_the_color_of_its_map():
    figure = draw_caption_frame([some_told()], 0, 2)
    (patch,) = [text.get_bbox_patch() for text in figure.texts if text.get_bbox_patch()]
    assert to_hex(patch.get_facecolor()).upper() == ATTENTION_COLOR


def test_models_side_by_side_and_the_shorter_holds_its_end():
    long, short = some_told("soft"), some_told("hard", captions=(("yes", "no"), ()), seed=1)
    for step in (2, 3, 4):
        left, right = draw_caption_frame([long, short], 0, step).axes
        for axes, its, word in ((left, long, step - 1), (right, short, 1)):
            weights = its.weights[0][word]
            drawn = torch.tensor(axes.images[1].get_array().data)[..., 3]
            assert_close(drawn, MAP_OPACITY[its.mode] * weights / weights.max())
        assert left.get_position().x1 < right.get_position().x0
    assert words(draw_caption_frame([long, short], 0, 4))[-2:] == [("yes", False), ("no", True)]
    assert len(draw_caption_frame([long, short], 1, 2).axes[1].images) == 1  # who says nothing looks at nothing


def test_frames_are_all_images_word_by_word_as_they_are_drawn():
    told = [some_told(images=draw_bytes(2, 1, 20, 25) // 50), some_told("hard", captions=(("x",) * 5, ()))]
    told[1] = told[1]._replace(images=told[0].images)
    pictures = list(caption_frames(told))
    assert len(pictures) == 6 + 3  # one alone, and the words of the longer
    assert len({picture.shape for picture in pictures}) == 1
    height, width, _ = pictures[0].shape
    assert height % 2 == 0 and width == 816 and pictures[0].dtype == np.uint8
    # The image of the first model is 384 pixels wide, from 16 on; the cell of the word has the most red.
    shown = pictures[1:5] + pictures[7:9]
    places = [int(place) for row in told[0].places for place in row]
    for picture, place in zip(shown, places, strict=True):
        reds = []
        for cell in range(6):
            x0, y0, x1, y1 = box_by_hand(cell)
            x, y = 16 + (x0 + x1) / 2 * 384 / 25, 40 + (y0 + y1) / 2 * 308 / 20
            reds.append(int(picture[int(y), int(x), 0]))
        assert int(np.argmax(reds)) == place
    assert (pictures[4][:, :400] == pictures[5][:, :400]).all() and (pictures[4] != pictures[5]).any()


@pytest.mark.parametrize("models", [1, 2])
def test_nothing_is_cut_off_and_nothing_meets(models):
    captions = (("mmmmmmmmm", "i") * 10, ("m" * 100,))
    told = [some_told("hard", captions=captions, name="m" * 100)] * models
    for row, step in ((0, 20), (1, 1)):
        figure = draw_caption_frame(told, row, step)
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
    told = some_told(captions=(("a", "dog"), ("one",)))
    save_caption_animation(tmp_path / "a.gif", [told], seconds=0.31, hold=1.2)
    pictures, times = read_gif(tmp_path / "a.gif")
    assert times == [310, 310, 1200, 310, 1200]
    drawn = list(caption_frames([told]))
    for index, shown in enumerate(pictures):
        distances = [np.abs(shown - wanted).mean() for wanted in drawn]
        assert int(np.argmin(distances)) == index and min(distances) < 2  # noise has more colors than a GIF
    save_caption_animation(tmp_path / "a.mp4", [told], seconds=0.1, hold=0.2)
    assert b"ftyp" in (tmp_path / "a.mp4").read_bytes()[:16]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.gif", "a.mp4"]


def test_what_cannot_be(tmp_path):
    told = some_told()
    with pytest.raises(ConfigError, match=r"must be a \.gif or an \.mp4 file, got a\.webm"):
        save_caption_animation("a.webm", [told])
    with pytest.raises(ConfigError, match="hold must be from 0.02 to 60, got 0"):
        save_caption_animation(tmp_path / "a.gif", [told], hold=0)
    other = some_told(images=draw_bytes(2, 1, 20, 25, seed=9))
    for show in (
        lambda: draw_caption_frame([told, other], 0, 0),
        lambda: next(caption_frames([told, other])),
        lambda: save_caption_animation(tmp_path / "a.gif", [told, other]),
    ):
        with pytest.raises(ValueError, match="same images"):
            show()
    assert not list(tmp_path.iterdir())
