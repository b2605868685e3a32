"""A still picture of glimpses: what the image is, where the model looked, and what it saw there.

A row is an image. First the image with the trail of glimpses; then, glimpse by glimpse, the squares that were read and
beneath them the patches as the network got them, finest scale first; and what the model would answer by then.

What is drawn is what was seen: column t shows the location of glimpse t, never one that was chosen and not used.
"""

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse, Rectangle
from torch import Tensor

from glimpse.attention import Read
from glimpse.classifier import GridGlimpses, RecurrentAttention, Rollout
from glimpse.data import Batch
from glimpse.places import Gaussian
from glimpse.sensor import to_pixels

# Okabe and Ito's colours, which the colour-blind can tell apart; one for each scale.
SCALE_COLOURS = ("#56B4E9", "#E69F00", "#CC79A7", "#F0E442")
RIGHT, WRONG, TRAIL = "#009E73", "#D55E00", "#56B4E9"


def draw_sheet(
    model: RecurrentAttention, batch: Batch, rollout: Rollout, *, how: Read, class_names: tuple[str, ...]
) -> Figure:
    """Draw a rollout.

    Args:
        model: The model that made it, for its sensor.
        batch: B images with their targets.
        rollout: What the model did with them.
        how: How it read.
        class_names: The names of the classes.

    Returns:
        A figure with a row per image and a column per glimpse.
    """
    rollout = Rollout(*(None if field is None else field.detach().cpu() for field in rollout))
    count, steps = rollout.locations.shape[:2]
    height, width = batch.images.shape[2:]
    scales = model.glimpses.sensor.num_scales
    aspect = height / width
    size = 1.35 * (steps + 1), count * (1.35 * aspect + 1.35 / scales + 0.3) + 0.2  # inches
    figure = Figure(figsize=size, layout="constrained")
    figure.get_layout_engine().set(h_pad=0.01, hspace=0.0)
    grid = figure.add_gridspec(count * 2, steps + 1, height_ratios=[aspect, 1 / scales + 0.02] * count)
    patches = seen_patches(model, batch.images, rollout, how)  # (B, T, K, G, G, C)
    for row in range(count):
        axes = figure.add_subplot(grid[2 * row, 0])
        _show(axes, batch.images[row])
        _draw_trail(axes, to_pixels(rollout.locations[row], height, width))
        axes.set_title(_heading("image", row, _names(batch.targets[row], class_names)), fontsize=9)
        for step in range(steps):
            axes = figure.add_subplot(grid[2 * row, step + 1])
            _show(axes, batch.images[row])
            _draw_attention(axes, model, rollout, row, step, how, height, width)
            answer, right = _answer(rollout.logits[row, step], batch.targets[row], class_names)
            axes.set_title(_heading(f"glimpse {step + 1}", row, answer), fontsize=9, color=RIGHT if right else WRONG)
            strip = figure.add_subplot(grid[2 * row + 1, step + 1])
            _draw_patches(strip, patches[row, step])
    return figure


@torch.inference_mode()
def seen_patches(model: RecurrentAttention, images: Tensor, rollout: Rollout, how: Read) -> Tensor:
    """The patches that were read at each glimpse of a rollout: (B, T, K, G, G, C).

    For soft attention over a grid, what is drawn is the attention-weighted mean of the patches of all cells.
    """
    glimpses = model.glimpses
    sensor = glimpses.sensor
    channels = images.shape[1]
    view = sensor.view(images, rollout.locations.shape[1])
    columns = []
    for step in range(rollout.locations.shape[1]):
        if how == "hard":
            patch = view.at(rollout.locations[:, step])
        elif isinstance(glimpses, GridGlimpses):
            cells = glimpses.cells.cpu()
            every = torch.stack([view.at(cell.expand(len(images), 2)) for cell in cells], 1)
            patch = torch.einsum("bl,bl...->b...", rollout.weights[:, step], every)
        else:
            patch = view.expect(Gaussian(rollout.locations[:, step], rollout.stds[:, step]))
        columns.append(patch.unflatten(1, (sensor.num_scales, channels)))
    return torch.stack(columns, 1).permute(0, 1, 2, 4, 5, 3)


def _heading(column: str, row: int, text: str) -> str:
    return f"{column}\n{text}" if row == 0 else text


def _show(axes: Axes, image: Tensor) -> None:
    channels, height, width = image.shape
    pixels = image.permute(1, 2, 0).cpu().numpy()
    if pixels.dtype == np.uint8:
        pixels = pixels / 255
    axes.imshow(pixels if channels == 3 else pixels[..., 0], cmap="gray", vmin=0, vmax=1, extent=(0, width, height, 0))
    axes.set(xticks=[], yticks=[], xlim=(0, width), ylim=(height, 0))


def _draw_trail(axes: Axes, points: Tensor) -> None:
    x, y = points.unbind(-1)
    axes.plot(x, y, color=TRAIL, linewidth=1)
    axes.plot(x[:1], y[:1], "o", color=TRAIL, markersize=4)
    axes.plot(x[-1:], y[-1:], "s", color=TRAIL, markersize=4)


def _draw_attention(
    axes: Axes, model: RecurrentAttention, rollout: Rollout, row: int, step: int, how: Read, height: int, width: int
) -> None:
    location = rollout.locations[row, step]
    if how == "soft" and rollout.weights is not None:
        rows, columns = model.glimpses.grid
        weights = rollout.weights[row, step].view(rows, columns).numpy()
        axes.imshow(weights, cmap="viridis", alpha=0.55, extent=(0, width, height, 0), interpolation="nearest")
        return
    for box, colour in zip(model.glimpses.sensor.boxes(location, height, width), SCALE_COLOURS * 9, strict=False):
        x0, y0, x1, y1 = box.tolist()
        axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor=colour, linewidth=1.2))
    if how == "soft":
        centre = to_pixels(location, height, width).tolist()
        spread = rollout.stds[row, step] * torch.tensor([width / 2, height / 2])
        for deviations in (1, 2):
            size = (2 * deviations * spread).tolist()
            axes.add_patch(Ellipse(centre, *size, color="white", alpha=0.25, linewidth=0))


def _draw_patches(axes: Axes, patches: Tensor) -> None:
    scales, size, _, channels = patches.shape
    gap = max(1, size // 8)
    strip = np.ones((size, scales * (size + gap) - gap, 3))
    for scale, patch in enumerate(patches.clamp(0, 1).cpu().numpy()):
        left = scale * (size + gap)
        strip[:, left : left + size] = patch if channels == 3 else np.repeat(patch[..., :1], 3, -1)
        colour = SCALE_COLOURS[scale % len(SCALE_COLOURS)]
        axes.add_patch(Rectangle((left - 0.5, -0.5), size, size, fill=False, edgecolor=colour, linewidth=1.2))
    axes.imshow(strip, interpolation="nearest")
    axes.axis("off")


def _answer(logits: Tensor, target: Tensor, class_names: tuple[str, ...]) -> tuple[str, bool]:
    """The answer in words, with its probability, and whether it is right."""
    if target.is_floating_point():
        answer = (logits > 0).to(target.dtype)
        return _names(answer, class_names), bool((answer == target).all())
    best = int(logits.argmax())
    return f"{class_names[best]}  {100 * float(logits.softmax(-1)[best]):.0f}%", best == int(target)


def _names(target: Tensor, class_names: tuple[str, ...]) -> str:
    if target.is_floating_point():
        return ", ".join(name for name, there in zip(class_names, target, strict=True) if there) or "none"
    return class_names[int(target)]
