"""Checkpoints: safetensors files of tensors and a JSON header.

Nothing in them is unpickled, so that loading an untrusted checkpoint cannot run code.
"""

from pathlib import Path

from torch import Tensor, nn

from glimpse.errors import RunError

CHECKPOINT_FORMAT = "glimpse-1"


def model_weights(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the model's state dict from the tensors of a checkpoint."""
    return {key.removeprefix("model."): value for key, value in tensors.items() if key.startswith("model.")}


def load_into(model: nn.Module, weights: dict[str, Tensor], path: Path, optional: tuple[str, ...] = ()) -> None:
    """Load weights into a model.

    Args:
        model: The model.
        weights: Its state dict.
        path: File that the weights were read from, for the error message.
        optional: Prefixes of keys that may be missing from the model or from the weights.

    Raises:
        RunError: If keys or shapes differ.
    """
    own = model.state_dict()
    missing = sorted(key for key in own.keys() - weights.keys() if not key.startswith(optional))
    unexpected = sorted(key for key in weights.keys() - own.keys() if not key.startswith(optional))
    shapes = [
        f"{key} has shape {tuple(weights[key].shape)}, expected {tuple(own[key].shape)}"
        for key in sorted(own.keys() & weights.keys())
        if own[key].shape != weights[key].shape
    ]
    problems = [
        *([f"missing keys {', '.join(missing)}"] if missing else []),
        *([f"unexpected keys {', '.join(unexpected)}"] if unexpected else []),
        *shapes,
    ]
    if problems:
        raise RunError(f"{path} is a checkpoint of another architecture: {'; '.join(problems)}")
    model.load_state_dict({key: value for key, value in weights.items() if key in own}, strict=False)
