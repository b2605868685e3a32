"""The task of classifying images: which losses train the model, and how it is scored."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from glimpse import losses
from glimpse.attention import Read
from glimpse.classifier import PlaneGlimpses, RecurrentAttention, Rollout
from glimpse.config import AttentionConfig, ConfigError, LossConfig, ScoreConfig
from glimpse.data import Batch, DataSet, Splits
from glimpse.data.base import random_bits
from glimpse.metrics import hits, wilson_interval
from glimpse.places import Noise
from glimpse.processes import Processes

# First words of the seeds of noise; those of the data sets are in data/base.py.
TRAIN_NOISE, SCORE_NOISE = 101, 102
Mode = Literal["greedy", "sampled", "averaged"]


class Classification:
    """Learns to classify by looking; an `engine.Task`."""

    def __init__(
        self,
        *,
        model: RecurrentAttention,
        data: Splits,
        attention: AttentionConfig,
        loss: LossConfig,
        score: ScoreConfig,
        seed: int,
        batch_size: int,
        limit: int | None,
        processes: Processes,
    ):
        self.model = model.to(processes.device)
        self.data = data
        self.attention = attention
        self.loss = loss
        self.score = score
        self.seed = seed
        self.batch_size = batch_size
        self.processes = processes
        images = len(data.train) if limit is None else min(limit, len(data.train))
        self.steps_per_epoch = images // batch_size
        if self.steps_per_epoch == 0:
            reason = "train.limit" if limit is not None and limit < len(data.train) else "the training images"
            raise ConfigError(f"train.batch_size must be at most {images} ({reason}), got {batch_size}")
        if loss.normalise and model.how == "hard" and batch_size * loss.rollouts < 2:
            raise ConfigError("train.batch_size must be at least 2 with loss.normalise, got 1")
        # With a single glimpse nothing is chosen, and what would choose is idle.
        self.all_parameters_used = model.num_glimpses > 1 or model.first == "learned"
        if model.how == "hard":  # a weight of zero leaves its term out
            self.all_parameters_used &= loss.reinforce > 0 and (model.baseline is None or loss.baseline_weight > 0)

    def about(self) -> dict[str, Any]:
        """What a run folder has to say for the model to be used without the data."""
        return {"image_shape": self.data.train.image_shape, "class_names": self.data.train.class_names}

    def batches(self, epoch: int) -> Iterator[Batch]:
        """See `engine.Task`."""
        rank, world_size, _ = self.processes
        epoch_batches = self.data.train.epoch(
            seed=self.seed, epoch=epoch, batch_size=self.batch_size, rank=rank, world_size=world_size
        )
        return islice(epoch_batches, self.steps_per_epoch)

    def noise(self, epoch: int, step: int) -> Noise:
        """See `engine.Task`."""
        rank, world_size, _ = self.processes
        return Noise(noise_seed(TRAIN_NOISE, self.seed, epoch, step), rank=rank, world_size=world_size)

    def schedule(self, progress: float) -> None:
        """Shrink the std geometrically from `std` to `std_end`."""
        settings, glimpses = self.attention, self.model.glimpses
        fixed = isinstance(glimpses, PlaneGlimpses) and glimpses.attention.std_head is None
        if settings.std_end is not None and fixed:
            part = min(1.0, progress / settings.std_until)
            glimpses.attention.set_std(settings.std * (settings.std_end / settings.std) ** part)

    def losses(self, model: nn.Module, batch: Batch, noise: Noise) -> dict[str, tuple[float, Tensor]]:
        """See `engine.Task`. Soft: cross-entropy alone. Hard: that, and the estimator for the places chosen."""
        settings = self.loss
        images, targets = batch.images.to(self.processes.device), batch.targets.to(self.processes.device)
        if settings.rollouts > 1 and self.model.how == "hard":
            images = images.repeat_interleave(settings.rollouts, 0)
            targets = targets.repeat_interleave(settings.rollouts, 0)
        again = noise.fork() if settings.baseline == "self_critical" else noise
        rollout: Rollout = model(images, noise=noise)
        terms = {
            "cross_entropy": (1.0, losses.cross_entropy(rollout.logits, targets, settings.classify)),
            "error": (0.0, 1 - losses.correct(rollout.logits.detach(), targets)[:, -1].mean()),
        }
        if self.model.how == "soft" or rollout.log_probs.shape[1] == 0:
            return terms
        returns = self.returns(rollout, targets)
        advantages = losses.advantages(returns, self.baselines(rollout, returns, images, targets, again))
        if settings.normalise:
            advantages = losses.normalise(advantages, lambda x: self.processes.mean(x.mean(0)))
        terms["reinforce"] = (settings.reinforce, losses.reinforce(rollout.log_probs, advantages))
        terms["reward"] = (0.0, returns.mean())
        if rollout.baselines is not None:
            terms["baseline"] = (settings.baseline_weight, losses.baseline_error(rollout.baselines, returns))
        if settings.entropy:
            terms["neg_entropy"] = (settings.entropy, -rollout.entropies.mean())
        return terms

    def returns(self, rollout: Rollout, targets: Tensor) -> Tensor:
        """What each choice of a rollout led to (B, N)."""
        rewards = losses.rewards(rollout.logits, targets, self.loss.reward)
        return losses.returns(rewards, rollout.log_probs.shape[1], self.loss.reward_when, self.loss.discount)

    def baselines(
        self, rollout: Rollout, returns: Tensor, images: Tensor, targets: Tensor, noise: Noise
    ) -> Tensor | None:
        """What each choice was expected to lead to (B, N), by the baseline of the config.

        `noise` begins as that of the rollout did, so that a greedy rollout has the same first glimpse.
        """
        if self.loss.baseline == "leave_one_out":
            return losses.leave_one_out(returns, self.loss.rollouts)
        if self.loss.baseline == "self_critical":
            with torch.no_grad():
                greedy = self.model(images, sample=False, noise=noise)
            return self.returns(greedy, targets)
        return rollout.baselines

    def validate(self) -> dict[str, Any]:
        """Score the validation set, greedily."""
        scores = self._greedy(self.data.valid, self.score.limit)
        return {"error": scores["error"][-1], "errors": scores["error"], "hits": scores.get("hit")}

    def test(self) -> dict[str, Any]:
        """Score the test set, greedily."""
        return self._greedy(self.data.test)

    def _greedy(self, data: DataSet, limit: int | None = None) -> dict[str, Any]:
        return score(
            self.model,
            data,
            how=self.score.read,
            mode="greedy",
            batch_size=self.score.batch_size,
            limit=limit,
            device=self.processes.device,
        )


def noise_seed(*words: int) -> int:
    """A seed for torch that depends on the words alone."""
    return int(random_bits(*words, shape=(1,))[0] >> 1)


@torch.inference_mode()
def score(
    model: RecurrentAttention,
    data: DataSet,
    *,
    how: Read | None = None,
    mode: Mode = "greedy",
    rollouts: int = 10,
    batch_size: int = 500,
    limit: int | None = None,
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> dict[str, Any]:
    """Score a model on a data set after each glimpse.

    Args:
        model: The model.
        data: The data set, taken in its fixed order.
        how: Read hard or soft; the model's own way if not given.
        mode: "greedy": one rollout that looks at the most likely places. "sampled": one rollout that samples them.
            "averaged": class probabilities averaged over several sampled rollouts.
        rollouts: How many to average.
        batch_size: Images at a time; decides, with the seed, what is sampled for which image.
        limit: Score the first so many images only.
        device: Where to compute.
        seed: Decides what is sampled.

    Returns:
        "images": how many; "error" and "interval": share of wrong answers after each glimpse, with its 95% interval;
        "hit": share of glimpses centred on a digit, if the data knows where the digits are.
    """
    if mode not in get_args(Mode):
        raise ValueError(f"mode must be one of {', '.join(get_args(Mode))}, got {mode!r}")
    repeats = rollouts if mode == "averaged" else 1
    training = model.training
    model.eval()
    wrong, hit, images, boxes = 0, 0, 0, False
    for index, batch in enumerate(data.in_order(batch_size=batch_size, limit=limit)):
        inputs, targets = batch.images.to(device), batch.targets.to(device)
        outcomes = [
            model(inputs, how=how, sample=mode != "greedy", noise=Noise(noise_seed(SCORE_NOISE, seed, index, repeat)))
            for repeat in range(repeats)
        ]
        if repeats == 1:
            answers = outcomes[0].logits
        elif data.multi_label:
            answers = torch.stack([outcome.logits.sigmoid() for outcome in outcomes]).mean(0).logit()
        else:
            answers = torch.stack([outcome.logits.softmax(-1) for outcome in outcomes]).mean(0)
        wrong = wrong + (1 - losses.correct(answers, targets)).sum(0).cpu().double()
        if batch.boxes.shape[1]:
            where = torch.stack([outcome.locations for outcome in outcomes])  # (M, B, T, 2)
            found = hits(where.flatten(0, 1), batch.boxes.to(device).repeat(repeats, 1, 1), *inputs.shape[2:])
            hit = hit + found.sum(0).cpu().double() / repeats
            boxes = True
        images += len(targets)
    model.train(training)
    counts = wrong.tolist()
    scores = {
        "images": images,
        "error": [count / images for count in counts],
        "interval": [wilson_interval(count, images) for count in counts],
    }
    if boxes:
        scores["hit"] = (hit / images).tolist()
    return scores
