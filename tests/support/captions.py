"""What models said, made up: every map has its largest weight somewhere else, on a grid that is wider than high."""

import torch
from support.tensors import draw, draw_bytes

from glimpse.evaluation.caption_traces import CaptionTrace

CAPTIONS = (("a", "small", "dog", "runs"), ("two", "$cats_$"))
CELL = (12.0, 10.0)  # two rows and three columns: the image of 20 x 25 ends within the last ones


def some_told(mode="soft", *, captions=CAPTIONS, channels=1, seed=0, name=None, references=None, images=None):
    """What a model said of two images of 20 x 25."""
    images = draw_bytes(len(captions), channels, 20, 25) if images is None else images
    weights, places = [], []
    for row, caption in enumerate(captions):
        peaks = [(seed + 2 * row + 5 * word) % 6 for word in range(len(caption))]  # each unlike its neighbours
        numbers = draw(len(caption), 6, seed=seed + row) / 4
        numbers[range(len(caption)), peaks] = 0.5
        weights.append((numbers / numbers.sum(1, keepdim=True)).view(-1, 2, 3))
        places.append(torch.tensor(peaks, dtype=torch.int64))
    return CaptionTrace(
        name=name or mode,
        mode=mode,
        images=images,
        captions=list(captions),
        weights=weights,
        places=places,
        cell=CELL,
        references=[[] for _ in captions] if references is None else references,
    )


def box_by_hand(place):
    """The x0, y0, x1 and y1 of a place of `some_told`."""
    i, j = divmod(place, 3)
    return 10 * j, 12 * i, [10, 20, 25][j], [12, 20][i]
