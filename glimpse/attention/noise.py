"""The random numbers of a rollout.

Shapes: B batch, R rows.
"""

from collections.abc import Callable

import torch
from torch import Tensor


class Noise:
    """The only source of random numbers in a rollout: draws for a whole batch, hands out this process's rows.

    When a batch is shared between processes each draws the noise of the whole batch from the same seed and keeps its
    own rows, so that N processes look where one would have looked.
    """

    def __init__(self, seed: int | None = None, *, rank: int = 0, world_size: int = 1):
        """Create a stream; without a seed it follows torch's global generator."""
        self._generator = None if seed is None else torch.Generator().manual_seed(seed)
        self._rank = rank
        self._world_size = world_size
        self._rows: Tensor | None = None  # rows that are handed out, of so many
        self._size = 0

    def fork(self) -> "Noise":
        """A second stream that will give what this one is about to give."""
        twin = Noise(rank=self._rank, world_size=self._world_size)
        twin._generator = torch.Generator()
        twin._generator.set_state(torch.get_rng_state() if self._generator is None else self._generator.get_state())
        twin._rows, twin._size = self._rows, self._size
        return twin

    def same_for_all(self) -> "Noise":
        """The same stream, of which every process is handed the same rows, as many as it asks for."""
        whole = Noise()
        whole._generator = self._generator
        return whole

    def rows(self, index: Tensor, size: int) -> "Noise":
        """The same stream for some of the rows: each is handed what it would get among all.

        Args:
            index: (R,), which rows.
            size: Of how many; of those that this stream hands out, if it is for some already.
        """
        some = Noise(rank=self._rank, world_size=self._world_size)
        some._generator = self._generator
        some._rows, some._size = (index, size) if self._rows is None else (self._rows[index], self._size)
        return some

    def normal(self, like: Tensor) -> Tensor:
        """Standard normal numbers of the shape, type and device of `like` (B, ...)."""
        return self._draw(torch.randn, like)

    def uniform(self, like: Tensor) -> Tensor:
        """Uniform numbers in [0, 1) of the shape, type and device of `like` (B, ...)."""
        return self._draw(torch.rand, like)

    def dropout(self, x: Tensor, part: float) -> Tensor:
        """Dropout of x (B, ...): a part of it becomes zero, and the rest grows so that the mean stays the same."""
        return x if part == 0 else x * (self.uniform(x) >= part) / (1 - part)

    def _draw(self, draw: Callable[..., Tensor], like: Tensor) -> Tensor:
        rows = like.shape[0] if self._rows is None else self._size
        whole = draw(rows * self._world_size, *like.shape[1:], generator=self._generator)
        own = whole[self._rank * rows : (self._rank + 1) * rows]
        return (own if self._rows is None else own[self._rows.to(own.device)]).to(like)
