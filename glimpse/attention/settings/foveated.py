"""Settings of the foveated sensor."""

import math
from typing import TYPE_CHECKING, Literal

from glimpse.attention.settings.base import SENSORS, SensorSettings

if TYPE_CHECKING:
    from glimpse.attention.foveated import FoveatedSensor

WIDEST = 10_000  # pixels of the outermost cells; single precision cannot represent the edges of much wider regions


@SENSORS.register("foveated")
class FoveatedSettings(SensorSettings):
    """sensor: one patch, whose cells widen with their distance from the center."""

    kind: Literal["foveated"] = "foveated"
    """One patch, whose cells widen with their distance from the center."""
    patch_size: int = 20
    """Number G of cells along each axis."""
    growth: float = 1.3
    """Ratio of the width of a cell to that of its inner neighbor; the innermost cells are one pixel wide, the outermost
    at most 10000."""
    background: float = 0.0
    """Pixel value outside the image; pixels are in [0, 1]."""

    def check(self) -> None:
        """Check the ranges."""
        self.require_positive("patch_size")
        self.require(1 <= self.growth <= 4, "growth", "in [1, 4]")
        steps = (self.patch_size - 1) // 2  # from an innermost cell to an outermost one
        largest = math.floor(WIDEST ** (1 / max(steps, 1)) * 1000) / 1000
        self.require(
            self.growth <= largest,
            "growth",
            f"at most {largest} with sensor.patch_size {self.patch_size}, so that the "
            f"outermost cells are at most {WIDEST} pixels wide",
        )

    def build(self) -> "FoveatedSensor":
        """Make the sensor."""
        from glimpse.attention.foveated import FoveatedSensor

        return FoveatedSensor(patch_size=self.patch_size, growth=self.growth, background=self.background)
