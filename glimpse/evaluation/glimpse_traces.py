"""Record the glimpses and predictions of a model on a batch of images, for figures, animations and reports.

Entry t of every field belongs to glimpse t. A location that was chosen after the last glimpse is not recorded.

Shapes: B images, T glimpses, K scales, G patch side, C channels, L cells of a grid.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from glimpse.attention.distributions import Noise
from glimpse.attention.sensor import to_pixels
from glimpse.attention.settings import ReadMode
from glimpse.data import Batch
from glimpse.losses.classification import correct
from glimpse.models.recurrent_attention import RecurrentAttention
from glimpse.models.rollout import Rollout


class GlimpseTrace(NamedTuple):
    """The glimpses and predictions of a model on a batch of images; all tensors are on the CPU."""

    name: str  # of the model
    mode: ReadMode
    images: Tensor  # (B, C, H, W) uint8
    targets: Tensor  # (B,) int64, or (B, classes) multi-hot
    class_names: tuple[str, ...]
    probabilities: Tensor  # (B, T, classes): class probabilities after each glimpse
    correct: Tensor  # (B, T), bool: whether the prediction after each glimpse is correct
    points: Tensor  # (B, T, 2): x and y of the center of each glimpse, in pixels
    boxes: Tensor  # (B, T, K, 4): x0, y0, x1, y1 of the squares read, in pixels, finest first
    spread: Tensor  # (B, T, 2): std of the attention in x and y, in pixels
    patches: Tensor  # (B, T, K, G, G, C): input of the glimpse network, in [0, 1]; soft: the expected patches
    weights: Tensor | None  # (B, T, rows, columns): attention weights over a grid of glimpses; None on the plane
    rollout: Rollout


@torch.inference_mode()
def trace_glimpses(
    model: RecurrentAttention,
    batch: Batch,
    *,
    name: str,
    class_names: tuple[str, ...],
    mode: ReadMode | None = None,
    sample: bool = False,
    seed: int = 0,
    locations: Tensor | None = None,
) -> GlimpseTrace:
    """Classify a batch of images and record every glimpse.

    Args:
        model: The model, on any device.
        batch: B images with their targets.
        name: Display name of the model.
        class_names: The names of the classes.
        mode: Read mode, "hard" or "soft"; None: the model's own mode.
        sample: Whether hard reads sample locations; else they take the most likely ones.
        seed: Seed of the random numbers.
        locations: (B, T, P), the locations of the glimpses that a rule places; None: those of the rule. With
            `ClassifierOutcome.locations`, a scored rollout with a random rule can be repeated.
    """
    mode = mode or model.mode
    device = model.classify.weight.device
    images, _, boxes = (field.to(device) for field in batch)
    locations = None if locations is None else locations.to(device)
    rollout: Rollout = model(
        images,
        mode=mode,
        sample=sample,
        noise=Noise(seed),
        locations=locations,
        **({"boxes": boxes} if model.needs_boxes else {}),
    )
    return trace_of_rollout(model, batch, rollout, name=name, class_names=class_names, mode=mode)


def trace_of_rollout(
    model: RecurrentAttention,
    batch: Batch,
    rollout: Rollout,
    *,
    name: str,
    class_names: tuple[str, ...],
    mode: ReadMode,
) -> GlimpseTrace:
    """Make the trace of a rollout; for the arguments see `trace_glimpses`."""
    images = batch.images.to(rollout.locations.device)
    patches = patches_read(model, images, rollout, mode).cpu()
    rollout = Rollout._make(None if field is None else field.detach().cpu() for field in rollout)
    height, width = images.shape[2:]
    multi_label = batch.targets.is_floating_point()
    weights = rollout.attention_weights
    return GlimpseTrace(
        name=name,
        mode=mode,
        images=batch.images,
        targets=batch.targets,
        class_names=class_names,
        probabilities=rollout.logits.sigmoid() if multi_label else rollout.logits.softmax(-1),
        correct=correct(rollout.logits, batch.targets) > 0,
        points=to_pixels(rollout.locations, height, width),
        boxes=model.glimpses.sensor.boxes(rollout.locations, height, width),
        spread=rollout.stds[..., :2] * torch.tensor([width / 2, height / 2]),
        patches=patches.clamp(0, 1),
        weights=None if weights is None else weights.unflatten(-1, model.glimpses.grid),
        rollout=rollout,
    )


@torch.inference_mode()
def patches_read(model: RecurrentAttention, images: Tensor, rollout: Rollout, mode: ReadMode) -> Tensor:
    """The patches read at each glimpse of a rollout: (B, T, K, G, G, C).

    With soft attention over a grid, the mean of the patches of all cells, weighted by the attention.
    """
    glimpses = model.glimpses
    sensor = glimpses.sensor
    channels = images.shape[1]
    view = sensor.view(images, rollout.locations.shape[1])
    steps = []
    for t in range(rollout.locations.shape[1]):
        patches = glimpses.patches_read(view, rollout.glimpse(t), mode)
        steps.append(patches.unflatten(1, (sensor.num_scales, channels)))
    return torch.stack(steps, 1).permute(0, 1, 2, 4, 5, 3)
