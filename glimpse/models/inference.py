"""Temporary evaluation mode."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode inside the `with` block."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
