"""What all estimators share: the record of a batch of rollouts, and what the task lends to an estimator.

The same estimator serves glimpses on the plane, glimpses on a grid, and the words of a decoder.

Shapes: B examples, M rollouts of each, T glimpses or words, N choices (the last N of T).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias

from glimpse.config.registry import Registry
from glimpse.config.schema import Settings
from glimpse.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

    from glimpse.attention.distributions import Noise
    from glimpse.attention.settings import ReadMode

Terms: TypeAlias = "dict[str, tuple[float, Tensor]]"  # of a loss: the weight and the unweighted value of each


class Episode(NamedTuple):
    """What happened in a batch of rollouts, the M rollouts of an example next to each other."""

    log_probs: Tensor  # (B*M, N), of the places sampled
    entropies: Tensor  # (B*M, N), of the distributions they were sampled from
    logits: Tensor  # (B*M, T, classes): the answers, or the words
    targets: Tensor  # (B*M,) or (B*M, classes) of answers, (B*M, T) of words; see `log_likelihood`
    values: Tensor | None = None  # (B*M, N): the expected return by the model's baseline head; None without one
    mask: Tensor | None = None  # (B*M, N) bool: choices that count, all but padding; None: all
    samples: int = 1  # M


class Context:
    """What an estimator may ask of the task: means over the batch, and further rollouts.

    These are the methods for a whole batch in one process. A task overrides what it can offer beyond that.
    """

    scale: float | Tensor = 1.0  # of a sum over choices and mean over the batch; for words it makes a mean over words

    def mean(self, x: Tensor) -> Tensor:
        """The mean of x (B*M, N) over the choices that count, with its gradient."""
        return x.mean()

    def batch_mean(self, x: Tensor) -> Tensor:
        """The mean of x (B*M, N) over the batch, at each choice (N,) or over all; of all processes, no gradient."""
        return x.mean(0)

    def greedy_logits(self) -> Tensor:
        """The answers (B*M, T, classes) of a greedy rollout, which is made when this is called."""
        raise ConfigError("estimator.baseline self_critical needs greedy rollouts, which this task cannot make")

    def running_mean(self, reward: Tensor) -> Tensor:
        """The running mean of the reward over the batches before this one; takes in the reward of this one."""
        raise ConfigError("estimator.baseline moving_average needs a model that keeps the running mean of its reward")

    def enumerate(self) -> tuple[Tensor, Tensor]:
        """For each choice and place (B, N, L), its log-probability and the log-likelihood of the answer it leads to."""
        raise ConfigError("this estimator needs places that can be enumerated, which points of the plane cannot be")


class Estimator(Settings):
    """estimator: how the places that a hard read samples are learned. It has no effect on a model that reads softly."""

    group = "estimator"
    straight_through: ClassVar[bool] = False  # whether sampled places carry the gradient of the expectation
    kind: str
    soft_fraction: float = 0.0
    """Fraction of the training batches of a hard model that are read softly; the paper on captions has 0.5."""
    soft_fraction_final: float | None = None
    """Let that fraction change to this one, linearly over the training; null keeps it. From 1 to 0 is a soft start."""
    soft_fraction_anneal: float = 1.0
    """Fraction of the training after which soft_fraction_final is reached."""

    @property
    def num_samples(self) -> int:
        """How many rollouts of each example a training step makes."""
        return 1

    @property
    def needs_values(self) -> bool:
        """Whether the model must have a baseline head."""
        return False

    @property
    def needs_running_mean(self) -> bool:
        """Whether the model must keep the running mean of its reward."""
        return False

    @property
    def needs_greedy(self) -> bool:
        """Whether `terms` will ask the context for greedy rollouts."""
        return False

    @property
    def trains_attention(self) -> bool:
        """Whether the attention of a hard read gets a gradient in every step."""
        return True

    @property
    def trains_values(self) -> bool:
        """Whether the baseline head gets a gradient in every step."""
        return False

    @property
    def detaches_state(self) -> bool:
        """Whether the gradient of the attention ends at the attention, and does not reach the state."""
        return False

    @property
    def mixes(self) -> bool:
        """Whether batches of a hard model are ever read softly; only then `mode` is asked."""
        return self.soft_fraction > 0 or bool(self.soft_fraction_final)

    def soft_fraction_at(self, progress: float) -> float:
        """The fraction of batches that are read softly after a part of the training."""
        start, end = self.soft_fraction, self.soft_fraction_final
        return start if end is None else start + min(1.0, progress / self.soft_fraction_anneal) * (end - start)

    def mode(self, own: ReadMode, noise: Noise, progress: float, uniform: Tensor) -> ReadMode:
        """How to read a training batch: as the model does, or, for a part of the batches of a hard model, softly.

        Args:
            own: How the model reads.
            noise: The random numbers of the step, of which one is drawn if there is a choice.
            progress: The part of the training that is done.
            uniform: (1,), a tensor of the type to draw.
        """
        fraction = self.soft_fraction_at(progress)
        if own == "hard" and fraction and float(noise.same_for_all().uniform(uniform)) < fraction:
            return "soft"
        return own

    def terms(self, episode: Episode, context: Context) -> Terms:
        """The terms of the loss that teach where to look, from the rollouts of a batch."""
        return {}

    def check_batch(self, batch_size: int) -> None:
        """Refuse a batch that is too small for the estimator."""

    def check(self) -> None:
        """Check the ranges."""
        self.require(0 <= self.soft_fraction <= 1, "soft_fraction", "in [0, 1]")
        end = self.soft_fraction_final
        self.require(end is None or 0 <= end < 1, "soft_fraction_final", "null or in [0, 1)")
        self.require(0 < self.soft_fraction_anneal <= 1, "soft_fraction_anneal", "in (0, 1]")
        self.require(
            self.soft_fraction < 1 or end is not None,
            "soft_fraction_final",
            "less than 1 with estimator.soft_fraction 1, or nothing would ever be read hard",
        )


ESTIMATORS: Registry[type[Estimator]] = Registry("estimator.kind")
