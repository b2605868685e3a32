"""Classify the images of a dataset with a trained model, and score the prediction after each glimpse.

Shapes: B batch, I images, T glimpses, M rollouts of each image.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeGuard, get_args

import torch
from torch import Tensor

from glimpse import losses
from glimpse.attention.distributions import Noise
from glimpse.attention.settings import ReadMode
from glimpse.data import Dataset
from glimpse.metrics import classification as metrics
from glimpse.metrics.statistics import wilson_interval
from glimpse.models.inference import evaluating
from glimpse.models.recurrent_attention import RecurrentAttention
from glimpse.models.rollout import Rollout
from glimpse.models.whole_image import WholeImage
from glimpse.seeding import Stream, noise_seed

if TYPE_CHECKING:
    from glimpse.training.run import Run

Classifier = RecurrentAttention | WholeImage
RolloutMode = Literal["greedy", "sampled", "averaged"]


def takes_glimpses(model: Classifier) -> TypeGuard[RecurrentAttention]:
    """Whether a model takes glimpses; a whole-image network does not."""
    return model.attends


class TrainedClassifier(NamedTuple):
    """A trained classifier with its run."""

    run: "Run"
    name: str  # display name, unique among the runs of a command
    model: Classifier
    mode: ReadMode | None  # read mode for scoring; None for a whole-image network
    image_shape: tuple[int, int, int]  # (C, H, W) of the training images
    class_names: tuple[str, ...]


class ClassifierOutcome(NamedTuple):
    """The predictions and glimpses of a model for every image of a dataset, in the dataset's order."""

    probabilities: Tensor  # (I, T, classes): class probabilities after each glimpse, averaged over the M rollouts
    targets: Tensor  # (I,) class indices, or (I, classes) multi-hot
    correct: Tensor  # (I, T), bool: whether the prediction after each glimpse is correct
    locations: Tensor  # (I, M, T, 2); T is 0 here for a whole-image network
    on_target: Tensor | None  # (I, M, T), bool: glimpse centered on a digit; None without boxes or glimpses
    halt_probabilities: Tensor | None = None  # (I, T): of the halting unit, averaged over M; None without one

    @classmethod
    def cat(cls, batches: "Sequence[ClassifierOutcome]") -> "ClassifierOutcome":
        """Concatenate the outcomes of batches, on the CPU."""
        return cls(
            probabilities=torch.cat([batch.probabilities for batch in batches]).cpu(),
            targets=torch.cat([batch.targets for batch in batches]).cpu(),
            correct=torch.cat([batch.correct for batch in batches]).cpu(),
            locations=torch.cat([batch.locations for batch in batches]).cpu(),
            on_target=_cat_optional([batch.on_target for batch in batches]),
            halt_probabilities=_cat_optional([batch.halt_probabilities for batch in batches]),
        )


def _cat_optional(columns: Sequence[Tensor | None]) -> Tensor | None:
    tensors = [column for column in columns if column is not None]
    return torch.cat(tensors).cpu() if tensors else None


@torch.no_grad()
def evaluate_classifier(
    model: Classifier,
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
    """Classify every image of a dataset, and record the predictions and glimpses.

    Args:
        model: The model.
        data: The dataset, in its fixed order.
        mode: Read mode, "hard" or "soft"; None: the model's own mode.
        rollout_mode: "greedy": one rollout, with the most likely locations. "sampled": one rollout, with sampled
            locations. "averaged": class probabilities averaged over several sampled rollouts.
        rollouts: Number M of rollouts for "averaged"; the other modes have one.
        batch_size: Images per batch. With the seed, it determines the random numbers of each image.
        limit: Number of images, from the start of the dataset; None: all.
        device: Device to compute on.
        seed: Seed of the random numbers.
    """
    if rollout_mode not in get_args(RolloutMode):
        raise ValueError(f"rollout_mode must be one of {', '.join(get_args(RolloutMode))}, got {rollout_mode!r}")
    repeats = rollouts if rollout_mode == "averaged" else 1
    to_probabilities = torch.sigmoid if data.multi_label else partial(torch.softmax, dim=-1)
    batches = []
    with evaluating(model):
        for index, batch in enumerate(data.in_order(batch_size=batch_size, limit=limit)):
            images, targets, boxes = (field.to(device) for field in batch)
            outputs: list[Rollout] = [
                model(
                    images,
                    mode=mode,
                    sample=rollout_mode != "greedy",
                    noise=Noise(noise_seed(Stream.SCORE_NOISE, seed, index, repeat)),
                    **({"boxes": boxes} if model.needs_boxes else {}),
                )
                for repeat in range(repeats)
            ]
            probabilities = torch.stack([to_probabilities(rollout.logits) for rollout in outputs]).mean(0)
            # A single rollout is judged by its logits: probabilities that round to the same number would tie.
            if repeats == 1:
                predictions = outputs[0].logits
            else:
                predictions = probabilities.logit() if data.multi_label else probabilities
            locations = torch.stack([rollout.locations for rollout in outputs], 1)  # (B, M, T, 2)
            on_target = None
            if boxes.shape[1] and locations.shape[2]:
                flat = metrics.on_target(locations.flatten(1, 2), boxes, *images.shape[2:])
                on_target = flat.view(locations.shape[:3])
            halting = [rollout.halt_logits.sigmoid() for rollout in outputs if rollout.halt_logits is not None]
            batches.append(
                ClassifierOutcome(
                    probabilities=probabilities,
                    targets=targets,
                    correct=losses.correct(predictions, targets) > 0,
                    locations=locations,
                    on_target=on_target,
                    halt_probabilities=torch.stack(halting).mean(0) if halting else None,
                )
            )
    return ClassifierOutcome.cat(batches)


@dataclass(frozen=True)
class ClassificationScores:
    """The error of a classifier after each glimpse."""

    images: int
    error: list[float]  # fraction of the images classified incorrectly, after each glimpse
    interval: list[tuple[float, float]]  # 95% interval of the error, over images
    on_target: list[float] | None = None  # fraction of each glimpse centered on a digit; None without boxes
    names: ClassVar[dict[str, str]] = {"error": "error %", "hit": "on the digit %"}

    @classmethod
    def of(cls, outcome: ClassifierOutcome) -> "ClassificationScores":
        """Compute the scores of an outcome."""
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
        values: dict[str, Any] = {"images": self.images, "error": self.error, "interval": self.interval}
        return values if self.on_target is None else {**values, "hit": self.on_target}


def score(model: Classifier, data: Dataset, **options: Any) -> ClassificationScores:
    """Score a model on a dataset after each glimpse; the options are those of `evaluate_classifier`."""
    return ClassificationScores.of(evaluate_classifier(model, data, **options))
