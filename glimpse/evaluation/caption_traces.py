"""Caption images and record the attention at each word, for figures and reports.

Entry n of the weights and places of a caption belongs to its word n: the attention of the decoder step that predicted
the word. The step that predicted END is not recorded.

Shapes: B images, N words of a caption, C channels, H height, W width.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from glimpse.attention.settings import ReadMode
from glimpse.data.vocabulary import Tokens, Vocabulary
from glimpse.models.decoding import GREEDY, BeamSearch, Hypothesis, beam
from glimpse.models.encoder_decoder import Captioner
from glimpse.models.inference import evaluating

BATCH_SIZE = 32  # images; large encoders need much memory


class CaptionTrace(NamedTuple):
    """The captions of B images by one model, with the attention at each word; all tensors are on the CPU."""

    name: str  # of the model
    mode: ReadMode
    images: Tensor  # (B, C, H, W) uint8
    captions: list[Tokens]  # B captions; N differs between them
    weights: list[Tensor]  # B x (N, rows, columns): attention weights, which sum to one for each word
    places: list[Tensor]  # B x (N,) int64, row-major: the place read; soft: the one with the largest weight
    cell: tuple[float, float]  # height and width of a place, in pixels; the last ones may extend beyond the image
    references: list[list[Tokens]]  # B lists of reference captions; empty without references

    @property
    def grid(self) -> tuple[int, int]:
        """The number of rows and columns of the places."""
        rows, columns = self.weights[0].shape[1:]
        return rows, columns

    def maps(self, row: int) -> Tensor:
        """The attention weights (N, rows, columns) of an image, scaled to a maximum of 1 for each word."""
        return self.weights[row] / self.weights[row].amax((1, 2), keepdim=True)

    def box(self, place: int) -> tuple[float, float, float, float]:
        """The x0, y0, x1 and y1 of a place in pixels, clipped to the image."""
        height, width = self.images.shape[2:]
        i, j = divmod(place, self.grid[1])
        y, x = self.cell
        return j * x, i * y, min((j + 1) * x, width), min((i + 1) * y, height)


@torch.no_grad()
def trace_captions(
    model: Captioner,
    vocabulary: Vocabulary,
    images: Tensor,
    *,
    name: str,
    references: Sequence[list[Tokens]] = (),
    mode: ReadMode | None = None,
    search: BeamSearch = GREEDY,
    device: torch.device | str = "cpu",
) -> CaptionTrace:
    """Caption images and record the attention at each word.

    Args:
        model: The captioner.
        vocabulary: Its vocabulary.
        images: (B, C, H, W) uint8.
        name: Display name of the model.
        references: The reference captions of each image; empty: no references.
        mode: Read mode, "hard" or "soft"; None: the model's own mode. Hard reads take the most likely place.
        search: Beam width, length penalty and maximum length.
        device: The device of the model.
    """
    if images.dim() != 4 or images.dtype != torch.uint8 or len(images) == 0:
        raise ValueError(
            f"images must be uint8 of shape (B, C, H, W), at least one, got {images.dtype} {tuple(images.shape)}"
        )
    if references and len(references) != len(images):
        raise ValueError(f"references must have an entry for each of the {len(images)} images, got {len(references)}")
    size = images.shape[2:]
    hypotheses: list[Hypothesis] = []
    with evaluating(model):
        for batch in images.split(BATCH_SIZE):
            annotations = model.annotate(batch.to(device))
            hypotheses += beam(model.decoder, annotations, mode=mode, **search._asdict())
    # The first place touches the corner of the image, so its center is half its size.
    cell_width, cell_height = (2 * model.encoder.centers(*size)[0]).tolist()
    return CaptionTrace(
        name=name,
        mode=mode or model.mode,
        images=images.cpu(),
        captions=[vocabulary.decode(hypothesis.words) for hypothesis in hypotheses],
        weights=[hypothesis.weights.cpu().unflatten(1, model.encoder.grid(*size)) for hypothesis in hypotheses],
        places=[hypothesis.places.cpu() for hypothesis in hypotheses],
        cell=(cell_height, cell_width),
        references=[list(captions) for captions in references] or [[] for _ in hypotheses],
    )


def check_same_images(traces: Sequence[CaptionTrace]) -> None:
    """Raise a ValueError unless all traces have the same images."""
    if not traces:
        raise ValueError("traces must be of at least one model, got none")
    for other in traces[1:]:
        if not torch.equal(other.images, traces[0].images):
            raise ValueError(f"traces must show the same images, but those of {other.name} and {traces[0].name} differ")
