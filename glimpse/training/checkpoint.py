"""Checkpoints: safetensors files of tensors and a JSON header.

Nothing in them is ever unpickled, so a checkpoint from elsewhere can be wrong but cannot run code.
"""

from pathlib import Path

from torch import Tensor, nn

from glimpse.errors import RunError

FORMAT = "glimpse-1"


def weights_of(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The model's part of a checkpoint."""
    return {key.removeprefix("model."): value for key, value in tensors.items() if key.startswith("model.")}


def load_into(model: nn.Module, weights: dict[str, Tensor], path: Path, optional: tuple[str, ...] = ()) -> None:
    """Load weights, or say in what way they are those of another model."""
    own = model.state_dict()
    missing = sorted(key for key in own.keys() - weights.keys() if not key.startswith(optional))
    unexpected = sorted(key for key in weights.keys() - own.keys() if not key.startswith(optional))
    differ = [
        f"{key} is {tuple(weights[key].shape)} and should be {tuple(own[key].shape)}"
        for key in sorted(own.keys() & weights.keys())
        if own[key].shape != weights[key].shape
    ]
    problems = [
        *([f"it lacks {', '.join(missing)}"] if missing else []),
        *([f"it has also {', '.join(unexpected)}"] if unexpected else []),
        *differ,
    ]
    if problems:
        raise RunError(f"{path} is a checkpoint of another architecture: {'; '.join(problems)}")
    model.load_state_dict({key: value for key, value in weights.items() if key in own}, strict=False)
