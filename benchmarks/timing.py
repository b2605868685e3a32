"""Side-by-side timing: alternatives are measured in turn, many times, in one run, and compared as ratios.

Ratios stay valid if the speed of the machine changes during the run.
"""

import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from glimpse.attention.sensor import Sensor
from glimpse.attention.sensor_views import View


def side_by_side(alternatives: dict[str, Callable[[], object]], seconds: float = 3.0) -> dict[str, float]:
    """Run the alternatives in turn, for `seconds` each on average; return the median seconds of each."""
    times: dict[str, list[float]] = {name: [] for name in alternatives}
    stop = time.perf_counter() + seconds * len(alternatives)
    while time.perf_counter() < stop or len(next(iter(times.values()))) < 5:
        for name, alternative in alternatives.items():
            alternative()  # warm the caches after the other alternatives
            start = time.perf_counter()
            alternative()
            times[name].append(time.perf_counter() - start)
    return {name: float(torch.tensor(values).median()) for name, values in times.items()}


class LoopView(View):
    """Hard reads in a common implementation: pad, crop image by image and scale by scale, then pool."""

    tuned = False  # whether corners are converted to Python numbers first, which makes slicing several times faster

    def at(self, location: Tensor) -> Tensor:
        """See `View.at`."""
        sensor, images = self.sensor, self.images
        if not images.is_floating_point():
            images = images.float() / 255
        height, width = images.shape[2:]
        corners = sensor.anchor(location.detach(), height, width).floor().long()
        patches = []
        for cell, side in zip(sensor.cell_widths, sensor.sides, strict=True):
            padded = F.pad(images, (side, side, side, side))
            crops = []
            limits = torch.tensor([width + side, height + side])
            starts = (corners - side // 2 + side).clamp(min=torch.tensor(0), max=limits)
            for image, (x, y) in zip(padded, starts.tolist() if self.tuned else starts, strict=True):
                crops.append(image[:, y : y + side, x : x + side])
            patches.append(F.avg_pool2d(torch.stack(crops), cell))
        return torch.cat(patches, 1)


class TunedLoopView(LoopView):
    """`LoopView` with corners as Python numbers."""

    tuned = True


class LoopSensor(Sensor):
    """A sensor that reads with a loop over images."""

    loop: type[LoopView] = LoopView

    def view(self, images: Tensor, num_reads: int = 1) -> View:
        """See `Sensor.view`."""
        return self.loop(self, images)


class TunedLoopSensor(LoopSensor):
    """`LoopSensor` with corners as Python numbers."""

    loop = TunedLoopView
