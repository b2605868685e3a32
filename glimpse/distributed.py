"""Data-parallel processes: rank, device and collective operations of this process.

`torchrun --nproc-per-node N train.py ...` starts N processes, which find each other through environment variables.
Without torchrun there is a single process, and the collective operations do nothing.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from glimpse.errors import ConfigError


class Processes(NamedTuple):
    """Rank and device of this process, and the number of processes."""

    rank: int
    world_size: int
    device: torch.device

    @property
    def main(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def metadata(self) -> dict[str, str | int]:
        """The circumstances that results depend on beyond the settings, up to rounding."""
        return {"device": str(self.device), "processes": self.world_size, "threads": torch.get_num_threads()}

    def mean(self, x: Tensor) -> Tensor:
        """The mean of x over all processes, which must hold equally many examples. No gradient."""
        if self.world_size > 1:
            x = x.clone()
            dist.all_reduce(x)
            x /= self.world_size
        return x

    def wait(self) -> None:
        """Wait for all processes."""
        if self.world_size > 1:
            dist.barrier()


def choose_device(name: str, local_rank: int = 0) -> torch.device:
    """Select a device that is available.

    Args:
        name: "auto", "cpu", "cuda", "cuda:1", "mps" ...; "auto" prefers cuda to mps to cpu.
        local_rank: Number of the GPU for "cuda" and "auto".

    Raises:
        ConfigError: If there is no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"the device must be auto, cpu, cuda, mps or another torch device, got {name!r}") from error
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", local_rank)
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).split("\n")[0]
        raise ConfigError(f"the device {name!r} is not available on this machine: {reason}") from error
    return device


@contextmanager
def processes(device: str = "auto", threads: int = 0) -> Iterator[Processes]:
    """Join the process group of torchrun, if there is one, and leave it at the end.

    Args:
        device: See `choose_device`.
        threads: CPU threads of this process; 0: the default of torch.

    Yields:
        This process.
    """
    rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    chosen = choose_device(device, int(os.environ.get("LOCAL_RANK", 0)))
    if threads:
        torch.set_num_threads(threads)
    if world_size == 1:
        yield Processes(0, 1, chosen)
        return
    if chosen.type == "cuda":
        if ":" in device:
            raise ConfigError(f"the device must be cuda without an index for several processes, got {device!r}")
        torch.cuda.set_device(chosen)
        dist.init_process_group("nccl", device_id=chosen)
    else:
        dist.init_process_group("gloo")
    try:
        yield Processes(rank, world_size, chosen)
    finally:
        dist.destroy_process_group()
