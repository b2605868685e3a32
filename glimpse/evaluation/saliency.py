"""Implicit attention: what the answer of a network depends on, by its gradient.

A network that sees the whole image attends too, in that some pixels move its answer and others do not: the Jacobian of
the answer with respect to the pixels shows which. For a model that looks several times, the sequential Jacobian shows
on which of its glimpses the answer it gave in the end depends. All that is needed is a function from input to logits.

Shapes: B batch, C channels, H x W image, T glimpses, E size of a glimpse vector.
"""

from collections.abc import Callable

import torch
from torch import Tensor


def pixel_jacobian(logits: Callable[[Tensor], Tensor], images: Tensor, targets: Tensor) -> Tensor:
    """The gradient of the target's logit with respect to the pixels.

    Args:
        logits: Maps floating-point images in [0, 1] to logits (B, classes), such as `WholeImage.logits`.
        images: (B, C, H, W), floating point in [0, 1], or uint8, which reads as its 255th part.
        targets: (B,), the class of each image; or (B, classes), multi-hot: the logits of the classes that are there
            are added up.

    Returns:
        (B, C, H, W), per unit of the floating-point image.
    """
    if images.dim() != 4:
        raise ValueError(f"images must have shape (B, C, H, W), got {tuple(images.shape)}")
    pixels = images if images.is_floating_point() else images / 255
    return _gradient(logits, pixels, targets)


def saliency(jacobian: Tensor) -> Tensor:
    """How much each pixel matters: the largest absolute value of a Jacobian (B, C, H, W) over the channels.

    Returns:
        (B, H, W), scaled to a maximum of 1 for each image; a Jacobian of zeros stays zero.
    """
    if jacobian.dim() != 4:
        raise ValueError(f"jacobian must have shape (B, C, H, W), got {tuple(jacobian.shape)}")
    strength = jacobian.abs().amax(1)
    largest = strength.amax((1, 2), keepdim=True)
    return strength / torch.where(largest > 0, largest, 1)


def sequential_jacobian(answer: Callable[[Tensor], Tensor], glimpses: Tensor, targets: Tensor) -> Tensor:
    """How strongly the final answer depends on each glimpse: by how much a small change of it would move the answer.

    Args:
        answer: Maps glimpse vectors to logits (B, T, classes) after each, as by `RecurrentAttention.classify_glimpses`.
        glimpses: (B, T, E), such as `Rollout.glimpse_vectors`.
        targets: (B,) or (B, classes), as for `pixel_jacobian`.

    Returns:
        (B, T): the norm of the gradient of the target's logit after the last glimpse, with respect to each glimpse.
    """
    if glimpses.dim() != 3 or glimpses.shape[1] == 0:
        raise ValueError(f"glimpses must have shape (B, T, E) with T at least 1, got {tuple(glimpses.shape)}")

    def final(vectors: Tensor) -> Tensor:
        logits = answer(vectors)
        if logits.dim() != 3 or logits.shape[:2] != vectors.shape[:2]:
            batch, steps = vectors.shape[:2]
            raise ValueError(f"answer must return shape ({batch}, {steps}, classes), got {tuple(logits.shape)}")
        return logits[:, -1]

    return _gradient(final, glimpses, targets).norm(dim=-1)


def _gradient(logits: Callable[[Tensor], Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
    """The gradient of the target's logit (summed over the batch, whose rows are independent) at the inputs."""
    with torch.inference_mode(False), torch.enable_grad():
        # Copies: tensors made in inference mode cannot take part in a backward pass.
        inputs, targets = inputs.detach().clone().requires_grad_(), targets.clone()
        target_logits = _of_targets(logits(inputs), targets)
        if not target_logits.requires_grad:
            raise ValueError("the logits have no gradient: compute them without no_grad, inference_mode or detach")
        return torch.autograd.grad(target_logits.sum(), inputs)[0]  # of the inputs alone: parameters get none


def _of_targets(logits: Tensor, targets: Tensor) -> Tensor:
    """The logit of each target, or the sum of those of the classes that are there: (B,)."""
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
