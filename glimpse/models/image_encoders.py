"""Image encoders: they map images to annotation vectors on a grid of places.

Show, Attend and Tell (arXiv:1502.03044), section 3.1.1: the annotations are the vectors of a convolutional feature map,
one for each place. An encoder maps images (B, C, H, W), uint8 or floating point in [0, 1], to annotations (B, L, A) in
row-major order; `out_dim` is A, and `grid(height, width)` the numbers of rows and columns, whose product is L.

* `SmallEncoder`: a few convolutions, for digits.
* `BackboneEncoder`: the last feature map of a classification network of torchvision or timm; vgg19 is the paper's.

Shapes: B batch, C channels, H height, W width, L places, A annotation size.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from glimpse.attention.sensor import from_pixels
from glimpse.attention.window import grid_centers

_WAVES = (0.5, 1, 2)  # periods across the image of the position encoding, in x and in y


class Encoder(nn.Module):
    """Base class: normalizes pixels, and flattens a feature map into annotations."""

    out_dim: int
    frozen: bool = False  # whether the weights stay fixed until `unfreeze`
    pixel_mean: Tensor
    pixel_std: Tensor

    def __init__(self, pixel_mean: Sequence[float], pixel_std: Sequence[float]):
        super().__init__()
        if len(pixel_mean) != len(pixel_std):
            raise ValueError(
                f"pixel_mean and pixel_std must have the same length, got {len(pixel_mean)} and {len(pixel_std)}"
            )
        if not all(std > 0 for std in pixel_std):
            raise ValueError(f"pixel_std must be positive, got {tuple(pixel_std)}")
        self.register_buffer("pixel_mean", torch.tensor(pixel_mean, dtype=torch.float32).view(-1, 1, 1))
        self.register_buffer("pixel_std", torch.tensor(pixel_std, dtype=torch.float32).view(-1, 1, 1))

    def features(self, pixels: Tensor) -> Tensor:
        """The feature map (B, A, rows, columns) of normalized pixels (B, C, H, W)."""
        raise NotImplementedError

    def unfreeze(self) -> None:
        """Train the weights from now on; no effect unless they are frozen."""

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """The numbers of rows and columns of places in an image of this size."""
        raise NotImplementedError

    def centers(self, height: int, width: int) -> Tensor:
        """The centers (L, 2) of the places in an image of this size, x and y in pixels."""
        rows, columns = self.grid(height, width)
        return grid_centers(rows, columns, height / rows, width / columns)

    def forward(self, images: Tensor) -> Tensor:
        """Encode images (B, C, H, W) as annotations (B, L, A); the one channel of a gray image stands for all C."""
        channels = len(self.pixel_mean)
        if images.dim() != 4 or images.shape[1] not in (1, channels):
            raise ValueError(f"images must have shape (B, {channels}, H, W), got {tuple(images.shape)}")
        pixels = images.to(self.pixel_mean) / (1 if images.is_floating_point() else 255)
        return self.features((pixels - self.pixel_mean) / self.pixel_std).flatten(2).transpose(1, 2)


class SmallEncoder(Encoder):
    """Four convolutions with ReLU, for digits: two of stride 2, one before max pooling, one on the grid.

    Place (i, j) is the square of `stride` pixels that begins at row i * stride, column j * stride. Its receptive field
    is centered on it: 50 x 50 pixels (38 with a stride of 8), more than a digit of 28. A position encoding, linear in
    the center of the place and in sines and cosines of it, is added to the features, so that captions can tell left
    from right and attention can move relative to where it was. There is no batch normalization, so that the encoding of
    an image does not depend on its batch. With 16 channels, an 84 x 84 image of one channel takes 16 million
    multiplications (22 with a stride of 8).
    """

    def __init__(
        self,
        *,
        in_channels: int = 1,
        out_dim: int = 128,
        channels: int = 16,
        stride: int = 12,
        pixel_mean: float = 0.0,
        pixel_std: float = 1.0,
    ):
        """Create the encoder.

        Args:
            in_channels: Channels of an image.
            out_dim: Size A of an annotation.
            channels: Channels of the first convolution; the next two have 2 and 4 times as many.
            stride: Pixels from place to place, 8 or 12: a grid of 11 x 11 or 7 x 7 places in an image of 84 x 84.
            pixel_mean: Subtracted from the image.
            pixel_std: Divides the image.
        """
        if stride not in (8, 12):
            raise ValueError(f"stride must be 8 or 12, got {stride}")
        super().__init__([pixel_mean] * in_channels, [pixel_std] * in_channels)
        self.out_dim = out_dim
        self.stride = stride
        self.layers = nn.Sequential(
            nn.Conv2d(in_channels, channels, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, 2 * channels, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(2 * channels, 4 * channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(stride // 4),
            nn.Conv2d(4 * channels, out_dim, 3, padding=1),
            nn.ReLU(),
        ).to(memory_format=torch.channels_last)  # twice as fast on a CPU
        self.where = nn.Linear(2 + 4 * len(_WAVES), out_dim)
        for layer in self.layers:
            if isinstance(layer, nn.Conv2d):  # torch's default initialization shrinks the signal at every layer
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def features(self, pixels: Tensor) -> Tensor:
        """See `Encoder.features`."""
        height, width = pixels.shape[2:]
        centers = from_pixels(self.centers(height, width).to(pixels), height, width)
        pixels = nn.functional.pad(pixels, (0, -width % self.stride, 0, -height % self.stride))
        phases = math.pi * (centers.unsqueeze(-1) * centers.new_tensor(_WAVES)).flatten(1)
        where = self.where(torch.cat([centers, phases.sin(), phases.cos()], 1))
        return self.layers(pixels) + where.T.view(-1, *self.grid(height, width))

    def centers(self, height: int, width: int) -> Tensor:
        """See `Encoder.centers`."""
        return grid_centers(*self.grid(height, width), self.stride, self.stride)

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """See `Encoder.grid`; the last row and column may extend beyond the edge."""
        return -(-height // self.stride), -(-width // self.stride)
