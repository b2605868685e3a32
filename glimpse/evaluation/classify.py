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
from glimpse.data import DataSet
from glimpse.metrics.classification import hits
from glimpse.metrics.statistics import wilson_interval
from glimpse.models.inference import evaluating
from glimpse.models.rollout import Rollout
from glimpse.seeding import Stream, noise_seed

if TYPE_CHECKING:
    from glimpse.training.run import Run

Mode = Literal["greedy", "sampled", "averaged"]


class TrainedClassifier(NamedTuple):
    """A run, with its model."""

    run: "Run"
    name: str  # that no other of several runs has
    model: nn.Module
    how: ReadMode | None  # how it reads when scored; None if it sees the whole image
    image_shape: tuple[int, int, int]  # (C, H, W) of the images it was trained on
    class_names: tuple[str, ...]


class Outcome(NamedTuple):
    """What a model did with every image of a data set, in its fixed order; I images, M rollouts of each."""

    answers: Tensor  # (I, T, classes): probabilities after each glimpse, of M rollouts their mean
    targets: Tensor  # (I,) or (I, classes)
    right: Tensor  # (I, T), bool
    locations: Tensor  # (I, M, T, 2); for a network that sees the whole image T is 0 here
    hit: Tensor | None  # (I, M, T), bool: glimpse centred on a digit; None if nobody knows where they are
    halting: Tensor | None = None  # (I, T): what its halting unit says, of M rollouts their mean; None without one


@torch.no_grad()
def observe(
    model: nn.Module,
    data: DataSet,
    *,
    how: ReadMode | None = None,
    mode: Mode = "greedy",
    rollouts: int = 10,
    batch_size: int = 500,
    limit: int | None = None,
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> Outcome:
    """Let a model look at every image of a data set.

    Args:
        model: The model.
        data: The data set, taken in its fixed order.
        how: Read hard or soft; the model's own way if not given.
        mode: "greedy": one rollout that looks at the most likely places. "sampled": one rollout that samples them.
            "averaged": class probabilities averaged over several sampled rollouts.
        rollouts: How many to average.
        batch_size: Images at a time; decides, with the seed, what is sampled for which image.
        limit: The first so many images only.
        device: Where to compute.
        seed: Decides what is sampled.
    """
    if mode not in get_args(Mode):
        raise ValueError(f"mode must be one of {', '.join(get_args(Mode))}, got {mode!r}")
    repeats = rollouts if mode == "averaged" else 1
    squash = torch.sigmoid if data.multi_label else partial(torch.softmax, dim=-1)
    outcomes = []
    with evaluating(model):
        for index, batch in enumerate(data.in_order(batch_size=batch_size, limit=limit)):
            images, targets, boxes = (field.to(device) for field in batch)
            looks: list[Rollout] = [
                model(
                    images,
                    mode=how,
                    sample=mode != "greedy",
                    noise=Noise(noise_seed(Stream.SCORE_NOISE, seed, index, repeat)),
                    **({"boxes": boxes} if model.needs_boxes else {}),
                )
                for repeat in range(repeats)
            ]
            answers = torch.stack([squash(look.logits) for look in looks]).mean(0)
            # One rollout is judged by its logits: probabilities that round to the same number would make ties.
            judged = looks[0].logits if repeats == 1 else answers.logit() if data.multi_label else answers
            locations = torch.stack([look.locations for look in looks], 1)  # (B, M, T, 2)
            hit = None
            if boxes.shape[1] and locations.shape[2]:
                hit = hits(locations.flatten(1, 2), boxes, *images.shape[2:]).view(locations.shape[:3])
            halting = None
            if looks[0].halt_logits is not None:
                halting = torch.stack([look.halt_logits.sigmoid() for look in looks]).mean(0)
            right = losses.correct(judged, targets) > 0
            outcomes.append(Outcome(answers, targets, right, locations, hit, halting))
    return Outcome(
        *(None if field[0] is None else torch.cat(field).cpu() for field in zip(*outcomes, strict=True)),
    )


@dataclass(frozen=True)
class ClassificationScores:
    """How often a classifier is wrong after each glimpse."""

    images: int
    error: list[float]  # after each glimpse
    interval: list[tuple[float, float]]  # of the error, 95%, over images
    hit: list[float] | None = None  # share of each glimpse that lies on a digit; None where digits are not known
    names: ClassVar[dict[str, str]] = {"error": "error %", "hit": "on the digit %"}

    @classmethod
    def of(cls, outcome: Outcome) -> "ClassificationScores":
        """Count."""
        images = len(outcome.right)
        counts = (~outcome.right).sum(0).tolist()
        return cls(
            images=images,
            error=[count / images for count in counts],
            interval=[wilson_interval(count, images) for count in counts],
            hit=None if outcome.hit is None else outcome.hit.double().mean((0, 1)).tolist(),
        )

    def as_dict(self) -> dict[str, Any]:
        """See `Scores`."""
        found: dict[str, Any] = {"images": self.images, "error": self.error, "interval": self.interval}
        return found if self.hit is None else {**found, "hit": self.hit}


def score(model: nn.Module, data: DataSet, **options: Any) -> ClassificationScores:
    """Score a model on a data set after each glimpse; for the options see `observe`."""
    return ClassificationScores.of(observe(model, data, **options))
