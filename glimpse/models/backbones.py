"""Trunks of torchvision and timm as image encoders.

Shapes: B batch, C channels, H height, W width, L places, A annotation size.
"""

from collections import OrderedDict
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import safetensors.torch
import torch
import torchvision.models
from torch import Tensor, nn

from glimpse.models.image_encoders import Encoder

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Children of a network from which on there is no map of features any more.
_ENDS = ("avgpool", "flatten", "dropout", "classifier", "fc", "head", "heads")


class BackboneEncoder(Encoder):
    """The last map of features of a classification network, before it is pooled over the image.

    A pooling layer at the end of the map itself goes too: vgg19 gives its last convolution, 14 x 14 x 512 for an image
    of 224 x 224 as in the paper. Nothing is resized: give images of the size the network was trained with.
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
            name: A classification network of torchvision, such as vgg19 or resnet50; or one of timm, as "timm:NAME".
            weights: None for random ones; "default" for those the library downloads; or a file of the network's
                state_dict, with or without its classifier, as .safetensors or as saved by torch.
            frozen: Whether it stays as it is, without gradients and in evaluation mode, until `unfreeze`. Batch
                normalization is as in evaluation even then: images are encoded the same in any batch.
            pixel_mean: Subtracted from each channel; if not given, what timm says of the network, else ImageNet's.
            pixel_std: Divides each channel; as `pixel_mean`.
        """
        make = _timm_trunk if name.startswith("timm:") else _torchvision_trunk
        try:
            trunk, mean, std = make(name.removeprefix("timm:"), weights)
        except (OSError, RuntimeError) as error:
            hint = "; a file will do too" if weights == "default" else ""
            raise ValueError(f"cannot make {name} with weights {weights!r}: {error}{hint}") from error
        super().__init__(pixel_mean or mean, pixel_std or std)
        self.trunk = trunk.to(memory_format=torch.channels_last)  # three times as fast on a CPU
        self.frozen = frozen
        self.trunk.requires_grad_(not frozen)
        self.train()
        self._shapes: dict[tuple[int, int], torch.Size] = {}
        size = (64, 96)  # not square, so that a map whose axes are in another order shows itself
        try:
            shape = self._shape(*size)
        except (AssertionError, RuntimeError) as error:
            raise ValueError(f"{name} cannot be cut before its pooling: {error}") from error
        if len(shape) != 4 or shape[2] > size[0] or shape[3] > size[1]:
            raise ValueError(
                f"{name} must make a map of features (B, A, rows, columns), got {tuple(shape)} of an image of 64 x 96"
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
        """Set training or evaluation mode; what is frozen, and batch normalization, stay in evaluation."""
        super().train(mode)
        for module in self.trunk.modules():
            if self.frozen or isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.training = False
        return self

    def unfreeze(self) -> None:
        """Let the network learn from now on."""
        self.frozen = False
        self.trunk.requires_grad_(True)
        self.train(self.training)

    def _shape(self, height: int, width: int) -> torch.Size:
        """The shape of the map of one image, by a run without numbers, once for each size."""
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
    """A network of timm up to its last map of features."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> Tensor:
        return self.network.forward_features(pixels)


Trunk = tuple[nn.Module, Sequence[float], Sequence[float]]  # with the mean and the std of what it was trained on


def _torchvision_trunk(name: str, weights: str | Path | None) -> Trunk:
    """What makes the last map of features of a network of torchvision."""
    names = torchvision.models.list_models(module=torchvision.models)
    if name not in names:
        raise ValueError(f"name must be 'timm:NAME' or one of {', '.join(names)}, got {name!r}")
    network = torchvision.models.get_model(name, weights="DEFAULT" if weights == "default" else None)
    if hasattr(network, "aux_logits"):
        raise ValueError(f"{name} has classifiers in its middle, and is not one that can be cut before its pooling")
    children = dict(network.named_children())
    left_out = next((i for i, child in enumerate(children) if child in _ENDS), len(children))
    kept = dict(list(children.items())[:left_out])
    if isinstance(kept.get("features"), nn.Sequential) and isinstance(kept["features"][-1], nn.MaxPool2d):
        kept["features"] = kept["features"][:-1]
    if isinstance(network, torchvision.models.DenseNet):
        kept["relu"] = nn.ReLU()  # which it applies on its way to the pooling
    trunk = nn.Sequential(OrderedDict(kept))  # its weights have the names they had
    _load(trunk, weights, name, [child for child in children if child not in kept])
    return trunk, IMAGENET_MEAN, IMAGENET_STD


def _timm_trunk(name: str, weights: str | Path | None) -> Trunk:
    """What makes the last map of features of a network of timm."""
    try:
        timm = import_module("timm")
    except ImportError as error:
        raise ValueError(f"timm:{name} needs the package timm: pip install timm") from error
    network = timm.create_model(name, pretrained=weights == "default", num_classes=0)
    classifier = network.default_cfg["classifier"]
    _load(network, weights, f"timm:{name}", [classifier] if isinstance(classifier, str) else classifier)
    about = network.default_cfg
    return _TimmTrunk(network), about.get("mean", IMAGENET_MEAN), about.get("std", IMAGENET_STD)


def _load(network: nn.Module, weights: str | Path | None, name: str, optional: Sequence[str]) -> None:
    """Load weights from a file, if it is one that is asked for; those of the optional parts are of no use."""
    if weights is None or weights == "default":
        return
    try:
        if Path(weights).suffix == ".safetensors":
            state = safetensors.torch.load_file(weights)
        else:
            state = torch.load(weights, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever comes of reading a file that is not what it should be
        raise ValueError(f"cannot read the weights of {name} from {weights}: {_line(error)}") from error
    if not isinstance(state, dict):
        raise ValueError(f"{weights} must hold a state_dict, got {type(state).__name__}")
    try:
        missing, unexpected = network.load_state_dict(state, strict=False)
    except RuntimeError as error:  # sizes that differ
        raise ValueError(f"{weights} holds the weights of another network than {name}: {_line(error)}") from error
    unexpected = [key for key in unexpected if not key.startswith(tuple(f"{part}." for part in optional))]
    problems = [f"it lacks {_some(missing)}"] * bool(missing) + [f"it has also {_some(unexpected)}"] * bool(unexpected)
    if problems:
        raise ValueError(f"{weights} holds the weights of another network than {name}: {'; '.join(problems)}")


def _some(keys: list[str], most: int = 5) -> str:
    return ", ".join(keys[:most]) + (f" and {len(keys) - most} more" if len(keys) > most else "")


def _line(error: Exception) -> str:
    """What torch says on several lines, on one."""
    return " ".join(str(error).split())
