"""The drawing functions: image formats, coordinates and colors."""

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image
from support.tensors import assert_close, draw_bytes

from glimpse.view.drawing import (
    CORRECT_COLOR,
    FADED_BRIGHTNESS,
    MIN_PERCENT,
    OTHER_BAR_COLOR,
    SCALE_COLORS,
    draw_boxes,
    draw_cells,
    draw_footprint,
    draw_image,
    draw_patches,
    draw_probabilities,
    draw_read_box,
    draw_trail,
    draw_weights,
    fade,
    to_array,
    to_percent,
)
from glimpse.view.video import rasterize

GRAY = draw_bytes(1, 9, 13).numpy()[0]  # (H, W)
COLOR = draw_bytes(9, 13, 3).numpy()  # (H, W, 3)
EVERY_LEVEL = np.arange(256, dtype=np.uint8).reshape(16, 16)


def forms(pixels):
    """The same picture as an array of bytes, of floats, as tensors of both, and as a PIL image."""
    tensor = torch.from_numpy(pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0).copy())
    found = {
        "array": pixels,
        "array of floats": pixels / 255,
        "tensor": tensor,
        "tensor of floats": tensor / 255,  # float32
        "tensor of doubles": tensor.double() / 255,
        "PIL": Image.fromarray(pixels),
    }
    if pixels.ndim == 2:
        found["array with a channel"] = pixels[..., None]
    return found


def picture(draw, *arguments, **options):
    figure = Figure(figsize=(2, 2), dpi=100)
    draw(figure.add_axes((0, 0, 1, 1)), *arguments, **options)
    return rasterize(figure)


@pytest.mark.parametrize("pixels", [GRAY, COLOR, EVERY_LEVEL, np.stack([EVERY_LEVEL] * 3, -1)])
def test_arrays_tensors_and_pil_images_give_the_same_picture(pixels):
    same = forms(pixels)
    expected = picture(draw_image, same["array"])
    assert expected.std() > 10
    for name, image in same.items():
        np.testing.assert_allclose(to_array(image), pixels / 255, rtol=0, atol=1e-12)
        assert (picture(draw_image, image) == expected).all(), name
        assert (picture(draw_patches, [image, image]) == picture(draw_patches, [pixels, pixels])).all(), name
        assert (picture(draw_image, fade(image)) == picture(draw_image, fade(pixels))).all(), name


def test_to_pixels_of_an_image():
    # 16 x 16 pixels on 192 x 192: each level of gray is drawn as itself, but for matplotlib's rounding.
    figure = Figure(figsize=(1.92, 1.92), dpi=100)
    draw_image(figure.add_axes((0, 0, 1, 1)), torch.from_numpy(EVERY_LEVEL)[None] / 255)
    shown = rasterize(figure)[6::12, 6::12].astype(int)
    assert np.abs(shown - EVERY_LEVEL[..., None]).max() <= 1
    np.testing.assert_allclose(fade(COLOR), FADED_BRIGHTNESS * COLOR.mean(-1) / 255)


def test_modes_of_pil_images():
    palette = Image.fromarray(COLOR).convert("P")
    assert (to_array(palette) == np.asarray(palette.convert("RGB")) / 255).all()
    bits = Image.fromarray(GRAY > 127)
    assert bits.mode == "1" and set(np.unique(to_array(bits))) == {0.0, 1.0} and to_array(bits).ndim == 2


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((2, 3, 4), np.uint8), r"an image array must have shape .*\(H, W, 3\), got \(2, 3, 4\)"),
        (np.zeros(5, np.uint8), r"an image array must have shape .*, got \(5,\)"),
        (torch.zeros(9, 13, 3), r"an image tensor must have shape \(C, H, W\) with 1 or 3 channels, got \(9, 13, 3\)"),
        (torch.zeros(9, 13), r"an image tensor must have shape .*, got \(9, 13\)"),
        (np.zeros((2, 3), np.int64), r"must be uint8, or floats in \[0, 1\], got int64"),
        (np.full((2, 3), 255.0), r"must be in \[0, 1\], got 255 to 255"),
        (torch.tensor([[[0.5, -0.5]]]), r"must be in \[0, 1\], got -0.5 to 0.5"),
        (np.array([[np.nan]]), r"must be in \[0, 1\], got nan to nan"),
    ],
)
def test_invalid_images(image, message):
    with pytest.raises(ValueError, match=message):
        draw_image(Figure().add_subplot(), image)


def test_patches_must_have_one_size():
    with pytest.raises(ValueError, match=r"patches must have the same size, got \(9, 13\), \(16, 16\)"):
        draw_patches(Figure().add_subplot(), [GRAY, EVERY_LEVEL])


def test_places_may_be_arrays_tensors_or_lists():
    boxes = [[1.0, 2.0, 5.0, 6.0], [0.0, 1.0, 8.0, 9.0]]
    centers = [[3.0, 4.0], [5.0, 6.0], [2.0, 8.0]]
    weights = [[0.125, 0.25, 0.5], [0.0625, 0.375, 0.25]]  # the same in float32
    calls = [
        (draw_boxes, (boxes,), {}),
        (draw_trail, (centers,), {}),
        (draw_footprint, (centers[0], [1.0, 2.0]), {}),
        (draw_weights, (weights, (9, 13)), {}),
        (draw_cells, (weights, (4.5, 5.0)), {"opacity": 0.7}),
    ]
    for draw, arguments, options in calls:
        pictures = []
        for convert in (np.asarray, torch.tensor):
            converted = [convert(value) if isinstance(value, list) else value for value in arguments]
            pictures.append(picture(draw, *converted, **options))
        assert pictures[0].std() > 0 and (pictures[0] == pictures[1]).all(), draw.__name__


def test_overlays_are_in_pixels_of_the_image():
    axes = Figure().add_subplot()
    draw_image(axes, GRAY)
    draw_trail(axes, [[1.0, 2.0], [3.0, 4.0]])
    draw_boxes(axes, [[float(place), 1, place + 4, 5] for place in range(5)])
    draw_footprint(axes, [6.0, 4.0], [1.0, 0.5])
    draw_read_box(axes, (2, 3, 4, 6))
    assert axes.get_xlim() == (0, 13) and axes.get_ylim() == (9, 0)  # as the image alone
    *squares, narrow, wide, read = axes.patches
    assert [to_hex(square.get_edgecolor()).upper() for square in squares] == [*SCALE_COLORS, SCALE_COLORS[0]]
    assert [(square.get_x(), square.get_y(), square.get_width()) for square in squares] == [
        (place, 1, 4) for place in range(5)
    ]
    assert [(one.width, one.height, one.center) for one in (narrow, wide)] == [(2, 1, (6, 4)), (4, 2, (6, 4))]
    assert (*read.get_xy(), read.get_width(), read.get_height()) == (2, 3, 2, 3)


def test_opacity_of_cells_is_proportional_to_their_weight():
    axes = Figure().add_subplot()
    draw_cells(axes, torch.tensor([[0.1, 0.4], [0.2, 0.3]]), (5.0, 7.0), opacity=0.6)
    assert_close(torch.tensor(axes.images[0].get_array().data)[..., 3], [[0.15, 0.6], [0.3, 0.45]])
    assert axes.images[0].get_extent() == [0, 14, 10, 0]


def test_probabilities():
    axes = Figure().add_subplot()
    values = torch.tensor([0.25, 0.004, 0.746])
    draw_probabilities(axes, values, ("a", "$b_$", "c"), predicted=[2], true=[1, 2], correct=True)
    assert [bar.get_width() for bar in axes.patches] == pytest.approx(values.tolist())
    colors = [to_hex(bar.get_facecolor()).upper() for bar in axes.patches]
    assert colors == [OTHER_BAR_COLOR, OTHER_BAR_COLOR, CORRECT_COLOR]
    assert [text.get_text() for text in axes.texts] == ["a", "25%", "$b_$", "◂ true", "c", "75% ◂ true"]
    assert not any(text.get_parse_math() for text in axes.texts)


def test_percent_for_a_logarithmic_axis_is_never_zero():
    assert to_percent([0.0, 0.5]) == [MIN_PERCENT, 50.0]
