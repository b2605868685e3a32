"""Implicit attention: saliency maps from the gradient of a logit with respect to the input.

The Jacobian with respect to the pixels shows which pixels the prediction of a whole-image network depends on. The
sequential Jacobian shows which glimpses the last prediction of a recurrent model depends on. Both need only a function
from the input to logits.

Shapes: B batch, C channels, H x W image, T glimpses, E size of a glimpse vector.
"""

from collections.abc import Callable

import torch
from torch import Tensor


def pixel_jacobian(logits: Callable[[Tensor], Tensor], images: Tensor, targets: Tensor) -> Tensor:
    """Compute the gradient of the target's logit with respect to the pixels.

    Args:
        logits: Maps floating-point images in [0, 1] to logits (B, classes), e.g. `WholeImage.logits`.
        images: (B, C, H, W), floating point in [0, 1], or uint8, which is divided by 255.
        targets: (B,) class indices; or (B, classes) multi-hot: the gradient is that of the sum of the logits marked.

    Returns:
        (B, C, H, W), with respect to the floating-point image.
    """
    if images.dim() != 4:
        raise ValueError(f"images must have shape (B, C, H, W), got {tuple(images.shape)}")
    pixels = images if images.is_floating_point() else images / 255
    return _gradient(logits, pixels, targets)


def saliency(jacobian: Tensor) -> Tensor:
    """Compute the saliency map of a Jacobian (B, C, H, W): the largest absolute value over the channels.

    Returns:
        (B, H, W), scaled to a maximum of 1 for each image; zeros if the Jacobian is zero.
    """
    if jacobian.dim() != 4:
        raise ValueError(f"jacobian must have shape (B, C, H, W), got {tuple(jacobian.shape)}")
    magnitude = jacobian.abs().amax(1)
    largest = magnitude.amax((1, 2), keepdim=True)
    return magnitude / torch.where(largest > 0, largest, 1)


def sequential_jacobian(logits: Callable[[Tensor], Tensor], glimpses: Tensor, targets: Tensor) -> Tensor:
    """Compute how strongly the prediction after the last glimpse depends on each glimpse vector.

    Args:
        logits: Maps glimpse vectors to logits (B, T, classes), e.g. `RecurrentAttention.classify_glimpses`.
        glimpses: (B, T, E), e.g. `Rollout.glimpse_vectors`.
        targets: (B,) or (B, classes), as for `pixel_jacobian`.

    Returns:
        (B, T): the norm of the gradient of the target's last logit with respect to each glimpse vector.
    """
    if glimpses.dim() != 3 or glimpses.shape[1] == 0:
        raise ValueError(f"glimpses must have shape (B, T, E) with T at least 1, got {tuple(glimpses.shape)}")

    def last_logits(vectors: Tensor) -> Tensor:
        output = logits(vectors)
        if output.dim() != 3 or output.shape[:2] != vectors.shape[:2]:
            batch, steps = vectors.shape[:2]
            raise ValueError(f"logits must return shape ({batch}, {steps}, classes), got {tuple(output.shape)}")
        return output[:, -1]

    return _gradient(last_logits, glimpses, targets).norm(dim=-1)


def _gradient(logits: Callable[[Tensor], Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
    """The gradient of the target's logit with respect to the inputs; the rows of the batch must be independent."""
    with torch.inference_mode(False), torch.enable_grad():
        # Copies, as tensors made in inference mode cannot take part in a backward pass.
        inputs, targets = inputs.detach().clone().requires_grad_(), targets.clone()
        target_logits = _target_logits(logits(inputs), targets)
        if not target_logits.requires_grad:
            raise ValueError("the logits have no gradient: compute them without no_grad, inference_mode or detach")
        return torch.autograd.grad(target_logits.sum(), inputs)[0]  # leaves `grad` of the parameters alone


def _target_logits(logits: Tensor, targets: Tensor) -> Tensor:
    """The logit of each target class, or the sum of the logits of multi-hot targets: (B,)."""
    if logits.dim() != 2 or len(logits) != len(targets):
        raise ValueError(f"logits must have shape ({len(targets)}, classes), got {tuple(logits.shape)}")
    if targets.dim() == 1 and not targets.is_floating_point():
        return logits.gather(1, targets.long().unsqueeze(1)).squeeze(1)
    if targets.shape == logits.shape:
        return (logits * targets).sum(1)
    raise ValueError(
        f"targets must be classes of shape ({len(logits)},) or multi-hot of shape {tuple(logits.shape)}, "
        f"got {targets.dtype} of shape {tuple(targets.shape)}"
    )
