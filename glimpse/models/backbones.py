"""Pretrained classification networks of torchvision and timm as image encoders.

Shapes: B batch, C channels, H height, W width, A annotation size.
"""

from collections import OrderedDict
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import torchvision.models
from torch import Tensor, nn

from glimpse.models.image_encoders import Encoder

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Submodules that pool or flatten the feature map: the trunk ends before the first of them.
_HEADS = ("avgpool", "flatten", "dropout", "classifier", "fc", "head", "heads")


class BackboneEncoder(Encoder):
    """The last feature map of a classification network, before global pooling.

    A max-pooling layer at the end of the feature map is removed too: vgg19 ends with its last convolution,
    14 x 14 x 512 for an image of 224 x 224, as in the paper. Images are not resized: they should have the size that the
    network was trained with.
    """

    def __init__(
        self,
        *,
        name: str,
        weights: str | Path | None = None,
        frozen: bool = True,
        pixel_mean: Sequence[float] | None = None,
        pixel_std: Sequence[float] | None = None,
    ):
        """Create the encoder.

        Args:
            name: A classification network of torchvision, such as vgg19 or resnet50; or "timm:NAME", one of timm.
            weights: "default", the pretrained weights that the library downloads; a file with the network's state_dict,
                with or without its classifier, .safetensors or saved by torch; or None, random weights.
            frozen: Whether the network has no gradients and stays in evaluation mode until `unfreeze`. Batch
                normalization stays in evaluation mode even then, so that encodings do not depend on the batch.
            pixel_mean: Subtracted from each channel; None: the mean that timm names, for torchvision ImageNet's.
            pixel_std: Divides each channel; None: as for `pixel_mean`.
        """
        make_trunk = _timm_trunk if name.startswith("timm:") else _torchvision_trunk
        try:
            trunk, mean, std = make_trunk(name.removeprefix("timm:"), weights)
        except (OSError, RuntimeError) as error:
            hint = "; weights may also be a file" if weights == "default" else ""
            raise ValueError(f"cannot make {name} with weights {weights!r}: {error}{hint}") from error
        super().__init__(pixel_mean or mean, pixel_std or std)
        self.trunk = trunk.to(memory_format=torch.channels_last)  # three times as fast on a CPU
        self.frozen = frozen
        self.trunk.requires_grad_(not frozen)
        self.train()
        self._shapes: dict[tuple[int, int], torch.Size] = {}
        size = (64, 96)  # not square, to detect a feature map whose axes are in another order
        try:
            shape = self._shape(*size)
        except (AssertionError, RuntimeError) as error:
            raise ValueError(f"name must be a network that runs without its pooling, got {name!r}: {error}") from error
        if len(shape) != 4 or shape[2] > size[0] or shape[3] > size[1]:
            raise ValueError(
                f"{name} must make a feature map (B, A, rows, columns), got {tuple(shape)} for an image of 64 x 96"
            )
        self.out_dim = shape[1]

    def features(self, pixels: Tensor) -> Tensor:
        """See `Encoder.features`."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            return self.trunk(pixels.contiguous(memory_format=torch.channels_last))

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """See `Encoder.grid`."""
        _, _, rows, columns = self._shape(height, width)
        return rows, columns

    def train(self, mode: bool = True) -> "BackboneEncoder":
        """Set training or evaluation mode; a frozen network, and batch normalization, stay in evaluation mode."""
        super().train(mode)
        for module in self.trunk.modules():
            if self.frozen or isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.training = False
        return self

    def unfreeze(self) -> None:
        """Train the network from now on."""
        self.frozen = False
        self.trunk.requires_grad_(True)
        self.train(self.training)

    def _shape(self, height: int, width: int) -> torch.Size:
        """The shape of the feature map of one image, from a forward pass on the meta device; cached by size."""
        if (height, width) in self._shapes:
            return self._shapes[height, width]
        named = [*self.trunk.named_parameters(), *self.trunk.named_buffers()]
        tensors = {key: value.detach().to("meta") for key, value in named}
        pixels = torch.empty(1, len(self.pixel_mean), height, width, device="meta")
        self.trunk.eval()
        shape = torch.func.functional_call(self.trunk, tensors, (pixels,)).shape
        self.train(self.training)
        self._shapes[height, width] = shape
        return shape


class _TimmTrunk(nn.Module):
    """A network of timm up to its last feature map."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network: Any = network  # timm has no type information

    def forward(self, pixels: Tensor) -> Tensor:
        return self.network.forward_features(pixels)


Trunk = tuple[nn.Module, Sequence[float], Sequence[float]]  # with mean and std of the pixels it was trained on


def _torchvision_trunk(name: str, weights: str | Path | None) -> Trunk:
    """A network of torchvision up to its last feature map."""
    names = torchvision.models.list_models(module=torchvision.models)
    if name not in names:
        raise ValueError(f"name must be 'timm:NAME' or one of {', '.join(names)}, got {name!r}")
    network = torchvision.models.get_model(name, weights="DEFAULT" if weights == "default" else None)
    if hasattr(network, "aux_logits"):
        raise ValueError(f"name must be a network without auxiliary classifiers, got {name!r}")
    children = dict(network.named_children())
    left_out = next((i for i, child in enumerate(children) if child in _HEADS), len(children))
    kept = dict(list(children.items())[:left_out])
    if isinstance(kept.get("features"), nn.Sequential) and isinstance(kept["features"][-1], nn.MaxPool2d):
        kept["features"] = kept["features"][:-1]
    if isinstance(network, torchvision.models.DenseNet):
        kept["relu"] = nn.ReLU()  # in a DenseNet, part of `forward` instead of a submodule
    trunk = nn.Sequential(OrderedDict(kept))  # keeps the names of the weights
    _load(trunk, weights, name, [child for child in children if child not in kept])
    return trunk, IMAGENET_MEAN, IMAGENET_STD


def _timm_trunk(name: str, weights: str | Path | None) -> Trunk:
    """A network of timm up to its last feature map."""
    try:
        timm = import_module("timm")
    except ImportError as error:
        raise ValueError(f"timm:{name} needs the package timm: pip install timm") from error
    network = timm.create_model(name, pretrained=weights == "default", num_classes=0)
    config = network.default_cfg
    classifier = config["classifier"]
    _load(network, weights, f"timm:{name}", [classifier] if isinstance(classifier, str) else classifier)
    return _TimmTrunk(network), config.get("mean", IMAGENET_MEAN), config.get("std", IMAGENET_STD)


def _load(network: nn.Module, weights: str | Path | None, name: str, optional: Sequence[str]) -> None:
    """Load weights from a file, if `weights` is one; it may or may not hold those of the `optional` submodules."""
    if weights is None or weights == "default":
        return
    try:
        if Path(weights).suffix == ".safetensors":
            state = safetensors.torch.load_file(weights)
        else:
            state = torch.load(weights, map_location="cpu", weights_only=True)
    except Exception as error:  # torch and safetensors document no errors for malformed files
        raise ValueError(f"cannot read the weights of {name} from {weights}: {_one_line(error)}") from error
    if not isinstance(state, dict):
        raise ValueError(f"{weights} must hold a state_dict, got {type(state).__name__}")
    try:
        missing, unexpected = network.load_state_dict(state, strict=False)
    except RuntimeError as error:  # shapes differ
        raise ValueError(f"{weights} must hold the weights of {name}: {_one_line(error)}") from error
    unexpected = [key for key in unexpected if not key.startswith(tuple(f"{module}." for module in optional))]
    problems = [
        f"{label} {_abbreviate(keys)}" for label, keys in (("missing", missing), ("unexpected", unexpected)) if keys
    ]
    if problems:
        raise ValueError(f"{weights} must hold the weights of {name}: {'; '.join(problems)}")


def _abbreviate(keys: list[str], count: int = 5) -> str:
    return ", ".join(keys[:count]) + (f" and {len(keys) - count} more" if len(keys) > count else "")


def _one_line(error: Exception) -> str:
    """The message of an error, its lines joined."""
    return " ".join(str(error).split())
