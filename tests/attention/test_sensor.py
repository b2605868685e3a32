"""The sensor against its definition: a slow loop, hand-written patches, and an enumerated expectation."""

import math
from functools import lru_cache

import pytest
import torch
from support.pairs import pairs
from support.tensors import assert_close, draw, draw_bytes

from glimpse.attention.distributions import Gaussian, Noise
from glimpse.attention.sensor import Sensor, from_pixels, to_pixels
from glimpse.attention.sensor_views import CropView, TableView, table_dtype

PLANS = ("table", "crop")
HEIGHT, WIDTH = 7, 10
# The center, the edges, the corners, off the image near and far, and places in general position.
PLACES = torch.tensor(
    [[0.0, 0.0], [-1, 0], [1, 0], [0, -1], [0, 1], [-1, -1], [1, -1], [-1, 1], [1, 1], [5, -5], [-5, 0.3], [0.2, 5]]
    + [[1e6, 0], [-1e6, 1e6], [0.31, -0.47], [-0.83, 0.59], [1.13, 0.72]]
)


def slow_pixel(image, row, column, background):
    """A pixel of nested lists, or the background."""
    inside = 0 <= row < len(image) and 0 <= column < len(image[0])
    return image[row][column] if inside else background


def slow_anchor(place, length, patch_size):
    """The pixel where the squares are anchored on one axis."""
    return math.floor((place + 1) * length / 2 + (0 if patch_size % 2 else 0.5))


def slow_patch(image, anchor_x, anchor_y, *, patch_size, width, background):
    """The patch (G, G) of one channel whose cells are `width` pixels wide, pixel by pixel."""
    half = patch_size * width // 2
    patch = torch.zeros(patch_size, patch_size, dtype=torch.float64)
    for i in range(patch_size):
        for j in range(patch_size):
            total = 0.0
            for y in range(width):
                for x in range(width):
                    row, column = anchor_y - half + i * width + y, anchor_x - half + j * width + x
                    total += slow_pixel(image, row, column, background)
            patch[i, j] = total / width**2
    return patch


def slow_read(images, places, *, patch_size, num_scales, scale_factor, background):
    """Patches (B, K, C, G, G) of images (B, C, H, W) in float64, from the definition of a glimpse."""
    glimpses = []
    for image, (x, y) in zip(images.tolist(), places.tolist(), strict=True):
        height, width = len(image[0]), len(image[0][0])
        anchors = slow_anchor(x, width, patch_size), slow_anchor(y, height, patch_size)
        glimpse = [
            slow_patch(channel, *anchors, patch_size=patch_size, width=scale_factor**k, background=background)
            for k in range(num_scales)
            for channel in image
        ]
        glimpses.append(torch.stack(glimpse).view(num_scales, len(image), patch_size, patch_size))
    return torch.stack(glimpses)


def as_type(images, dtype):
    """Images of uint8 in another type, in which they show the same."""
    return images if dtype == torch.uint8 else images.to(dtype) / 255


@lru_cache
def expected_glimpses(patch_size, scale_factor, background):
    """Different images at all of `PLACES`, and their glimpses of four scales and three channels."""
    images = draw_bytes(len(PLACES), 3, HEIGHT, WIDTH, seed=1)
    glimpses = slow_read(
        as_type(images, torch.float64),
        PLACES,
        patch_size=patch_size,
        num_scales=4,
        scale_factor=scale_factor,
        background=background,
    )
    return images, glimpses


@pairs(
    ("plan, num_reads", [("table", 1), ("crop", 1), ("crop", 1000)]),
    background=[0.0, 0.7],
    scale_factor=[2, 3],
    patch_size=[1, 3, 4, 5],
)
def test_hard_read_is_the_slow_loop(patch_size, scale_factor, background, plan, num_reads):
    images, expected = expected_glimpses(patch_size, scale_factor, background)
    for num_scales in (1, 2, 3, 4):
        sensor = Sensor(
            patch_size=patch_size,
            num_scales=num_scales,
            scale_factor=scale_factor,
            background=background,
            plan=plan,
        )
        for channels in (1, 3):
            for dtype, atol in ((torch.uint8, 1e-6), (torch.float32, 1e-6), (torch.float64, 1e-12)):
                patches = sensor.view(as_type(images[:, :channels], dtype), num_reads).at(PLACES)
                assert patches.dtype == (torch.float32 if dtype == torch.uint8 else dtype)
                assert patches.shape == (len(PLACES), num_scales * channels, patch_size, patch_size)
                assert_close(patches, expected[:, :num_scales, :channels].flatten(1, 2), atol)


@pairs(
    ("plan, num_reads", [("table", 1), ("crop", 1), ("crop", 1000)]),
    shape=[(1, 1), (1, 9), (9, 1), (2, 3)],
    patch_size=[1, 4, 5],
)
def test_batch_of_one_tiny_image(patch_size, shape, plan, num_reads):
    image = draw_bytes(1, 2, *shape, seed=2)
    geometry = {"patch_size": patch_size, "num_scales": 3, "scale_factor": 2, "background": 0.4}
    sensor = Sensor(**geometry, plan=plan)
    for place in PLACES.unsqueeze(1):
        expected = slow_read(as_type(image, torch.float64), place, **geometry).flatten(1, 2)
        assert_close(sensor.view(image, num_reads).at(place), expected)
        assert_close(sensor.view(as_type(image, torch.float64), num_reads).at(place), expected, 1e-12)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(
    "patch_size, num_scales, background, place, expected",
    [
        (3, 1, 0, (0.0, 0.0), [[[7, 8, 9], [12, 13, 14], [17, 18, 19]]]),
        (3, 1, 0, (-1.0, -1.0), [[[0, 0, 0], [0, 1, 2], [0, 6, 7]]]),
        (2, 1, 0, (0.0, 0.0), [[[13, 14], [18, 19]]]),
        (2, 1, 100, (1.0, 1.0), [[[25, 100], [100, 100]]]),
        (2, 2, 0, (-0.2, -0.2), [[[7, 8], [12, 13]], [[4, 6], [14, 16]]]),
        (1, 2, 0, (0.0, 0.0), [[[13]], [[10]]]),
        (1, 2, 0, (0.8, -0.8), [[[5]], [[2.25]]]),
        (2, 2, 8, (1.0, -1.0), [[[8, 8], [5, 8]], [[8, 8], [7, 8]]]),
    ],
)
def test_hand_written_patches(patch_size, num_scales, background, place, expected, plan):
    image = torch.arange(1.0, 26).view(1, 1, 5, 5)
    sensor = Sensor(patch_size=patch_size, num_scales=num_scales, background=background, plan=plan)
    assert_close(sensor.view(image).at(torch.tensor([place]))[0], torch.tensor(expected, dtype=torch.float32), 1e-5)


def test_pyramid_sides():
    assert Sensor(patch_size=5, num_scales=4).sides == (5, 10, 20, 40)
    assert Sensor(patch_size=4, num_scales=3, scale_factor=3).sides == (4, 12, 36)
    assert Sensor(patch_size=7, scale_factor=1).sides == (7,)


@pytest.mark.parametrize("plan", PLANS)
def test_channels_are_scale_major(plan):
    image = torch.tensor([1.0, 2, 3]).view(1, 3, 1, 1).expand(1, 3, 20, 20)
    view = Sensor(patch_size=2, num_scales=2, plan=plan).view(image)
    center = torch.zeros(1, 2)
    for patches in (view.at(center), view.expect(Gaussian(center, center + 0.1))):
        assert_close(patches[0, :, 0, 0], [1.0, 2, 3, 1, 2, 3], 1e-5)


def test_to_pixels_takes_the_edges_to_the_edges():
    places = torch.tensor([[-1.0, -1], [0, 0], [1, 1], [0.5, -0.5]])
    assert to_pixels(places, 8, 20).tolist() == [[0, 0], [10, 4], [20, 8], [15, 2]]


def test_from_pixels_takes_the_edges_to_the_edges():
    points = torch.tensor([[0.0, 0.0], [10, 4], [20, 8], [15, 2], [25, -4]])
    assert from_pixels(points, 8, 20).tolist() == [[-1, -1], [0, 0], [1, 1], [0.5, -0.5], [1.5, -2]]


@pytest.mark.parametrize("height, width", [(7, 10), (60, 60), (1, 333)])
def test_from_pixels_inverts_to_pixels(height, width):
    places = draw(3, 5, 2, dtype=torch.float64) * 4 - 2
    assert_close(from_pixels(to_pixels(places, height, width), height, width), places, 1e-12)
    points = draw(3, 5, 2, seed=1, dtype=torch.float64) * 400 - 20
    assert_close(to_pixels(from_pixels(points, height, width), height, width), points, 1e-10)


def anchor_probabilities(center, spread, anchors):
    """The probability that floor(x) is each of the anchors, x normal."""
    cdf = [0.5 * (1 + math.erf((point - center) / (spread * math.sqrt(2)))) for point in [*anchors, anchors[-1] + 1]]
    return torch.tensor([after - before for before, after in zip(cdf, cdf[1:], strict=False)], dtype=torch.float64)


def enumerated_expectation(sensor, image, mean, std):
    """The expected glimpse (K*C, G, G) of an image (C, H, W): the sum over all anchors from which it can be seen."""
    _, height, width = image.shape
    shift = 0.0 if sensor.patch_size % 2 else 0.5
    axes, chances = [], []
    for length, m, s in ((height, mean[1], std[1]), (width, mean[0], std[0])):
        anchors = range(-sensor.sides[-1], length + sensor.sides[-1])
        chances.append(anchor_probabilities((m + 1) * length / 2 + shift, s * length / 2, anchors))
        axes.append((torch.tensor(anchors, dtype=torch.float64) + 0.5 - shift) * 2 / length - 1)
    grid_y, grid_x = torch.meshgrid(*axes, indexing="ij")
    places = torch.stack([grid_x, grid_y], -1).view(-1, 2)
    crops = Sensor(
        patch_size=sensor.patch_size,
        num_scales=sensor.num_scales,
        scale_factor=sensor.scale_factor,
        background=sensor.background,
        plan="crop",
    )
    glimpses = crops.view(image.expand(len(places), -1, -1, -1)).at(places)
    probability = (chances[0].unsqueeze(1) * chances[1]).view(-1, 1, 1, 1)
    return (probability * glimpses).sum(0) + (1 - probability.sum()) * sensor.background


SOFT_GEOMETRIES = [
    {"patch_size": 3, "num_scales": 2},
    {"patch_size": 2, "num_scales": 3, "background": 0.6},
    {"patch_size": 1, "num_scales": 3, "scale_factor": 3},
    {"patch_size": 3, "num_scales": 2, "scale_factor": 3, "background": -0.5},
    {"patch_size": 5, "num_scales": 1},
    {"patch_size": 4, "num_scales": 2, "background": 0.3},
]


@pytest.mark.parametrize("geometry", SOFT_GEOMETRIES)
def test_soft_read_is_the_enumerated_expectation(geometry):
    sensor = Sensor(**geometry)
    means = [(0.0, 0.0), (-1.0, 1.0), (0.93, -0.2), (1.4, 0.5), (-0.37, 0.41)]
    stds = [(0.1, 0.3), (0.5, 0.2), (0.05, 0.05), (0.4, 1.5), (1e-3, 2e-3)]
    images = draw(len(means), 3, 5, 8, dtype=torch.float64)
    read = sensor.view(images).expect(Gaussian(images.new_tensor(means), images.new_tensor(stds)))
    for i in range(len(means)):
        assert_close(read[i], enumerated_expectation(sensor, images[i], means[i], stds[i]), 1e-10)


@pytest.mark.parametrize("patch_size", [3, 4])
def test_soft_read_is_the_mean_of_hard_reads(patch_size):
    count = 20_000
    sensor = Sensor(patch_size=patch_size, num_scales=2, background=0.2)
    image = draw(1, 2, 9, 12)
    attention = Gaussian(torch.tensor([[0.4, -0.7]]), torch.tensor([[0.3, 0.2]]))
    many = Gaussian(attention.mean.expand(count, 2), attention.std.expand(count, 2))
    samples = sensor.view(image.expand(count, -1, -1, -1)).at(many.sample(Noise(5))).double()
    error = samples.std(0) / math.sqrt(count)
    difference = (samples.mean(0) - sensor.view(image).expect(attention)[0]).abs()
    assert (difference <= 5 * error + 1e-6).all()
    assert error.max() > 1e-3  # there was something to average


@pytest.mark.parametrize("dtype, atol", [(torch.float32, 1e-6), (torch.float64, 1e-12), (torch.uint8, 1e-6)])
@pytest.mark.parametrize("geometry", SOFT_GEOMETRIES)
def test_soft_read_tends_to_the_hard_read(geometry, dtype, atol):
    places = PLACES[-3:]  # none where the hard read jumps
    view = Sensor(**geometry).view(as_type(draw_bytes(3, 3, HEIGHT, WIDTH), dtype))
    if dtype == torch.float64:
        places = places.double()
    hard = view.at(places)
    gaps = [
        (view.expect(Gaussian(places, torch.full_like(places, std))) - hard).abs().max().item()
        for std in (0.3, 0.1, 0.03, 1e-4, 1e-12, 0.0)
    ]
    assert min(gaps[:3]) > 0.01  # at large stds they do differ
    assert max(gaps[3:]) <= atol


def view_that_jumps_at_the_center(patch_size, side):
    """The center of these lies between two anchors: one step to the left or up the hard read changes."""
    view = Sensor(patch_size=patch_size, num_scales=2).view(draw(1, 1, side, side, dtype=torch.float64))
    return view, torch.zeros(1, 2, dtype=torch.float64)


@pytest.mark.parametrize("patch_size, side", [(3, 8), (4, 7)])
def test_narrow_soft_read_sees_both_sides_of_a_jump(patch_size, side):
    view, center = view_that_jumps_at_the_center(patch_size, side)
    around = [view.at(center + torch.tensor([x, y])) for x in (-1e-3, 1e-3) for y in (-1e-3, 1e-3)]
    assert_close(view.expect(Gaussian(center, center + 1e-6)), sum(around) / 4, 1e-12)


@pytest.mark.parametrize("patch_size, side", [(3, 8), (4, 7)])
def test_soft_read_of_no_std_is_the_hard_read_at_a_jump_too(patch_size, side):
    view, center = view_that_jumps_at_the_center(patch_size, side)
    assert_close(view.expect(Gaussian(center, torch.zeros_like(center))), view.at(center), 1e-12)


@pytest.mark.parametrize("geometry", SOFT_GEOMETRIES[:4])
def test_soft_read_is_differentiable(geometry):
    images = draw(2, 1, 4, 5, dtype=torch.float64)
    view = Sensor(**geometry).view(images)
    mean = torch.tensor([[0.2, -0.3], [0.95, 1.1]], dtype=torch.float64, requires_grad=True)
    std = torch.tensor([[0.3, 0.2], [0.4, 0.5]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda m, s: view.expect(Gaussian(m, s)), (mean, std))


def test_single_precision_is_enough_for_large_images():
    side = 512
    images = draw(2, 1, side, side, dtype=torch.float64)
    pixels = torch.tensor([[0.3, 511.6], [255.3, 407.7], [-7.4, 33.2], [510.8, 250.7]], dtype=torch.float64)
    geometry = {"patch_size": 12, "num_scales": 4}
    for pair in pixels.split(2):
        place = pair * 2 / side - 1
        exact = Sensor(**geometry, plan="crop").view(images)
        for plan in (*PLANS, "auto"):
            view = Sensor(**geometry, plan=plan).view(images.float())
            assert_close(view.at(place.float()), exact.at(place), 1e-6)
            # A float32 location is off by up to 3e-5 pixels at this size; the smallest spread here is 2.6 pixels.
            for std in (0.01, 0.1):
                soft = view.expect(Gaussian(place.float(), torch.full((2, 2), std)))
                assert_close(soft, exact.expect(Gaussian(place, torch.full((2, 2), std, dtype=torch.float64))), 2e-5)


def chosen(sensor, *, side, num_reads, dtype=torch.uint8):
    return type(sensor.view(torch.zeros(1, 1, side, side, dtype=dtype), num_reads))


def test_auto_takes_the_crop_for_large_images_and_the_table_for_many_deep_reads():
    assert chosen(Sensor(patch_size=12, num_scales=3), side=480, num_reads=6) is CropView
    assert chosen(Sensor(patch_size=12, num_scales=3), side=480, num_reads=6, dtype=torch.float32) is CropView
    assert chosen(Sensor(patch_size=8, num_scales=5), side=60, num_reads=20) is TableView
    assert chosen(Sensor(patch_size=8, num_scales=5), side=60, num_reads=20, dtype=torch.float32) is TableView
    for plan, view in (("table", TableView), ("crop", CropView)):
        for side, num_reads in ((480, 1), (20, 100)):
            assert chosen(Sensor(patch_size=8, num_scales=5, plan=plan), side=side, num_reads=num_reads) is view


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_auto_changes_its_mind_once(dtype):
    """More reads speak for the table, larger images for the crop, and each of them decides at some point."""
    sensor = Sensor(patch_size=8, num_scales=5)
    by_reads = [chosen(sensor, side=100, num_reads=n, dtype=dtype) is TableView for n in range(1, 41)]
    by_side = [chosen(sensor, side=side, num_reads=10, dtype=dtype) is CropView for side in range(20, 400, 20)]
    for decisions in (by_reads, by_side):
        assert decisions == sorted(decisions) and len(set(decisions)) == 2


def test_the_table_of_bytes_is_single_precision_while_that_is_exact():
    def dtype(side, images):
        return table_dtype(torch.zeros(1, 1, side, side, dtype=images))

    assert dtype(256, torch.uint8) == torch.float32  # 255 * 256^2 < 2^24
    assert dtype(257, torch.uint8) == torch.float64
    assert dtype(20, torch.float32) == torch.float64


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("scale_factor, num_scales", [(2, 4), (11, 2), (12, 2), (2, 6)])
def test_white_stays_white(plan, scale_factor, num_scales):
    """The sums over the cells of a white image are the largest there are."""
    white = torch.full((1, 1, 256, 256), 255, dtype=torch.uint8)
    sensor = Sensor(patch_size=2, num_scales=num_scales, scale_factor=scale_factor, plan=plan)
    assert_close(sensor.view(white).at(torch.tensor([[0.3, 0.3]])), torch.ones(1, num_scales, 2, 2), 1e-6)


@pytest.mark.parametrize("num_reads", [1, 1000])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_plans_agree_all_along_the_edges_of_a_large_image(dtype, num_reads):
    images = as_type(draw_bytes(4, 2, 90, 130), dtype)
    geometry = {"patch_size": 5, "num_scales": 3, "background": 0.3}
    table, crop = (Sensor(**geometry, plan=plan).view(images, num_reads) for plan in PLANS)
    for along in torch.linspace(-1.2, 1.2, 13).tolist():
        for across in (-1.02, -0.9, 0.9, 1.02):
            places = torch.tensor([[along, across], [across, along], [along, -across], [-across, along]])
            assert_close(crop.at(places), table.at(places), 1e-6)


def test_gradient_reaches_the_image():
    sensor = Sensor(patch_size=2, num_scales=2, background=0.5)
    images = draw(2, 1, 5, 6, dtype=torch.float64).requires_grad_()
    view = sensor.view(images)
    assert isinstance(view, TableView)
    assert chosen(sensor, side=5, num_reads=1, dtype=torch.float64) is CropView  # but for the gradient
    places = torch.tensor([[0.1, 0.2], [0.9, -0.8]])
    for plan in PLANS:
        geometry = {"patch_size": 2, "num_scales": 2, "background": 0.5, "plan": plan}
        assert torch.autograd.gradcheck(lambda x, geometry=geometry: Sensor(**geometry).view(x).at(places), (images,))
    # A pixel in the middle is one of the 4 fine cells and a quarter of one of the 4 coarse cells.
    gradient = torch.autograd.grad(view.at(torch.zeros(2, 2)).sum(), images)[0][0, 0]
    assert_close(gradient[2:4, 2:4], torch.full((2, 2), 1.25), 1e-6)
    assert_close(gradient.sum(), 8.0, 1e-6)


@pytest.mark.parametrize("patch_size, scale_factor", [(3, 2), (4, 2), (2, 3), (1, 3)])
def test_boxes_are_the_squares_that_are_averaged(patch_size, scale_factor):
    """Light one pixel at a time: the patch of a scale changes exactly if the pixel is in that scale's box."""
    sensor = Sensor(patch_size=patch_size, num_scales=3, scale_factor=scale_factor)
    pixels = HEIGHT * WIDTH
    images = torch.eye(pixels).view(pixels, 1, HEIGHT, WIDTH)
    column, row = torch.arange(WIDTH).repeat(HEIGHT), torch.arange(HEIGHT).repeat_interleave(WIDTH)
    for place in PLACES:
        patches = sensor.view(images).at(place.expand(pixels, 2))
        boxes = sensor.boxes(place, HEIGHT, WIDTH)
        assert boxes.shape == (3, 4) and torch.equal(boxes, boxes.round())
        for k, (x0, y0, x1, y1) in enumerate(boxes.tolist()):
            assert (x1 - x0, y1 - y0) == (sensor.sides[k], sensor.sides[k])
            inside = (column >= x0) & (column < x1) & (row >= y0) & (row < y1)
            assert torch.equal(patches[:, k].flatten(1).any(1), inside)


def test_boxes_of_many_places():
    sensor = Sensor(patch_size=4, num_scales=2)
    boxes = sensor.boxes(PLACES[:12].view(3, 4, 2), HEIGHT, WIDTH)
    assert boxes.shape == (3, 4, 2, 4)
    assert boxes[0, 0].tolist() == [[3, 2, 7, 6], [1, 0, 9, 8]]


@pytest.mark.parametrize("plan, num_reads", [("table", 1), ("crop", 1), ("crop", 1000)])
def test_images_need_not_be_contiguous(plan, num_reads):
    sensor = Sensor(patch_size=3, num_scales=2, plan=plan)
    places = torch.tensor([[0.3, -0.4], [-0.9, 0.8]])
    wide = draw(2, 3, 8, 12)
    variants = {
        "channels last": wide.contiguous(memory_format=torch.channels_last),
        "transposed": wide.transpose(2, 3),
        "every second column": wide[..., ::2],
        "every second row": wide[:, :, ::2],
        "one column": wide[:, :1, :, 3:4],
        "part of a batch": draw(4, 3, 8, 12)[2:],
        "gray as color": wide[:, :1].expand(2, 3, 8, 12),
        "one value": wide[:1, :1, :1, :1].expand(2, 3, 8, 12),
    }
    for name, images in variants.items():
        attention = Gaussian(places, torch.full((2, 2), 0.1))
        view = sensor.view(images, num_reads)
        plain = sensor.view(images.clone(memory_format=torch.contiguous_format), num_reads)
        assert torch.equal(view.at(places), plain.at(places)), name
        assert_close(view.expect(attention), plain.expect(attention), 1e-6)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_one_item_alone_equals_that_item_in_a_batch(plan, dtype):
    sensor = Sensor(patch_size=3, num_scales=3, background=0.1, plan=plan)
    images = as_type(draw_bytes(len(PLACES), 2, HEIGHT, WIDTH), dtype)
    attention = Gaussian(PLACES, torch.full_like(PLACES, 0.2))
    hard, soft = sensor.view(images).at(PLACES), sensor.view(images).expect(attention)
    for i in range(len(PLACES)):
        item = slice(i, i + 1)
        alone = sensor.view(images[item])
        assert torch.equal(alone.at(PLACES[item]), hard[item])
        assert_close(alone.expect(Gaussian(PLACES[item], attention.std[item])), soft[item], 1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_locations_are_read_in_single(dtype):
    view = Sensor(patch_size=2).view(draw(1, 1, 300, 300))
    place = torch.tensor([[0.837, -0.912]]).to(dtype)
    assert torch.equal(view.at(place), view.at(place.float()))


@pytest.mark.parametrize("plan", PLANS)
def test_hard_read_has_no_gradient_to_the_location(plan):
    place = torch.zeros(1, 2, requires_grad=True)
    assert not Sensor(patch_size=2, plan=plan).view(draw(1, 1, 6, 6)).at(place).requires_grad


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"patch_size": 0}, "patch_size must be at least 1 .*got 0"),
        ({"patch_size": 2, "num_scales": 0}, "num_scales must be at least 1 .*got 0"),
        ({"patch_size": 2, "scale_factor": 0}, "scale_factor must be at least 1 .*got 0"),
        ({"patch_size": 2, "num_scales": 2, "scale_factor": 1}, r"scale_factor must be at least 2 \(num_scales=2\)"),
        ({"patch_size": 2, "plan": "fast"}, "plan must be 'auto', 'table' or 'crop', got 'fast'"),
    ],
)
def test_impossible_sensors(settings, message):
    with pytest.raises(ValueError, match=message):
        Sensor(**settings)


@pytest.mark.parametrize("plan", ["auto", *PLANS])
def test_wrong_input(plan):
    sensor = Sensor(patch_size=2, plan=plan)
    with pytest.raises(ValueError, match=r"images must have shape \(B, C, H, W\), got \(1, 4, 4\)"):
        sensor.view(torch.zeros(1, 4, 4))
    with pytest.raises(ValueError, match="images must be floating point or uint8, got torch.int64"):
        sensor.view(torch.zeros(1, 1, 4, 4, dtype=torch.int64))
    view = sensor.view(torch.zeros(2, 1, 4, 4))
    for shape in ((2,), (1, 2), (2, 3), (2, 1, 2)):
        with pytest.raises(ValueError, match=r"location must have shape \(2, 2\), got \("):
            view.at(torch.zeros(shape))
    for mean, std in (((1, 2), (2, 2)), ((2, 2), (2, 1)), ((2, 2), ())):
        with pytest.raises(ValueError, match=r"mean and std must have shape \(2, 2\), got \("):
            view.expect(Gaussian(torch.zeros(mean), torch.ones(std)))


@pytest.mark.parametrize("plan", ["table", "crop"])
def test_a_location_that_is_no_number_shows_background(plan):
    images = torch.ones(2, 1, 9, 9)
    for where in (math.nan, math.inf, -math.inf):
        location = torch.tensor([[where, 0.0], [0.0, 0.0]])
        read = Sensor(patch_size=3, num_scales=2, background=0.25, plan=plan).view(images).at(location)
        assert (read[0] == 0.25).all() and (read[1, 0] == 1).all()
