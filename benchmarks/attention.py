"""How fast the forms of attention are, as ratios measured in one run.

python benchmarks/attention.py                    a step of each scorer, with a window and without, against the additive
                                                  one; self-attention, fused against explicit, at several lengths
python benchmarks/attention.py --seconds 0.1      the same in a hurry, to see that it works

Every time is of a forward and a backward pass. To compare beside other work, give it one thread (OMP_NUM_THREADS=1).

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

BATCH, SIDE, SIZE, STEPS, REACH = 64, 7, 256, 6, 2  # a grid of 7 x 7 annotations of size 256, and as large a state
LENGTHS, HEADS = (16, 49, 196, 784), 4


def learning(scorer: str, window: int | None) -> Callable[[], None]:
    """So many soft reads of the same annotations, and their gradients."""
    attention = Attention(state_dim=SIZE, annotation_dim=SIZE, scorer=scorer, dim=SIZE, window=window, axes=2)
    annotations = torch.randn(BATCH, SIDE * SIDE, SIZE, requires_grad=True)
    states = torch.randn(STEPS, BATCH, SIZE, requires_grad=True)

    def learn() -> None:
        memory = attention.annotate(annotations, grid=(SIDE, SIDE))
        sum(attention(state, memory).context.sum() for state in states).backward()

    return learn


def scorers(seconds: float) -> None:
    """Each scorer against the additive one."""
    names = {(scorer, window): scorer + ", window" * bool(window) for window in (None, REACH) for scorer in SCORERS}
    times = side_by_side({name: learning(*kind) for kind, name in names.items()}, seconds)
    print(f"{STEPS} soft reads of {BATCH} x {SIDE * SIDE} annotations of size {SIZE}, forward and backward:\n")
    print(f"{'':24}{'ms':>8}{'times additive':>17}")
    for name, taken in times.items():
        print(f"{name:24}{1e3 * taken:8.2f}{taken / times['additive']:17.2f}")


def mixing(length: int, need_weights: bool) -> Callable[[], None]:
    """Self-attention of about as many annotations in all, whatever the length, and its gradient."""
    attention = SelfAttention(dim=SIZE, heads=HEADS)
    annotations = torch.randn(max(1, BATCH * LENGTHS[0] // length), length, SIZE, requires_grad=True)
    return lambda: attention(annotations, need_weights=need_weights).annotations.sum().backward()


def self_attention(seconds: float) -> None:
    """Torch's fused function, which the weights are not asked of, against the formula, which tells them."""
    count = BATCH * LENGTHS[0]
    print(f"\nSelf-attention, about {count} annotations of size {SIZE}, {HEADS} heads, forward and backward:\n")
    print(f"{'length':>8}{'fused, ms':>12}{'explicit, ms':>15}{'times fused':>14}")
    for length in LENGTHS:
        ways = {"fused": mixing(length, False), "explicit": mixing(length, True)}
        fused, explicit = side_by_side(ways, seconds).values()
        print(f"{length:8}{1e3 * fused:12.2f}{1e3 * explicit:15.2f}{explicit / fused:14.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="to measure each alternative; 3 if not given")
    given = parser.parse_args()
    torch.manual_seed(0)
    print(f"{torch.get_num_threads()} threads\n")
    scorers(given.seconds)
    self_attention(given.seconds)
