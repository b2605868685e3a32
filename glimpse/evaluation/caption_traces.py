"""What a captioner said of some images and where it looked: all that pictures of captions are drawn from.

What is drawn is what was read: entry n of a caption's maps and places belongs to its word n, read just before the word
was said; there is none for the end of the sentence, which is not shown.

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

AT_ONCE = 32  # images, which large encoders need much memory for


class CaptionTrace(NamedTuple):
    """The captions of a model for B images, and its looks while it said them; all tensors on the CPU."""

    name: str  # of the model
    mode: ReadMode
    images: Tensor  # (B, C, H, W) uint8
    captions: list[Tokens]  # B of them, of N words each, which differs
    weights: list[Tensor]  # B of (N, rows, columns): the attention, which for each word sums to one
    places: list[Tensor]  # B of (N,) int64, row by row: the place read; soft: the one that weighs most
    cell: tuple[float, float]  # height and width of a place, in pixels; the last may reach over the edge of the image
    references: list[list[Tokens]]  # B lists, empty where there are none

    @property
    def grid(self) -> tuple[int, int]:
        """The rows and columns of places."""
        return tuple(self.weights[0].shape[1:])

    def maps(self, row: int) -> Tensor:
        """The attention for each word of an image's caption (N, rows, columns), relative to the largest of the word."""
        return self.weights[row] / self.weights[row].amax((1, 2), keepdim=True)

    def box(self, place: int) -> tuple[float, float, float, float]:
        """The x0, y0, x1 and y1 of a place, in pixels: what of it is in the image."""
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
    """Let a captioner describe images, and keep all that can be drawn of it.

    Args:
        model: The captioner.
        vocabulary: Its words.
        images: (B, C, H, W) uint8.
        name: What to call the model.
        references: For each image, what others said of it; may be left out.
        mode: Read hard or soft; the model's own way if not given. Hard reads take the most likely place.
        search: How captions are searched for.
        device: Where the model is.
    """
    if images.dim() != 4 or images.dtype != torch.uint8 or len(images) == 0:
        raise ValueError(
            f"images must be uint8 of shape (B, C, H, W), at least one, got {images.dtype} {tuple(images.shape)}"
        )
    if references and len(references) != len(images):
        raise ValueError(f"references must be those of the {len(images)} images, got {len(references)}")
    size = images.shape[2:]
    said: list[Hypothesis] = []
    with evaluating(model):
        for some in images.split(AT_ONCE):
            annotations = model.annotate(some.to(device))
            said += beam(model.decoder, annotations, mode=mode, **search._asdict())
    across, down = (2 * model.encoder.centers(*size)[0]).tolist()  # the first place begins in the corner of the image
    return CaptionTrace(
        name=name,
        mode=mode or model.mode,
        images=images.cpu(),
        captions=[vocabulary.decode(caption.words) for caption in said],
        weights=[caption.weights.cpu().unflatten(1, model.encoder.grid(*size)) for caption in said],
        places=[caption.places.cpu() for caption in said],
        cell=(down, across),
        references=[list(each) for each in references] or [[] for _ in said],
    )


def check_same_images(traces: Sequence[CaptionTrace]) -> None:
    """Refuse to show models side by side that did not speak of the same images."""
    if not traces:
        raise ValueError("traces must be of at least one model, got none")
    for other in traces[1:]:
        if not torch.equal(other.images, traces[0].images):
            raise ValueError(f"traces must show the same images, but those of {other.name} and {traces[0].name} differ")
