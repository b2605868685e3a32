"""REINFORCE: the log-probability of each sampled place, weighted by its advantage.

Williams, 1992; as in Recurrent Models of Visual Attention (arXiv:1406.6247), 3.2, and Show, Attend and Tell
(arXiv:1502.03044), 4.1.

Shapes: B examples, M rollouts per example, T glimpses or words, N choices.
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
    """estimator: REINFORCE with a baseline. No effect on a soft model."""

    kind: Literal["reinforce"] = "reinforce"
    """REINFORCE with a baseline; of the settings below, straight_through has only soft_fraction*."""
    weight: float = 0.03
    """Weight of the REINFORCE term."""
    reward: Annotated[str, OneOf(REWARDS)] = "log_likelihood"
    """Reward of a prediction: correctness; log-likelihood of the target; its increase since the previous glimpse; or
    max(0, p - 1/C), for the probability p of the target among C classes."""
    reward_at: Literal["every_step", "last_step"] = "every_step"
    """Rewards in the return of a choice: every reward after it, or only the last, as in the paper."""
    discount: float = 0.0
    """Discount factor of later rewards; 0: the return is the reward of the choice's own step."""
    baseline: Annotated[str, OneOf(BASELINES)] = "learned"
    """Baseline, subtracted from the return: 0, a learned prediction, the return of a greedy rollout, the mean return of
    the other rollouts of the example, or a moving average of the reward."""
    baseline_weight: float = 1.0
    """Weight of the squared error of a learned baseline."""
    samples: int = 1
    """Rollouts per example in a training step; leave_one_out needs at least 2."""
    normalize: bool = True
    """Standardize the advantages to mean 0 and variance 1 in each batch, at each choice."""
    entropy_weight: float = 0.0
    """Weight of the entropy bonus of the attention."""
    backprop_to_state: bool = True
    """Whether the policy gradient reaches the state, as in the paper, or only the attention's parameters."""

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
        """See `Estimator`: with a weight of 0 there is no gradient."""
        return self.weight > 0

    @property
    def trains_values(self) -> bool:
        """See `Estimator`: with a weight of 0, or in a soft batch, there is no gradient."""
        return self.baseline_weight > 0 and not self.mixes

    @property
    def detaches_state(self) -> bool:
        """See `Estimator`."""
        return not self.backprop_to_state

    def idle(self) -> set[str]:
        """The weight of a learned baseline, without one; the discount factor, if only the last reward counts."""
        idle = super().idle() | (set() if self.needs_values else {"baseline_weight"})
        return idle | {"discount"} if self.reward_at == "last_step" else idle

    def returns(self, logits: Tensor, episode: Episode) -> Tensor:
        """Return the returns (B*M, N) of the choices of each rollout, from logits (B*M, T, classes) and targets."""
        rewards = policy_gradient.rewards(logits, episode.targets, self.reward)
        return policy_gradient.returns(rewards, episode.log_probs.shape[1], self.reward_at, self.discount, episode.mask)

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
            "reward": (0.0, context.mean(returns)),  # weight 0: logged only
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
            "false with one rollout per batch, as its advantages have no variance",
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
