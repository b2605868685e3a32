"""The task of classifying images: which losses train the model, and how it is scored."""

from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from glimpse import losses
from glimpse.attention import Read
from glimpse.classifier import RecurrentAttention, Rollout
from glimpse.config import AttentionConfig, LossConfig, ScoreConfig
from glimpse.data import Batch, DataSet, Splits
from glimpse.glimpses import PlaneGlimpses
from glimpse.metrics import hits, wilson_interval
from glimpse.places import Noise
from glimpse.processes import Processes
from glimpse.settings import ConfigError
from glimpse.tasks import SCORE_NOISE, SeededTask, evaluating, noise_seed
from glimpse.whole_image import WholeImage

Mode = Literal["greedy", "sampled", "averaged"]


class Classification(SeededTask):
    """Learns to classify by looking; an `engine.Task`."""

    def __init__(
        self,
        *,
        model: RecurrentAttention | WholeImage,
        data: Splits,
        attention: AttentionConfig,
        loss: LossConfig,
        score: ScoreConfig,
        seed: int,
        batch_size: int,
        limit: int | None,
        processes: Processes,
    ):
        super().__init__(
            model=model, data=data, seed=seed, batch_size=batch_size, limit=limit, loss=loss, processes=processes
        )
        self.attention = attention
        self.score = score
        self.learns_places = model.how == "hard" and model.num_choices > 0  # by REINFORCE, that is
        if loss.normalise and self.learns_places and batch_size * loss.rollouts < 2:
            raise ConfigError("train.batch_size must be at least 2 with loss.normalise, got 1")
        # Where nothing is chosen, with a single glimpse or in a control, what would choose is idle.
        self.all_parameters_used = not isinstance(model, RecurrentAttention) or model.num_choices > 0
        if model.how == "hard":  # a weight of zero leaves its term out, and so does a soft read
            self.all_parameters_used &= loss.reinforce > 0 and (
                model.baseline is None or (loss.baseline_weight > 0 and not loss.mixes)
            )

    def about(self) -> dict[str, Any]:
        """What a run folder has to say for the model to be used without the data."""
        return {"image_shape": self.data.train.image_shape, "class_names": self.data.train.class_names}

    def schedule(self, progress: float) -> None:
        """See `engine.Task`: the std goes geometrically from `std` to `std_end`."""
        super().schedule(progress)
        settings, glimpses = self.attention, getattr(self.model, "glimpses", None)
        fixed = isinstance(glimpses, PlaneGlimpses) and glimpses.attention.std_head is None
        if settings.std_end is not None and fixed:
            part = min(1.0, progress / settings.std_until)
            glimpses.attention.set_std(settings.std * (settings.std_end / settings.std) ** part)

    def losses(self, model: nn.Module, batch: Batch, noise: Noise) -> dict[str, tuple[float, Tensor]]:
        """See `engine.Task`. Soft: cross-entropy. Hard: that, and the estimator for the places chosen.

        Either way, if there is a halting unit: what stopping by it is expected to cost.
        """
        settings = self.loss
        how = self.read_of(noise) if self.learns_places else self.model.how
        learns_places = self.learns_places and how == "hard"
        if settings.rollouts > 1 and learns_places:
            batch = Batch(*(field.repeat_interleave(settings.rollouts, 0) for field in batch))
        images, targets, boxes = (field.to(self.processes.device) for field in batch)
        again = noise.fork() if settings.baseline == "self_critical" else noise
        rollout: Rollout = model(images, how=how, noise=noise, **told(self.model, boxes))
        terms = {
            "cross_entropy": (1.0, losses.cross_entropy(rollout.logits, targets, settings.classify)),
            "error": (0.0, 1 - losses.correct(rollout.logits.detach(), targets)[:, -1].mean()),
        }
        if rollout.halting is not None:
            each = -losses.log_likelihood(rollout.logits.detach(), targets)
            when = losses.halting_distribution(rollout.halting.detach())
            terms["halting"] = (1.0, losses.halting_cost(rollout.halting, each, settings.glimpse_cost))
            terms["glimpses"] = (0.0, (when * losses.glimpse_numbers(when)).sum(1).mean())
        if not learns_places:
            return terms
        returns = returns_of(rollout, targets, settings)
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
            return returns_of(greedy, targets, self.loss)
        return rollout.baselines

    def validate(self) -> dict[str, Any]:
        """Score the validation set, greedily."""
        scores = self._greedy(self.data.valid, self.score.limit)
        return {"error": scores["error"][-1], "errors": scores["error"], "hits": scores.get("hit")}

    def describe(self, scores: dict[str, Any]) -> str:
        """See `engine.Task`."""
        return f"error {100 * scores['error']:.2f}%"

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


def returns_of(rollout: Rollout, targets: Tensor, loss: LossConfig) -> Tensor:
    """What each choice of a rollout led to (B, N), by the reward of the config."""
    rewards = losses.rewards(rollout.logits, targets, loss.reward)
    return losses.returns(rewards, rollout.log_probs.shape[1], loss.reward_when, loss.discount)


def told(model: nn.Module, boxes: Tensor) -> dict[str, Tensor]:
    """What a model may be told besides the images: only the oracle, where the digits are."""
    return {"boxes": boxes} if getattr(model, "policy", None) == "oracle" else {}


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
    how: Read | None = None,
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
                    how=how,
                    sample=mode != "greedy",
                    noise=Noise(noise_seed(SCORE_NOISE, seed, index, repeat)),
                    **told(model, boxes),
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
            if looks[0].halting is not None:
                halting = torch.stack([look.halting.sigmoid() for look in looks]).mean(0)
            right = losses.correct(judged, targets) > 0
            outcomes.append(Outcome(answers, targets, right, locations, hit, halting))
    return Outcome(
        *(None if field[0] is None else torch.cat(field).cpu() for field in zip(*outcomes, strict=True)),
    )


def score(model: nn.Module, data: DataSet, **how: Any) -> dict[str, Any]:
    """Score a model on a data set after each glimpse.

    Args:
        model: The model.
        data: The data set, taken in its fixed order.
        **how: See `observe`.

    Returns:
        See `summarise`.
    """
    return summarise(observe(model, data, **how))


def summarise(outcome: Outcome) -> dict[str, Any]:
    """Count.

    Returns:
        "images": how many; "error" and "interval": share of wrong answers after each glimpse, with its 95% interval;
        "hit": share of glimpses centred on a digit, if the data knows where the digits are.
    """
    images = len(outcome.right)
    counts = (~outcome.right).sum(0).tolist()
    scores = {
        "images": images,
        "error": [count / images for count in counts],
        "interval": [wilson_interval(count, images) for count in counts],
    }
    if outcome.hit is not None:
        scores["hit"] = outcome.hit.double().mean((0, 1)).tolist()
    return scores
