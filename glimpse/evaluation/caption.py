"""Caption the images of a data set with a trained captioner, and score the captions.

Shapes: N words.
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
    """A run that writes captions, with its model and words."""

    run: "Run"
    model: Captioner
    vocabulary: Vocabulary
    image_shape: tuple[int, int, int]  # (C, H, W) of the images it was trained on


class CaptionResult(NamedTuple):
    """What a captioner said of an image."""

    words: Tokens
    places: Tensor  # (N, 2): x and y, in pixels, of the place attended to most while saying each word
    references: list[Tokens]
    digits: tuple[Digit, ...]  # what there is, if that is known
    canvas: tuple[int, int]


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
    """Let a captioner describe every image of a data set.

    Args:
        model: The captioner.
        vocabulary: Its words.
        data: The data set, taken in its fixed order.
        mode: Read hard or soft; the model's own way if not given.
        search: How captions are searched for.
        batch_size: Images at a time.
        limit: The first so many images only.
        device: Where to compute.
    """
    height, across = data.image_shape[1:]
    centres = model.encoder.centers(height, across)
    results = []
    with evaluating(model):
        for batch in data.in_order(batch_size=batch_size, limit=limit):
            annotations = model.annotate(batch.images.to(device))
            captions = beam(model.decoder, annotations, mode=mode, **search._asdict())
            scenes = zip(batch.boxes.tolist(), batch.classes.tolist(), strict=True)
            for caption, references, (boxes, labels) in zip(captions, batch.captions, scenes, strict=True):
                digits = tuple(Digit(label, *box) for label, box in zip(labels, boxes, strict=True) if label >= 0)
                places = centres[torch.as_tensor(caption.places).long().cpu()]
                words = vocabulary.decode(caption.words)
                results.append(CaptionResult(words, places, references, digits, (height, across)))
    return results


class DigitScores(NamedTuple):
    """Whether captions of digits are true, which is known of digits alone."""

    grammatical: float  # share that the grammar can parse
    true_and_complete: float  # share that name every digit once and state only what holds
    on_digit: float | None  # of the digits named that are there, how often the attention is on one; None without any


@dataclass(frozen=True)
class CaptionScores:
    """How good captions are."""

    images: int
    overlap: dict[str, float | None]  # BLEU-1 to BLEU-4, ROUGE-L, CIDEr, and METEOR if it was asked for
    digits: DigitScores | None = None  # None where it is not known what there is
    names: ClassVar[dict[str, str]] = {
        "true_and_complete": "true and complete %",
        "grammatical": "grammatical %",
        "on_digit": "attention on the digit named %",
    }

    def as_dict(self) -> dict[str, Any]:
        """See `Scores`."""
        return {"images": self.images, **self.overlap, **({} if self.digits is None else self.digits._asdict())}


def score_captions(results: list[CaptionResult], *, meteor: bool = False) -> CaptionScores:
    """Score captions against their references and, of digits, against what there is.

    Args:
        results: The captions.
        meteor: Whether METEOR is wanted too, which takes longer; it is left out where it cannot be computed.
    """
    captions, references = [one.words for one in results], [one.references for one in results]
    overlap = caption_scores(captions, references, meteor=meteor)
    digits = None
    if any(one.digits for one in results):
        verdicts = [judge(one.words, one.digits, one.canvas) for one in results]
        hits = [hit for one in results for hit in _on_digit(one)]
        digits = DigitScores(
            grammatical=sum(verdict.grammatical for verdict in verdicts) / len(verdicts),
            true_and_complete=sum(verdict.complete and verdict.true for verdict in verdicts) / len(verdicts),
            on_digit=sum(hits) / len(hits) if hits else None,
        )
    return CaptionScores(len(results), overlap, digits)


def _on_digit(description: CaptionResult) -> Iterator[bool]:
    """For each digit named that is there, whether the place attended to lies on such a digit."""
    for position, label in digit_mentions(description.words):
        boxes = [digit[1:] for digit in description.digits if digit.label == label]
        x, y = description.places[position].tolist()
        if boxes:
            yield any(x0 <= x < x1 and y0 <= y < y1 for x0, y0, x1, y1 in boxes)
