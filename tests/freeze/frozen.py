"""What the frozen tests share: digests of weights, and the comparison with what is stored.

Where torch and the processor are those that the expectations were written with, all must be equal bit for bit.
Elsewhere numbers may differ by rounding, and an answer in a hundred where two classes or words are as likely; settings
may not.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

HERE = Path(__file__).parent
EXPECTED = HERE / "expected"
RUNS = HERE / "runs"
IMAGES = HERE / "images"
TOLERANCE = 1e-5  # relative, on another machine
MAX_DIFFERENT_ANSWERS = 0.01  # fraction, on another machine


def machine() -> dict[str, str]:
    """What the last bits of a result depend on."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "torch": torch.__version__,
        "processor": names[0] if names else "unknown",
        "capability": torch.backends.cpu.get_cpu_capability(),
    }


def read(name: str) -> dict[str, Any]:
    """A file of expectations."""
    return json.loads((EXPECTED / f"{name}.json").read_text())


def digest(weights: dict[str, Tensor]) -> str:
    """A hash of names, types, shapes and every bit of some tensors."""
    found = hashlib.sha256()
    for name, value in sorted(weights.items()):
        found.update(f"{name} {value.dtype} {list(value.shape)}\n".encode())
        found.update(value.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def summary(weights: dict[str, Tensor]) -> dict[str, list[Any]]:
    """Of each tensor its shape, sum, sum of absolute values, and a sum that depends on the order of its elements."""
    found = {}
    for name, value in sorted(weights.items()):
        x = value.detach().cpu().double().flatten()
        ordered = x @ torch.cos(torch.arange(len(x), dtype=torch.float64))
        found[name] = [list(value.shape), x.sum().item(), x.abs().sum().item(), ordered.item()]
    return found


def describe(weights: dict[str, Tensor]) -> dict[str, Any]:
    """What is stored of some weights."""
    return {"sha256": digest(weights), "tensors": summary(weights)}


def assert_same_weights(
    weights: dict[str, Tensor],
    expected: dict[str, Any],
    stored: dict[str, str],
    *,
    rounding: bool = True,
) -> None:
    """Weights are those that were described on the stored machine.

    Args:
        weights: By name.
        expected: Made by `describe`.
        stored: The machine that it was made on.
        rounding: Whether they were computed, so that they may differ by rounding on another machine.
    """
    found = summary(weights)
    assert found.keys() == expected["tensors"].keys()
    different = []
    for name, (shape, *sums) in found.items():
        expected_shape, *expected_sums = expected["tensors"][name]
        assert shape == expected_shape, name
        size = expected_sums[1] if math.isfinite(expected_sums[1]) else 0  # a moving average begins at infinity
        pairs = zip(sums, expected_sums, strict=True)
        if not all(one == other or abs(one - other) <= TOLERANCE * size for one, other in pairs):
            different.append(name)
    assert not different
    if machine() == stored or not rounding:
        assert digest(weights) == expected["sha256"]


def different_answers(found: Sequence[str], expected: Sequence[str], stored: dict[str, str]) -> float:
    """The fraction of answers that differ from the stored ones; fails if these are too many."""
    assert len(found) == len(expected)
    different = sum(one != other for one, other in zip(found, expected, strict=True)) / len(expected)
    assert different <= (0 if machine() == stored else MAX_DIFFERENT_ANSWERS)
    return different


def assert_same(
    found: Any, expected: Any, stored: dict[str, str], *, tolerance: float = TOLERANCE, where: str = ""
) -> None:
    """Values, however nested, are those that were found on the stored machine, on another within the tolerance."""
    if isinstance(expected, dict):
        assert isinstance(found, dict) and found.keys() == expected.keys(), where
        for key in expected:
            assert_same(found[key], expected[key], stored, tolerance=tolerance, where=f"{where}/{key}")
    elif isinstance(expected, list):
        assert isinstance(found, list | tuple) and len(found) == len(expected), where
        for index, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_same(one, other, stored, tolerance=tolerance, where=f"{where}/{index}")
    elif isinstance(expected, float) and machine() != stored:
        assert math.isclose(found, expected, rel_tol=tolerance, abs_tol=tolerance), (where, found, expected)
    else:
        assert found == expected, where


def assert_same_settings(
    found: dict[str, Any], expected: dict[str, Any], required: list[str], idle: dict[str, str]
) -> None:
    """All settings that exist have the frozen values, and those that must exist do.

    Args:
        found: Frozen names and values of the settings that exist for such a run.
        expected: All settings as they were frozen.
        required: Names of those that differ from the defaults.
        idle: Those that need not exist any more, with the reasons.
    """
    unknown = sorted(found.keys() - expected.keys())
    assert not unknown
    different = {key: (value, expected[key]) for key, value in found.items() if value != expected[key]}
    assert not different  # name: (found, expected)
    assert all(idle.values()), "an idle setting needs a reason"
    missing = sorted(set(required) - found.keys() - idle.keys())
    assert not missing
