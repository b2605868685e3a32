"""The foveated sensor, against a slow reference and in its limits."""

import math

import pytest
import torch
from support.tensors import assert_close, draw, draw_bytes

from glimpse.attention.distributions import Gaussian
from glimpse.attention.foveated import FoveatedSensor
from glimpse.attention.sensor import Sensor
from glimpse.errors import ConfigError
from glimpse.tasks.settings import load_config


def reference(images, location, sensor):
    """Each cell is the mean over its rectangle: pixels are cut into 1/50 pieces, a piece counts where it falls."""
    batch, channels, height, width = images.shape
    patches = torch.zeros(batch, channels, sensor.patch_size, sensor.patch_size, dtype=torch.float64)
    fine = 50
    for b in range(batch):
        axes = []
        for axis, length in ((1, height), (0, width)):
            center = (float(location[b, axis]) + 1) * length / 2
            middles = (torch.arange(length * fine, dtype=torch.float64) + 0.5) / fine
            cells = [
                ((middles >= center + low) & (middles < center + high)).double().view(length, fine).sum(1)
                / fine
                / (high - low)
                for low, high in zip(sensor.edges[:-1], sensor.edges[1:], strict=True)
            ]
            axes.append(torch.stack(cells))
        rows, columns = axes
        patch = rows @ images[b].double() @ columns.T
        inside = rows.sum(1).unsqueeze(1) * columns.sum(1)
        patches[b] = patch + sensor.background * (1 - inside)
    return patches


@pytest.mark.parametrize(
    "patch_size, growth, background", [(6, 1.5, 0.0), (5, 1.3, 0.5), (1, 2.0, 0.25), (8, 1.0, 1.0)]
)
def test_hard_reads_are_means_over_rectangles(patch_size, growth, background):
    sensor = FoveatedSensor(patch_size=patch_size, growth=growth, background=background)
    images = draw(3, 2, 14, 11).double().sigmoid()
    location = torch.tensor([[0.0, 0.0], [0.33, -0.71], [-1.2, 1.9]], dtype=torch.float64)
    assert_close(sensor.view(images).at(location), reference(images, location, sensor), 0.03)


def test_edges():
    assert FoveatedSensor(patch_size=4, growth=2.0).edges == [-3.0, -1.0, 0.0, 1.0, 3.0]
    assert FoveatedSensor(patch_size=3, growth=2.0).edges == [-2.5, -0.5, 0.5, 2.5]


def test_without_growth_it_is_the_finest_square_of_the_pyramid():
    """At the corner of a pixel, where neither has to round."""
    images = draw_bytes(4, 1, 12, 12)
    location = torch.tensor([[0.0, 0.0], [0.5, -0.5], [-1.0, 1.0], [1.0, 0.5]])
    patches = FoveatedSensor(patch_size=6, growth=1.0).view(images).at(location)
    assert_close(patches, Sensor(patch_size=6).view(images).at(location), 1e-6)


def test_8_bit_images_read_as_their_255th_part():
    sensor, images, location = FoveatedSensor(patch_size=5, growth=1.4), draw_bytes(2, 3, 9, 9), draw(2, 2)
    assert_close(sensor.view(images).at(location), sensor.view(images.float() / 255).at(location))


def test_soft_reads_are_the_expectation_of_hard_ones():
    sensor = FoveatedSensor(patch_size=6, growth=1.5, background=0.3)
    images = draw(1, 1, 12, 16).double().sigmoid()
    attention = Gaussian(torch.tensor([[0.4, -0.3]]).double(), torch.tensor([[0.2, 0.35]]).double())
    soft = sensor.view(images).expect(attention)
    # Gauss-Hermite quadrature over both axes; a read is piecewise linear in the location, so many nodes are needed.
    nodes = torch.linspace(-6, 6, 97, dtype=torch.float64)
    weights = (-0.5 * nodes.square()).exp()
    weights /= weights.sum()
    x, y = (attention.mean[0, axis] + attention.std[0, axis] * nodes for axis in (0, 1))
    places = torch.stack(torch.meshgrid(x, y, indexing="ij"), -1).view(-1, 2)
    hard = sensor.view(images.expand(len(places), -1, -1, -1)).at(places)
    mean = torch.einsum("p,pcij->cij", (weights.unsqueeze(1) * weights).flatten(), hard)
    assert_close(soft[0], mean, 2e-4)


def test_a_std_of_zero_is_the_hard_read():
    sensor, images = FoveatedSensor(patch_size=7, growth=1.25), draw(5, 1, 20, 20).sigmoid()
    location = draw(5, 2)
    soft = sensor.view(images).expect(Gaussian(location, torch.zeros(5, 2)))
    assert_close(soft, sensor.view(images).at(location), 1e-6)


def test_gradients_of_soft_reads():
    sensor, images = FoveatedSensor(patch_size=4, growth=1.5), draw(2, 1, 8, 8).double().requires_grad_()
    mean = draw(2, 2).double().requires_grad_()
    std = torch.full((2, 2), 0.3).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda *x: sensor.view(x[2]).expect(Gaussian(x[0], x[1])), (mean, std, images))


def test_hard_reads_have_no_gradient_to_the_location():
    location = draw(2, 2).requires_grad_()
    assert not FoveatedSensor(patch_size=4, growth=1.5).view(draw(2, 1, 8, 8)).at(location).requires_grad


NUMBERS = [(math.nan, 0.0), (0.0, math.inf), (-math.inf, 0.0), (math.nan, -math.inf), (1e30, -1e30)]
SENSORS = (Sensor(patch_size=6, background=0.5), FoveatedSensor(patch_size=6, growth=1.3, background=0.5))


@pytest.mark.parametrize("sensor", SENSORS, ids=lambda sensor: type(sensor).__name__)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_reads_far_outside_and_at_no_number_are_background(sensor, dtype):
    location, images = torch.tensor(NUMBERS), draw(5, 1, 12, 14, dtype=dtype)
    patches = sensor.view(images).at(location)
    assert patches.dtype == dtype
    assert_close(patches, torch.full_like(patches, 0.5), 1e-5)


@pytest.mark.parametrize("sensor", SENSORS, ids=lambda sensor: type(sensor).__name__)
@pytest.mark.parametrize("std", [0.0, 0.2, 3.0])
def test_soft_reads_far_outside_are_background(sensor, std):
    mean = torch.tensor([place for place in NUMBERS if not math.isnan(sum(place))], requires_grad=True)
    images = draw(len(mean), 1, 12, 14)
    patches = sensor.view(images).expect(Gaussian(mean, torch.full_like(mean, std)))
    assert_close(patches, torch.full_like(patches, 0.5), 2e-5)
    patches.sum().backward()
    assert_close(mean.grad, torch.zeros_like(mean), 1e-5)


@pytest.mark.parametrize("sensor", SENSORS, ids=lambda sensor: type(sensor).__name__)
def test_a_soft_read_at_no_number_is_none(sensor):
    mean = torch.full((1, 2), math.nan)
    assert sensor.view(draw(1, 1, 12, 14)).expect(Gaussian(mean, torch.ones(1, 2))).isnan().all()


@pytest.mark.parametrize("dtype, atol", [(torch.bfloat16, 2**-8), (torch.float16, 2**-11)])
def test_places_in_half_precision_images_are_exact(dtype, atol):
    """Only the patches are rounded: half precision does not represent every pixel coordinate."""
    sensor, images = FoveatedSensor(patch_size=8, growth=1.4, background=0.2), draw(6, 2, 100, 100, dtype=dtype)
    location, std = draw(6, 2, seed=1) * 2 - 1, torch.full((6, 2), 0.1)
    view, exact = sensor.view(images), sensor.view(images.double())
    attention = Gaussian(location, std)
    for patches, expected in (
        (view.at(location), exact.at(location.double())),
        (view.expect(attention), exact.expect(Gaussian(location.double(), std.double()))),
        (view.rows(torch.arange(6)).at(location), exact.at(location.double())),
    ):
        assert patches.dtype == dtype
        assert_close(patches, expected, atol)


def test_settings_limit_the_region():
    options = ("--sensor.kind=foveated", "--sensor.patch_size=120")
    message = (
        "sensor.growth must be at most 1.168 with sensor.patch_size 120, so that the outermost cells are at most "
        "10000 pixels wide, got 4.0"
    )
    with pytest.raises(ConfigError, match=f"^{message}$"):
        load_config([*options, "--sensor.growth=4"])
    for size, growth in ((120, 1.168), (9, 4), (2, 4), (1, 4), (100_000, 1)):
        load_config(["--sensor.kind=foveated", f"--sensor.patch_size={size}", f"--sensor.growth={growth}"])
    sensor = load_config([*options, "--sensor.growth=1.168"]).sensor.build()
    mean = torch.zeros(2, 2, requires_grad=True)
    patches = sensor.view(draw(2, 1, 60, 60)).expect(Gaussian(mean, torch.full((2, 2), 0.1)))
    patches.square().sum().backward()
    assert patches.isfinite().all() and mean.grad.isfinite().all()


def test_boxes_bound_what_is_read():
    sensor = FoveatedSensor(patch_size=4, growth=2.0)
    boxes = sensor.boxes(torch.tensor([[0.0, 0.0], [1.0, -1.0]]), 10, 20)
    assert boxes.tolist() == [[[7.0, 2.0, 13.0, 8.0]], [[17.0, -3.0, 23.0, 3.0]]]


def test_rows():
    sensor, images, location = FoveatedSensor(patch_size=4, growth=1.5), draw(5, 1, 8, 8), draw(5, 2)
    index = torch.tensor([3, 0])
    assert_close(sensor.view(images).rows(index).at(location[index]), sensor.view(images).at(location)[index])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"patch_size": 0}, "patch_size must be at least 1, got 0"),
        ({"growth": 0.9}, "growth must be at least 1, got 0.9"),
    ],
)
def test_wrong_geometry(change, message):
    with pytest.raises(ValueError, match=message):
        FoveatedSensor(**{"patch_size": 4, "growth": 1.5, **change})


def test_wrong_input():
    sensor = FoveatedSensor(patch_size=4, growth=1.5)
    with pytest.raises(ValueError, match=r"images must have shape \(B, C, H, W\), got \(2, 8, 8\)"):
        sensor.view(draw(2, 8, 8))
    with pytest.raises(ValueError, match="images must be floating point or uint8, got torch.int64"):
        sensor.view(torch.zeros(2, 1, 8, 8, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"location must have shape \(2, 2\), got \(3, 2\)"):
        sensor.view(draw(2, 1, 8, 8)).at(draw(3, 2))
