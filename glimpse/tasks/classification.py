"""The task of classifying images: which losses train the model, and how it is scored.

The commands for trained classifiers are in `classification_commands.py`.
"""

from typing import TYPE_CHECKING, Any, Self, cast

import torch
from torch import Tensor, nn

from glimpse import losses
from glimpse.attention.distributions import Noise
from glimpse.data import Batch, Dataset, Splits
from glimpse.distributed import Processes
from glimpse.errors import RunError
from glimpse.evaluation.classify import ClassificationScores, Classifier, TrainedClassifier, score
from glimpse.evaluation.result_rows import ERROR, percent
from glimpse.losses.estimators import Context, Episode, Terms
from glimpse.losses.settings import ClassificationLossSettings
from glimpse.models.rollout import Rollout
from glimpse.tasks.base import TASKS, update_running_mean
from glimpse.tasks.build import build_data, build_model, make_model
from glimpse.tasks.classification_commands import ClassificationCommands
from glimpse.tasks.settings import ClassificationConfig
from glimpse.view.tables import Table, score_table

if TYPE_CHECKING:
    from glimpse.training.run import Run


@TASKS.register("classification")
class ClassificationTask(ClassificationCommands):
    """Classify images, by glimpses or by a network of the whole image."""

    data: Splits[Dataset]

    def __init__(self, config: ClassificationConfig, data: Splits[Dataset], model: Classifier, processes: Processes):
        super().__init__(config, data, model, processes)
        self.loss: ClassificationLossSettings = getattr(config, "loss", None) or ClassificationLossSettings()
        # With a single glimpse, or all placed by rule, there is no choice for an estimator to train.
        if self.model.mode == "hard" and self.model.num_choices > 0:
            self.use_estimator(config.choice_estimator)

    @classmethod
    def make(
        cls, config: ClassificationConfig, processes: Processes, resumed_from: "Run | None", initial: "Run | None"
    ) -> Self:
        """See `Task`."""
        data = build_data(config.data)
        model = build_model(config, data.train)
        if initial is not None:
            # Either model may lack a baseline or a halting unit; the initial std is that of this config.
            initial.load_weights(model, optional=("baseline.", "halt.", "average_reward"))
            config.initialize_attention(model)
        return cls(config, data, model, processes)

    @classmethod
    def load(cls, run: "Run") -> TrainedClassifier:
        """See `Task`."""
        config = cls.config_of(run)
        metadata = run.read_json("meta.json")
        try:
            shape, class_names = tuple(metadata["image_shape"]), tuple(metadata["class_names"])
            model = make_model(config, image_shape=shape, num_classes=len(class_names))
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise RunError(f"{run.folder / 'meta.json'} is broken: {error!r}") from error
        run.load_weights(model)
        return TrainedClassifier(run, run.name, model.eval(), config.scored_read, shape, class_names)

    @classmethod
    def open(cls, run: "Run") -> Classifier:
        """See `Task`: the model itself."""
        model: Classifier = cls.load(run).model
        cls.config_of(run).set_scored_mode(model)
        return model

    def metadata(self) -> dict[str, Any]:
        """See `Task`."""
        return {"image_shape": self.data.train.image_shape, "class_names": self.data.train.class_names}

    # Learn

    def on_progress(self, progress: float) -> None:
        """See `Task`; the attention may have a schedule too."""
        super().on_progress(progress)
        self.config.update_attention(self.model, progress)

    @property
    def every_parameter_has_gradient(self) -> bool:
        """See `Task`."""
        if not self.model.attends:
            return True
        estimator = self.estimator
        trained = estimator is None or (
            estimator.trains_attention and (self.model.baseline is None or estimator.trains_values)
        )
        return self.model.num_choices > 0 and trained

    def loss_terms(self, model: nn.Module, batch: Batch, noise: Noise) -> Terms:
        """See `Task`: cross-entropy, and for a hard read the terms of the estimator.

        With a halting unit, the expected cost of stopping when it says so is added.
        """
        mode, estimator = self.mixed_mode(noise) if self.mixes_modes else (self.model.mode, self.estimator)
        if estimator is not None and estimator.num_samples > 1:
            batch = Batch(*(field.repeat_interleave(estimator.num_samples, 0) for field in batch))
        images, targets, boxes = (field.to(self.processes.device) for field in batch)
        needs_greedy = estimator is not None and estimator.needs_greedy
        context = GlimpseContext(self, images, noise.fork() if needs_greedy else None)
        options: dict[str, Any] = {"boxes": boxes} if self.model.needs_boxes else {}
        if estimator is not None and estimator.straight_through:
            options["straight_through"] = True
        rollout: Rollout = model(images, mode=mode, noise=noise, **options)
        terms: Terms = {
            "cross_entropy": (1.0, losses.cross_entropy(rollout.logits, targets, self.loss.cross_entropy_at)),
            "error": (0.0, 1 - losses.correct(rollout.logits.detach(), targets)[:, -1].mean()),
        }
        if rollout.halt_logits is not None:
            terms |= self._halting_terms(rollout.logits, rollout.halt_logits, targets)
        if estimator is not None:
            episode = Episode(
                log_probs=cast(Tensor, rollout.log_probs),  # there after a hard read
                entropies=rollout.entropies,
                logits=rollout.logits,
                targets=targets,
                values=rollout.baselines,
                samples=estimator.num_samples,
            )
            terms |= estimator.terms(episode, context)
        return terms

    def _halting_terms(self, logits: Tensor, halt_logits: Tensor, targets: Tensor) -> Terms:
        cross_entropy = -losses.log_likelihood(logits.detach(), targets)
        stop = losses.halting_distribution(halt_logits.detach())
        return {
            "halting": (1.0, losses.halting_cost(halt_logits, cross_entropy, self.loss.glimpse_cost)),
            "glimpses": (0.0, (stop * losses.step_numbers(stop)).sum(1).mean()),
        }

    # Score

    def validate(self) -> ClassificationScores:
        """See `Task`."""
        return self._greedy(self.data.valid, self.config.score.limit)

    def test(self) -> ClassificationScores:
        """See `Task`: one greedy rollout."""
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

    # Print

    def format_scores(self, record: dict[str, Any]) -> str:
        """See `Task`."""
        return f"error {100 * record['error']:.2f}%"

    def test_table(self, scores: ClassificationScores) -> tuple[Table, str]:
        """See `Task`."""
        if not self.model.attends:
            return score_table({self.config.model: scores.as_dict()}), ""
        read = self.config.scored_read
        return score_table({"greedy" if read == "hard" else "soft": scores.as_dict()}), f", {read} read"

    def next_commands(self, run: "Run") -> list[str]:
        """See `Task`."""
        if not self.model.attends:
            return [f"python evaluate.py compare {run.folder} RUN   # with a model that takes glimpses"]
        commands = [f"python evaluate.py animate {run.folder} --out glimpses.gif   # see where it looks"]
        if self.config.scored_read == "hard" and self.model.num_choices > 0:
            commands.insert(0, f"python evaluate.py score {run.folder}   # sampled and averaged rollouts too")
        return [
            *commands,
            f"python train.py {run.folder / 'config.yaml'} {self.config.other_read()}   # the same model",
        ]

    @classmethod
    def result_rows(cls, run: "Run", result: dict[str, Any]) -> list[dict[str, Any]]:
        """See `Task`."""
        low, high = map(percent, result["test"]["interval"][-1])
        value, valid = percent(result["test"]["error"][-1]), percent(result["valid"]["error"])
        return [{"metric": ERROR, "value": value, "low": low, "high": high, "valid": valid}]


class GlimpseContext(Context):
    """The interface of this task to an estimator: means over the batch, and greedy rollouts."""

    def __init__(self, task: ClassificationTask, images: Tensor, noise: Noise | None):
        """Keep what a greedy rollout needs; with the noise of the sampled rollout, its first glimpse is the same."""
        self.task = task
        self.images = images
        self.noise = noise

    def mean(self, x: Tensor) -> Tensor:
        """See `Context`."""
        return x.mean()

    def batch_mean(self, x: Tensor) -> Tensor:
        """See `Context`: the mean at each choice."""
        mean = x.mean(0)
        return mean if self.task.processes.world_size == 1 else self.task.processes.mean(mean)

    @torch.no_grad()
    def greedy_logits(self) -> Tensor:
        """See `Context`."""
        return self.task.model(self.images, sample=False, noise=self.noise).logits

    def running_mean(self, reward: Tensor) -> Tensor:
        """See `Context`."""
        return update_running_mean(self.task.model.get_buffer("average_reward"), reward)
