"""Early exit: stop taking glimpses of an image once its answer is certain enough.

Any classifier has a certainty, the probability that it gives its answer; a model with a halting unit has another, the
probability that the unit gives to the answer being good enough. The answers are those of the whole rollout, cut off
there. `evaluation/early_exit.py` picks the threshold on validation images.

Shapes: B batch, R images that are not done with yet.
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
    """The answers of a rollout that stopped early."""

    logits: Tensor  # (B, classes)
    num_glimpses: Tensor  # (B,): after how many glimpses each

    @property
    def glimpses(self) -> Tensor:
        """Old name of `num_glimpses`."""
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
    """Take as many glimpses of each image as it needs, at most T, and answer.

    An image is done with after the first glimpse whose certainty exceeds the threshold, and is left out of all that is
    computed from then on.

    Args:
        model: The model.
        images: As to `RecurrentAttention.forward`; `mode`, `sample`, `noise` and `boxes` too.
        threshold: In [0, 1]: with 0 one glimpse is enough, with 1 none is. `evaluate.py score` picks one.
        signal: What is certain: "confidence", the probability of the answer; "halting", the halting unit.
        mode: Read hard or soft.
        sample: Whether hard reads sample their places; greedy if not given.
        noise: The random numbers to sample with.
        boxes: Of the digits, for the oracle.
        multi_label: Whether each class is a yes or no of its own.
    """
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold must be in [0, 1], got {threshold}")
    if signal not in get_args(StoppingSignal):
        raise ValueError(f"signal must be one of {', '.join(get_args(StoppingSignal))}, got {signal!r}")
    if signal == "halting" and model.halt is None:
        raise ValueError("signal='halting' needs a model with a halting unit")
    scene = model.prepare(images, mode=mode, sample=sample, noise=noise, boxes=boxes)
    state = model.initial_state(len(images))
    left = torch.arange(len(images), device=images.device)  # (R,)
    logits = model.classify.weight.new_zeros(len(images), model.classify.out_features)
    num_glimpses = torch.full_like(left, model.num_glimpses)
    for t in range(model.num_glimpses):
        state = model.look(t, state, scene).state
        answers, certainty = _answers(state, signal, multi_label)
        logits[left] = answers
        done = certainty > threshold
        num_glimpses[left[done]] = t + 1
        going = (~done).nonzero().squeeze(1)
        if not len(going):
            break
        if len(going) < len(left):
            left, state, scene = left[going], state.rows(going), scene.rows(going)
    return EarlyExit(logits, num_glimpses)


def _answers(state: State, signal: StoppingSignal, multi_label: bool) -> tuple[Tensor, Tensor]:
    """The logits (R, classes) of a state after a glimpse, and how certain they are (R,), in [0, 1]."""
    logits, halt_logits = state.logits, state.halt_logits
    assert logits is not None
    if signal == "halting":
        assert halt_logits is not None
        return logits, halt_logits.sigmoid()
    probabilities = logits.sigmoid() if multi_label else logits.softmax(-1)
    return logits, confidence(probabilities, multi_label)
