"""The cost of classifying an image: pixels read, multiply-adds, parameters and throughput."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from glimpse.attention.distributions import Noise
from glimpse.attention.settings import ReadMode
from glimpse.data import Batch
from glimpse.evaluation.classify import Classifier, takes_glimpses


class Cost(NamedTuple):
    """The cost of a greedy rollout on one image."""

    pixels: int  # per channel, in the patches of all glimpses and scales, or in the whole image
    share: float  # as a fraction of the pixels of the image; may exceed 1, as glimpses overlap
    multiply_adds: float  # of matrix products and convolutions; the soft sensor has some, the hard one none
    parameters: int  # that contribute to the prediction
    images_per_second: float


def costs(
    models: Sequence[Classifier], modes: Sequence[ReadMode | None], batch: Batch, *, seconds: float = 1.0
) -> list[Cost]:
    """Measure the costs of models; their throughputs are measured in turns, so that they can be compared.

    Args:
        models: The models, on the device of the batch.
        modes: Read mode of each model; None for a whole-image network.
        batch: Images to measure with.
        seconds: Duration of the throughput measurement of each model.
    """
    forwards = [greedy_forward(model, mode, batch) for model, mode in zip(models, modes, strict=True)]
    throughputs = throughput(forwards, len(batch.images), seconds)
    height, width = batch.images.shape[2:]
    return [
        Cost(
            pixels=pixels_read(model, height, width),
            share=pixels_read(model, height, width) / (height * width),
            multiply_adds=multiply_adds(forward) / len(batch.images),
            parameters=count_parameters(model),
            images_per_second=images_per_second,
        )
        for model, forward, images_per_second in zip(models, forwards, throughputs, strict=True)
    ]


def greedy_forward(model: Classifier, mode: ReadMode | None, batch: Batch) -> Callable[[], Tensor]:
    """A function that classifies a batch with a greedy rollout and returns the last logits."""

    @torch.inference_mode()
    def forward() -> Tensor:
        rollout = model(
            batch.images,
            mode=mode,
            sample=False,
            noise=Noise(0),
            **({"boxes": batch.boxes} if model.needs_boxes else {}),
        )
        return rollout.logits[:, -1].cpu()  # the copy waits for the GPU

    return forward


def pixels_read(model: Classifier, height: int, width: int) -> int:
    """The number of pixels per channel that a model reads of an image."""
    return model.glimpses.pixels_read(model.num_glimpses) if takes_glimpses(model) else height * width


def multiply_adds(function: Callable[[], object]) -> float:
    """The number of multiply-adds of a function call, counted by torch."""
    counter = FlopCounterMode(display=False)
    with counter:
        function()
    return counter.get_total_flops() / 2


def count_parameters(model: Classifier) -> int:
    """The number of parameters that contribute to a prediction: without the baseline and an unused attention."""
    unused = set(model.attention_parameters()) if model.num_choices == 0 else set()
    used = [
        parameter
        for name, parameter in model.named_parameters()
        if not name.startswith("baseline.") and parameter not in unused
    ]
    return sum(parameter.numel() for parameter in used)


def throughput(functions: Sequence[Callable[[], object]], count: int, seconds: float = 1.0) -> list[float]:
    """Examples per second of several functions, by the median duration of calls made in turns.

    Args:
        functions: The functions to time. Each call must process `count` examples and return when it is done.
        count: Examples per call.
        seconds: Approximate total duration of the calls of each function; at least three calls are made.
    """
    durations: list[list[float]] = [[] for _ in functions]
    for function in functions:
        function()  # warm-up
    while min(map(len, durations)) < 3 or min(map(sum, durations)) < seconds:
        for function, times in zip(functions, durations, strict=True):
            start = time.perf_counter()
            function()
            times.append(time.perf_counter() - start)
    return [count / statistics.median(times) for times in durations]
