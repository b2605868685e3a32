"""The training loop, the same for every task.

Each epoch trains, validates and writes a checkpoint. All random numbers are a function of (seed, epoch, step), and the
learning rate is a function of the step, so weights and optimizer state are enough to resume a run bit for bit; and N
processes that share each batch compute the same updates as one process with all of it.
"""

import json
import math
import operator
import time
from collections import Counter
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

from glimpse.distributed import Processes
from glimpse.errors import NonFiniteError, RunError
from glimpse.training.checkpoint import load_into, model_weights
from glimpse.training.optimizer import learning_rate, make_optimizer
from glimpse.training.run import BEST, LAST, Run

if TYPE_CHECKING:
    from glimpse.tasks.base import Task


class RunningMeans:
    """Running means of the loss terms, each over the steps in which it occurs."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._counts: Counter[str] = Counter()

    def add(self, name: str, value: Tensor) -> None:
        """Add the value of one term in one step."""
        self._sums[name] = self._sums.get(name, 0) + value
        self._counts[name] += 1

    def values(self, processes: Processes) -> dict[str, float]:
        """The means over steps and processes."""
        return {name: float(processes.mean(value)) / self._counts[name] for name, value in self._sums.items()}


class Engine:
    """Trains a task and writes the metrics and checkpoints of its run."""

    def __init__(self, task: "Task", run: Run, processes: Processes):
        self.task = task
        self.run = run
        self.processes = processes
        self.settings = run.config.train
        self.optimizer = make_optimizer(task.model, self.settings)
        self.epoch = 0  # completed epochs
        self.seconds = 0.0  # their duration
        self.best: dict[str, Any] | None = None  # validation record of the best epoch

    @property
    def step(self) -> int:
        """Training steps in the completed epochs."""
        return self.epoch * self.task.steps_per_epoch

    @property
    def seconds_left(self) -> float:
        """Estimated duration of the remaining epochs; infinite before the first is completed."""
        return self.seconds / self.epoch * (self.settings.epochs - self.epoch) if self.epoch else math.inf

    def resume(self) -> None:
        """Restore the state after the last completed epoch.

        Raises:
            RunError: If there is no usable checkpoint.
        """
        if not (self.run.folder / LAST).exists() and not self.run.rows():
            return  # stopped before the first checkpoint: start from epoch 0
        tensors, state = self.run.load(LAST)
        load_into(self.task.model, model_weights(tensors), self.run.folder / LAST)
        try:
            self._restore(tensors, state)
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(f"{self.run.folder / LAST} is broken: {error!r}") from error
        if self.processes.main:
            self.run.truncate_metrics(self.step)

    def _restore(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        parameters = dict(self.task.model.named_parameters())
        groups = self.optimizer.param_groups
        number = {parameter: index for index, parameter in enumerate(p for group in groups for p in group["params"])}
        moments: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            if key.startswith("optimizer."):
                name, entry = key.removeprefix("optimizer.").rsplit(".", 1)
                if value.dim() and value.shape != parameters[name].shape:
                    raise ValueError(f"{key} has shape {tuple(value.shape)}")
                if value.dim():  # fused optimizers need the memory layout of the weights
                    value = torch.empty_like(parameters[name]).copy_(value)
                moments.setdefault(number[parameters[name]], {})[entry] = value
        self.optimizer.load_state_dict({"state": moments, "param_groups": self.optimizer.state_dict()["param_groups"]})
        self.epoch, self.seconds, self.best = int(state["epoch"]), float(state["seconds"]), state["best"]

    def save(self) -> None:
        """Write the checkpoint that `resume` reads."""
        tensors = _model_tensors(self.task.model)
        for name, parameter in self.task.model.named_parameters():
            for entry, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer.{name}.{entry}"] = torch.as_tensor(value)
        state = {"epoch": self.epoch, "seconds": self.seconds, "best": self.best}
        self.run.save(LAST, tensors, state)

    def train(self, log: Callable[[str], None] = print) -> None:
        """Train the remaining epochs.

        Args:
            log: Called with a line of text after each epoch.

        Raises:
            NonFiniteError: If a loss or gradient is NaN or infinite; the checkpoint of the last epoch is kept.
            RunError: If a checkpoint cannot be written.
        """
        task, processes = self.task, self.processes
        model: nn.Module = task.model
        if processes.world_size > 1:
            model = DistributedDataParallel(task.model, find_unused_parameters=not task.every_parameter_has_gradient)
        writer = None
        if processes.main and self.settings.tensorboard:
            try:
                writer = SummaryWriter(self.run.folder / "tensorboard", purge_step=self.step + 1)
            except OSError as error:
                raise RunError(f"cannot write to the run folder {self.run.folder}: {error.strerror}") from error
        try:
            if processes.main and self.epoch == 0:
                self.save()  # so that a run stopped in its first epoch can be resumed
            while self.epoch < self.settings.epochs:
                started = time.monotonic()
                losses = self._train_epoch(model, writer)
                self.epoch += 1
                if processes.main:
                    scores = task.validation_record(task.validate())
                    self.seconds += time.monotonic() - started
                    self._finish_epoch(losses, scores, writer)
                    log(self._summary(losses, scores))
                processes.wait()
        finally:
            if writer is not None:
                writer.close()

    def _train_epoch(self, model: nn.Module, writer: SummaryWriter | None) -> dict[str, float]:
        """Train for one epoch; returns the mean of each loss term."""
        task, settings = self.task, self.settings
        steps = task.steps_per_epoch
        total = steps * settings.epochs
        epoch_means, recent_means = RunningMeans(), RunningMeans()  # recent: since the last row of metrics.jsonl
        task.model.train()
        bar = tqdm(
            task.batches(self.epoch),
            total=steps,
            desc=f"epoch {self.epoch + 1}/{settings.epochs}",
            unit="batch",
            leave=False,
            disable=None if self.processes.main else True,
        )
        for index, batch in enumerate(bar):
            step = self.step + index
            task.on_progress(step / total)
            rate = settings.lr * learning_rate(settings.schedule, step / total, settings.warmup_fraction)
            for group in self.optimizer.param_groups:
                group["lr"] = rate * group["lr_mult"]
            terms = task.loss_terms(model, batch, task.noise(self.epoch, index))
            loss = reduce(operator.add, [weight * value for weight, value in terms.values() if weight])
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(task.model.parameters(), settings.max_grad_norm)
            self._check_finite(terms, norm, index)
            self.optimizer.step()
            for name, (_, value) in {"loss": (1, loss), **terms}.items():
                recent_means.add(name, value.detach())
                epoch_means.add(name, value.detach())
            if (index + 1) % settings.log_every == 0 or index + 1 == steps:
                values = self._log(recent_means.values(self.processes), step + 1, rate, writer)
                bar.set_postfix({name: f"{value:.3f}" for name, value in values.items() if name in ("loss", "error")})
                recent_means = RunningMeans()
        return epoch_means.values(self.processes)

    def _log(self, values: dict[str, float], step: int, rate: float, writer: SummaryWriter | None) -> dict[str, float]:
        if self.processes.main:
            row = {"step": step, "epoch": self.epoch + 1, "lr": rate, **{f"train/{k}": v for k, v in values.items()}}
            self._write_row(row)
            for name, value in row.items():
                if writer is not None and name not in ("step", "epoch"):
                    writer.add_scalar(name, value, step)
        return values

    def _check_finite(self, terms: dict[str, tuple[float, Tensor]], norm: Tensor, index: int) -> None:
        if torch.isfinite(norm) and all(torch.isfinite(value) for _, value in terms.values()):
            return
        values = ", ".join(f"{name} {float(value.detach()):g}" for name, (_, value) in terms.items())
        raise NonFiniteError(
            f"loss or gradient is NaN or infinite in epoch {self.epoch + 1}, step {index + 1} of "
            f"{self.task.steps_per_epoch}: {values}, norm of the gradient {float(norm):g}. The weights after epoch "
            f"{self.epoch} are kept in {self.run.folder / LAST}. "
            "A lower train.lr, train.max_grad_norm or estimator.weight may help."
        )

    def _finish_epoch(self, losses: dict[str, float], scores: dict[str, Any], writer: SummaryWriter | None) -> None:
        """Write the weights if they are the best, then the metrics; last the checkpoint, which completes the epoch."""
        if self.best is None or scores["error"] < self.best["error"]:
            self.best = {"epoch": self.epoch, **scores}
            self.run.save(BEST, _model_tensors(self.task.model), self.best)
        row = {"step": self.step, "epoch": self.epoch, "seconds": round(self.seconds, 2)}
        row |= {f"epoch/{name}": value for name, value in losses.items()}
        row |= {f"valid/{name}": value for name, value in scores.items()}
        self._write_row(row)
        if writer is not None:
            for name, value in row.items():
                if isinstance(value, float) and name != "seconds":
                    writer.add_scalar(name, value, self.step)
            writer.flush()
        self.save()

    def _write_row(self, row: dict[str, Any]) -> None:
        try:
            with open(self.run.folder / "metrics.jsonl", "a") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as error:
            raise RunError(f"cannot write to the run folder {self.run.folder}: {error.strerror}") from error

    def _summary(self, losses: dict[str, float], scores: dict[str, Any]) -> str:
        mark = "  best" if self.best and self.best["epoch"] == self.epoch else ""
        return (
            f"epoch {self.epoch}/{self.settings.epochs}  loss {losses['loss']:.4f}  "
            f"validation {self.task.format_scores(scores)}  {self.seconds:.0f} s, {self.seconds_left:.0f} s left{mark}"
        )


def _model_tensors(model: nn.Module) -> dict[str, Tensor]:
    return {f"model.{name}": value for name, value in model.state_dict().items()}
