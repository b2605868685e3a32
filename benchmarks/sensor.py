"""Measure the speed of the sensor, as ratios within one run.

python benchmarks/sensor.py          hard reads, a crop loop and grid_sample; cost against image size
python benchmarks/sensor.py --fit    the constants of the cost model that selects the sensor's plan
"""

import argparse
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parent))
from timing import LoopSensor, TunedLoopSensor, side_by_side

from glimpse.attention.distributions import Gaussian
from glimpse.attention.sensor import Sensor
from glimpse.attention.sensor_views import CropView, TableView, View

BATCH, GLIMPSES, PATCH, SCALES = 256, 6, 12, 3


def read_all(view: View, locations: Tensor) -> None:
    """Read glimpses at locations (T, B, 2)."""
    for location in locations:
        view.at(location)


def grid_sample_scales(images: Tensor, locations: Tensor) -> None:
    """Read with an affine grid for each scale. Without averaging, so the patches differ from those of the sensor."""
    size = images.shape[-1]
    for location in locations:
        patches = []
        for scale in range(SCALES):
            theta = torch.zeros(len(images), 2, 3)
            theta[:, 0, 0] = theta[:, 1, 1] = PATCH * 2**scale / size
            theta[:, :, 2] = location
            grid = F.affine_grid(theta, [len(images), 1, PATCH, PATCH], align_corners=False)
            patches.append(F.grid_sample(images, grid, align_corners=False))
        torch.cat(patches, 1)


def grid_sample_fused(images: Tensor, locations: Tensor) -> None:
    """Read with the grids of all scales, which are prepared once and sampled in one call."""
    size = images.shape[-1]
    line = (torch.arange(PATCH) + 0.5) * 2 / PATCH - 1
    unit = torch.stack(torch.meshgrid(line, line, indexing="xy"), -1)
    base = torch.cat([unit * (PATCH * 2**scale / size) for scale in range(SCALES)])
    for location in locations:
        F.grid_sample(images, base + location[:, None, None], align_corners=False)


def compare(size: int = 60) -> None:
    """Measure hard reads of T glimpses, with preparation, and the alternatives."""
    images = torch.randint(0, 256, (BATCH, 1, size, size), dtype=torch.uint8)
    floats = images.float() / 255
    locations = torch.rand(GLIMPSES, BATCH, 2) * 2 - 1
    geometry = {"patch_size": PATCH, "num_scales": SCALES}
    auto, loop, tuned = Sensor(**geometry), LoopSensor(**geometry), TunedLoopSensor(**geometry)
    table, crop = Sensor(**geometry, plan="table"), Sensor(**geometry, plan="crop")
    attention = Gaussian(locations[0], torch.full((BATCH, 2), 0.1))

    def soft() -> None:
        view = auto.view(floats, GLIMPSES)
        for _ in range(GLIMPSES):
            view.expect(attention)

    times = side_by_side(
        {
            "the sensor (8-bit images)": lambda: read_all(auto.view(images, GLIMPSES), locations),
            "the sensor (float images)": lambda: read_all(auto.view(floats, GLIMPSES), locations),
            "plan: table": lambda: read_all(table.view(images, GLIMPSES), locations),
            "plan: crop": lambda: read_all(crop.view(images, GLIMPSES), locations),
            "grid_sample, all scales fused": lambda: grid_sample_fused(floats, locations),
            "grid_sample, scale by scale": lambda: grid_sample_scales(floats, locations),
            "crop loop": lambda: read_all(loop.view(floats, GLIMPSES), locations),
            "crop loop, tuned": lambda: read_all(tuned.view(floats, GLIMPSES), locations),
            "soft read": soft,
        }
    )
    print(f"{GLIMPSES} glimpses of {BATCH} images of {size} x {size}, {PATCH} x {PATCH} at {SCALES} scales:\n")
    print(f"{'':32}{'ms':>8}{'times the sensor':>19}")
    unit = times["the sensor (8-bit images)"]
    for name, seconds in times.items():
        print(f"{name:32}{1e3 * seconds:8.2f}{seconds / unit:19.2f}")


def growth() -> None:
    """Measure the cost per glimpse against the size of the image."""
    sensor = Sensor(patch_size=PATCH, num_scales=SCALES)
    batch = 256
    locations = torch.rand(GLIMPSES, batch, 2) * 2 - 1
    sizes = (120, 240, 480, 960)
    views = {size: torch.randint(0, 256, (batch, 1, size, size), dtype=torch.uint8) for size in sizes}
    times = side_by_side(
        {
            str(n): lambda images=images: read_all(sensor.view(images, GLIMPSES), locations)
            for n, images in views.items()
        }
    )
    print(f"\nCost of a glimpse against the size of the image (batch {batch}):\n")
    print(f"{'image':>12}{'plan':>8}{'ms':>8}{'times that at 120':>20}")
    for size, seconds in zip(sizes, times.values(), strict=True):
        plan = "table" if isinstance(sensor.view(views[size], GLIMPSES), TableView) else "crop"
        print(f"{size:>6} x {size:<4}{plan:>7}{1e3 * seconds / GLIMPSES:8.3f}{seconds / times['120']:20.2f}")


def fit() -> None:
    """Measure the nanoseconds per element of each part of the two plans."""
    sensor = Sensor(patch_size=PATCH, num_scales=SCALES)
    location = torch.rand(BATCH, 2) * 2 - 1
    images = torch.randint(0, 256, (BATCH, 1, 100, 100), dtype=torch.uint8)
    floats = images.float() / 255
    table, crop = TableView(sensor, images), CropView(sensor, images)
    times = side_by_side(
        {
            "TABLE_BUILD": lambda: TableView(sensor, images),
            "TABLE_BUILD_DOUBLE": lambda: TableView(sensor, floats),
            "TABLE_READ": lambda: table.at(location),
            "CROP_READ": lambda: crop.at(location),
        }
    )
    elements = {
        "TABLE_BUILD": 100 * 100,
        "TABLE_BUILD_DOUBLE": 100 * 100,
        "TABLE_READ": SCALES * (PATCH + 1) ** 2,
        "CROP_READ": sensor.sides[-1] ** 2,
    }
    for name, seconds in times.items():
        print(f"{name:20}{1e9 * seconds / BATCH / elements[name]:8.2f} ns per element")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", action="store_true", help="measure the constants of the cost model")
    torch.manual_seed(0)
    if parser.parse_args().fit:
        fit()
    else:
        compare()
        growth()
