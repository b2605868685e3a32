"""Made-up captions with attention maps: each map has its largest weight in another cell of a 2 x 3 grid."""

import torch
from support.tensors import draw, draw_bytes

from glimpse.evaluation.caption_traces import CaptionTrace

CAPTIONS = (("a", "small", "dog", "runs"), ("two", "$cats_$"))
CELL = (12.0, 10.0)  # two rows and three columns: the image of 20 x 25 ends within the last ones


def make_caption_trace(mode="soft", *, captions=CAPTIONS, channels=1, seed=0, name=None, references=None, images=None):
    """A trace of two captions, of images of 20 x 25."""
    images = draw_bytes(len(captions), channels, 20, 25) if images is None else images
    weights, places = [], []
    for row, caption in enumerate(captions):
        peaks = [(seed + 2 * row + 5 * word) % 6 for word in range(len(caption))]  # each unlike its neighbors
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
    """The x0, y0, x1 and y1 of a cell of `make_caption_trace`."""
    i, j = divmod(place, 3)
    return 10 * j, 12 * i, [10, 20, 25][j], [12, 20][i]
