"""The images of episodes: each is an example of a data set, given by one or two integers.

The environment's own generator draws these integers and nothing else is random, so an episode depends on the seed of
its environment alone, whatever other environments run beside it.

Shapes: B episodes.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeGuard, cast, get_args, runtime_checkable

import numpy as np

from glimpse.config.schema import Group
from glimpse.data.base import Batch, Dataset, Splits
from glimpse.data.cluttered_mnist import Layout
from glimpse.data.mnist import Split
from glimpse.data.settings import DATASETS, DataSettings, ImageDataSettings
from glimpse.seeding import Stream

Source = DataSettings | Splits | Dataset
DATA = Group(DATASETS, default="cluttered").of(ImageDataSettings)


@runtime_checkable
class LayoutDataset(Protocol):
    """A data set that composes its images from random layouts, such as cluttered MNIST."""

    def __len__(self) -> int:
        """Number of examples."""

    def __hash__(self) -> int:
        """Hash by identity."""

    def draw(self, *words: int, first_digits: np.ndarray) -> Layout:
        """Draw a layout for each of some examples."""

    def compose(self, layout: Layout) -> Batch:
        """Compose the images of a layout."""


class Draw(NamedTuple):
    """Which example an episode shows, and in which layout."""

    example: np.ndarray  # (B,) int64
    layout: np.ndarray | None  # (B,) int64; None: the fixed layout that is used for scoring


class Episodes:
    """The examples of one split, by number; immutable, so that copies of an environment share it."""

    def __init__(self, source: Source, split: Split):
        """Open the data.

        Args:
            source: Settings, three splits, or one data set.
            split: Which of the splits. Of a single data set, "train" shows it as in training, the others as in scoring.

        Raises:
            ValueError: If there is no such split, or the data has no classes.
            DataError: If the data cannot be read.
        """
        if split not in get_args(Split):
            raise ValueError(f"split must be one of {', '.join(get_args(Split))}, got {split!r}")
        self._source, self._split = source, split
        data: Any = _build(source) if _is_settings(source) else source
        self.data: Dataset = getattr(data, split) if isinstance(data, Splits) else data
        if not hasattr(self.data, "class_names"):
            kind = getattr(source, "kind", type(source).__name__)
            raise ValueError(f"data must be images with classes (a glimpse.data.Dataset), got {kind!r}")
        # In training, the layout of such data is random, too.
        self._composer = self.data if split == "train" and isinstance(self.data, LayoutDataset) else None

    def draw(self, generators: list[np.random.Generator]) -> Draw:
        """Draw an episode with each of B generators."""
        size = len(self.data)
        if self._composer is None:
            return Draw(np.array([generator.integers(size) for generator in generators]), None)
        return Draw(*np.array([generator.integers(size, size=2) for generator in generators]).T)

    def batch(self, draw: Draw) -> Batch:
        """Return the images and targets of B episodes."""
        if self._composer is None or draw.layout is None:
            return self.data.select(draw.example.tolist())
        layout = Layout(*(field[draw.layout] for field in _layouts(self._composer)))  # copies
        layout.digits[:, 0] = draw.example
        return self._composer.compose(layout)

    def __reduce__(self) -> tuple[Any, ...]:
        return Episodes, (self._source, self._split)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Episodes":
        return self


def source_of(data: Source | Mapping[str, Any], changes: Mapping[str, Any]) -> Source:
    """Apply the data options of an environment to its data.

    Args:
        data: Settings, as an object or by name; or splits or a data set.
        changes: Settings that replace those of `data`.

    Raises:
        ValueError: If there is no such setting, or `data` has no settings.
    """
    if not isinstance(data, Mapping) and not _is_settings(data):
        if changes:
            raise ValueError(
                f"unknown options {', '.join(changes)}: options of the data need data to be settings or a mapping, got "
                f"{type(data).__name__}"
            )
        return data
    # The mapping's settings, such as the canvas of a registered id, do not apply to another kind of data.
    kind = changes.get("kind")
    kept = data if isinstance(data, Mapping) and kind in (None, data.get("kind", DATA.default)) else {}
    settings = {**kept, **changes}
    valid = list((DATA.choose(settings.get("kind")) if isinstance(data, Mapping) else type(data)).model_fields)
    if unknown := set(settings) - set(valid):
        raise ValueError(
            f"unknown options {', '.join(sorted(unknown))}; besides those of GlimpseEnv, the options of the data are "
            f"{', '.join(valid)}"
        )
    if isinstance(data, Mapping):
        return cast(ImageDataSettings, DATA.make(settings))  # the base class that DATA was made with
    return data.replace(**settings)


def _is_settings(data: object) -> TypeGuard[DataSettings]:
    return hasattr(data, "build")


@lru_cache(maxsize=8)
def _build(settings: DataSettings) -> Any:
    """Build the data of settings, once for all environments of a process."""
    return settings.build()


@lru_cache(maxsize=8)
def _layouts(data: LayoutDataset) -> Layout:
    """Draw as many layouts as there are images. Any image in any layout is an example; none needs its own stream."""
    return data.draw(Stream.EPISODES, first_digits=np.arange(len(data)))
