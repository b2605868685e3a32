"""Jacobians of logits, against closed forms and finite differences."""

import pytest
import torch
from support.tensors import assert_close, draw, draw_bytes, tiny_model
from torch import nn

from glimpse.attention.distributions import Noise
from glimpse.evaluation.saliency import pixel_jacobian, saliency, sequential_jacobian
from glimpse.models.whole_image import WholeImage

CLASSES = torch.tensor([2, 0])
MULTI_HOT = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])


def network(kind="cnn", channels=3):
    torch.manual_seed(0)
    shape = (channels, 16, 20)
    return WholeImage(
        kind=kind, image_shape=shape, num_classes=3, hidden_dim=8, conv_channels=4, pixel_mean=0.1, pixel_std=0.3
    )


def test_a_linear_network_gives_its_weights():
    weights = draw(3, 2, 4, 5)
    jacobian = pixel_jacobian(lambda images: images.flatten(1) @ weights.flatten(1).T + 7, draw(2, 2, 4, 5), CLASSES)
    assert_close(jacobian, weights[CLASSES])


def test_several_labels_add_up():
    weights = draw(3, 2, 4, 5)
    jacobian = pixel_jacobian(lambda images: images.flatten(1) @ weights.flatten(1).T, draw(2, 2, 4, 5), MULTI_HOT)
    assert_close(jacobian, torch.stack([weights[0] + weights[2], torch.zeros(2, 4, 5)]))


@pytest.mark.parametrize("kind", ["cnn", "mlp"])
def test_pixel_jacobian_by_finite_differences(kind):
    model, images = network(kind).double(), draw(2, 3, 16, 20, dtype=torch.float64)
    jacobian = pixel_jacobian(model.logits, images, CLASSES)
    step = 1e-7
    for position in [(0, 0, 0), (1, 7, 9), (2, 15, 19), (0, 3, 12)]:
        moved = images.clone()
        moved[(slice(None), *position)] += step
        difference = (model.logits(moved) - model.logits(images))[[0, 1], CLASSES] / step
        assert_close(jacobian[(slice(None), *position)], difference.detach(), atol=1e-6)
    assert jacobian.abs().max() > 1e-3  # not vacuous


def test_bytes_are_divided_by_255():
    images = draw_bytes(2, 3, 16, 20)
    expected = pixel_jacobian(network().logits, images / 255, CLASSES)
    assert_close(pixel_jacobian(network().logits, images, CLASSES), expected, atol=0)


def test_one_image_alone_is_that_image_in_a_batch():
    model, images = network(), draw(2, 3, 16, 20)
    alone = torch.cat([pixel_jacobian(model.logits, images[[row]], CLASSES[[row]]) for row in range(2)])
    assert_close(pixel_jacobian(model.logits, images, CLASSES), alone)


def test_saliency_is_the_largest_over_channels_scaled():
    jacobian = torch.tensor([[[[1.0, 0.0]], [[-4.0, 2.0]]], [[[0.0, 0.0]], [[0.0, 0.0]]]])  # (2, 2, 1, 2)
    assert_close(saliency(jacobian), [[[1.0, 0.5]], [[0.0, 0.0]]], atol=0)
    tiny = torch.full((1, 1, 1, 2), 1e-30)
    assert_close(saliency(tiny), [[[1.0, 1.0]]], atol=0)


def test_a_linear_recurrence_forgets_geometrically():
    decay, weights = 0.5, draw(3, 4)

    def recurrence(glimpses):
        state, logits = 0, []
        for glimpse in glimpses.unbind(1):
            state = decay * state + glimpse
            logits.append(state @ weights.T)
        return torch.stack(logits, 1)

    norms = sequential_jacobian(recurrence, draw(2, 3, 4), CLASSES)
    expected = weights[CLASSES].norm(dim=1, keepdim=True) * torch.tensor([0.25, 0.5, 1.0])
    assert_close(norms, expected)
    several = sequential_jacobian(recurrence, draw(2, 3, 4), MULTI_HOT)
    assert_close(several[0], (weights[0] + weights[2]).norm() * torch.tensor([0.25, 0.5, 1.0]))
    assert_close(several[1], torch.zeros(3), atol=0)


@pytest.mark.parametrize("core", ["rnn", "lstm", "gru"])
def test_sequential_jacobian_by_finite_differences(core):
    model = tiny_model(f"--network.core={core}").double()
    glimpses = draw(2, 3, 12, dtype=torch.float64)
    norms = sequential_jacobian(model.classify_glimpses, glimpses, CLASSES)
    step = 1e-7
    before = model.classify_glimpses(glimpses)[:, -1]
    for t in range(3):
        gradient = torch.zeros(2, 12, dtype=torch.float64)
        for entry in range(12):
            moved = glimpses.clone()
            moved[:, t, entry] += step
            gradient[:, entry] = (model.classify_glimpses(moved)[:, -1] - before)[[0, 1], CLASSES].detach() / step
        assert_close(norms[:, t], gradient.norm(dim=1), atol=1e-6)
    assert norms.min() > 1e-3


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_works_where_gradients_are_off(mode):
    attention, whole = tiny_model(), network(channels=1)
    images = draw_bytes(2, 1, 16, 20)
    with mode():
        rollout = attention(images.clone(), sample=False, noise=Noise(0))
        inside = sequential_jacobian(attention.classify_glimpses, rollout.glimpse_vectors, CLASSES.clone())
        pixels = pixel_jacobian(whole.logits, images.clone() / 255, CLASSES.clone())
        multi_hot = pixel_jacobian(whole.logits, images.clone(), MULTI_HOT.clone())
        maps = saliency(pixels)
    outside = attention(images, sample=False, noise=Noise(0))
    assert_close(inside, sequential_jacobian(attention.classify_glimpses, outside.glimpse_vectors, CLASSES))
    assert_close(pixels, pixel_jacobian(whole.logits, images, CLASSES))
    assert_close(multi_hot, pixel_jacobian(whole.logits, images, MULTI_HOT))
    assert maps.amax((1, 2)).tolist() == [1, 1]


def test_the_model_is_left_as_it_was():
    model, images = network(), draw(2, 3, 16, 20)
    dropping = nn.Sequential(nn.Flatten(), nn.Linear(960, 3), nn.Dropout(0.5))
    for module, logits in ((model, model.logits), (dropping, dropping)):
        for training in (True, False):
            module.train(training)
            jacobian = pixel_jacobian(logits, images, CLASSES)
            assert module.training is training
            assert all(parameter.grad is None for parameter in module.parameters())
    assert not jacobian.requires_grad and not images.requires_grad
    images.requires_grad_()
    pixel_jacobian(model.logits, images, CLASSES)
    assert images.grad is None


def test_wrong_shapes_are_named():
    images, glimpses = draw(2, 3, 16, 20), draw(2, 3, 12)
    logits, classify = network().logits, tiny_model().classify_glimpses
    with pytest.raises(ValueError, match=r"images must have shape \(B, C, H, W\), got \(3, 16, 20\)"):
        pixel_jacobian(logits, images[0], CLASSES)
    with pytest.raises(ValueError, match=r"jacobian must have shape \(B, C, H, W\), got \(3, 16, 20\)"):
        saliency(images[0])
    with pytest.raises(ValueError, match=r"glimpses must have shape \(B, T, E\) with T at least 1, got \(2, 0, 12\)"):
        sequential_jacobian(classify, glimpses[:, :0], CLASSES)
    with pytest.raises(ValueError, match=r"logits must return shape \(2, 3, classes\), got \(2, 3\)"):
        sequential_jacobian(lambda vectors: classify(vectors)[:, -1], glimpses, CLASSES)
    with pytest.raises(ValueError, match=r"logits must have shape \(2, classes\), got \(2, 3, 1\)"):
        pixel_jacobian(lambda pixels: logits(pixels).unsqueeze(-1), images, CLASSES)
    with pytest.raises(ValueError, match=r"logits must have shape \(1, classes\), got \(2, 3\)"):
        pixel_jacobian(logits, images, CLASSES[:1])
    with pytest.raises(
        ValueError, match=r"classes of shape \(2,\) or multi-hot of shape \(2, 3\), got .*int64.*\(2, 2\)"
    ):
        pixel_jacobian(logits, images, torch.stack([CLASSES, CLASSES]))
    with pytest.raises(ValueError, match=r"classes of shape \(2,\) .*, got torch.float32 of shape \(2,\)"):
        pixel_jacobian(logits, images, CLASSES.float())
    with pytest.raises(ValueError, match="the logits have no gradient"):
        pixel_jacobian(lambda pixels: logits(pixels).detach(), images, CLASSES)
