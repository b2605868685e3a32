"""Early exit: stop taking glimpses of an image once the prediction is confident enough.

The stopping signal is either the confidence of the prediction (its class probability), which every classifier has, or
the stopping probability predicted by a halting unit. Predictions equal those of the full rollout at the same step.
`evaluation/early_exit.py` selects the threshold on validation images.

Shapes: B batch, R images still running.
"""

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from glimpse.attention.distributions import Noise
from glimpse.attention.settings import ReadMode
from glimpse.metrics.classification import confidence
from glimpse.models.recurrent_attention import RecurrentAttention
from glimpse.models.rollout import State

StoppingSignal = Literal["confidence", "halting"]


class EarlyExit(NamedTuple):
    """The predictions of a rollout that stopped early."""

    logits: Tensor  # (B, classes)
    num_glimpses: Tensor  # (B,), glimpses taken of each image

    @property
    def glimpses(self) -> Tensor:
        """Deprecated name of `num_glimpses`."""
        return self.num_glimpses


@torch.no_grad()
def stop_early(
    model: RecurrentAttention,
    images: Tensor,
    *,
    threshold: float,
    signal: StoppingSignal = "confidence",
    mode: ReadMode | None = None,
    sample: bool = False,
    noise: Noise | None = None,
    boxes: Tensor | None = None,
    multi_label: bool = False,
) -> EarlyExit:
    """Classify each image from as many glimpses as it needs, at most T.

    An image stops after the first glimpse at which the signal exceeds the threshold; the remaining steps are computed
    for the other images only.

    Args:
        model: The model.
        images: (B, C, H, W), floating point in [0, 1] or uint8.
        threshold: In [0, 1]: 0 stops after one glimpse, 1 never stops early. `evaluate.py score` selects one.
        signal: "confidence", of the prediction, or "halting", the stopping probability of the halting unit.
        mode: Read mode, "hard" or "soft"; None: the model's own mode.
        sample: Whether hard reads sample their location, or take the most likely one (greedy).
        noise: Random numbers of sampling and of random first glimpses; None: from torch's global generator.
        boxes: (B, N, 4), of the digits in pixels; only the oracle policy uses them.
        multi_label: Whether each class is predicted independently, by a sigmoid.
    """
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold must be in [0, 1], got {threshold}")
    if signal not in get_args(StoppingSignal):
        raise ValueError(f"signal must be one of {', '.join(get_args(StoppingSignal))}, got {signal!r}")
    if signal == "halting" and model.halt is None:
        raise ValueError("signal must be 'confidence' for a model without a halting unit, got 'halting'")
    scene = model.prepare(images, mode=mode, sample=sample, noise=noise, boxes=boxes)
    state = model.initial_state(len(images))
    running = torch.arange(len(images), device=images.device)  # (R,)
    logits = model.classify.weight.new_zeros(len(images), model.classify.out_features)
    num_glimpses = torch.full_like(running, model.num_glimpses)
    for t in range(model.num_glimpses):
        state = model.look(t, state, scene).state
        logits[running], value = _logits_and_signal(state, signal, multi_label)
        stops = value > threshold
        num_glimpses[running[stops]] = t + 1
        kept = (~stops).nonzero().squeeze(1)
        if not len(kept):
            break
        if len(kept) < len(running):
            running, state, scene = running[kept], state.rows(kept), scene.rows(kept)
    return EarlyExit(logits, num_glimpses)


def _logits_and_signal(state: State, signal: StoppingSignal, multi_label: bool) -> tuple[Tensor, Tensor]:
    """The logits (R, classes) after a glimpse, and the stopping signal (R,) in [0, 1]."""
    logits, halt_logits = state.logits, state.halt_logits
    assert logits is not None
    if signal == "halting":
        assert halt_logits is not None
        return logits, halt_logits.sigmoid()
    probabilities = logits.sigmoid() if multi_label else logits.softmax(-1)
    return logits, confidence(probabilities, multi_label)
