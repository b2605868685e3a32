"""Settings of the pyramid sensor."""

from typing import TYPE_CHECKING, Literal

from glimpse.attention.settings.base import SENSORS, SensorSettings

if TYPE_CHECKING:
    from glimpse.attention.sensor import Sensor


@SENSORS.register("pyramid")
class PyramidSettings(SensorSettings):
    """sensor: concentric squares, each reduced to the same number of pixels."""

    kind: Literal["pyramid"] = "pyramid"
    """Concentric squares, each reduced to the same number of pixels."""
    patch_size: int = 12
    """Side G of every patch, and of the smallest square, in pixels."""
    num_scales: int = 3
    """Number K of concentric squares."""
    scale_factor: int = 2
    """Ratio of the sides of successive squares."""
    background: float = 0.0
    """Pixel value outside the image; pixels are in [0, 1]."""

    def check(self) -> None:
        """Check the ranges."""
        self.require_positive("patch_size", "num_scales", "scale_factor")
        self.require(
            self.scale_factor > 1 or self.num_scales == 1,
            "scale_factor",
            f"at least 2 with sensor.num_scales {self.num_scales}",
        )

    def idle(self) -> set[str]:
        """The ratio of the sides of squares, with only one."""
        return {"scale_factor"} if self.num_scales == 1 else set()

    def build(self) -> "Sensor":
        """Make the sensor."""
        from glimpse.attention.sensor import Sensor

        return Sensor(
            patch_size=self.patch_size,
            num_scales=self.num_scales,
            scale_factor=self.scale_factor,
            background=self.background,
        )
