"""What the tasks share: their batches, the chance of each step, and evaluation mode."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch
from torch import nn

from glimpse.attention import Read
from glimpse.config import LossConfig
from glimpse.data.base import random_bits
from glimpse.places import Noise
from glimpse.processes import Processes
from glimpse.settings import ConfigError

# First words of the seeds of noise; those of the data sets are in data/base.py.
TRAIN_NOISE, SCORE_NOISE, VARIANCE_NOISE = 101, 102, 110


class SeededTask:
    """A task whose batches and chance are functions of (seed, epoch, step) alone; see `engine.Task`."""

    def __init__(
        self,
        *,
        model: nn.Module,
        data: Any,
        seed: int,
        batch_size: int,
        limit: int | None,
        loss: LossConfig,
        processes: Processes,
    ):
        """Prepare the training.

        Args:
            model: What learns.
            data: Three parts, of which `train` has `epoch`, as `data.DataSet` and `data.captions.CaptionData` have.
            seed: The run's seed.
            batch_size: Examples in a step, over all processes.
            limit: Stop each epoch after this many examples.
            loss: What is learned from; here, how many of the batches of a hard model are read softly.
            processes: Who shares the work.
        """
        self.model = model.to(processes.device)
        self.data = data
        self.seed = seed
        self.batch_size = batch_size
        self.loss = loss
        self.mix = loss.mix
        self.processes = processes
        images = len(data.train) if limit is None else min(limit, len(data.train))
        self.steps_per_epoch = images // batch_size
        if self.steps_per_epoch == 0:
            reason = "train.limit" if limit is not None and limit < len(data.train) else "the training examples"
            raise ConfigError(f"train.batch_size must be at most {images} ({reason}), got {batch_size}")

    def batches(self, epoch: int) -> Iterator[Any]:
        """See `engine.Task`."""
        rank, world_size, _ = self.processes
        epoch_batches = self.data.train.epoch(
            seed=self.seed, epoch=epoch, batch_size=self.batch_size, rank=rank, world_size=world_size
        )
        return islice(epoch_batches, self.steps_per_epoch)

    def schedule(self, progress: float) -> None:
        """See `engine.Task`: more or fewer batches may be read softly."""
        settings = self.loss
        end = settings.mix if settings.mix_end is None else settings.mix_end
        self.mix = settings.mix + min(1.0, progress / settings.mix_until) * (end - settings.mix)

    def read_of(self, noise: Noise) -> Read:
        """How to read a training batch: as the model does, or for a hard model, at times, softly."""
        if self.model.how == "hard" and self.mix and float(noise.shared().uniform(torch.zeros(1))) < self.mix:
            return "soft"
        return self.model.how

    def noise(self, epoch: int, step: int) -> Noise:
        """See `engine.Task`."""
        rank, world_size, _ = self.processes
        return Noise(noise_seed(TRAIN_NOISE, self.seed, epoch, step), rank=rank, world_size=world_size)


def noise_seed(*words: int) -> int:
    """A seed for torch that depends on the words alone."""
    return int(random_bits(*words, shape=(1,))[0] >> 1)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode for a while."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
