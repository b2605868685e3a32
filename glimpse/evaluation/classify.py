"""Classify the images of a data set with a trained model, and score the answers after each glimpse.

Shapes: B batch, I images, T glimpses, M rollouts.
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from glimpse import losses
from glimpse.attention.distributions import Noise
from glimpse.attention.settings import ReadMode
from glimpse.data import Dataset
from glimpse.metrics.classification import hits
from glimpse.metrics.statistics import wilson_interval
from glimpse.models.inference import evaluating
from glimpse.models.rollout import Rollout
from glimpse.seeding import Stream, noise_seed

if TYPE_CHECKING:
    from glimpse.training.run import Run

RolloutMode = Literal["greedy", "sampled", "averaged"]


class TrainedClassifier(NamedTuple):
    """A run, with its model."""

    run: "Run"
    name: str  # that no other of several runs has
    model: nn.Module
    mode: ReadMode | None  # how it reads when scored; None if it sees the whole image
    image_shape: tuple[int, int, int]  # (C, H, W) of the images it was trained on
    class_names: tuple[str, ...]


class ClassifierOutcome(NamedTuple):
    """What a model did with every image of a data set, in its fixed order; I images, M rollouts of each."""

    probabilities: Tensor  # (I, T, classes): probabilities after each glimpse, of M rollouts their mean
    targets: Tensor  # (I,) or (I, classes)
    correct: Tensor  # (I, T), bool
    locations: Tensor  # (I, M, T, 2); for a network that sees the whole image T is 0 here
    on_target: Tensor | None  # (I, M, T), bool: glimpse centred on a digit; None if nobody knows where they are
    halting: Tensor | None = None  # (I, T): what its halting unit says, of M rollouts their mean; None without one


@torch.no_grad()
def evaluate_classifier(
    model: nn.Module,
    data: Dataset,
    *,
    mode: ReadMode | None = None,
    rollout_mode: RolloutMode = "greedy",
    rollouts: int = 10,
    batch_size: int = 500,
    limit: int | None = None,
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> ClassifierOutcome:
    """Let a model look at every image of a data set.

    Args:
        model: The model.
        data: The data set, taken in its fixed order.
        mode: Read hard or soft; the model's own way if not given.
        rollout_mode: "greedy": one rollout that reads the most likely places. "sampled": one rollout that samples its
            places. "averaged": class probabilities averaged over several sampled rollouts.
        rollouts: How many to average.
        batch_size: Images at a time; decides, with the seed, what is sampled for which image.
        limit: The first so many images only.
        device: Where to compute.
        seed: Decides what is sampled.
    """
    if rollout_mode not in get_args(RolloutMode):
        raise ValueError(f"rollout_mode must be one of {', '.join(get_args(RolloutMode))}, got {rollout_mode!r}")
    repeats = rollouts if rollout_mode == "averaged" else 1
    squash = torch.sigmoid if data.multi_label else partial(torch.softmax, dim=-1)
    outcomes = []
    with evaluating(model):
        for index, batch in enumerate(data.in_order(batch_size=batch_size, limit=limit)):
            images, targets, boxes = (field.to(device) for field in batch)
            looks: list[Rollout] = [
                model(
                    images,
                    mode=mode,
                    sample=rollout_mode != "greedy",
                    noise=Noise(noise_seed(Stream.SCORE_NOISE, seed, index, repeat)),
                    **({"boxes": boxes} if model.needs_boxes else {}),
                )
                for repeat in range(repeats)
            ]
            probabilities = torch.stack([squash(look.logits) for look in looks]).mean(0)
            # One rollout is judged by its logits: probabilities that round to the same number would make ties.
            judged = looks[0].logits if repeats == 1 else probabilities.logit() if data.multi_label else probabilities
            locations = torch.stack([look.locations for look in looks], 1)  # (B, M, T, 2)
            on_target = None
            if boxes.shape[1] and locations.shape[2]:
                on_target = hits(locations.flatten(1, 2), boxes, *images.shape[2:]).view(locations.shape[:3])
            halting = None
            if looks[0].halt_logits is not None:
                halting = torch.stack([look.halt_logits.sigmoid() for look in looks]).mean(0)
            correct = losses.correct(judged, targets) > 0
            outcomes.append(ClassifierOutcome(probabilities, targets, correct, locations, on_target, halting))
    return ClassifierOutcome(
        *(None if field[0] is None else torch.cat(field).cpu() for field in zip(*outcomes, strict=True)),
    )


@dataclass(frozen=True)
class ClassificationScores:
    """How often a classifier is wrong after each glimpse."""

    images: int
    error: list[float]  # after each glimpse
    interval: list[tuple[float, float]]  # of the error, 95%, over images
    on_target: list[float] | None = None  # share of each glimpse that lies on a digit; None where digits are not known
    names: ClassVar[dict[str, str]] = {"error": "error %", "hit": "on the digit %"}

    @classmethod
    def of(cls, outcome: ClassifierOutcome) -> "ClassificationScores":
        """Count."""
        images = len(outcome.correct)
        counts = (~outcome.correct).sum(0).tolist()
        return cls(
            images=images,
            error=[count / images for count in counts],
            interval=[wilson_interval(count, images) for count in counts],
            on_target=None if outcome.on_target is None else outcome.on_target.double().mean((0, 1)).tolist(),
        )

    def as_dict(self) -> dict[str, Any]:
        """See `Scores`."""
        found: dict[str, Any] = {"images": self.images, "error": self.error, "interval": self.interval}
        return found if self.on_target is None else {**found, "hit": self.on_target}


def score(model: nn.Module, data: Dataset, **options: Any) -> ClassificationScores:
    """Score a model on a data set after each glimpse; for the options see `evaluate_classifier`."""
    return ClassificationScores.of(evaluate_classifier(model, data, **options))
