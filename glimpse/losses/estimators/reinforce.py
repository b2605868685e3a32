"""REINFORCE: the log-probability of each sampled place, weighted by how much better than expected it did.

Williams, 1992; as in Recurrent Models of Visual Attention (arXiv:1406.6247), 3.2, and Show, Attend and Tell
(arXiv:1502.03044), 4.1.

Shapes: B examples, M rollouts of each, T glimpses or words, N choices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from glimpse.config.schema import OneOf
from glimpse.losses import policy_gradient
from glimpse.losses.estimators.base import ESTIMATORS, Context, Episode, Estimator, Terms
from glimpse.losses.policy_gradient import BASELINES, REWARDS

if TYPE_CHECKING:
    from torch import Tensor


@ESTIMATORS.register("reinforce")
class Reinforce(Estimator):
    """estimator: REINFORCE with a baseline. It has no effect on a model that reads softly."""

    kind: Literal["reinforce"] = "reinforce"
    """REINFORCE with a baseline; straight_through has no settings but those of mixing."""
    weight: float = 0.03
    """Weight of the REINFORCE term."""
    reward: Annotated[str, OneOf(REWARDS)] = "log_likelihood"
    """Reward of an answer: 1 if correct; its log-likelihood; the gain of that; its probability above chance."""
    reward_at: Literal["every_step", "last_step"] = "every_step"
    """Whether a choice is judged by every answer after it, or by the last as in the paper."""
    discount: float = 0.0
    """Weight of the next reward; 0 judges a choice by its own step only."""
    baseline: Annotated[str, OneOf(BASELINES)] = "learned"
    """What the return is compared with: nothing, a prediction, a greedy rollout, other rollouts, or a running mean."""
    baseline_weight: float = 1.0
    """Weight of the squared error of a learned baseline."""
    samples: int = 1
    """Rollouts of each example in a training step; leave_one_out needs at least 2."""
    normalize: bool = True
    """Give the advantages mean 0 and variance 1 in each batch, at each choice; so even without a baseline."""
    entropy_weight: float = 0.0
    """Weight of a bonus for the entropy of the attention."""
    backprop_to_state: bool = True
    """Whether the gradient of the reward passes the attention into the state, as in the paper, or ends there."""

    @property
    def num_samples(self) -> int:
        """See `Estimator`."""
        return self.samples

    @property
    def needs_values(self) -> bool:
        """See `Estimator`."""
        return BASELINES[self.baseline].needs_values

    @property
    def needs_running_mean(self) -> bool:
        """See `Estimator`."""
        return BASELINES[self.baseline].needs_running_mean

    @property
    def needs_greedy(self) -> bool:
        """See `Estimator`."""
        return BASELINES[self.baseline].needs_greedy

    @property
    def trains_attention(self) -> bool:
        """See `Estimator`: a weight of zero leaves the term out."""
        return self.weight > 0

    @property
    def trains_values(self) -> bool:
        """See `Estimator`: a weight of zero leaves the term out, and a soft read has none."""
        return self.baseline_weight > 0 and not self.mixes

    @property
    def detaches_state(self) -> bool:
        """See `Estimator`."""
        return not self.backprop_to_state

    def returns(self, logits: Tensor, episode: Episode) -> Tensor:
        """What each choice led to (B*M, N), for answers (B*M, T, classes) to the targets of an episode."""
        earned = policy_gradient.rewards(logits, episode.targets, self.reward)
        return policy_gradient.returns(earned, episode.log_probs.shape[1], self.reward_at, self.discount, episode.mask)

    def terms(self, episode: Episode, context: Context) -> Terms:
        """See `Estimator`."""
        returns = self.returns(episode.logits, episode)
        expected = BASELINES[self.baseline].expected(returns, episode, context, self)
        advantages = policy_gradient.advantages(returns, expected)
        if self.normalize:
            advantages = policy_gradient.normalize(advantages, context.batch_mean)
        if episode.mask is not None:
            advantages = advantages * episode.mask
        terms: Terms = {
            "reinforce": (self.weight, context.scale * policy_gradient.reinforce(episode.log_probs, advantages)),
            "reward": (0.0, context.mean(returns)),  # weight 0: only logged
        }
        if episode.values is not None:
            terms["baseline"] = (self.baseline_weight, policy_gradient.baseline_error(episode.values, returns))
        if self.entropy_weight:
            terms["neg_entropy"] = (self.entropy_weight, -context.mean(episode.entropies))
        return terms

    def check_batch(self, batch_size: int) -> None:
        """See `Estimator`."""
        self.require(
            not self.normalize or batch_size * self.samples >= 2,
            "normalize",
            "false with a batch of one rollout, which has no variance",
        )

    def check(self) -> None:
        """Check the ranges."""
        for name in ("weight", "baseline_weight", "entropy_weight"):
            self.require(getattr(self, name) >= 0, name, "at least 0")
        self.require(0 <= self.discount <= 1, "discount", "in [0, 1]")
        self.require_positive("samples")
        least = BASELINES[self.baseline].min_samples
        self.require(self.samples >= least, "samples", f"at least {least} with estimator.baseline {self.baseline}")
        super().check()
