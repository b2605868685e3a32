"""Caption the images of a dataset with a trained captioner, and score the captions.

Shapes: N words of a caption.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from glimpse.attention.settings import ReadMode
from glimpse.data.captions import CaptionDataset
from glimpse.data.digit_grammar import Digit, digit_mentions, judge
from glimpse.data.vocabulary import Tokens, Vocabulary
from glimpse.metrics.captions import caption_scores
from glimpse.models.decoding import GREEDY, BeamSearch, beam
from glimpse.models.encoder_decoder import Captioner
from glimpse.models.inference import evaluating

if TYPE_CHECKING:
    from glimpse.training.run import Run


class TrainedCaptioner(NamedTuple):
    """A trained captioner with its run and vocabulary."""

    run: "Run"
    model: Captioner
    vocabulary: Vocabulary
    image_shape: tuple[int, int, int]  # (C, H, W) of the training images


class CaptionResult(NamedTuple):
    """The caption of one image, with what is needed to score it."""

    words: Tokens  # N words
    points: Tensor  # (N, 2): x and y in pixels, the center of the place with the largest attention weight for each word
    references: list[Tokens]
    digits: tuple[Digit, ...]  # the digits in the image; empty if they are unknown
    canvas: tuple[int, int]  # height and width of the image, in pixels


@torch.no_grad()
def caption_dataset(
    model: Captioner,
    vocabulary: Vocabulary,
    data: CaptionDataset,
    *,
    mode: ReadMode | None = None,
    search: BeamSearch = GREEDY,
    batch_size: int = 500,
    limit: int | None = None,
    device: torch.device | str = "cpu",
) -> list[CaptionResult]:
    """Caption every image of a dataset, in the dataset's order.

    Args:
        model: The captioner.
        vocabulary: Its vocabulary.
        data: The dataset.
        mode: Read mode, "hard" or "soft"; None: the model's own mode. Hard reads take the most likely place.
        search: Beam width, length penalty and maximum length.
        batch_size: Images per batch.
        limit: Number of images, from the start of the dataset; None: all.
        device: Device to compute on.
    """
    height, width = data.image_shape[1:]
    centers = model.encoder.centers(height, width)
    results = []
    with evaluating(model):
        for batch in data.in_order(batch_size=batch_size, limit=limit):
            annotations = model.annotate(batch.images.to(device))
            hypotheses = beam(model.decoder, annotations, mode=mode, **search._asdict())
            scenes = zip(batch.boxes.tolist(), batch.classes.tolist(), strict=True)
            for hypothesis, references, (boxes, labels) in zip(hypotheses, batch.captions, scenes, strict=True):
                digits = tuple(Digit(label, *box) for label, box in zip(labels, boxes, strict=True) if label >= 0)
                points = centers[torch.as_tensor(hypothesis.places).long().cpu()]
                words = vocabulary.decode(hypothesis.words)
                results.append(CaptionResult(words, points, references, digits, (height, width)))
    return results


class DigitScores(NamedTuple):
    """Whether captions of digit images are true; defined for the digit grammar only."""

    grammatical: float  # fraction of the captions that the grammar can parse
    true_and_complete: float  # fraction that name every digit once and make only true statements
    on_digit: float | None  # of the digits named correctly, the fraction attended to; None if none was named correctly


@dataclass(frozen=True)
class CaptionScores:
    """Scores of captions."""

    images: int
    overlap: dict[str, float]  # BLEU-1 to BLEU-4, ROUGE-L, CIDEr, and METEOR if it was requested
    digits: DigitScores | None = None  # None if the digits in the images are unknown
    names: ClassVar[dict[str, str]] = {
        "true_and_complete": "true and complete %",
        "grammatical": "grammatical %",
        "on_digit": "attention on the digit named %",
    }

    def as_dict(self) -> dict[str, Any]:
        """See `Scores`."""
        return {"images": self.images, **self.overlap, **({} if self.digits is None else self.digits._asdict())}


def score_captions(results: list[CaptionResult], *, meteor: bool = False) -> CaptionScores:
    """Score captions against their references and, for digit images, against the digits in the image.

    Args:
        results: The captions.
        meteor: Whether to compute METEOR too, which is slow; it is left out if its dependencies are missing.
    """
    captions, references = [result.words for result in results], [result.references for result in results]
    overlap = caption_scores(captions, references, meteor=meteor)
    digits = None
    if any(result.digits for result in results):
        verdicts = [judge(result.words, result.digits, result.canvas) for result in results]
        on_digit = [inside for result in results for inside in _on_digit(result)]
        digits = DigitScores(
            grammatical=sum(verdict.grammatical for verdict in verdicts) / len(verdicts),
            true_and_complete=sum(verdict.complete and verdict.true for verdict in verdicts) / len(verdicts),
            on_digit=sum(on_digit) / len(on_digit) if on_digit else None,
        )
    return CaptionScores(len(results), overlap, digits)


def _on_digit(result: CaptionResult) -> Iterator[bool]:
    """Whether the attention lies on a digit of the class named, for each mention of a class that is in the image."""
    for position, label in digit_mentions(result.words):
        boxes = [digit[1:] for digit in result.digits if digit.label == label]
        x, y = result.points[position].tolist()
        if boxes:
            yield any(x0 <= x < x1 and y0 <= y < y1 for x0, y0, x1, y1 in boxes)
