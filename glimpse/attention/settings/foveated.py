"""Settings of the foveated sensor."""

from typing import TYPE_CHECKING, Literal

from glimpse.attention.settings.base import SENSORS, SensorSettings

if TYPE_CHECKING:
    from glimpse.attention.foveated import FoveatedSensor


@SENSORS.register("foveated")
class FoveatedSettings(SensorSettings):
    """sensor: one patch, whose cells widen with their distance from the center."""

    kind: Literal["foveated"] = "foveated"
    """One patch, whose cells widen with their distance from the center."""
    patch_size: int = 20
    """Number G of cells along each axis."""
    growth: float = 1.3
    """Ratio of the width of a cell to that of its inner neighbor; the innermost cells are one pixel wide."""
    background: float = 0.0
    """Pixel value outside the image; pixels are in [0, 1]."""

    def check(self) -> None:
        """Check the ranges."""
        self.require_positive("patch_size")
        self.require(1 <= self.growth <= 4, "growth", "in [1, 4]")

    def build(self) -> "FoveatedSensor":
        """Make the sensor."""
        from glimpse.attention.foveated import FoveatedSensor

        return FoveatedSensor(patch_size=self.patch_size, growth=self.growth, background=self.background)
