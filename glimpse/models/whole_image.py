"""Whole-image networks: the baselines that read every pixel, to compare recurrent attention with.

"mlp" is the paper's (Recurrent Models of Visual Attention, arXiv:1406.6247): two fully connected ReLU layers. "cnn" is
four 3 x 3 convolutions of stride 2, global max pooling and one fully connected ReLU layer.

Both return a `Rollout` of one step without glimpses, so that the same code trains, scores and compares all classifiers.

Shapes: B batch, C channels, H height, W width.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from glimpse.attention.distributions import Noise
from glimpse.attention.reading import renamed_keywords
from glimpse.attention.settings import ReadMode
from glimpse.models.glimpses import initialize
from glimpse.models.rollout import Rollout

NetworkKind = Literal["cnn", "mlp"]


class WholeImage(nn.Module):
    """A feed-forward network over the whole image."""

    attends = False
    mode: ReadMode | None = None
    needs_boxes = False
    attention: None = None
    is_random = False
    num_choices = 0
    pixel_mean: Tensor
    pixel_std: Tensor

    def __init__(
        self,
        *,
        kind: NetworkKind,
        image_shape: tuple[int, int, int],
        num_classes: int,
        hidden_dim: int = 256,
        conv_channels: int = 32,
        pixel_mean: float = 0.0,
        pixel_std: float = 1.0,
    ):
        """Create the network.

        Args:
            kind: "cnn" or "mlp".
            image_shape: (C, H, W); only "mlp" depends on H and W.
            num_classes: Number of classes.
            hidden_dim: Size of the fully connected layers.
            conv_channels: Channels of the second convolution; the first has half as many, the next two have 2 and 4
                times as many.
            pixel_mean: Subtracted from the image.
            pixel_std: Divides the image.
        """
        super().__init__()
        channels, height, width = image_shape
        if kind == "mlp":
            features = [nn.Flatten(), nn.Linear(channels * height * width, hidden_dim), nn.ReLU()]
            feature_dim = hidden_dim
        elif kind == "cnn":
            features = []
            for out_channels in (conv_channels // 2, conv_channels, 2 * conv_channels, 4 * conv_channels):
                features += [nn.Conv2d(channels, out_channels, 3, stride=2, padding=1), nn.ReLU()]
                channels = out_channels
            features += [nn.AdaptiveMaxPool2d(1), nn.Flatten()]
            feature_dim = channels
        else:
            raise ValueError(f"kind must be 'cnn' or 'mlp', got {kind!r}")
        self.features = nn.Sequential(*features)
        self.classify = nn.Sequential(nn.Linear(feature_dim, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, num_classes))
        initialize(self.features)
        initialize(self.classify[0])
        self.register_buffer("pixel_mean", torch.tensor(float(pixel_mean)))
        self.register_buffer("pixel_std", torch.tensor(float(pixel_std)))

    def logits(self, images: Tensor) -> Tensor:
        """Classify images (B, C, H, W), floating point in [0, 1] or uint8: (B, classes)."""
        pixels = images.to(self.pixel_mean) / (1 if images.is_floating_point() else 255)
        return self.classify(self.features((pixels - self.pixel_mean) / self.pixel_std))

    def attention_parameters(self) -> list[nn.Parameter]:
        """The empty list: there is no attention."""
        return []

    @renamed_keywords(how="mode", given="locations")
    def forward(
        self,
        images: Tensor,
        *,
        mode: ReadMode | None = None,
        sample: bool = True,
        noise: Noise | None = None,
        boxes: Tensor | None = None,
        locations: Tensor | None = None,
        straight_through: bool = False,
    ) -> Rollout:
        """Predict class logits as a rollout of one step; the other arguments have no effect without glimpses."""
        return Rollout.without_glimpses(self.logits(images).unsqueeze(1))
