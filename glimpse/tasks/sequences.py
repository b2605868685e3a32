"""What captioning and translation share: they learn to write given words, attending to annotations.

Hard attention is trained as in Show, Attend and Tell (arXiv:1502.03044), 4.1: places are sampled, and the
log-probability of the words is both what the words learn from and, less a baseline, the reward of the places.

Shapes: B batch, M rollouts of each example, N words, L places.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from glimpse import losses
from glimpse.attention.distributions import Noise
from glimpse.data.vocabulary import Tokens, Vocabulary
from glimpse.distributed import Processes
from glimpse.errors import RunError
from glimpse.evaluation.result_rows import percent
from glimpse.evaluation.scores import Scores
from glimpse.losses.estimators import Context, Episode, Terms
from glimpse.metrics.statistics import wilson_interval
from glimpse.models.decoder import DecoderOutput
from glimpse.models.decoding import BeamSearch
from glimpse.models.encoder_decoder import EncoderDecoder
from glimpse.tasks.base import Task, update_running_mean
from glimpse.tasks.settings import SequenceConfig

if TYPE_CHECKING:
    from glimpse.training.run import Run

SHARES = ("true_and_complete", "grammatical", "exact")  # scores that are shares of the images or sentences


class SequenceTask(Task):
    """Learns to write the words that others wrote about an image, or of a sentence in another language."""

    score_names: ClassVar[dict[str, str]]
    """Names of scores in results.csv, by their keys."""
    config: SequenceConfig
    model: EncoderDecoder
    doubly_stochastic = 0.0  # weight of the penalty for uneven attention

    def __init__(
        self, config: SequenceConfig, data: Any, model: EncoderDecoder, processes: Processes, *, vocabulary: Vocabulary
    ):
        """Prepare the training; `vocabulary` is of the words that are written."""
        super().__init__(config, data, model, processes)
        self.vocabulary = vocabulary
        if self.model.mode == "hard":
            self.estimator.check_batch(config.train.batch_size)

    @property
    def selection_metric(self) -> str:
        """The score that selects the best epoch."""
        return self.data.valid.selection_metric

    @abstractmethod
    def inputs_and_targets(self, batch: Any) -> tuple[Any, Sequence[Tokens]]:
        """Of a training batch, what the model is shown, and the words that it is to write of each example."""

    @abstractmethod
    def evaluate(self, data: Any, *, search: BeamSearch, limit: int | None = None) -> Scores:
        """The scores of a split, or of its first so many examples."""

    @property
    def every_parameter_has_gradient(self) -> bool:
        """See `Task`: without its estimator a hard read teaches nothing about where to look."""
        return self.model.mode == "soft" or self.estimator.trains_attention

    def loss_terms(self, model: nn.Module, batch: Any, noise: Noise) -> Terms:
        """See `Task`. Soft: cross-entropy. Hard: that, and the terms of the estimator for the places."""
        estimator, device = self.estimator, self.processes.device
        source, sentences = self.inputs_and_targets(batch)
        words, lengths = (field.to(device) for field in self.vocabulary.encode(sentences))
        mode = self.batch_mode(noise)
        estimates = mode == "hard"
        if estimates and estimator.num_samples > 1:
            source, words, lengths = (_repeat(its, estimator.num_samples) for its in (source, words, lengths))
        again = noise.fork() if estimates and estimator.needs_greedy else None
        options = {"straight_through": True} if estimates and estimator.straight_through else {}
        output: DecoderOutput = model(source, words, mode=mode, noise=noise, **options)
        target_tokens = words[:, 1:]
        # All means are over the words of all processes, of which this one may have more or fewer than its share.
        share = lengths.sum() / self.processes.mean(lengths.sum().float())
        cross_entropy = losses.caption_cross_entropy(output.logits, target_tokens, lengths)
        terms: Terms = {"cross_entropy": (1.0, share * cross_entropy)}
        if self.doubly_stochastic:
            penalty = losses.doubly_stochastic(output.weights, lengths)
            terms["doubly_stochastic"] = (self.doubly_stochastic, penalty)
        if estimates:
            mask = losses.token_mask(output.logits, lengths)
            episode = Episode(
                log_probs=output.log_probs,
                entropies=output.entropies,
                logits=output.logits,
                targets=target_tokens,
                mask=mask,
                samples=estimator.num_samples,
            )
            terms |= estimator.terms(episode, WordContext(self, source, words, mask, share, again))
        return terms

    def validate(self) -> Scores:
        """See `Task`."""
        search = BeamSearch(max_length=self.config.decoder.max_length)
        return self.evaluate(self.data.valid, search=search, limit=self.config.score.limit)

    def test(self) -> Scores:
        """See `Task`: with the beam of the config."""
        return self.evaluate(self.data.test, search=self.config.search())

    def validation_record(self, scores: Scores) -> dict[str, Any]:
        """See `Task`."""
        values = scores.as_dict()
        return {"error": 1 - values[self.selection_metric], **values}

    def format_scores(self, record: dict[str, Any]) -> str:
        """See `Task`."""
        return f"{self.selection_metric.replace('_', ' ')} {100 * record[self.selection_metric]:.2f}"

    @classmethod
    def result_rows(cls, run: "Run", result: dict[str, Any]) -> list[dict[str, Any]]:
        """See `Task`: a row for every score that is a number."""
        test, valid, found = result["test"], result["valid"], []
        count = test[f"{cls.noun}s"]
        for key, value in test.items():
            if isinstance(value, float):  # not how many there were, nor what is not known
                interval = wilson_interval(round(value * count), count) if key in SHARES else (None, None)
                low, high = map(percent, interval)
                name = cls.score_names.get(key, key)
                found.append(
                    {
                        "metric": name,
                        "value": percent(value),
                        "low": low,
                        "high": high,
                        "valid": percent(valid.get(key)),
                    }
                )
        return found


def load_vocabulary(run: "Run", key: str) -> Vocabulary:
    """A vocabulary that the meta.json of a run has; raises RunError if there is none."""
    try:
        return Vocabulary(run.read_json("meta.json")[key])
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{run.folder / 'meta.json'} is broken: {error!r}") from error


def take_weights(run: "Run", model: EncoderDecoder, **vocabularies: Vocabulary) -> None:
    """Take over the weights of a run with the same vocabularies: each row of an embedding is of one of the words."""
    run.load_weights(model)
    metadata = run.read_json("meta.json")
    for key, vocabulary in vocabularies.items():
        if list(vocabulary.words) != metadata[key]:
            new = [word for word in vocabulary.words if word not in metadata[key]]
            which = f"{', '.join(new[:5])} {'is' if len(new) == 1 else 'are'} missing" if new else "the order differs"
            raise RunError(f"vocabulary of init_from {run} does not match the data: {which}")


def _repeat(x: Any, times: int) -> Any:
    """Each example of a tensor (B, ...), or of a named tuple of such, several times in a row."""
    if isinstance(x, Tensor):
        return x.repeat_interleave(times, 0)
    return type(x)(*(field.repeat_interleave(times, 0) for field in x))


class WordContext(Context):
    """What the task lends to the estimator of a batch of sentences; all means are over words, and over all processes.

    `share` is how many words this process has, as a multiple of the mean over the processes.
    """

    def __init__(
        self, task: SequenceTask, source: Any, words: Tensor, mask: Tensor, share: Tensor, noise: Noise | None
    ):
        self.task = task
        self.source = source
        self.words = words
        self.mask = mask
        self.share = share
        self.noise = noise
        self.scale = share * len(mask) / mask.sum()  # from a mean over sentences to the mean over words

    def mean(self, x: Tensor) -> Tensor:
        """See `Context`."""
        return self.share * x[self.mask].mean()

    def batch_mean(self, x: Tensor) -> Tensor:
        """See `Context`: over all words."""
        return self.task.processes.mean(self.mean(x))

    @torch.no_grad()
    def greedy_logits(self) -> Tensor:
        """See `Context`: of the same words, read at the most likely places."""
        return self.task.model(self.source, self.words, sample=False, noise=self.noise).logits

    def running_mean(self, reward: Tensor) -> Tensor:
        """See `Context`."""
        return update_running_mean(self.task.model.average_reward, reward)
