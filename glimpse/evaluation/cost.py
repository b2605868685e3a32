"""What an answer costs: how much of the image is taken in, and how much is computed."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from glimpse.attention.distributions import Noise
from glimpse.attention.settings import ReadMode
from glimpse.data import Batch


class Cost(NamedTuple):
    """What one image costs a model, when it is scored greedily."""

    pixels: int  # numbers taken in, per channel: patches of all glimpses, or the whole image
    share: float  # of the number of pixels that the image has; may exceed 1, for glimpses overlap
    multiply_adds: float  # of matrix products and convolutions: the soft sensor has some, the hard one none
    parameters: int  # that take part in an answer
    images_per_second: float  # as measured


def costs(
    models: Sequence[nn.Module], hows: Sequence[ReadMode | None], batch: Batch, *, seconds: float = 1.0
) -> list[Cost]:
    """Measure what models cost, all in one go, so that their speeds can be compared.

    Args:
        models: The models, on the device of the batch.
        hows: How each of them reads; None if it sees the whole image.
        batch: Images to measure with.
        seconds: How long to measure each.
    """
    run = [answering(model, mode, batch) for model, mode in zip(models, hows, strict=True)]
    speeds = throughput(run, len(batch.images), seconds)
    height, width = batch.images.shape[2:]
    return [
        Cost(
            pixels=pixels_seen(model, height, width),
            share=pixels_seen(model, height, width) / (height * width),
            multiply_adds=multiply_adds(answer) / len(batch.images),
            parameters=parameters(model),
            images_per_second=speed,
        )
        for model, answer, speed in zip(models, run, speeds, strict=True)
    ]


def answering(model: nn.Module, mode: ReadMode | None, batch: Batch) -> Callable[[], Tensor]:
    """A function that lets a model answer greedily."""

    @torch.inference_mode()
    def answer() -> Tensor:
        rollout = model(
            batch.images,
            mode=mode,
            sample=False,
            noise=Noise(0),
            **({"boxes": batch.boxes} if model.needs_boxes else {}),
        )
        return rollout.logits[:, -1].cpu()  # which waits for a GPU to finish

    return answer


def pixels_seen(model: nn.Module, height: int, width: int) -> int:
    """How many numbers a model takes in of an image, per channel."""
    return model.glimpses.pixels_read(model.num_glimpses) if model.attends else height * width


def multiply_adds(work: Callable[[], object]) -> float:
    """How many multiplications, each with an addition, some work takes, by torch's own counter."""
    counter = FlopCounterMode(display=False)
    with counter:
        work()
    return counter.get_total_flops() / 2


def parameters(model: nn.Module) -> int:
    """How many parameters take part in an answer: not the baseline, nor an attention that is never asked."""
    idle = set(model.attention_parameters()) if model.num_choices == 0 else set()
    used = [its for name, its in model.named_parameters() if not name.startswith("baseline.") and its not in idle]
    return sum(parameter.numel() for parameter in used)


def throughput(work: Sequence[Callable[[], object]], count: int, seconds: float = 1.0) -> list[float]:
    """How many examples a second each piece of work does, taken in turns so that all meet the same conditions.

    Args:
        work: What to time; each call treats `count` examples, and must wait for its own end.
        count: Examples of a call.
        seconds: About how long to time each piece; at least three calls.
    """
    durations: list[list[float]] = [[] for _ in work]
    for piece in work:
        piece()  # warms up
    while min(map(len, durations)) < 3 or min(map(sum, durations)) < seconds:
        for piece, taken in zip(work, durations, strict=True):
            started = time.perf_counter()
            piece()
            taken.append(time.perf_counter() - started)
    return [count / statistics.median(taken) for taken in durations]
