"""The task of describing images: which losses train the captioner, and how its captions are scored.

Hard attention is trained as in Show, Attend and Tell (arXiv:1502.03044), 4.1: places are sampled, and the
log-probability of the words is both what the words learn from and, less its moving average, the reward of the places.

Shapes: B batch, N words, L places.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from glimpse import losses
from glimpse.attention import Read
from glimpse.caption_metrics import caption_scores
from glimpse.captioner import Captioner, Telling
from glimpse.config import LossConfig, ScoreConfig
from glimpse.data.captions import CaptionData, Captioned, CaptionSplits, Words
from glimpse.data.digit_captions import DigitCaptions
from glimpse.data.digit_grammar import Digit, digit_mentions, judge
from glimpse.places import Noise
from glimpse.processes import Processes
from glimpse.search import beam
from glimpse.tasks import SeededTask, evaluating
from glimpse.text import Vocabulary

KEPT = 0.9  # of the moving average, from batch to batch


class Captioning(SeededTask):
    """Learns to describe images; an `engine.Task`."""

    def __init__(
        self,
        *,
        model: Captioner,
        data: CaptionSplits,
        vocabulary: Vocabulary,
        loss: LossConfig,
        score: ScoreConfig,
        max_length: int,
        unfreeze_at: float | None = None,
        seed: int,
        batch_size: int,
        limit: int | None,
        processes: Processes,
    ):
        super().__init__(
            model=model, data=data, seed=seed, batch_size=batch_size, limit=limit, loss=loss, processes=processes
        )
        self.vocabulary = vocabulary
        self.score = score
        self.max_length = max_length
        self.unfreeze_at = unfreeze_at  # the part of the training after which the encoder learns too
        # Without its estimator a hard read teaches nothing about where to look; nothing teaches an encoder before then.
        self.all_parameters_used = (model.how == "soft" or loss.reinforce > 0) and unfreeze_at is None

    def about(self) -> dict[str, Any]:
        """What a run folder has to say for the model to be used without the data."""
        return {"image_shape": self.data.train.image_shape, "words": self.vocabulary.words}

    def schedule(self, progress: float) -> None:
        """See `engine.Task`: fewer batches may be read softly, and the encoder begin to learn."""
        super().schedule(progress)
        if self.unfreeze_at is not None and progress >= self.unfreeze_at and self.model.encoder.frozen:
            self.model.encoder.unfreeze()

    def losses(self, model: nn.Module, batch: Captioned, noise: Noise) -> dict[str, tuple[float, Tensor]]:
        """See `engine.Task`."""
        settings, device = self.loss, self.processes.device
        words, lengths = (field.to(device) for field in self.vocabulary.encode([one for (one,) in batch.captions]))
        how = self.read_of(noise)
        telling: Telling = model(batch.images.to(device), words, how=how, noise=noise)
        told = words[:, 1:]
        # All means are over the words of all processes, of which this one may have more or fewer than its share.
        share = lengths.sum() / self.processes.mean(lengths.sum().float())
        terms = {"cross_entropy": (1.0, share * losses.caption_cross_entropy(telling.logits, told, lengths))}
        if settings.doubly_stochastic:
            penalty = losses.doubly_stochastic(telling.weights, lengths)
            terms["doubly_stochastic"] = (settings.doubly_stochastic, penalty)
        if how == "soft":
            return terms
        rewards = losses.caption_rewards(telling.logits, told, lengths)
        returns = losses.returns(rewards, rewards.shape[1], "each", settings.discount)
        said = losses.said(telling.logits, lengths)
        reward = self.processes.mean(share * returns[said].mean())
        advantages = losses.advantages(returns, self.baseline(reward))
        per_word = share * len(said) / said.sum()  # like the cross-entropy, the mean over words
        terms["reinforce"] = (settings.reinforce, per_word * losses.reinforce(telling.log_probs, advantages * said))
        terms["reward"] = (0.0, reward)
        if settings.entropy:
            terms["neg_entropy"] = (settings.entropy, -share * telling.entropies[said].mean())
        return terms

    def baseline(self, reward: Tensor) -> Tensor | None:
        """The moving average of the reward, of the batches before this one, which it then takes in."""
        if self.loss.baseline == "none":
            return None
        average = self.model.average_reward
        before = reward if average.isinf() else average.clone()
        average.copy_(KEPT * before + (1 - KEPT) * reward)
        return before

    def validate(self) -> dict[str, Any]:
        """Score the validation set, greedily; see `goal` for the error."""
        scores = self._scores(self.data.valid, 1, self.score.limit)
        return {"error": 1 - scores[self.goal], **scores}

    @property
    def goal(self) -> str:
        """The score that selects the best epoch; where it is not known what there is to see, BLEU-4."""
        return "true_and_complete" if isinstance(self.data.valid, DigitCaptions) else "BLEU-4"

    def describe(self, scores: dict[str, Any]) -> str:
        """See `engine.Task`."""
        return f"{self.goal.replace('_', ' ')} {100 * scores[self.goal]:.2f}"

    def test(self) -> dict[str, Any]:
        """Score the test set."""
        return self._scores(self.data.test, self.score.beam, None)

    def _scores(self, data: CaptionData, width: int, limit: int | None) -> dict[str, Any]:
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
