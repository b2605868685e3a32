"""Settings of training and scoring, common to all tasks."""

from typing import Literal

from glimpse.attention.settings import ReadMode
from glimpse.config.schema import Settings


class TrainSettings(Settings):
    """train: optimizer, schedule and length of the training."""

    group = "train"
    technical = ("device", "threads", "log_every", "tensorboard", "runs_dir")
    epochs: int = 20
    """Number of epochs."""
    batch_size: int = 128
    """Images or sentences per batch, in total over all processes."""
    optimizer: Literal["adamw", "adam", "sgd"] = "adamw"
    """Optimizer."""
    lr: float = 3e-3
    """Peak learning rate."""
    attention_lr_mult: float = 0.33
    """Learning-rate multiplier of the attention parameters."""
    schedule: Literal["one_cycle", "cosine", "linear", "constant"] = "one_cycle"
    """Learning-rate schedule: one_cycle warms up and decays to 0, cosine and linear decay to 0."""
    warmup_fraction: float = 0.25
    """With schedule one_cycle: fraction of the training spent on warm-up."""
    momentum: float = 0.9
    """With optimizer sgd: momentum."""
    weight_decay: float = 0.01
    """Weight decay."""
    max_grad_norm: float = 5.0
    """Maximum norm of the gradient; a larger gradient is clipped."""
    limit: int | None = None
    """Number of training examples per epoch, for a quick trial; null: all."""
    device: str = "auto"
    """Device: cpu, cuda, cuda:1, mps ...; auto: the fastest available."""
    threads: int = 0
    """CPU threads of each process; 0: torch's default."""
    log_every: int = 50
    """Number of steps between logs of the training losses."""
    tensorboard: bool = True
    """Whether to write TensorBoard events."""
    runs_dir: str = "runs"
    """Parent folder of new run folders."""

    def check(self) -> None:
        """Check the ranges."""
        self.require_positive("epochs", "batch_size", "lr", "attention_lr_mult", "max_grad_norm", "log_every")
        self.require(0 < self.warmup_fraction < 1, "warmup_fraction", "between 0 and 1")
        self.require(0 <= self.momentum < 1, "momentum", "in [0, 1)")
        self.require(self.weight_decay >= 0, "weight_decay", "at least 0")
        self.require(self.limit is None or self.limit >= 1, "limit", "null or at least 1")
        self.require(self.threads >= 0, "threads", "at least 0")

    def idle(self) -> set[str]:
        """Settings that the optimizer and the schedule do not use."""
        idle = set() if self.optimizer == "sgd" else {"momentum"}
        return idle if self.schedule == "one_cycle" else {*idle, "warmup_fraction"}


class ScoreSettings(Settings):
    """score: validation and test."""

    group = "score"
    technical = ()
    batch_size: int = 500
    """Images or sentences per batch in validation and test."""
    limit: int | None = None
    """Number of validation examples; null: all. The test always uses all examples."""

    def check(self) -> None:
        """Check the ranges."""
        self.require_positive("batch_size")
        self.require(self.limit is None or self.limit >= 1, "limit", "null or at least 1")


class GlimpseScoreSettings(ScoreSettings):
    """score: validation and test, and the read mode."""

    read: ReadMode | None = None
    """Read mode in validation and test; null: as in training. hard after training with read soft: soft-to-hard."""


class SequenceScoreSettings(GlimpseScoreSettings):
    """score: validation and test, the read mode and the beam search."""

    beam_width: int = 1
    """Beam width for the test scores; 1: greedy. Validation is always greedy."""
    length_penalty: float = 0.0
    """Exponent of the length penalty ((5 + n) / 6) ** a of the beam search; 0: none."""

    def check(self) -> None:
        """Check the ranges."""
        super().check()
        self.require_positive("beam_width")
        self.require(self.length_penalty >= 0, "length_penalty", "at least 0")

    def idle(self) -> set[str]:
        """The length penalty, without a beam."""
        return {"length_penalty"} if self.beam_width == 1 else set()
