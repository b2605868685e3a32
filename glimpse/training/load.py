"""From a run folder to a trained model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glimpse.errors import RunError
from glimpse.tasks.base import task_of
from glimpse.training.run import Run


def load(folder: str | Path | Run) -> Any:
    """Load a trained model, with its best weights and ready to look.

        model = glimpse.load("cluttered60-hard")
        answers = model(images, sample=False).logits[:, -1].argmax(-1)  # images: (B, 1, 60, 60), 8-bit or float

    Args:
        folder: A run folder, or the name of a model that ships with the package (`glimpse.shipped_models()`).

    Returns:
        The model itself of a classifier; of a captioner a `TrainedCaptioner`, of a translator a `TrainedTranslator`,
        which have the words beside the model. It reads as it does when it is scored, unless told otherwise.

    Raises:
        RunError: If there is no such run, or its checkpoint cannot be used.
    """
    run = Run.open(folder)
    return task_of(run.config).open(run)


def open_runs(folders: Sequence[str | Path | Run]) -> list[Run]:
    """Open run folders, at least one, each once.

    Raises:
        RunError: If there is none, or one of them is not a run.
    """
    if not folders:
        raise RunError("there must be at least one run folder, got none")
    return [Run.open(folder) for folder in folders]
