"""One process or several: which one this is, where it computes, and how they agree.

`torchrun --nproc-per-node N train.py ...` starts N processes, which find each other through environment variables. With
no torchrun there is one process, and everything here does nothing.
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
    """This process among its peers."""

    rank: int
    world_size: int
    device: torch.device

    @property
    def main(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    def metadata(self) -> dict[str, str | int]:
        """What the last bits of a result depend on."""
        return {"device": str(self.device), "processes": self.world_size, "threads": torch.get_num_threads()}

    def mean(self, x: Tensor) -> Tensor:
        """The mean of x over all processes, which must hold equally many examples; has no gradient."""
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
    """Turn "auto", "cpu", "cuda", "mps", "cuda:1" ... into a device that is there.

    Raises:
        ConfigError: If it is not there.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"the device must be auto, cpu, cuda, mps or the like, got {name!r}") from error
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
    """Join the processes that torchrun started, if it did, and leave them at the end."""
    rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    chosen = choose_device(device, int(os.environ.get("LOCAL_RANK", 0)))
    if threads:
        torch.set_num_threads(threads)
    if world_size == 1:
        yield Processes(0, 1, chosen)
        return
    if chosen.type == "cuda":
        if ":" in device:
            raise ConfigError(f"the device of several processes must be cuda, without a number, got {device!r}")
        torch.cuda.set_device(chosen)
        dist.init_process_group("nccl", device_id=chosen)
    else:
        dist.init_process_group("gloo")
    try:
        yield Processes(rank, world_size, chosen)
    finally:
        dist.destroy_process_group()
