"""The task of describing images: what `telling.py` leaves open, above all how captions are scored.

Shapes: N words.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glimpse.attention import Read
from glimpse.caption_metrics import caption_scores
from glimpse.captioner import Captioner
from glimpse.data.captions import CaptionData, Captioned, Words
from glimpse.data.digit_captions import DigitCaptions
from glimpse.data.digit_grammar import Digit, digit_mentions, judge
from glimpse.search import beam
from glimpse.tasks import evaluating
from glimpse.telling import TellingTask
from glimpse.text import Vocabulary


class Captioning(TellingTask):
    """Learns to describe images; an `engine.Task`."""

    def __init__(self, *, unfreeze_at: float | None = None, **settings: Any):
        """Prepare the training.

        Args:
            unfreeze_at: The part of the training after which the encoder learns too; None if it does not.
            settings: Those of `TellingTask`; the model is a `Captioner`, the data `CaptionSplits`.
        """
        super().__init__(**settings)
        self.unfreeze_at = unfreeze_at
        self.all_parameters_used &= unfreeze_at is None  # nothing teaches an encoder before then

    def about(self) -> dict[str, Any]:
        """What a run folder has to say for the model to be used without the data."""
        return {"image_shape": self.data.train.image_shape, "words": self.vocabulary.words}

    def schedule(self, progress: float) -> None:
        """See `engine.Task`: fewer batches may be read softly, and the encoder begin to learn."""
        super().schedule(progress)
        if self.unfreeze_at is not None and progress >= self.unfreeze_at and self.model.encoder.frozen:
            self.model.encoder.unfreeze()

    def shown(self, batch: Captioned) -> tuple[Tensor, list[Words]]:
        """See `TellingTask.shown`."""
        return batch.images.to(self.processes.device), [one for (one,) in batch.captions]

    @property
    def goal(self) -> str:
        """The score that selects the best epoch; where it is not known what there is to see, BLEU-4."""
        return "true_and_complete" if isinstance(self.data.valid, DigitCaptions) else "BLEU-4"

    def scores(self, data: CaptionData, width: int, limit: int | None) -> dict[str, Any]:
        """See `TellingTask.scores`."""
        told = describe(
            self.model,
            self.vocabulary,
            data,
            how=self.score.read,
            width=width,
            length_penalty=self.score.length_penalty,
            max_length=self.max_length,
            batch_size=self.score.batch_size,
            limit=limit,
            device=self.processes.device,
        )
        return score_captions(told)


class Description(NamedTuple):
    """What a captioner said of an image."""

    words: Words
    places: Tensor  # (N, 2): x and y, in pixels, of the place attended to most while saying each word
    references: list[Words]
    digits: tuple[Digit, ...]  # what there is, if that is known
    canvas: tuple[int, int]


@torch.no_grad()
def describe(
    model: Captioner,
    vocabulary: Vocabulary,
    data: CaptionData,
    *,
    how: Read | None = None,
    width: int = 1,
    length_penalty: float = 0.0,
    max_length: int = 20,
    batch_size: int = 500,
    limit: int | None = None,
    device: torch.device | str = "cpu",
) -> list[Description]:
    """Let a captioner describe every image of a data set.

    Args:
        model: The captioner.
        vocabulary: Its words.
        data: The data set, taken in its fixed order.
        how: Read hard or soft; the model's own way if not given.
        width: Hypotheses that are kept; 1 is greedy.
        length_penalty: With a beam, how much longer captions are favoured.
        max_length: The most words of a caption, its end counted.
        batch_size: Images at a time.
        limit: The first so many images only.
        device: Where to compute.
    """
    height, across = data.image_shape[1:]
    centres = model.encoder.centres(height, across)
    descriptions = []
    with evaluating(model):
        for batch in data.in_order(batch_size=batch_size, limit=limit):
            annotations = model.annotate(batch.images.to(device))
            captions = beam(
                model.decoder, annotations, width=width, length_penalty=length_penalty, max_length=max_length, how=how
            )
            scenes = zip(batch.boxes.tolist(), batch.classes.tolist(), strict=True)
            for caption, references, (boxes, labels) in zip(captions, batch.captions, scenes, strict=True):
                digits = tuple(Digit(label, *box) for label, box in zip(labels, boxes, strict=True) if label >= 0)
                places = centres[torch.as_tensor(caption.places).long().cpu()]
                words = vocabulary.decode(caption.words)
                descriptions.append(Description(words, places, references, digits, (height, across)))
    return descriptions


def score_captions(descriptions: list[Description], *, meteor: bool = False) -> dict[str, Any]:
    """Score captions against their references and, of digits, against what there is.

    Args:
        descriptions: What was said.
        meteor: Whether METEOR is wanted too, which takes longer; it is left out where it cannot be computed.

    Returns:
        "images"; BLEU-1 to BLEU-4, ROUGE-L and CIDEr. Of digits, also "true_and_complete": share of captions that name
        every digit once and state only what holds; "grammatical": share that the grammar can parse; "on_digit": of the
        digits named that are there, how often the place attended to while naming one lies on such a digit.
    """
    said, references = [one.words for one in descriptions], [one.references for one in descriptions]
    scores: dict[str, Any] = {"images": len(descriptions)}
    scores |= caption_scores(said, references, meteor=meteor)
    if not any(one.digits for one in descriptions):
        return scores
    verdicts = [judge(one.words, one.digits, one.canvas) for one in descriptions]
    scores["grammatical"] = sum(verdict.grammatical for verdict in verdicts) / len(verdicts)
    scores["true_and_complete"] = sum(verdict.complete and verdict.true for verdict in verdicts) / len(verdicts)
    hits = [hit for one in descriptions for hit in _on_digit(one)]
    scores["on_digit"] = sum(hits) / len(hits) if hits else None
    return scores


def _on_digit(description: Description) -> Iterator[bool]:
    """For each digit named that is there, whether the place attended to lies on such a digit."""
    for position, label in digit_mentions(description.words):
        boxes = [digit[1:] for digit in description.digits if digit.label == label]
        x, y = description.places[position].tolist()
        if boxes:
            yield any(x0 <= x < x1 and y0 <= y < y1 for x0, y0, x1, y1 in boxes)
