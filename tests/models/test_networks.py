"""The glimpse network and the core against their formulas."""

import pytest
import torch
from support.tensors import assert_close, draw
from torch import nn

from glimpse.attention.sensor import Sensor
from glimpse.models.glimpses import GlimpseNetwork, RecurrentCore, initialize, what_path

BATCH = 4


def make_network(**settings):
    torch.manual_seed(0)
    settings = {"in_channels": 2, "patch_size": 3, "what_dim": 5, "where_dim": 6, "out_dim": 7} | settings
    return GlimpseNetwork(**settings).double()


def make_core(kind, **settings):
    torch.manual_seed(0)
    return RecurrentCore(kind=kind, input_dim=5, state_dim=6, **settings).double()


def linear(layer, x):
    return x @ layer.weight.T + layer.bias


def some_patches(channels=2, size=3):
    return draw(BATCH, channels, size, size, dtype=torch.float64)


def some_locations():
    return draw(BATCH, 2, seed=1, dtype=torch.float64) * 2 - 1


def test_fc_path_is_one_layer():
    path = what_path("fc", in_channels=2, patch_size=3, out_dim=5).double()
    assert_close(path(some_patches()), linear(path[1], some_patches().view(BATCH, -1)).clamp(min=0), 1e-12)


@pytest.mark.parametrize("patch_size", [1, 2, 3, 4, 5, 8, 9])
def test_conv_path_is_two_convolutions_and_a_layer(patch_size):
    path = what_path("conv", in_channels=3, patch_size=patch_size, out_dim=5, conv_channels=6).double()
    patches = some_patches(3, patch_size)
    fine, coarse, dense = path[0], path[2], path[5]
    hidden = nn.functional.conv2d(patches, fine.weight, fine.bias, padding=1).clamp(min=0)
    hidden = nn.functional.conv2d(hidden, coarse.weight, coarse.bias, stride=2, padding=1).clamp(min=0)
    assert hidden.shape == (BATCH, 6, (patch_size + 1) // 2, (patch_size + 1) // 2)
    assert_close(path(patches), linear(dense, hidden.flatten(1)).clamp(min=0), 1e-12)


def test_more_convolutions_keep_the_size():
    path = what_path("conv", in_channels=3, patch_size=5, out_dim=5, conv_channels=6, conv_layers=4).double()
    layers = [layer for layer in path if isinstance(layer, nn.Conv2d)]
    assert [(layer.in_channels, layer.out_channels, layer.stride[0]) for layer in layers] == [
        (3, 3, 1),
        (3, 6, 2),
        (6, 6, 1),
        (6, 6, 1),
    ]
    hidden = some_patches(3, 5)
    for layer in layers:
        hidden = layer(hidden).clamp(min=0)
    assert_close(path(some_patches(3, 5)), linear(path[-2], hidden.flatten(1)).clamp(min=0), 1e-12)
    with pytest.raises(ValueError, match="conv_layers must be at least 2, got 1"):
        what_path("conv", in_channels=3, patch_size=5, out_dim=5, conv_layers=1)


@torch.no_grad()
def test_initial_weights_keep_the_size_of_signals():
    """After a ReLU the mean square is that before it, at any depth; torch's own weights shrink it sixfold a layer."""
    torch.manual_seed(0)
    network = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(400, 400), nn.ReLU())])
    signal = torch.randn(200, 400)
    before = network(signal).square().mean()
    initialize(network)
    after = network(signal).square().mean()
    assert float(before) < 0.01 and 0.7 < float(after) < 1.4
    conv = nn.Conv2d(16, 64, 3)
    initialize(conv)
    assert float(conv.weight.std()) == pytest.approx((2 / 144) ** 0.5, rel=0.05) and not conv.bias.any()


@torch.no_grad()
def test_glimpse_networks_are_initialized_so():
    network = GlimpseNetwork(in_channels=3, patch_size=12, what="conv")
    assert float(network.what[0].weight.std()) == pytest.approx((2 / 27) ** 0.5, rel=0.15)
    assert not any(bias.any() for name, bias in network.named_parameters() if name.endswith("bias"))


def test_unknown_path():
    with pytest.raises(ValueError, match="kind must be 'fc' or 'conv', got 'mlp'"):
        what_path("mlp", in_channels=1, patch_size=3, out_dim=5)


@pytest.mark.parametrize("what", ["fc", "conv"])
def test_glimpse_joins_what_and_where(what):
    network = make_network(what=what)
    assert network.out_dim == 7
    patches, locations = some_patches(), some_locations()
    seen = network.what(patches)
    where = linear(network.where[0], locations).clamp(min=0)
    expected = (linear(network.join_what, seen) + linear(network.join_where, where)).clamp(min=0)
    assert_close(network(patches, locations), expected, 1e-12)
    assert (expected > 0).any() and (expected == 0).any()


def test_pixels_are_normalized():
    plain, normalizing = make_network(), make_network(pixel_mean=0.25, pixel_std=0.5)
    patches, locations = some_patches(), some_locations()
    assert_close(normalizing(patches, locations), plain((patches - 0.25) / 0.5, locations), 1e-12)
    assert "pixel_mean" in normalizing.state_dict()


def test_normalizing_patches_hides_the_edge_of_the_image():
    """An empty image has no visible edge; normalizing it before the sensor pads it would make one."""
    network, sensor = make_network(in_channels=1, pixel_mean=0.25, pixel_std=0.5), Sensor(patch_size=3)
    edge, inside = torch.tensor([[-1.0, -1.0]]), torch.tensor([[0.01, 0.01]])
    empty = torch.zeros(1, 1, 9, 9, dtype=torch.float64)
    same_location = torch.zeros(1, 2, dtype=torch.float64)

    def seen(images, location, network):
        return network(sensor.view(images).at(location), same_location)

    assert torch.equal(seen(empty, edge, network), seen(empty, inside, network))
    normalized, plain = (empty - 0.25) / 0.5, make_network(in_channels=1)
    assert_close(seen(normalized, inside, plain), seen(empty, inside, network), 1e-12)
    assert not torch.allclose(seen(normalized, edge, plain), seen(normalized, inside, plain))


def run(core, glimpses):
    """The states after each of a list of glimpse vectors."""
    state, states = core.initial(BATCH), []
    for glimpse in glimpses:
        state = core(glimpse, state)
        states.append(state)
    return states


def some_glimpses(steps=3):
    return list(draw(steps, BATCH, 5, dtype=torch.float64) * 2 - 1)


def test_rnn_core_is_relu_of_two_linear_maps():
    core = make_core("rnn")
    weights = core.cell.state_dict()
    output = torch.zeros(BATCH, 6, dtype=torch.float64)
    for glimpse, state in zip(some_glimpses(), run(core, some_glimpses()), strict=True):
        from_glimpse = glimpse @ weights["weight_ih"].T + weights["bias_ih"]
        output = (from_glimpse + output @ weights["weight_hh"].T + weights["bias_hh"]).clamp(min=0)
        assert len(state) == 1
        assert_close(state[0], output, 1e-12)
    assert (output > 0).any() and (output == 0).any()


@pytest.mark.parametrize("kind, whole", [("gru", nn.GRU), ("lstm", nn.LSTM)])
def test_gated_cores_are_those_of_torch(kind, whole):
    core = make_core(kind)
    reference = whole(5, 6).double()
    reference.load_state_dict({f"{name}_l0": weight for name, weight in core.cell.state_dict().items()})
    outputs, last = reference(torch.stack(some_glimpses()))
    states = run(core, some_glimpses())
    for output, state in zip(outputs, states, strict=True):
        assert_close(state[0], output, 1e-12)
    if kind == "lstm":
        assert_close(states[-1][1], last[1][0], 1e-12)


@pytest.mark.parametrize("kind, parts", [("rnn", 1), ("gru", 1), ("lstm", 2)])
def test_initial_state(kind, parts):
    state = make_core(kind).initial(BATCH)
    assert len(state) == parts
    assert all(part.shape == (BATCH, 6) and part.dtype == torch.float64 and not part.any() for part in state)
    core = make_core(kind, learn_initial=True)
    learned = core.initial(BATCH)
    assert learned[0].tolist() == [core.initial_output.tolist()] * BATCH and learned[0].any()
    assert len(learned) == parts and not any(part.any() for part in learned[1:])
    output = run(core, some_glimpses())[-1][0]
    assert torch.autograd.grad(output.sum(), core.initial_output)[0].any()


def test_the_initial_state_has_no_parameters_by_default():
    assert all(name.startswith("cell.") for name, _ in make_core("gru").named_parameters())


def test_unknown_core():
    with pytest.raises(ValueError, match="kind must be one of rnn, gru, lstm, got 'transformer'"):
        make_core("transformer")
