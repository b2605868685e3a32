"""Counter-based random numbers: functions of a stream, the seed, the epoch and the step.

A resumed run needs no saved random state, and all processes draw the same numbers without communication. Integers are
derived from raw Philox output by the functions below, because NumPy guarantees the streams of its bit generators across
versions, but not those of its distributions.
"""

import random
from collections.abc import Sequence
from enum import IntEnum, unique

import numpy as np
import torch


@unique
class Stream(IntEnum):
    """The first word of every seed, so that different purposes have independent random numbers."""

    PERMUTATION = 1  # order of the examples of an epoch
    TRAIN_BATCH = 2  # layouts of a training batch
    FROZEN = 3  # layouts and order of a fixed validation or test set
    HOLD_OUT = 4  # examples that are held out of the training split
    EPISODES = 5  # layouts of an environment's episodes
    TRAIN_NOISE = 101  # sampled places and dropout in training
    SCORE_NOISE = 102  # sampled places in scoring
    VARIANCE_NOISE = 110  # sampled places in measurements of the gradient variance
    DIGIT_CONTENT = 201
    DIGIT_NUMBER = 202
    DIGIT_PLACES = 203
    DIGIT_WORDING = 204
    DIGIT_ORDER = 205
    CAPTION_CHOICE = 301  # the caption of each image in an epoch
    CAPTION_ORDER = 302
    PAIR_ORDER = 403  # order of the batches of sentence pairs
    DATE_CONTENT = 501
    DATE_SPLIT = 502
    DATE_CHOICE = 503
    BOOTSTRAP = 511  # resamples of a corpus


def random_bits(*words: int, shape: Sequence[int]) -> np.ndarray:
    """Uniform 64-bit integers that depend only on `words`.

    Args:
        words: The seed. All seeds with the same first word must have the same number of words.
        shape: Shape of the result.

    Returns:
        Array of `shape`, uint64.
    """
    generator = np.random.Philox(np.random.SeedSequence(words))
    return generator.random_raw(int(np.prod(shape))).reshape(shape)


def below(bits: np.ndarray, high: int | np.ndarray) -> np.ndarray:
    """Map 64-bit random integers to integers uniform in [0, high), high < 2**32, by integer arithmetic.

    The result is floor(u * high), where u in [0, 1) is the fraction of the upper 32 bits; its bias is below
    `high` / 2**32.
    """
    return (((bits >> np.uint64(32)) * np.asarray(high, np.uint64)) >> np.uint64(32)).astype(np.int64)


def permutation(*words: int, size: int) -> np.ndarray:
    """A random permutation of 0..size-1, (size,) int64, that depends only on the seed `words`."""
    return np.argsort(random_bits(*words, shape=(size,)), kind="stable")


def seed_everything(seed: int) -> None:
    """Seed the global generators of Python, NumPy and torch; data and sampled locations use `random_bits` instead."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def noise_seed(*words: int) -> int:
    """A seed for a torch generator that depends only on `words`."""
    return int(random_bits(*words, shape=(1,))[0] >> 1)
