"""Measure the speed of composing cluttered MNIST, relative to pasting image by image: python benchmarks/data.py."""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from timing import side_by_side

from glimpse.data import ClutteredMNIST, Layout, load_mnist

BATCH = 128


def paste_loop(layout: Layout, canvas: tuple[int, int], images: np.ndarray, size: int) -> np.ndarray:
    """Compose images one paste at a time."""
    batch = np.zeros((len(layout.digits), *canvas), np.float32)
    for example, *draws in zip(batch, *layout, strict=True):
        digits, digit_corners, distractors, crop_corners, paste_corners = draws
        for source, (top, left), (y, x) in zip(distractors, crop_corners, paste_corners, strict=True):
            example[y : y + size, x : x + size] += images[source, top : top + size, left : left + size] / 255
        example.clip(0, 1, out=example)
        for source, (y, x) in zip(digits, digit_corners, strict=True):
            example[y : y + 28, x : x + 28] += images[source] / 255
        example.clip(0, 1, out=example)
    return batch


def main() -> None:
    """Measure drawing and composing a batch of each standard data set."""
    images, _ = load_mnist("train")
    first = np.arange(BATCH)
    print(f"{'images':>10}{'distractors':>13}{'images/s':>12}{'times the loop':>16}")
    for side, distractors in ((60, 4), (100, 8), (60, 0), (28, 0)):
        data = ClutteredMNIST(split="train", canvas=(side, side), num_distractors=distractors)

        def batched(data: ClutteredMNIST = data) -> None:
            data.compose(data.draw(2, 0, 0, 0, 0, first_digits=first))

        def loop(data: ClutteredMNIST = data, side: int = side) -> None:
            paste_loop(data.draw(2, 0, 0, 0, 0, first_digits=first), (side, side), images, 8)

        times = side_by_side({"batched": batched, "loop": loop}, seconds=1.5)
        rate, ratio = BATCH / times["batched"], times["loop"] / times["batched"]
        print(f"{side:>6}x{side:<3}{distractors:>13}{rate:12,.0f}{ratio:16.1f}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
