"""Base class of estimators, the record of a batch of rollouts, and the task's interface to an estimator.

The same estimators train glimpses on the plane, glimpses on a grid, and the attention of a decoder.

Shapes: B examples, M rollouts per example, T glimpses or words, N choices (the last N of T), L places.
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

Terms: TypeAlias = "dict[str, tuple[float, Tensor]]"  # terms of a loss by name: weight and unweighted value


class Episode(NamedTuple):
    """A batch of rollouts, with the M rollouts of an example in adjacent rows."""

    log_probs: Tensor  # (B*M, N), of the sampled places
    entropies: Tensor  # (B*M, N), of the distributions over places
    logits: Tensor  # (B*M, T, classes), of classes or words
    targets: Tensor  # (B*M,) or (B*M, classes) of images, (B*M, T) of words; see `log_likelihood`
    values: Tensor | None = None  # (B*M, N), output of the baseline head; None without one
    mask: Tensor | None = None  # (B*M, N) bool, false where padded; None: no padding
    samples: int = 1  # M


class Context:
    """The task's interface to an estimator: means over the batch, and further rollouts.

    The base class has means over one process; a task overrides them and adds the rollouts that it can make.
    """

    scale: float | Tensor = 1.0  # factor of a loss that sums over choices; a mean over words needs one other than 1

    def mean(self, x: Tensor) -> Tensor:
        """Return the mean of x (B*M, N) over all choices that are not padding, with its gradient."""
        return x.mean()

    def batch_mean(self, x: Tensor) -> Tensor:
        """Return the mean of x (B*M, N) over the batch of all processes, per choice (N,) or overall; no gradient."""
        return x.mean(0)

    def greedy_logits(self) -> Tensor:
        """Return the logits (B*M, T, classes) of a greedy rollout, which is computed on demand."""
        raise ConfigError("estimator.baseline self_critical needs greedy rollouts, which this task cannot make")

    def running_mean(self, reward: Tensor) -> Tensor:
        """Return the running mean of the reward of earlier batches, and update it with the reward of this batch."""
        raise ConfigError("estimator.baseline moving_average needs a model with a running mean of its reward")

    def enumerate(self) -> tuple[Tensor, Tensor]:
        """Return two tensors (B, N, L): the log-probability of each place, and the log-likelihood after reading it."""
        raise NotImplementedError("this task cannot enumerate the places of a read")


class Estimator(Settings):
    """estimator: the gradient estimator of hard attention. No effect on a soft model."""

    group = "estimator"
    straight_through: ClassVar[bool] = False  # whether hard reads have the gradient of soft reads
    needs_enumeration: ClassVar[bool] = False  # whether `terms` calls `Context.enumerate`
    kind: str
    soft_fraction: float = 0.0
    """Fraction of the training batches of a hard model that are read softly; 0.5 in Show, Attend and Tell."""
    soft_fraction_final: float | None = None
    """Final soft_fraction; the schedule is linear. null: constant. 1 to 0: training starts with soft reads only."""
    soft_fraction_anneal: float = 1.0
    """Fraction of the training after which soft_fraction_final is reached."""

    @property
    def num_samples(self) -> int:
        """Number of rollouts per example in a training step."""
        return 1

    @property
    def needs_values(self) -> bool:
        """Whether it needs a baseline head of the model."""
        return False

    @property
    def needs_running_mean(self) -> bool:
        """Whether it needs the model's running mean of the reward."""
        return False

    @property
    def needs_greedy(self) -> bool:
        """Whether `terms` calls `Context.greedy_logits`."""
        return False

    @property
    def trains_attention(self) -> bool:
        """Whether the attention of a hard model has a gradient in every step."""
        return True

    @property
    def trains_values(self) -> bool:
        """Whether the baseline head has a gradient in every step."""
        return False

    @property
    def detaches_state(self) -> bool:
        """Whether the attention's input state is detached in hard reads."""
        return False

    @property
    def mixes(self) -> bool:
        """Whether some batches of a hard model are read softly; otherwise `mode` is not called."""
        return self.soft_fraction > 0 or bool(self.soft_fraction_final)

    def idle(self) -> set[str]:
        """The schedule of soft batches, without a final fraction; and that fraction, without soft batches."""
        if not self.mixes:
            return {"soft_fraction_final", "soft_fraction_anneal"}
        return {"soft_fraction_anneal"} if self.soft_fraction_final is None else set()

    def soft_fraction_at(self, progress: float) -> float:
        """Return the fraction of batches that are read softly at a progress of the training, from 0 to 1."""
        start, end = self.soft_fraction, self.soft_fraction_final
        return start if end is None else start + min(1.0, progress / self.soft_fraction_anneal) * (end - start)

    def mode(self, own: ReadMode, noise: Noise, progress: float, uniform: Tensor) -> ReadMode:
        """Return the read mode of a training batch: the model's own, or "soft" for some batches of a hard model.

        Args:
            own: The model's read mode.
            noise: Random numbers of the step; draws one if the fraction is not 0.
            progress: Progress of the training, from 0 to 1.
            uniform: (1,), a tensor of the dtype to draw.
        """
        fraction = self.soft_fraction_at(progress)
        if own == "hard" and fraction and float(noise.same_for_all().uniform(uniform)) < fraction:
            return "soft"
        return own

    def terms(self, episode: Episode, context: Context) -> Terms:
        """Return the terms of the loss that train the attention, from the rollouts of a batch."""
        return {}

    def check_batch(self, batch_size: int) -> None:
        """Raise a ConfigError if a batch is too small for the estimator."""

    def check(self) -> None:
        """Check the ranges."""
        self.require(0 <= self.soft_fraction <= 1, "soft_fraction", "in [0, 1]")
        end = self.soft_fraction_final
        self.require(end is None or 0 <= end < 1, "soft_fraction_final", "null or in [0, 1)")
        self.require(0 < self.soft_fraction_anneal <= 1, "soft_fraction_anneal", "in (0, 1]")
        self.require(
            self.soft_fraction < 1 or end is not None,
            "soft_fraction_final",
            "less than 1 with estimator.soft_fraction 1, which would leave no hard batch",
        )


ESTIMATORS: Registry[type[Estimator]] = Registry("estimator.kind")
