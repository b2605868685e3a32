"""Encoders: receptive fields, and a backbone joined to the rest of its network against the whole network."""

import math
import os
import sys
import types
from pathlib import Path
from urllib.error import URLError

import pytest
import torch
import torchvision
from safetensors.torch import save_file
from support.tensors import assert_close, draw, draw_bytes, reached
from torch import nn

from glimpse.attention.annotation import Attention
from glimpse.models.backbones import IMAGENET_MEAN, IMAGENET_STD, BackboneEncoder
from glimpse.models.decoder import Decoder
from glimpse.models.encoder_decoder import Captioner
from glimpse.models.glimpses import initialize
from glimpse.models.image_encoders import Encoder, SmallEncoder

MEAN, STD = (torch.tensor(values).view(3, 1, 1) for values in (IMAGENET_MEAN, IMAGENET_STD))


def make_small(**options):
    torch.manual_seed(0)
    return SmallEncoder(**options)


def make_backbone(name="squeezenet1_1", **options):
    torch.manual_seed(0)
    return BackboneEncoder(name=name, **options)


def whole(name="squeezenet1_1", seed=0):
    torch.manual_seed(seed)
    if name != "vgg19":
        return torchvision.models.get_model(name).eval()
    with torch.device("meta"):
        network = torchvision.models.get_model(name)
    network.classifier = nn.Linear(512 * 7 * 7, 10)  # for its own 124 million weights
    initialize(network.features.to_empty(device="cpu"))
    return network.eval()


@pytest.mark.parametrize("make", [make_small, make_backbone])
def test_images_of_another_precision(make):
    encoder, images = make().eval(), torch.rand(2, 3 if make is make_backbone else 1, 64, 64)
    assert_close(encoder(images.double()), encoder(images))


@pytest.mark.parametrize("stride, grid", [(8, (11, 11)), (12, (7, 7))])
def test_small_grid(stride, grid):
    encoder = make_small(stride=stride, out_dim=16)
    assert encoder.grid(84, 84) == grid
    assert encoder(draw(2, 1, 84, 84)).shape == (2, grid[0] * grid[1], 16)
    for height, width in [(1, 1), (28, 60), (47, 49), (100, 13)]:
        rows, columns = encoder.grid(height, width)
        assert (rows, columns) == (-(-height // stride), -(-width // stride))
        assert encoder(draw(1, 1, height, width)).shape == (1, rows * columns, 16)


@pytest.mark.parametrize("stride, side", [(8, 38), (12, 50)])
def test_a_small_place_is_at_the_center_of_its_receptive_field(stride, side):
    encoder = make_small(stride=stride, out_dim=4)
    for i, layer in enumerate(encoder.layers):  # so that every pixel in sight has a gradient
        if isinstance(layer, nn.Conv2d):
            nn.init.ones_(layer.weight)
        if isinstance(layer, nn.MaxPool2d):
            encoder.layers[i] = nn.AvgPool2d(layer.kernel_size, ceil_mode=True)
    images = torch.ones(1, 1, 120, 144, requires_grad=True)
    rows, columns = encoder.grid(120, 144)
    annotations = encoder(images).view(rows, columns, 4)
    (gradient,) = torch.autograd.grad(annotations[4, 6].sum(), images)
    around = (side - stride) // 2
    for place, field in ((4, gradient[0, 0].sum(1)), (6, gradient[0, 0].sum(0))):
        seen = field.nonzero().flatten().tolist()
        assert (seen[0], seen[-1]) == (place * stride - around, (place + 1) * stride + around - 1)


@pytest.mark.parametrize("stride, millions", [(8, 22), (12, 16)])
def test_the_cost_of_the_small_encoder(stride, millions):
    encoder, total = make_small(stride=stride), 0

    def count(layer, _, output):
        nonlocal total
        total += output[0].numel() * layer.weight[0].numel()

    for layer in encoder.layers:
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(count)
    encoder(draw(1, 1, 84, 84))
    assert round(total / 1e6) == millions


def test_the_small_encoder_of_one_image_alone():
    encoder, images = make_small(in_channels=3, pixel_mean=0.2, pixel_std=0.5).train(), draw_bytes(4, 3, 30, 40)
    together = encoder(images)
    assert_close(encoder(images[2:3])[0], together[2], 1e-5)
    assert_close(encoder(images / 255), together, 1e-5)
    by_hand = encoder.layers(nn.functional.pad((images / 255 - 0.2) / 0.5, (0, 8, 0, 6)))
    # The second place of the second row of four: its center is at 18, 18 of 40 x 30 pixels.
    x, y = 18 / 20 - 1, 18 / 15 - 1
    phases = [math.pi * wave * z for z in (x, y) for wave in (0.5, 1, 2)]
    where = encoder.where(torch.tensor([x, y, *map(math.sin, phases), *map(math.cos, phases)]))
    assert_close(together[1, 5], by_hand[1, :, 1, 1] + where, 1e-5)
    assert reached(together.sum(), encoder) == {name for name, _ in encoder.named_parameters()}


def test_the_grid_of_a_size_is_cached(monkeypatch):
    """An attention window needs it in each step."""
    encoder = make_backbone().train()
    monkeypatch.setattr(torch.func, "functional_call", counted := Counted(torch.func.functional_call))
    assert [encoder.grid(96, 64), encoder.grid(96, 64), encoder.grid(64, 128)] == [(5, 3), (5, 3), (3, 7)]
    assert counted.calls == 2 and encoder.training and not encoder.trunk.training


class Counted:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *arguments):
        self.calls += 1
        return self.function(*arguments)


def test_a_captioner_of_digits():
    attention = Attention(state_dim=6, annotation_dim=16)
    sizes = {"vocabulary_size": 9, "embed_dim": 5, "state_dim": 6, "annotation_dim": 16}
    model = Captioner(encoder=make_small(out_dim=16), decoder=Decoder(attention=attention, **sizes))
    images, words = draw_bytes(2, 1, 84, 84), torch.tensor([[1, 4, 2], [1, 5, 2]])
    output = model(images, words)
    assert output.logits.shape == (2, 2, 9) and output.weights.shape == (2, 2, 49)
    assert_close(model(model.encoder(images), words).logits, output.logits)


def rest_of(name, network, features):
    """What the whole network makes of its last feature map."""
    if name == "vgg19":
        return network.classifier(network.avgpool(network.features[-1](features)).flatten(1))
    if name == "resnet18":
        return network.fc(network.avgpool(features).flatten(1))
    return network.classifier(features).flatten(1)


@pytest.mark.parametrize(
    "name, size, grids",
    [
        ("squeezenet1_1", 512, {(224, 224): (13, 13), (96, 64): (5, 3)}),
        ("resnet18", 512, {(224, 224): (7, 7), (96, 64): (3, 2)}),
        ("vgg19", 512, {(224, 224): (14, 14), (96, 64): (6, 4)}),
    ],
)
def test_a_backbone_is_the_network_before_its_pooling(name, size, grids, monkeypatch):
    network = whole(name)
    monkeypatch.setattr(torchvision.models, "get_model", lambda *args, **options: network)
    encoder = make_backbone(name)
    assert encoder.out_dim == size
    assert {shape: encoder.grid(*shape) for shape in grids} == grids
    images = draw_bytes(2, 3, 96, 64)
    with torch.no_grad():
        annotations = encoder(images)
        rows, columns = grids[96, 64]
        assert annotations.shape == (2, rows * columns, size)
        features = annotations.transpose(1, 2).unflatten(2, (rows, columns))
        expected = network((images / 255 - MEAN) / STD)
    assert_close(rest_of(name, network, features), expected, 1e-4)
    assert expected.std() > 1e-3


def test_networks_of_other_families():
    """Pooled in a module or in passing, with or without `features`, even channels last inside."""
    found = {
        name: (encoder.out_dim, encoder.grid(64, 96))
        for name in ("mobilenet_v3_small", "shufflenet_v2_x0_5", "mnasnet0_5", "swin_t")
        for encoder in [make_backbone(name)]
    }
    assert found == {
        "mobilenet_v3_small": (576, (2, 3)),
        "shufflenet_v2_x0_5": (1024, (2, 3)),
        "mnasnet0_5": (1280, (2, 3)),
        "swin_t": (768, (2, 3)),
    }


def test_pixels_of_a_backbone():
    encoder = make_backbone(pixel_mean=(0.1, 0.2, 0.3), pixel_std=(0.5, 0.6, 0.7))
    images = draw_bytes(2, 3, 64, 64)
    pixels = torch.stack([(images[:, c] / 255 - (0.1, 0.2, 0.3)[c]) / (0.5, 0.6, 0.7)[c] for c in range(3)], 1)
    assert_close(encoder(images).transpose(1, 2), encoder.trunk(pixels).flatten(2), 1e-5)
    assert_close(encoder(images / 255), encoder(images), 1e-5)
    gray = images[:, :1]
    assert torch.equal(encoder(gray), encoder(gray.expand(-1, 3, -1, -1)))


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
@pytest.mark.parametrize("classifier", [True, False])
def test_weights_from_a_file(tmp_path, suffix, classifier):
    network, path = whole("shufflenet_v2_x0_5", seed=1), tmp_path / f"weights{suffix}"
    state = {key: value for key, value in network.state_dict().items() if classifier or not key.startswith("fc.")}
    (torch.save if suffix == ".pth" else save_file)(state, path)
    images = draw_bytes(1, 3, 64, 64)
    loaded = make_backbone("shufflenet_v2_x0_5", weights=str(path))
    torch.manual_seed(1)
    expected = BackboneEncoder(name="shufflenet_v2_x0_5")
    assert torch.equal(loaded(images), expected(images))
    assert not torch.equal(loaded(images), make_backbone("shufflenet_v2_x0_5")(images))


PUBLISHED = Path(os.environ.get("GLIMPSE_TEST_WEIGHTS", "")) / "squeezenet1_1.pth"


@pytest.mark.skipif(not PUBLISHED.is_file(), reason="GLIMPSE_TEST_WEIGHTS names no folder with squeezenet1_1.pth")
def test_published_weights():
    encoder, network = make_backbone(weights=PUBLISHED), whole()
    network.load_state_dict(torch.load(PUBLISHED, weights_only=True))
    images = draw_bytes(1, 3, 224, 224)
    features = encoder(images).transpose(1, 2).unflatten(2, encoder.grid(224, 224))
    assert_close(network.classifier(features).flatten(1), network((images / 255 - MEAN) / STD), 1e-4)


def test_default_weights_are_those_of_the_library(monkeypatch):
    state = whole(seed=1).state_dict()
    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", lambda *args, **options: state)
    encoder = make_backbone(weights="default")
    assert torch.equal(encoder.trunk.state_dict()["features.0.weight"], state["features.0.weight"])


def test_a_frozen_backbone():
    encoder = make_backbone("resnet18").train()
    before = {key: value.clone() for key, value in encoder.state_dict().items()}
    images = draw(3, 3, 64, 64)
    assert not encoder(images).requires_grad
    assert encoder.training and not any(module.training for module in encoder.trunk.modules())
    assert all(torch.equal(value, before[key]) for key, value in encoder.state_dict().items())
    assert_close(encoder(images[:1])[0], encoder(images)[0], 1e-4)


def test_an_unfrozen_backbone():
    encoder = make_backbone("resnet18")
    encoder.unfreeze()
    assert encoder.trunk.training and not encoder.trunk.bn1.training
    before = {key: value.clone() for key, value in encoder.state_dict().items()}
    annotations = encoder(draw(3, 3, 64, 64))
    assert reached(annotations.sum(), encoder) == {name for name, _ in encoder.named_parameters()}
    assert all(torch.equal(value, before[key]) for key, value in encoder.state_dict().items())
    encoder.eval()
    assert not any(module.training for module in encoder.modules())
    encoder.unfreeze()
    assert not any(module.training for module in encoder.modules())
    assert make_backbone(frozen=False)(draw(1, 3, 64, 64)).requires_grad


def test_computing_the_grid_changes_no_state():
    encoder = make_backbone("resnet18", frozen=False)
    before = {key: value.clone() for key, value in encoder.state_dict().items()}
    encoder.grid(32, 32)
    assert all(torch.equal(value, before[key]) for key, value in encoder.state_dict().items())
    assert encoder.trunk.training


class Pyramid(nn.Module):
    """A network as timm makes them."""

    default_cfg = {"classifier": "head.fc"}

    def __init__(self, axes=(0, 1, 2, 3)):
        super().__init__()
        self.axes = axes
        self.stem = nn.Conv2d(3, 128, 3, stride=16, padding=1)

    def forward_features(self, x):
        return self.stem(x).permute(self.axes)


def fake_timm(monkeypatch, make):
    timm = types.ModuleType("timm")
    timm.create_model = make
    monkeypatch.setitem(sys.modules, "timm", timm)


def test_a_network_of_timm(monkeypatch, tmp_path):
    calls = []
    fake_timm(monkeypatch, lambda name, **options: calls.append((name, options)) or Pyramid())
    network, path = Pyramid(), tmp_path / "pyramid.safetensors"
    save_file({**network.state_dict(), "head.fc.weight": torch.zeros(2)}, path)
    encoder = BackboneEncoder(name="timm:pyramid", weights=path)
    images = draw_bytes(2, 3, 64, 80)
    expected = network.stem((images / 255 - MEAN) / STD)
    assert_close(encoder(images), expected.flatten(2).transpose(1, 2), 1e-5)
    assert (encoder.out_dim, encoder.grid(64, 80)) == (128, (4, 5))
    BackboneEncoder(name="timm:pyramid", weights="default")
    assert calls == [("pyramid", {"pretrained": pretrained, "num_classes": 0}) for pretrained in (False, True)]


def test_timm_is_optional(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ValueError, match="timm:resnet50 needs the package timm: pip install timm"):
        make_backbone("timm:resnet50")


def test_networks_that_cannot_be_made(monkeypatch):
    with pytest.raises(ValueError, match="name must be 'timm:NAME' or one of alexnet, .*, vgg19.*, got 'vgg20'"):
        make_backbone("vgg20")

    def refuse(*args, **options):
        raise URLError("no route")

    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", refuse)
    with pytest.raises(
        ValueError, match="cannot make squeezenet1_1 with weights 'default': .*no route.*; weights may also be a file$"
    ):
        make_backbone(weights="default")

    def unknown(name, **options):
        raise RuntimeError(f"Unknown model ({name})")

    fake_timm(monkeypatch, unknown)
    with pytest.raises(ValueError, match=r"cannot make timm:vgg20 with weights None: Unknown model \(vgg20\)$"):
        make_backbone("timm:vgg20")


def test_networks_without_a_feature_map(monkeypatch):
    with pytest.raises(ValueError, match="name must be a network that runs without its pooling, got 'maxvit_t': "):
        make_backbone("maxvit_t")
    fake_timm(monkeypatch, lambda name, **options: Pyramid((0, 2, 3, 1)))
    with pytest.raises(ValueError, match=r"must make a feature map \(B, A, rows, columns\), got \(1, 4, 6, 128\)"):
        make_backbone("timm:channels_last")


def test_files_that_cannot_be_used(tmp_path):
    state = whole().state_dict()
    path = tmp_path / "weights.pth"
    with pytest.raises(ValueError, match="cannot read the weights of squeezenet1_1 from .*nowhere"):
        make_backbone(weights=tmp_path / "nowhere.pth")
    for suffix in (".pth", ".safetensors"):
        for content in (b"", b"no weights at all"):
            path.with_suffix(suffix).write_bytes(content)
            with pytest.raises(ValueError, match="cannot read the weights of squeezenet1_1 from .*weights"):
                make_backbone(weights=path.with_suffix(suffix))
    torch.save([1, 2], path)
    with pytest.raises(ValueError, match="must hold a state_dict, got list"):
        make_backbone(weights=path)
    renamed = {key.replace("features.0.weight", "first.weight"): value for key, value in state.items()}
    torch.save(renamed, path)
    with pytest.raises(
        ValueError, match="must hold the weights of squeezenet1_1: missing features.0.weight; unexpected first.weight$"
    ):
        make_backbone(weights=path)
    torch.save({}, path)
    with pytest.raises(ValueError, match=r"missing features.0.weight, features.0.bias, .* and \d+ more$"):
        make_backbone(weights=path)
    torch.save({**state, "features.0.weight": torch.zeros(1)}, path)
    with pytest.raises(
        ValueError, match="(?s)must hold the weights of squeezenet1_1: .*mismatch for features.0.weight"
    ):
        make_backbone(weights=path)


def test_invalid_arguments():
    with pytest.raises(ValueError, match="stride must be 8 or 12, got 10"):
        make_small(stride=10)
    with pytest.raises(ValueError, match=r"pixel_std must be positive, got \(0.0,\)"):
        make_small(pixel_std=0.0)
    with pytest.raises(ValueError, match="pixel_mean and pixel_std must have the same length, got 1 and 3"):
        make_backbone(pixel_mean=(0.5,))
    with pytest.raises(ValueError, match=r"images must have shape \(B, 3, H, W\), got \(1, 2, 8, 8\)"):
        make_small(in_channels=3)(torch.zeros(1, 2, 8, 8))
    with pytest.raises(ValueError, match=r"images must have shape \(B, 1, H, W\), got \(1, 8, 8\)"):
        make_small()(torch.zeros(1, 8, 8))
    for method in (lambda: Encoder([0.0], [1.0]).features(None), lambda: Encoder([0.0], [1.0]).grid(1, 1)):
        with pytest.raises(NotImplementedError):
            method()


def test_centers_of_places():
    small = make_small(stride=8).centers(84, 84)
    assert small.shape == (121, 2) and small[0].tolist() == [4.0, 4.0] and small[12].tolist() == [12.0, 12.0]
    assert small[1].tolist() == [12.0, 4.0]  # along the row
    even = make_small().__class__.__mro__[1].centers(make_small(), 84, 96)  # of any encoder: the image, divided evenly
    assert even.shape == (7 * 8, 2) and even[-1].tolist() == [90.0, 78.0]


def test_a_real_network_of_timm():
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    encoder = BackboneEncoder(name="timm:tf_efficientnet_lite0")
    config = timm.create_model("tf_efficientnet_lite0").default_cfg
    assert encoder.pixel_mean.flatten().tolist() == list(config["mean"]) == [0.5, 0.5, 0.5]
    assert encoder.pixel_std.flatten().tolist() == list(config["std"])
    images = draw_bytes(2, 3, 64, 96)
    assert encoder(images).shape == (2, 2 * 3, encoder.out_dim) and encoder.grid(64, 96) == (2, 3)
    network = encoder.trunk.network
    expected = network.forward_features((images / 255 - 0.5) / 0.5).flatten(2).transpose(1, 2)
    assert_close(encoder(images), expected, 1e-4)


def test_the_feature_map_of_a_densenet_ends_with_its_relu():
    encoder = make_backbone("densenet121")
    annotations = encoder(draw(1, 3, 64, 64))
    assert (annotations >= 0).all() and (annotations == 0).any()


@pytest.mark.parametrize("name", ["googlenet", "inception_v3"])
@pytest.mark.filterwarnings("ignore:The default weight initialization")
def test_networks_with_auxiliary_classifiers(name):
    with pytest.raises(ValueError, match=f"name must be a network without auxiliary classifiers, got '{name}'"):
        BackboneEncoder(name=name)
