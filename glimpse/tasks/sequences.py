"""The task of telling: what describing images and translating sentences share, which is all that they learn from.

Hard attention is trained as in Show, Attend and Tell (arXiv:1502.03044), 4.1: places are sampled, and the
log-probability of the words is both what the words learn from and, less its moving average, the reward of the places.

Shapes: B batch, N words, L places.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from glimpse import losses
from glimpse.captioner import Teller, Telling
from glimpse.config import LossConfig, ScoreConfig
from glimpse.data.captions import Words
from glimpse.places import Noise
from glimpse.processes import Processes
from glimpse.tasks import SeededTask
from glimpse.text import Vocabulary

KEPT = 0.9  # of the moving average, from batch to batch


class TellingTask(SeededTask):
    """Learns to say what others say of what is shown; an `engine.Task`, but for what that is and how it is scored."""

    def __init__(
        self,
        *,
        model: Teller,
        data: Any,
        vocabulary: Vocabulary,
        loss: LossConfig,
        score: ScoreConfig,
        max_length: int,
        seed: int,
        batch_size: int,
        limit: int | None,
        processes: Processes,
    ):
        super().__init__(
            model=model, data=data, seed=seed, batch_size=batch_size, limit=limit, loss=loss, processes=processes
        )
        self.vocabulary = vocabulary
        self.score = score
        self.max_length = max_length
        # Without its estimator a hard read teaches nothing about where to look.
        self.all_parameters_used = model.how == "soft" or loss.reinforce > 0

    @property
    def goal(self) -> str:
        """The score that selects the best epoch."""
        raise NotImplementedError

    def shown(self, batch: Any) -> tuple[Any, Sequence[Words]]:
        """Of a training batch, what the model is shown and what it is to say of each example."""
        raise NotImplementedError

    def scores(self, data: Any, width: int, limit: int | None) -> dict[str, Any]:
        """The scores of a split, or of its first so many examples, with a beam of this width."""
        raise NotImplementedError

    def losses(self, model: nn.Module, batch: Any, noise: Noise) -> dict[str, tuple[float, Tensor]]:
        """See `engine.Task`."""
        settings, device = self.loss, self.processes.device
        source, sentences = self.shown(batch)
        words, lengths = (field.to(device) for field in self.vocabulary.encode(sentences))
        how = self.read_of(noise)
        telling: Telling = model(source, words, how=how, noise=noise)
        told = words[:, 1:]
        # All means are over the words of all processes, of which this one may have more or fewer than its share.
        share = lengths.sum() / self.processes.mean(lengths.sum().float())
        terms = {"cross_entropy": (1.0, share * losses.caption_cross_entropy(telling.logits, told, lengths))}
        if settings.doubly_stochastic:
            penalty = losses.doubly_stochastic(telling.weights, lengths)
            terms["doubly_stochastic"] = (settings.doubly_stochastic, penalty)
        if how == "soft":
            return terms
        rewards = losses.caption_rewards(telling.logits, told, lengths)
        returns = losses.returns(rewards, rewards.shape[1], "each", settings.discount)
        said = losses.said(telling.logits, lengths)
        reward = self.processes.mean(share * returns[said].mean())
        advantages = losses.advantages(returns, self.baseline(reward))
        per_word = share * len(said) / said.sum()  # like the cross-entropy, the mean over words
        terms["reinforce"] = (settings.reinforce, per_word * losses.reinforce(telling.log_probs, advantages * said))
        terms["reward"] = (0.0, reward)
        if settings.entropy:
            terms["neg_entropy"] = (settings.entropy, -share * telling.entropies[said].mean())
        return terms

    def baseline(self, reward: Tensor) -> Tensor | None:
        """The moving average of the reward, of the batches before this one, which it then takes in."""
        if self.loss.baseline == "none":
            return None
        average = self.model.average_reward
        before = reward if average.isinf() else average.clone()
        average.copy_(KEPT * before + (1 - KEPT) * reward)
        return before

    def validate(self) -> dict[str, Any]:
        """Score the validation set, greedily; see `goal` for the error."""
        scores = self.scores(self.data.valid, 1, self.score.limit)
        return {"error": 1 - scores[self.goal], **scores}

    def describe(self, scores: dict[str, Any]) -> str:
        """See `engine.Task`."""
        return f"{self.goal.replace('_', ' ')} {100 * scores[self.goal]:.2f}"

    def test(self) -> dict[str, Any]:
        """Score the test set."""
        return self.scores(self.data.test, self.score.beam, None)
