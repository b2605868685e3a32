"""Rendering of an environment, as a frame of `glimpse.view.glimpse_animation`.

Shapes: T glimpses, K scales, G patch side, C channels.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from glimpse.attention.sensor import to_pixels
from glimpse.envs.rules import GlimpseRules, logits_of
from glimpse.evaluation.glimpse_traces import GlimpseTrace
from glimpse.losses.classification import correct
from glimpse.models.rollout import Rollout
from glimpse.view.glimpse_animation import draw_frame
from glimpse.view.video import rasterize


def frame(game: GlimpseRules, row: int) -> np.ndarray:
    """Draw one environment of a batch in its current state: (H, W, 3), uint8.

    The answer shown is the last one. At the end of an episode it belongs to the glimpse shown, before that to the
    glimpse before; after a reset there is none.
    """
    step = game.num_actions[row] - game.over[row]  # no glimpse follows the last answer
    verdict = None if game.num_actions[row] else "no answer yet"
    figure = draw_frame([_trace(game, row)], 0, int(step), verdict=verdict)
    return rasterize(figure)


def _trace(game: GlimpseRules, row: int) -> GlimpseTrace:
    """The trace of an unfinished episode: only the entries of the current step are valid, and of `points`, up to it."""
    images, targets = game.images[row : row + 1], game.targets[row : row + 1]
    height, width = images.shape[2:]
    locations = torch.from_numpy(game.visited[row : row + 1].copy())  # (1, T, 2)
    location = torch.from_numpy(game.location[row : row + 1].copy())
    patches = game.sensor.view(images).at(location).unflatten(1, (game.sensor.num_scales, -1))  # (1, K, C, G, G)
    logits = _logits(game, row)
    probabilities = (logits.sigmoid() if game.multi_label else logits.softmax(-1)) * bool(game.num_actions[row])
    steps = (1, game.num_glimpses)
    return GlimpseTrace(
        name="agent",
        mode="hard",
        images=images,
        targets=targets,
        class_names=game.episodes.data.class_names,
        probabilities=probabilities.expand(*steps, -1),
        correct=(correct(logits, targets) > 0).expand(steps),
        points=to_pixels(locations, height, width),
        boxes=game.sensor.boxes(locations, height, width),
        spread=torch.zeros_like(locations),
        patches=patches.permute(0, 1, 3, 4, 2).unsqueeze(1).expand(*steps, -1, -1, -1, -1).clamp(0, 1),
        weights=None,
        rollout=Rollout.without_glimpses(logits.expand(*steps, -1)),
    )


def _logits(game: GlimpseRules, row: int) -> Tensor:
    """The last answer as logits (1, 1, classes); a label becomes probabilities of 0 and 1."""
    answer = game.answers[row]
    if game.answer == "scores":
        return logits_of(answer).view(1, 1, -1)
    multi_hot = torch.from_numpy(answer) if game.multi_label else F.one_hot(torch.tensor(answer), game.num_classes)
    return (200.0 * multi_hot - 100).view(1, 1, -1)
