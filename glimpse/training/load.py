"""Open run folders, and load the trained model of a run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glimpse.errors import RunError
from glimpse.tasks.base import task_of
from glimpse.training.run import Run


def load(folder: str | Path | Run) -> Any:
    """Load the trained model of a run, with its best weights, in evaluation mode.

        model = glimpse.load("cluttered60-hard")
        answers = model(images, sample=False).logits[:, -1].argmax(-1)  # images: (B, 1, 60, 60), 8-bit or float

    Args:
        folder: A run folder, or the name of a model that ships with the package (see `glimpse.shipped_models()`).

    Returns:
        For a classifier, the model itself; for a captioner a `TrainedCaptioner` and for a translator a
        `TrainedTranslator`, which hold the model and its vocabulary. The read mode is that of the run's scores.

    Raises:
        RunError: If there is no such run, or its checkpoint cannot be used.
    """
    run = Run.open(folder)
    return task_of(run.config).open(run)


def open_runs(folders: Sequence[str | Path | Run]) -> list[Run]:
    """Open one or several run folders.

    Raises:
        RunError: If the list is empty, or one of the folders is not a run.
    """
    if not folders:
        raise RunError("there must be at least one run folder, got none")
    return [Run.open(folder) for folder in folders]
