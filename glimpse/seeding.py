"""Random numbers that are functions of a few integers: which stream, seed, epoch, step.

A resumed run needs no saved state, and several processes agree without talking. The integers are derived from raw
Philox output by the few lines below, because NumPy keeps bit generators stable for ever but not the distributions built
on them.
"""

import random
from collections.abc import Sequence
from enum import IntEnum, unique

import numpy as np
import torch


@unique
class Stream(IntEnum):
    """The first word of every seed: streams of different purposes never share random numbers."""

    PERMUTATION = 1  # order of the examples of an epoch
    TRAIN_BATCH = 2  # layouts of a training batch
    FROZEN = 3  # layouts and order of a fixed set
    HOLD_OUT = 4  # which examples are held out of the training split
    EPISODES = 5  # layouts of an environment's episodes
    TRAIN_NOISE = 101  # places sampled, and dropout, in training
    SCORE_NOISE = 102  # places sampled in scoring
    VARIANCE_NOISE = 110  # places sampled to measure the variance of the gradient
    DIGIT_CONTENT = 201
    DIGIT_NUMBER = 202
    DIGIT_PLACES = 203
    DIGIT_WORDING = 204
    DIGIT_ORDER = 205
    CAPTION_CHOICE = 301  # which of its captions an image has in an epoch
    CAPTION_ORDER = 302
    PAIR_ORDER = 403  # order of the batches of sentence pairs
    DATE_CONTENT = 501
    DATE_SPLIT = 502
    DATE_CHOICE = 503
    BOOTSTRAP = 511  # resampled corpora


def random_bits(*words: int, shape: Sequence[int]) -> np.ndarray:
    """Uniform 64-bit integers that depend on `words` alone.

    Args:
        words: the seed. Callers with the same first word must give the same number of words.
        shape: shape of the result.

    Returns:
        Array of `shape`, uint64.
    """
    generator = np.random.Philox(np.random.SeedSequence(words))
    return generator.random_raw(int(np.prod(shape))).reshape(shape)


def below(bits: np.ndarray, high: int | np.ndarray) -> np.ndarray:
    """Maps 64 random bits to integers uniform in [0, high), high < 2**32, in integer arithmetic.

    The upper 32 bits, as a fraction, times `high`: the bias is below `high` / 2**32.
    """
    return (((bits >> np.uint64(32)) * np.asarray(high, np.uint64)) >> np.uint64(32)).astype(np.int64)


def permutation(*words: int, size: int) -> np.ndarray:
    """A random order of 0..size-1, (size,) int64, that depends on `words` alone."""
    return np.argsort(random_bits(*words, shape=(size,)), kind="stable")


def seed_everything(seed: int) -> None:
    """Seed every global generator. Data and glimpses do not depend on them: they have their own seeds."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def noise_seed(*words: int) -> int:
    """A seed for torch that depends on the words alone."""
    return int(random_bits(*words, shape=(1,))[0] >> 1)
