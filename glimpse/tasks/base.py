"""What a task is: what is learned from what, how it is scored, and what is shown of it.

A task is one class, in the module of its name; the class of a config names it (`Config.task`), and `task_of` finds it.
The training loop, the commands and `glimpse.load` know tasks by this class only.

All that is random is a function of (seed, epoch, step), so that a resumed run goes on as if it had never stopped.
"""

from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

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


class Task(ABC):
    """What is learned: a model, its data and its losses; and how runs of it are scored and shown."""

    verb: ClassVar[str]
    """What its models do: "writes captions"."""
    noun: ClassVar[str]
    """What one example is: "image"."""

    def __init__(self, config: Config, data: Any, model: nn.Module, processes: Processes):
        """Prepare the training.

        Args:
            config: The settings.
            data: The splits.
            model: What learns.
            processes: The processes that share the work.
        """
        self.config = config
        self.data = data
        self.model = model.to(processes.device)
        self.processes = processes
        self.estimator: Estimator | None = getattr(config, "estimator", None)
        self.progress = 0.0  # the part of the training that is done
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
        config: Config,
        processes: Processes,
        *,
        resumed_from: "Run | None" = None,
        open_run: OpenRun | None = None,
    ) -> Self:
        """Make the task of a run: data, vocabulary, and model with its initial weights, from `init_from` if it is set.

        Args:
            config: The settings.
            processes: The processes that share the work.
            resumed_from: The run, if it is resumed from a checkpoint. What it was initialized from is not needed then.
            open_run: Opens the run that `init_from` names; needed if it is set.

        Raises:
            ConfigError: If the settings do not go together with the data or the processes.
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
    def make(cls, config: Config, processes: Processes, resumed_from: "Run | None", initial: "Run | None") -> Self:
        """See `build`; `initial` is the run to take the initial weights from."""

    @classmethod
    @abstractmethod
    def load(cls, run: "Run") -> Any:
        """The trained model of a run with what belongs to it, without data; see `Trained`.

        Raises:
            RunError: If its checkpoint cannot be used.
        """

    @classmethod
    def check_run(cls, run: "Run") -> None:
        """Refuse to load a run of another task; raises RunError."""
        if (task := task_of(run.config)) is not cls:
            raise RunError(f"{run} {task.verb}: it cannot be loaded as one that {cls.verb}")

    @classmethod
    def open(cls, run: "Run") -> Any:
        """What `glimpse.load` returns for a run: its model reads as it does when it is scored."""
        return cls.load(run)

    @abstractmethod
    def metadata(self) -> dict[str, Any]:
        """What meta.json must say for `load`."""

    # Learn

    def batches(self, epoch: int) -> Iterator[Any]:
        """The training batches of this process in an epoch."""
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
        """The random numbers of a step."""
        rank, world_size, _ = self.processes
        return Noise(noise_seed(Stream.TRAIN_NOISE, self.config.seed, epoch, step), rank=rank, world_size=world_size)

    def on_progress(self, progress: float) -> None:
        """Set what changes in the course of the training, from 0 to 1."""
        self.progress = progress

    def batch_mode(self, noise: Noise) -> ReadMode:
        """How to read a training batch; see `Estimator.mode`."""
        return self.estimator.mode(self.model.mode, noise, self.progress, torch.zeros(1))

    @property
    @abstractmethod
    def every_parameter_has_gradient(self) -> bool:
        """Whether each step gives every parameter a gradient, which several processes must know beforehand."""

    @abstractmethod
    def loss_terms(self, model: nn.Module, batch: Any, noise: Noise) -> Terms:
        """Each term of the loss, as its weight and its unweighted value; weight 0 is only logged."""

    # Measure

    @abstractmethod
    def validate(self) -> Scores:
        """Scores on the validation set, greedily."""

    @abstractmethod
    def test(self) -> Scores:
        """Scores on the test set."""

    # Say

    @abstractmethod
    def validation_record(self, scores: Scores) -> dict[str, Any]:
        """The validation scores for metrics.jsonl and result.json; the least "error" is the best."""

    @abstractmethod
    def format_scores(self, record: dict[str, Any]) -> str:
        """A validation record in a few words, for the line that is printed after each epoch."""

    def examples(self) -> str:
        """What the training examples are, for the headline of a training."""
        channels, height, width = self.data.train.image_shape
        return f"images of {channels} x {height} x {width}"

    def headline(self) -> str:
        """Model, weights and data, in a line."""
        what = self.config.describe()
        weights = sum(parameter.numel() for parameter in self.model.parameters())
        return f"{what[0].upper()}{what[1:]}; {weights:,} weights; {len(self.data.train):,} {self.examples()}"

    @abstractmethod
    def test_table(self, scores: Scores) -> tuple[Table, str]:
        """The test scores as a table, and what to add to the line above it."""

    @abstractmethod
    def next_commands(self, run: "Run") -> list[str]:
        """Commands that make sense after the training."""

    @classmethod
    @abstractmethod
    def result_rows(cls, run: "Run", result: dict[str, Any]) -> list[dict[str, Any]]:
        """The metrics of a finished run for results.csv: of each, "metric", "value", "low", "high" and "valid"."""

    @classmethod
    def early_exit_rows(cls, run: "Run") -> list[dict[str, Any]]:
        """Metrics of stopping early, for the section of results.csv that is about it."""
        raise RunError(f"{run} cannot stop early: it has one answer")

    # Show: the commands of evaluate.py, on runs of this task that are open

    @classmethod
    def score(cls, run: "Run", options: Namespace, processes: Processes) -> dict[str, Any]:
        """Score a run, print a table unless JSON is wanted, and return all of it for JSON."""
        cls._refuse(run, "score")

    @classmethod
    def check_compare(cls, names: Sequence[str]) -> None:
        """Refuse to compare runs, given by name, before those that are missing are trained."""
        if "compare" not in _methods(cls):
            cls._refuse(names[0], "compare")

    @classmethod
    def compare(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """Compare runs, print tables, and write them with a figure into a folder."""
        cls._refuse(runs[0], "compare")

    @classmethod
    def animate(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """Write an animation of one or two runs."""
        cls._refuse(runs[0], "animate")

    @classmethod
    def sheet(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """Draw what was read, step by step."""
        cls._refuse(runs[0], "glimpses")

    @classmethod
    def coverage(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """Draw where each glimpse falls over all images."""
        cls._refuse(runs[0], "coverage")

    @classmethod
    def report(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """Write the report, a page."""
        cls._refuse(runs[0], "report")

    @classmethod
    def caption(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """Caption the user's own images."""
        cls._refuse(runs[0], "caption")

    @classmethod
    def translate(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """Translate the user's own sentences."""
        cls._refuse(runs[0], "translate")

    @classmethod
    def variance(cls, runs: "Sequence[Run]", options: Namespace, processes: Processes) -> None:
        """Measure and draw the variance of the gradient with each baseline."""
        cls._refuse(runs[0], "variance")

    @classmethod
    def _refuse(cls, run: object, command: str) -> NoReturn:
        methods = {"glimpses": "sheet"}
        commands = ("score", "compare", "animate", "glimpses", "coverage", "report", "caption", "translate", "variance")
        own = [name for name in commands if methods.get(name, name) in _methods(cls)]
        names = " and ".join([", ".join(own[:-1]), *own[-1:]] if len(own) > 1 else own)
        raise RunError(f"{run} {cls.verb}: {command} is not for it, but {names} {'are' if len(own) > 1 else 'is'}")


RUNNING_MEAN_DECAY = 0.9  # of the running mean of the reward, from batch to batch


@torch.no_grad()
def update_running_mean(average: Tensor, reward: Tensor) -> Tensor:
    """The running mean of the reward before this batch, or at first the reward of this one; takes in that of this one.

    Args:
        average: A buffer of the model, infinite before the first batch; changed in place.
        reward: The mean reward of this batch.
    """
    before = reward if average.isinf() else average.clone()
    average.copy_(RUNNING_MEAN_DECAY * before + (1 - RUNNING_MEAN_DECAY) * reward)
    return before


def _methods(cls: type[Task]) -> set[str]:
    """The names of what the subclasses of `Task` define."""
    return {name for base in cls.__mro__ if base is not Task and issubclass(base, Task) for name in vars(base)}


TASKS: Registry[type[Task]] = Registry("task")


def task_of(config: Config) -> type[Task]:
    """The task of a config."""
    import_module(f"glimpse.tasks.{config.task}")
    return TASKS[config.task]


def build_task(
    config: Config, processes: Processes, resumed_from: "Run | None" = None, *, open_run: OpenRun | None = None
) -> Task:
    """Make the task of a config; see `Task.build`."""
    return task_of(config).build(config, processes, resumed_from=resumed_from, open_run=open_run)
