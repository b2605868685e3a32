"""What captioning and translation share: training a decoder by teacher forcing, with attention to annotations.

Hard attention is trained as in Show, Attend and Tell (arXiv:1502.03044), section 4.1: places are sampled; the
log-probability of each word is the objective of the decoder and, minus a baseline, the reward of the places.

Shapes: B batch, M rollouts of each example, N words, L places.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import torch
from torch import Tensor, nn

from glimpse import losses
from glimpse.attention.distributions import Noise
from glimpse.data.vocabulary import Tokens, Vocabulary
from glimpse.distributed import Processes
from glimpse.errors import RunError
from glimpse.evaluation.result_rows import percent
from glimpse.losses.estimators import Context, Episode, Terms
from glimpse.metrics.statistics import wilson_interval
from glimpse.models.decoder import DecoderOutput
from glimpse.models.decoding import BeamSearch
from glimpse.models.encoder_decoder import EncoderDecoder
from glimpse.tasks.base import ScoresType, Task, update_running_mean
from glimpse.tasks.settings import SequenceConfig

if TYPE_CHECKING:
    from glimpse.training.run import Run

SHARES = ("true_and_complete", "grammatical", "exact")  # scores that are fractions of the images or sentences
SequenceConfigType = TypeVar("SequenceConfigType", bound=SequenceConfig)
EncoderDecoderType = TypeVar("EncoderDecoderType", bound=EncoderDecoder)


class SequenceTask(Task[SequenceConfigType, EncoderDecoderType, ScoresType]):
    """Train an encoder-decoder to write a sentence about an image or another sentence."""

    score_names: ClassVar[dict[str, str]]
    """Names of scores in results.csv, by their keys."""
    doubly_stochastic = 0.0  # weight of the penalty for uneven attention

    def __init__(
        self,
        config: SequenceConfigType,
        data: Any,
        model: EncoderDecoderType,
        processes: Processes,
        *,
        vocabulary: Vocabulary,
    ):
        """Prepare the training; `vocabulary` is that of the decoder."""
        super().__init__(config, data, model, processes)
        self.vocabulary = vocabulary
        if self.model.mode == "hard":
            self.use_estimator(config.estimator)

    @property
    def selection_metric(self) -> str:
        """The validation score that selects the best epoch."""
        return self.data.valid.selection_metric

    @abstractmethod
    def inputs_and_targets(self, batch: Any) -> tuple[Any, Sequence[Tokens]]:
        """The inputs of the encoder and the target sentences of a training batch."""

    @abstractmethod
    def evaluate(self, data: Any, *, search: BeamSearch, limit: int | None = None) -> ScoresType:
        """Score a split, or its first `limit` examples."""

    @property
    def every_parameter_has_gradient(self) -> bool:
        """See `Task`: a hard read alone gives the attention no gradient."""
        return self.estimator is None or self.estimator.trains_attention

    def loss_terms(self, model: nn.Module, batch: Any, noise: Noise) -> Terms:
        """See `Task`: cross-entropy, and for a hard read the terms of the estimator."""
        source, sentences = self.inputs_and_targets(batch)
        words, lengths = (field.to(self.processes.device) for field in self.vocabulary.encode(sentences))
        mode, estimator = self.mixed_mode(noise) if self.mixes_modes else (self.model.mode, self.estimator)
        if estimator is not None and estimator.num_samples > 1:
            source, words, lengths = (_repeat(x, estimator.num_samples) for x in (source, words, lengths))
        greedy_noise = noise.fork() if estimator is not None and estimator.needs_greedy else None
        options = {"straight_through": True} if estimator is not None and estimator.straight_through else {}
        output: DecoderOutput = model(source, words, mode=mode, noise=noise, **options)
        target_tokens = words[:, 1:]
        # Means are over the words of all processes; this one may have more or fewer words than the average.
        share = lengths.sum() / self.processes.mean(lengths.sum().float())
        cross_entropy = losses.caption_cross_entropy(output.logits, target_tokens, lengths)
        terms: Terms = {"cross_entropy": (1.0, share * cross_entropy)}
        if self.doubly_stochastic:
            penalty = losses.doubly_stochastic(output.weights, lengths)
            terms["doubly_stochastic"] = (self.doubly_stochastic, penalty)
        if estimator is not None:
            mask = losses.token_mask(output.logits, lengths)
            episode = Episode(
                log_probs=cast(Tensor, output.log_probs),  # there after a hard read
                entropies=output.entropies,
                logits=output.logits,
                targets=target_tokens,
                mask=mask,
                samples=estimator.num_samples,
            )
            terms |= estimator.terms(episode, WordContext(self, source, words, mask, share, greedy_noise))
        return terms

    def validate(self) -> ScoresType:
        """See `Task`."""
        search = BeamSearch(max_length=self.config.decoder.max_length)
        return self.evaluate(self.data.valid, search=search, limit=self.config.score.limit)

    def test(self) -> ScoresType:
        """See `Task`: with the beam search of the config."""
        return self.evaluate(self.data.test, search=self.config.search())

    def validation_record(self, scores: ScoresType) -> dict[str, Any]:
        """See `Task`."""
        values = scores.as_dict()
        return {"error": 1 - values[self.selection_metric], **values}

    def format_scores(self, record: dict[str, Any]) -> str:
        """See `Task`."""
        return f"{self.selection_metric.replace('_', ' ')} {100 * record[self.selection_metric]:.2f}"

    @classmethod
    def result_rows(cls, run: "Run", result: dict[str, Any]) -> list[dict[str, Any]]:
        """See `Task`: a row for every score that is a float."""
        test, valid = result["test"], result["valid"]
        rows: list[dict[str, Any]] = []
        count = test[f"{cls.noun}s"]
        for key, value in test.items():
            if isinstance(value, float):  # neither a count nor a missing score
                interval = wilson_interval(round(value * count), count) if key in SHARES else (None, None)
                low, high = map(percent, interval)
                name = cls.score_names.get(key, key)
                rows.append(
                    {
                        "metric": name,
                        "value": percent(value),
                        "low": low,
                        "high": high,
                        "valid": percent(valid.get(key)),
                    }
                )
        return rows


def load_vocabulary(run: "Run", key: str) -> Vocabulary:
    """Read a vocabulary from the meta.json of a run; raises RunError if it is not there."""
    try:
        return Vocabulary(run.read_json("meta.json")[key])
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{run.folder / 'meta.json'} is broken: {error!r}") from error


def initialize_from(run: "Run", model: EncoderDecoder, **vocabularies: Vocabulary) -> None:
    """Load the weights of a run into a model; raises RunError if their vocabularies differ."""
    run.load_weights(model)
    metadata = run.read_json("meta.json")
    for key, vocabulary in vocabularies.items():
        if list(vocabulary.words) != metadata[key]:
            new = [word for word in vocabulary.words if word not in metadata[key]]
            which = f"{', '.join(new[:5])} {'is' if len(new) == 1 else 'are'} missing" if new else "the order differs"
            raise RunError(f"vocabulary of init_from {run} does not match the data: {which}")


def _repeat(x: Any, times: int) -> Any:
    """Repeat each example of a tensor (B, ...), or of a named tuple of such tensors."""
    if isinstance(x, Tensor):
        return x.repeat_interleave(times, 0)
    return type(x)(*(field.repeat_interleave(times, 0) for field in x))


class WordContext(Context):
    """What an estimator may ask about a batch of sentences; all means are over the words of all processes.

    `share` is the number of words of this process, relative to the mean over the processes.
    """

    def __init__(
        self,
        task: SequenceTask[Any, Any, Any],
        source: Any,
        words: Tensor,
        mask: Tensor,
        share: Tensor,
        noise: Noise | None,
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
        """See `Context`: the mean over all words."""
        return self.task.processes.mean(self.mean(x))

    @torch.no_grad()
    def greedy_logits(self) -> Tensor:
        """See `Context`: for the same words, with the most likely places."""
        return self.task.model(self.source, self.words, sample=False, noise=self.noise).logits

    def running_mean(self, reward: Tensor) -> Tensor:
        """See `Context`."""
        return update_running_mean(self.task.model.average_reward, reward)
