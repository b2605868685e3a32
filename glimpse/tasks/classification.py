"""The task of classifying images: which losses train the model, and how it is scored.

What is shown of trained classifiers is in `classification_commands.py`.
"""

from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

from glimpse import losses
from glimpse.attention.distributions import Noise
from glimpse.data import Batch, Dataset, Splits
from glimpse.distributed import Processes
from glimpse.errors import RunError
from glimpse.evaluation.classify import ClassificationScores, TrainedClassifier, score
from glimpse.evaluation.result_rows import ERROR, percent
from glimpse.losses.estimators import Context, Episode, Terms
from glimpse.losses.settings import ClassificationLossSettings
from glimpse.models.rollout import Rollout
from glimpse.tasks.base import TASKS, update_running_mean
from glimpse.tasks.build import Classifier, build_data, build_model, make_model
from glimpse.tasks.classification_commands import ClassificationCommands
from glimpse.tasks.settings import ClassificationConfig
from glimpse.view.tables import Table, score_table

if TYPE_CHECKING:
    from glimpse.training.run import Run


@TASKS.register("classification")
class ClassificationTask(ClassificationCommands):
    """Learns to classify images, by glimpses or by the whole image."""

    config: ClassificationConfig
    data: Splits
    model: Classifier

    def __init__(self, config: ClassificationConfig, data: Splits, model: Classifier, processes: Processes):
        super().__init__(config, data, model, processes)
        self.loss: ClassificationLossSettings = getattr(config, "loss", None) or ClassificationLossSettings()
        # Without choices, as with a single glimpse or in a control, there is nothing for an estimator to learn.
        self.uses_estimator = self.model.mode == "hard" and self.model.num_choices > 0
        self.mixes_modes = self.uses_estimator and self.estimator.mixes
        if self.uses_estimator:
            self.estimator.check_batch(config.train.batch_size)

    @classmethod
    def make(
        cls, config: ClassificationConfig, processes: Processes, resumed_from: "Run | None", initial: "Run | None"
    ) -> Self:
        """See `Task`."""
        data = build_data(config.data)
        model = build_model(config, data.train)
        if initial is not None:
            # The baseline and the halting unit need not be in both; nor is a soft run's std where this one begins.
            initial.load_weights(model, optional=("baseline.", "halt.", "average_reward"))
            if model.attends:
                config.attention.initialize(model.glimpses.attention)
        return cls(config, data, model, processes)

    @classmethod
    def load(cls, run: "Run") -> TrainedClassifier:
        """See `Task`."""
        cls.check_run(run)
        metadata = run.read_json("meta.json")
        try:
            shape, class_names = tuple(metadata["image_shape"]), tuple(metadata["class_names"])
            model = make_model(run.config, image_shape=shape, num_classes=len(class_names))
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise RunError(f"{run.folder / 'meta.json'} is broken: {error!r}") from error
        run.load_weights(model)
        return TrainedClassifier(run, run.name, model.eval(), run.config.scored_read, shape, class_names)

    @classmethod
    def open(cls, run: "Run") -> Classifier:
        """See `Task`: the model itself."""
        loaded = cls.load(run)
        if loaded.model.attends:
            loaded.model.glimpses.attention.mode = loaded.mode
        return loaded.model

    def metadata(self) -> dict[str, Any]:
        """See `Task`."""
        return {"image_shape": self.data.train.image_shape, "class_names": self.data.train.class_names}

    # Learn

    def on_progress(self, progress: float) -> None:
        """See `Task`; the attention may have a schedule too."""
        super().on_progress(progress)
        if self.model.attends:
            self.config.attention.on_progress(self.model.glimpses.attention, progress)

    @property
    def every_parameter_has_gradient(self) -> bool:
        """See `Task`."""
        if not self.model.attends:
            return True
        learned = not self.uses_estimator or (
            self.estimator.trains_attention and (self.model.baseline is None or self.estimator.trains_values)
        )
        return self.model.num_choices > 0 and learned

    def loss_terms(self, model: nn.Module, batch: Batch, noise: Noise) -> Terms:
        """See `Task`. Soft: cross-entropy. Hard: that, and the terms of the estimator for the places chosen.

        Either way, with a halting unit: the expected cost of stopping by it.
        """
        estimator = self.estimator
        mode = self.batch_mode(noise) if self.mixes_modes else self.model.mode
        estimates = self.uses_estimator and mode == self.model.mode
        if estimates and estimator.num_samples > 1:
            batch = Batch(*(field.repeat_interleave(estimator.num_samples, 0) for field in batch))
        images, targets, boxes = (field.to(self.processes.device) for field in batch)
        context = GlimpseContext(self, images, noise.fork() if estimates and estimator.needs_greedy else None)
        options = {"boxes": boxes} if self.model.needs_boxes else {}
        if estimates and estimator.straight_through:
            options["straight_through"] = True
        rollout: Rollout = model(images, mode=mode, noise=noise, **options)
        terms: Terms = {
            "cross_entropy": (1.0, losses.cross_entropy(rollout.logits, targets, self.loss.cross_entropy_at)),
            "error": (0.0, 1 - losses.correct(rollout.logits.detach(), targets)[:, -1].mean()),
        }
        if rollout.halt_logits is not None:
            terms |= self._halting_terms(rollout, targets)
        if estimates:
            episode = Episode(
                log_probs=rollout.log_probs,
                entropies=rollout.entropies,
                logits=rollout.logits,
                targets=targets,
                values=rollout.baselines,
                samples=estimator.num_samples,
            )
            terms |= estimator.terms(episode, context)
        return terms

    def _halting_terms(self, rollout: Rollout, targets: Tensor) -> Terms:
        each = -losses.log_likelihood(rollout.logits.detach(), targets)
        when = losses.halting_distribution(rollout.halt_logits.detach())
        return {
            "halting": (1.0, losses.halting_cost(rollout.halt_logits, each, self.loss.glimpse_cost)),
            "glimpses": (0.0, (when * losses.step_numbers(when)).sum(1).mean()),
        }

    # Measure

    def validate(self) -> ClassificationScores:
        """See `Task`."""
        return self._greedy(self.data.valid, self.config.score.limit)

    def test(self) -> ClassificationScores:
        """See `Task`: greedily."""
        return self._greedy(self.data.test)

    def _greedy(self, data: Dataset, limit: int | None = None) -> ClassificationScores:
        return score(
            self.model,
            data,
            mode=self.config.scored_read,
            rollout_mode="greedy",
            batch_size=self.config.score.batch_size,
            limit=limit,
            device=self.processes.device,
        )

    def validation_record(self, scores: ClassificationScores) -> dict[str, Any]:
        """See `Task`."""
        return {"error": scores.error[-1], "errors": scores.error, "hits": scores.on_target}

    # Say

    def format_scores(self, record: dict[str, Any]) -> str:
        """See `Task`."""
        return f"error {100 * record['error']:.2f}%"

    def test_table(self, scores: ClassificationScores) -> tuple[Table, str]:
        """See `Task`."""
        if not self.model.attends:
            return score_table({self.config.model: scores.as_dict()}), ""
        read = self.config.scored_read
        name = {"hard": "greedy", "soft": "soft"}[read]
        return score_table({name: scores.as_dict()}), f", {read} read"

    def next_commands(self, run: "Run") -> list[str]:
        """See `Task`."""
        config = self.config
        if not self.model.attends:
            return [f"python evaluate.py compare {run.folder} RUN   # with a model that looks"]
        found = []
        if self.config.scored_read == "hard" and self.model.num_choices > 0:
            found.append(f"python evaluate.py score {run.folder}   # sampled and averaged rollouts too")
        found.append(f"python evaluate.py animate {run.folder} --out glimpses.gif   # see where it looks")
        other = {"hard": "soft", "soft": "hard"}[config.read]
        options = f"--read {other}{config.attention.options_for(other)}"
        return [
            *found,
            f"python train.py {run.folder / 'config.yaml'} {options}   # the same model",
        ]

    @classmethod
    def result_rows(cls, run: "Run", result: dict[str, Any]) -> list[dict[str, Any]]:
        """See `Task`."""
        low, high = map(percent, result["test"]["interval"][-1])
        value, valid = percent(result["test"]["error"][-1]), percent(result["valid"]["error"])
        return [{"metric": ERROR, "value": value, "low": low, "high": high, "valid": valid}]


class GlimpseContext(Context):
    """What the task lends to the estimator of a batch of glimpses."""

    def __init__(self, task: ClassificationTask, images: Tensor, noise: Noise | None):
        """Keep what a greedy rollout needs; its noise begins as that of the rollout, so it begins at the same place."""
        self.task = task
        self.images = images
        self.noise = noise

    def mean(self, x: Tensor) -> Tensor:
        """See `Context`."""
        return x.mean()

    def batch_mean(self, x: Tensor) -> Tensor:
        """See `Context`: at each choice."""
        mean = x.mean(0)
        return mean if self.task.processes.world_size == 1 else self.task.processes.mean(mean)

    @torch.no_grad()
    def greedy_logits(self) -> Tensor:
        """See `Context`."""
        return self.task.model(self.images, sample=False, noise=self.noise).logits

    def running_mean(self, reward: Tensor) -> Tensor:
        """See `Context`."""
        return update_running_mean(self.task.model.average_reward, reward)
