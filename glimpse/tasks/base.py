"""The base class of tasks: data, model and losses of a training, and the commands for its runs.

A task is one class, in the module of its name; the class of a config names it (`Config.task`), and `task_of` finds it.
The training loop, the commands and `glimpse.load` use this interface only.

All random numbers are a function of (seed, epoch, step), so that a resumed run equals one that was never interrupted.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast

import torch
from torch import Tensor, nn

from glimpse.attention.distributions import Noise
from glimpse.attention.settings import ReadMode
from glimpse.config.registry import Registry
from glimpse.distributed import Processes
from glimpse.errors import ConfigError, RunError
from glimpse.evaluation.scores import Scores
from glimpse.losses.estimators import Estimator, Terms
from glimpse.seeding import Stream, noise_seed
from glimpse.tasks.settings import Config
from glimpse.view.tables import Table

if TYPE_CHECKING:
    from glimpse.training.run import Run

OpenRun = Callable[[str], "Run"]  # opens the run folder that `init_from` names
ConfigType = TypeVar("ConfigType", bound=Config)
ModelType = TypeVar("ModelType", bound=nn.Module)
ScoresType = TypeVar("ScoresType", bound=Scores)


class Task(ABC, Generic[ConfigType, ModelType, ScoresType]):
    """A model, its data and its losses; how runs of it are scored, compared and drawn."""

    verb: ClassVar[str]
    """What its models do: "writes captions"."""
    commands: ClassVar[tuple[str, ...]]
    """The commands of evaluate.py for its runs: names of class methods `(runs, options, processes)`, see `command`."""
    noun: ClassVar[str]
    """What one example is: "image"."""

    estimator: Estimator | None = None
    """Trains where a hard model looks; None if the model is soft or leaves nothing to choose."""
    can_enumerate = False
    """Whether the task implements `Context.enumerate`, for estimators that need it."""
    mixes_modes = False
    """Whether some batches of a hard model are read softly (`estimator.soft_fraction`)."""

    def __init__(self, config: ConfigType, data: Any, model: ModelType, processes: Processes):
        """Prepare the training.

        Args:
            config: The settings.
            data: The splits.
            model: The model to train.
            processes: The processes that share each batch.
        """
        self.config = config
        self.data = data
        self.model = model.to(processes.device)
        self.processes = processes
        self.progress = 0.0  # fraction of the training that is done
        batch_size, limit = config.train.batch_size, config.train.limit
        examples = len(data.train) if limit is None else min(limit, len(data.train))
        self.steps_per_epoch = examples // batch_size
        if self.steps_per_epoch == 0:
            reason = "train.limit" if limit is not None and limit < len(data.train) else "the training examples"
            raise ConfigError(f"train.batch_size must be at most {examples} ({reason}), got {batch_size}")

    # Build and load

    @classmethod
    def build(
        cls,
        config: ConfigType,
        processes: Processes,
        *,
        resumed_from: "Run | None" = None,
        open_run: OpenRun | None = None,
    ) -> Self:
        """Build the data, the vocabulary, and the model with its initial weights (those of `init_from` if it is set).

        Args:
            config: The settings.
            processes: The processes that share each batch.
            resumed_from: The run to resume from its checkpoint; `init_from` is not read then. None: a new run.
            open_run: Opens the run that `init_from` names; required if it is set.

        Raises:
            ConfigError: If the settings do not fit the data or the number of processes.
            DataError: If the data cannot be read.
            RunError: If `init_from` cannot be used.
        """
        if config.train.batch_size % processes.world_size:
            raise ConfigError(
                f"train.batch_size must be a multiple of the {processes.world_size} processes, "
                f"got {config.train.batch_size}"
            )
        initial = None
        if config.init_from is not None and resumed_from is None:
            if open_run is None:
                raise ValueError("a config with init_from needs open_run, to open the run that it names")
            initial = open_run(config.init_from)
        return cls.make(config, processes, resumed_from, initial)

    @classmethod
    @abstractmethod
    def make(cls, config: ConfigType, processes: Processes, resumed_from: "Run | None", initial: "Run | None") -> Self:
        """See `build`; `initial` is the run that provides the initial weights."""

    @classmethod
    @abstractmethod
    def load(cls, run: "Run") -> Any:
        """Load a trained model with its vocabulary or class names, without data: `TrainedClassifier` and the like.

        Raises:
            RunError: If its checkpoint cannot be used.
        """

    @classmethod
    def check_run(cls, run: "Run") -> None:
        """Raise RunError if a run is of another task."""
        if (task := task_of(run.config)) is not cls:
            raise RunError(f"{run} {task.verb}: it cannot be loaded as one that {cls.verb}")

    @classmethod
    def config_of(cls, run: "Run") -> ConfigType:
        """The settings of a run of this task; raises RunError if it is of another."""
        cls.check_run(run)
        return cast(ConfigType, run.config)

    @classmethod
    def open(cls, run: "Run") -> Any:
        """The object that `glimpse.load` returns for a run; its model reads in the mode in which it is scored."""
        return cls.load(run)

    @abstractmethod
    def metadata(self) -> dict[str, Any]:
        """Entries of meta.json that `load` needs."""

    # Learn

    def batches(self, epoch: int) -> Iterator[Any]:
        """This process's share of the training batches of an epoch."""
        rank, world_size, _ = self.processes
        epoch_batches = self.data.train.epoch(
            seed=self.config.seed,
            epoch=epoch,
            batch_size=self.config.train.batch_size,
            rank=rank,
            world_size=world_size,
        )
        return islice(epoch_batches, self.steps_per_epoch)

    def noise(self, epoch: int, step: int) -> Noise:
        """The random numbers of a training step."""
        rank, world_size, _ = self.processes
        return Noise(noise_seed(Stream.TRAIN_NOISE, self.config.seed, epoch, step), rank=rank, world_size=world_size)

    def on_progress(self, progress: float) -> None:
        """Update schedules; `progress` is the fraction of the training that is done, from 0 to 1."""
        self.progress = progress

    def use_estimator(self, estimator: Estimator | None) -> None:
        """Train where the hard model looks with an estimator; None: the model leaves nothing to choose."""
        self.estimator = estimator
        if estimator is not None:
            if estimator.needs_enumeration and not self.can_enumerate:
                raise ConfigError(
                    f"estimator.kind must be one that does not enumerate all places of a read, got {estimator.kind}: "
                    f"a model that {self.verb} cannot enumerate them",
                    key="estimator.kind",
                )
            estimator.check_batch(self.config.train.batch_size)
            self.mixes_modes = estimator.mixes

    def mixed_mode(self, noise: Noise) -> tuple[ReadMode, Estimator | None]:
        """Draw the read mode of a batch of a hard model; a batch that is read softly needs no estimator."""
        if self.estimator is None:
            raise ValueError("only a model that is trained with an estimator can mix read modes")
        mode = self.estimator.mode("hard", noise, self.progress, torch.zeros(1))
        return mode, self.estimator if mode == "hard" else None

    @property
    @abstractmethod
    def every_parameter_has_gradient(self) -> bool:
        """Whether each step gives every parameter a gradient; DistributedDataParallel must know beforehand."""

    @abstractmethod
    def loss_terms(self, model: nn.Module, batch: Any, noise: Noise) -> Terms:
        """Weight and unweighted value of each term of the loss; terms of weight 0 are only logged."""

    # Score

    @abstractmethod
    def validate(self) -> ScoresType:
        """Greedy scores on the validation split."""

    @abstractmethod
    def test(self) -> ScoresType:
        """Scores on the test split."""

    # Print

    @abstractmethod
    def validation_record(self, scores: ScoresType) -> dict[str, Any]:
        """The validation scores for metrics.jsonl and result.json; the epoch with the lowest "error" is the best."""

    @abstractmethod
    def format_scores(self, record: dict[str, Any]) -> str:
        """A validation record as a short text, for the line that is printed after each epoch."""

    def examples(self) -> str:
        """The kind of training examples, for the headline of a training."""
        channels, height, width = self.data.train.image_shape
        return f"images of {channels} x {height} x {width}"

    def headline(self) -> str:
        """One line on the model, its weights and the data."""
        what = self.config.describe()
        weights = sum(parameter.numel() for parameter in self.model.parameters())
        return f"{what[0].upper()}{what[1:]}; {weights:,} weights; {len(self.data.train):,} {self.examples()}"

    @abstractmethod
    def test_table(self, scores: ScoresType) -> tuple[Table, str]:
        """The test scores as a table, and a text to append to its headline."""

    @abstractmethod
    def next_commands(self, run: "Run") -> list[str]:
        """Commands to run after the training."""

    @classmethod
    @abstractmethod
    def result_rows(cls, run: "Run", result: dict[str, Any]) -> list[dict[str, Any]]:
        """Rows of results.csv for a finished run, with the columns "metric", "value", "low", "high" and "valid"."""

    @classmethod
    def early_exit_rows(cls, run: "Run") -> list[dict[str, Any]]:
        """Rows of results.csv with the metrics of early exit."""
        raise RunError(f"{run} has no early exit: it gives a single answer")

    # The commands of evaluate.py

    @classmethod
    def command(cls, name: str, run: object) -> Callable[..., Any]:
        """The class method that carries out a command on open runs of this task.

        Args:
            name: Name of the command.
            run: A run of this task, or its name, for the message.

        Raises:
            RunError: If the command does not apply to this task.
        """
        if name not in cls.commands:
            names = " and ".join([", ".join(cls.commands[:-1]), *cls.commands[-1:]])
            raise RunError(f"{run} {cls.verb}: {name} does not apply to it, but {names} do")
        return getattr(cls, name)


RUNNING_MEAN_DECAY = 0.9  # of the running mean of the reward, from batch to batch


@torch.no_grad()
def update_running_mean(average: Tensor, reward: Tensor) -> Tensor:
    """Update the running mean of the reward, and return its value before this batch (at first, the reward itself).

    Args:
        average: A buffer of the model, infinite before the first batch; updated in place.
        reward: The mean reward of this batch.
    """
    before = reward if average.isinf() else average.clone()
    average.copy_(RUNNING_MEAN_DECAY * before + (1 - RUNNING_MEAN_DECAY) * reward)
    return before


TASKS: Registry[type[Task[Any, Any, Any]]] = Registry("task")


def task_of(config: Config) -> type[Task[Any, Any, Any]]:
    """The task class of a config."""
    import_module(f"glimpse.tasks.{config.task}")
    return TASKS[config.task]


def build_task(
    config: Config, processes: Processes, resumed_from: "Run | None" = None, *, open_run: OpenRun | None = None
) -> Task[Any, Any, Any]:
    """Build the task of a config; see `Task.build`."""
    return task_of(config).build(config, processes, resumed_from=resumed_from, open_run=open_run)
