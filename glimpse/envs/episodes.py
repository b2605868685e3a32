"""What an episode shows: an example of a data set, as a function of one or two integers.

Those integers are drawn by the environment's own generator and nothing else is left to chance, so that an episode
depends on the environment's seed alone, whatever other environments do beside it.

Shapes: B episodes.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, get_args

import numpy as np

from glimpse.config.schema import Group
from glimpse.data import Batch, ClutteredMNIST, Dataset, Layout, Splits
from glimpse.data.mnist import Split
from glimpse.data.settings import DATASETS, DataSettings, ImageDataSettings
from glimpse.seeding import Stream

Source = DataSettings | Splits | Dataset
DATA = Group(DATASETS, default="cluttered").of(ImageDataSettings)


class Draw(NamedTuple):
    """Which example, and in training of cluttered MNIST in which layout."""

    index: np.ndarray  # (B,) int64
    layout: np.ndarray | None  # (B,) int64; None for the example as it is scored


class Episodes:
    """The examples of one split, by number; immutable, so that copies of an environment share it."""

    def __init__(self, source: Source, split: Split):
        """Open the data.

        Args:
            source: Settings, three splits, or one data set.
            split: Which of the three; of one data set, whether it is shown as in training ("train") or as in scoring.

        Raises:
            ValueError: If there is no such split, or the data has no classes.
            DataError: If the data cannot be read.
        """
        if split not in get_args(Split):
            raise ValueError(f"split must be one of {', '.join(get_args(Split))}, got {split!r}")
        self._source, self._split = source, split
        data = _built(source) if hasattr(source, "build") else source
        self.data = getattr(data, split) if isinstance(data, Splits) else data
        if not hasattr(self.data, "class_names"):
            kind = getattr(source, "kind", type(source).__name__)
            raise ValueError(f"data must be images with classes (a glimpse.data.DataSet), got {kind!r}")
        self._fresh = split == "train" and isinstance(self.data, ClutteredMNIST)

    def draw(self, generators: list[np.random.Generator]) -> Draw:
        """Draw an episode with each of B generators."""
        size = len(self.data)
        if not self._fresh:
            return Draw(np.array([generator.integers(size) for generator in generators]), None)
        return Draw(*np.array([generator.integers(size, size=2) for generator in generators]).T)

    def show(self, draw: Draw) -> Batch:
        """The images of B episodes."""
        data = self.data
        if draw.layout is not None:
            layout = _pool(data).rows(draw.layout)
            layout.digits[:, 0] = draw.index  # a copy: rows are picked one by one
            return data.compose(layout)
        return data.select(draw.index.tolist())

    def __reduce__(self) -> tuple[Any, ...]:
        return Episodes, (self._source, self._split)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Episodes":
        return self


def source_of(data: Source | Mapping[str, Any], changes: Mapping[str, Any]) -> Source:
    """The data that an environment is told of.

    Args:
        data: Settings, as an object or by name; or splits or a data set, made already.
        changes: Settings that are to be others.

    Raises:
        ValueError: If there is no such setting, or nothing that it could change.
    """
    if not isinstance(data, Mapping) and not hasattr(data, "build"):
        if changes:
            raise ValueError(
                f"unknown options {', '.join(changes)}: those of the data can only be set if data is settings or a "
                f"mapping, got {type(data).__name__}"
            )
        return data
    # Options of another kind of data than the mapping is of, such as the registered canvas, mean nothing to it.
    same_kind = isinstance(data, Mapping) and changes.get("kind") in (None, data.get("kind", DATA.default))
    settings = {**data, **changes} if same_kind else changes
    valid = list((DATA.choose(settings.get("kind")) if isinstance(data, Mapping) else type(data)).model_fields)
    if unknown := set(settings) - set(valid):
        raise ValueError(
            f"unknown options {', '.join(sorted(unknown))}; beside those of GlimpseEnv, the options of the data are "
            f"{', '.join(valid)}"
        )
    return DATA.make(settings) if isinstance(data, Mapping) else data.replace(**settings)


@lru_cache(maxsize=8)
def _built(settings: DataSettings) -> Any:
    """The data that settings describe; the environments of a process share it."""
    return settings.build()


@lru_cache(maxsize=8)
def _pool(data: ClutteredMNIST) -> Layout:
    """As many layouts as there are images; any image in any of them is an example, made without a stream of its own."""
    return data.draw(Stream.EPISODES, first_digits=np.arange(len(data)))
