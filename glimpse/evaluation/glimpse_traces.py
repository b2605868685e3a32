"""What a model did with some images: all that pictures, animations and reports are drawn from.

What is drawn is what was seen: entry t of everything here belongs to glimpse t, the first to the first; there is none
for a place that was chosen and never looked at.

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
    """The looks of a model at a batch of images; all tensors on the CPU."""

    name: str  # of the model
    mode: ReadMode
    images: Tensor  # (B, C, H, W) uint8
    targets: Tensor  # (B,) int64, or (B, classes) multi-hot
    class_names: tuple[str, ...]
    probabilities: Tensor  # (B, T, classes): probabilities after each glimpse
    correct: Tensor  # (B, T), bool
    points: Tensor  # (B, T, 2): x and y of each glimpse's centre, in pixels
    boxes: Tensor  # (B, T, K, 4): x0, y0, x1, y1 of the squares read, in pixels, finest first
    spread: Tensor  # (B, T, 2): std of the attention in x and y, in pixels
    patches: Tensor  # (B, T, K, G, G, C): what the network got, in [0, 1]; soft: blurred as it got them
    weights: Tensor | None  # (B, T, rows, columns): attention over a grid of glimpses; None on the plane
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
    """Let a model look at a batch of images, and keep all that can be drawn of it.

    Args:
        model: The model, on any device.
        batch: B images with their targets.
        name: What to call the model.
        class_names: The names of the classes.
        mode: Read hard or soft; the model's own way if not locations.
        sample: Whether hard reads sample their places, or take the most likely ones.
        seed: Decides what is sampled.
        locations: (B, T, 2): places of the glimpses that the policy does not choose; with those of
            `ClassifierOutcome.locations`, the rollout that was scored is drawn, even if it was random.
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
    """Put together all that can be drawn of a rollout; for the arguments see `trace_glimpses`."""
    images = batch.images.to(rollout.locations.device)
    patches = patches_read(model, images, rollout, mode).cpu()
    rollout = Rollout(*(None if field is None else field.detach().cpu() for field in rollout))
    height, width = images.shape[2:]
    multi_label = batch.targets.is_floating_point()
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
        spread=rollout.stds * torch.tensor([width / 2, height / 2]),
        patches=patches.clamp(0, 1),
        weights=None
        if rollout.attention_weights is None
        else rollout.attention_weights.unflatten(-1, model.glimpses.grid),
        rollout=rollout,
    )


@torch.inference_mode()
def patches_read(model: RecurrentAttention, images: Tensor, rollout: Rollout, mode: ReadMode) -> Tensor:
    """The patches that were read at each glimpse of a rollout: (B, T, K, G, G, C).

    For soft attention over a grid, what is drawn is the attention-weighted mean of the patches of all cells.
    """
    glimpses = model.glimpses
    sensor = glimpses.sensor
    channels = images.shape[1]
    view = sensor.view(images, rollout.locations.shape[1])
    columns = []
    for step in range(rollout.locations.shape[1]):
        patch = glimpses.patches_read(view, rollout.glimpse(step), mode)
        columns.append(patch.unflatten(1, (sensor.num_scales, channels)))
    return torch.stack(columns, 1).permute(0, 1, 2, 4, 5, 3)
