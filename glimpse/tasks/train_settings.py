"""Settings of training and of scoring, which every task has."""

from typing import Literal

from glimpse.attention.settings import ReadMode
from glimpse.config.schema import Settings


class TrainSettings(Settings):
    """train: how it is learned."""

    group = "train"
    technical = ("device", "threads", "log_every", "tensorboard", "runs_dir")
    epochs: int = 20
    """Visits to all training images or sentences."""
    batch_size: int = 128
    """Images or sentences in a step, over all processes."""
    optimizer: Literal["adamw", "adam", "sgd"] = "adamw"
    """The optimizer."""
    lr: float = 3e-3
    """The highest learning rate."""
    attention_lr_mult: float = 0.33
    """Learning-rate multiplier of the attention parameters."""
    schedule: Literal["one_cycle", "cosine", "linear", "constant"] = "one_cycle"
    """Learning rate up and down again; or down to 0 along a cosine or a line; or constant."""
    warmup_fraction: float = 0.25
    """one_cycle: fraction of the training in which the rate rises."""
    momentum: float = 0.9
    """sgd: momentum."""
    weight_decay: float = 0.01
    """Weight decay."""
    max_grad_norm: float = 5.0
    """Largest norm of the gradient."""
    limit: int | None = None
    """Stop each epoch after this many images or sentences, for a quick trial; null for all."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1, mps ...; auto takes the best there is."""
    threads: int = 0
    """CPU threads of each process; 0 leaves it to torch."""
    log_every: int = 50
    """Steps between two rows of training losses."""
    tensorboard: bool = True
    """Whether to write TensorBoard events."""
    runs_dir: str = "runs"
    """Where run folders are made."""

    def check(self) -> None:
        """Check the ranges."""
        self.require_positive("epochs", "batch_size", "lr", "attention_lr_mult", "max_grad_norm", "log_every")
        self.require(0 < self.warmup_fraction < 1, "warmup_fraction", "between 0 and 1")
        self.require(0 <= self.momentum < 1, "momentum", "in [0, 1)")
        self.require(self.weight_decay >= 0, "weight_decay", "at least 0")
        self.require(self.limit is None or self.limit >= 1, "limit", "null or at least 1")
        self.require(self.threads >= 0, "threads", "at least 0")

    def idle(self) -> set[str]:
        """Settings of the other optimizers and schedules."""
        idle = set() if self.optimizer == "sgd" else {"momentum"}
        return idle if self.schedule == "one_cycle" else {*idle, "warmup_fraction"}


class ScoreSettings(Settings):
    """score: how validation and test are done."""

    group = "score"
    technical = ()
    batch_size: int = 500
    """Images or sentences at a time."""
    limit: int | None = None
    """Validate on the first so many images or sentences only; the test always takes all."""

    def check(self) -> None:
        """Check the ranges."""
        self.require_positive("batch_size")
        self.require(self.limit is None or self.limit >= 1, "limit", "null or at least 1")


class GlimpseScoreSettings(ScoreSettings):
    """score: how validation and test read."""

    read: ReadMode | None = None
    """How to read when scoring; null: as in training. hard, with read: soft and a shrinking std, is soft-to-hard."""


class SequenceScoreSettings(GlimpseScoreSettings):
    """score: how validation and test read and write."""

    beam_width: int = 1
    """Hypotheses that are kept in the test; 1 is greedy, as validation always is."""
    length_penalty: float = 0.0
    """With a beam: how much longer captions and translations are favored; 0 for not at all."""

    def check(self) -> None:
        """Check the ranges."""
        super().check()
        self.require_positive("beam_width")
        self.require(self.length_penalty >= 0, "length_penalty", "at least 0")

    def idle(self) -> set[str]:
        """The penalty, without a beam."""
        return {"length_penalty"} if self.beam_width == 1 else set()
