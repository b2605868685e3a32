"""Measure the speed of the attention modules, as ratios within one run.

python benchmarks/attention.py                    each scorer, with and without a window, relative to the additive one;
                                                  self-attention, fused and explicit, at several lengths
python benchmarks/attention.py --seconds 0.1      a quick test run

All times are for a forward and a backward pass. On a busy machine, use one thread (OMP_NUM_THREADS=1).

Shapes: B batch, L places, A annotation size.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from timing import side_by_side

from glimpse.attention.annotation import Attention
from glimpse.attention.scorers import SCORERS
from glimpse.attention.self_attention import SelfAttention

BATCH, SIDE, SIZE, STEPS, RADIUS = 64, 7, 256, 6, 2  # a grid of 7 x 7 annotations of size 256; a state of the same size
LENGTHS, HEADS = (16, 49, 196, 784), 4


def soft_reads(scorer: str, window: int | None) -> Callable[[], None]:
    """Return a function that makes soft reads of the same annotations, and their gradients."""
    attention = Attention(state_dim=SIZE, annotation_dim=SIZE, scorer=scorer, dim=SIZE, window=window, axes=2)
    annotations = torch.randn(BATCH, SIDE * SIDE, SIZE, requires_grad=True)
    states = torch.randn(STEPS, BATCH, SIZE, requires_grad=True)

    def run() -> None:
        memory = attention.annotate(annotations, grid=(SIDE, SIDE))
        sum(attention(state, memory).context.sum() for state in states).backward()

    return run


def scorers(seconds: float) -> None:
    """Measure each scorer relative to the additive one."""
    names = {(scorer, window): scorer + ", window" * bool(window) for window in (None, RADIUS) for scorer in SCORERS}
    times = side_by_side({name: soft_reads(*kind) for kind, name in names.items()}, seconds)
    print(f"{STEPS} soft reads of {BATCH} x {SIDE * SIDE} annotations of size {SIZE}, forward and backward:\n")
    print(f"{'':24}{'ms':>8}{'times additive':>17}")
    for name, duration in times.items():
        print(f"{name:24}{1e3 * duration:8.2f}{duration / times['additive']:17.2f}")


def self_attend(length: int, need_weights: bool) -> Callable[[], None]:
    """Return a function that computes self-attention and its gradient, for about as many annotations at any length."""
    attention = SelfAttention(dim=SIZE, heads=HEADS)
    annotations = torch.randn(max(1, BATCH * LENGTHS[0] // length), length, SIZE, requires_grad=True)
    return lambda: attention(annotations, need_weights=need_weights).annotations.sum().backward()


def self_attention(seconds: float) -> None:
    """Measure torch's fused function, which returns no weights, and the explicit formula, which does."""
    count = BATCH * LENGTHS[0]
    print(f"\nSelf-attention, about {count} annotations of size {SIZE}, {HEADS} heads, forward and backward:\n")
    print(f"{'length':>8}{'fused, ms':>12}{'explicit, ms':>15}{'times fused':>14}")
    for length in LENGTHS:
        alternatives = {"fused": self_attend(length, False), "explicit": self_attend(length, True)}
        fused, explicit = side_by_side(alternatives, seconds).values()
        print(f"{length:8}{1e3 * fused:12.2f}{1e3 * explicit:15.2f}{explicit / fused:14.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each alternative (default: 3)")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    print(f"{torch.get_num_threads()} threads\n")
    scorers(arguments.seconds)
    self_attention(arguments.seconds)
