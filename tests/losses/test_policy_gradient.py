"""The parts of REINFORCE on literal numbers: every reward and baseline, returns, normalization, and the loss."""

import math

import pytest
import torch
from support.tensors import assert_close, draw

from glimpse import losses
from glimpse.errors import ConfigError
from glimpse.losses.estimators import Context, Episode
from glimpse.losses.estimators.reinforce import Reinforce
from glimpse.losses.policy_gradient import BASELINES, REWARDS, Baseline, Reward, baseline, reward

# Probabilities of 4 classes after 3 glimpses of 2 images.
PROBABILITIES = torch.tensor(
    [
        [[0.5, 0.25, 0.125, 0.125], [0.1, 0.7, 0.1, 0.1], [0.4, 0.2, 0.2, 0.2]],
        [[0.3, 0.3, 0.3, 0.1], [0.1, 0.1, 0.2, 0.6], [0.05, 0.05, 0.1, 0.8]],
    ]
)
LOGITS, TARGETS = PROBABILITIES.log(), torch.tensor([0, 3])
# Of the target: 0.5, 0.1, 0.4; and 0.1, 0.6, 0.8. A uniform prediction gives 0.25.
REWARD_CASES = {
    "accuracy": [[1, 0, 1], [0, 1, 1]],
    "log_likelihood": [[math.log(0.5), math.log(0.1), math.log(0.4)], [math.log(0.1), math.log(0.6), math.log(0.8)]],
    "gain": [[math.log(2), math.log(0.2), math.log(4)], [math.log(0.4), math.log(6), math.log(8 / 6)]],
    "above_chance": [[0.25, 0, 0.15], [0, 0.35, 0.55]],
}

# Two independent binary classes, after 2 glimpses of 1 image: logits 0 are probabilities 1/2, log 3 is 3/4.
MARKS = torch.tensor([[1.0, 0.0]])
MARK_LOGITS = torch.tensor([[[0.0, 0.0], [math.log(3), -math.log(3)]]])
MARK_CASES = {
    "accuracy": [[0, 1]],
    "log_likelihood": [[math.log(1 / 4), math.log(9 / 16)]],
    "gain": [[0, math.log(9 / 4)]],
    "above_chance": [[0, 9 / 16 - 1 / 4]],
}

# A target for each of 3 words of 2 sentences.
WORDS = torch.tensor([[0, 1, 2], [3, 3, 0]])
WORD_CASES = {
    "accuracy": [[1, 1, 0], [0, 1, 0]],
    "log_likelihood": [[math.log(0.5), math.log(0.7), math.log(0.2)], [math.log(0.1), math.log(0.6), math.log(0.05)]],
    "above_chance": [[0.25, 0.45, 0], [0, 0.35, 0]],
}


@pytest.mark.parametrize("name", REWARDS)
def test_rewards(name):
    logits = LOGITS.clone().requires_grad_()
    rewards = losses.rewards(logits, TARGETS, name)
    assert_close(rewards, REWARD_CASES[name])
    assert_close(losses.rewards(LOGITS + 7, TARGETS, name), REWARD_CASES[name], 1e-5)
    assert not rewards.requires_grad
    assert_close(losses.rewards(MARK_LOGITS, MARKS, name), MARK_CASES[name])


@pytest.mark.parametrize("name", REWARDS)
def test_rewards_of_words(name):
    """A reward that compares successive steps has no meaning where every step has its own target."""
    assert REWARDS[name].same_target == (name not in WORD_CASES)
    if name in WORD_CASES:
        assert_close(losses.rewards(LOGITS, WORDS, name), WORD_CASES[name])


def test_the_default_reward_is_accuracy():
    assert losses.rewards(LOGITS, TARGETS).tolist() == REWARD_CASES["accuracy"]


def test_gains_add_up_to_the_last_log_likelihood():
    """With discount 1 the return of a choice is the last log-likelihood minus that before the choice."""
    gains = losses.rewards(LOGITS, TARGETS, "gain")
    returns = losses.returns(gains, 3, "every_step", 1.0)
    expected = [[math.log(0.4 / 0.25), math.log(0.4 / 0.5), math.log(4)], [math.log(3.2), math.log(8), math.log(8 / 6)]]
    assert_close(returns, expected)


# Returns

EARNED = torch.tensor([[1.0, 0.0, 4.0, 2.0], [0.0, 8.0, 0.0, 1.0]])


@pytest.mark.parametrize(
    "num_choices, at, discount, expected",
    [
        (3, "last_step", 1.0, [[2, 2, 2], [1, 1, 1]]),
        (3, "every_step", 1.0, [[6, 6, 2], [9, 1, 1]]),
        (4, "every_step", 1.0, [[7, 6, 6, 2], [9, 9, 1, 1]]),
        (4, "every_step", 0.5, [[2.25, 2.5, 5, 2], [4.125, 8.25, 0.5, 1]]),
        (2, "every_step", 0.5, [[5, 2], [0.5, 1]]),
        (3, "every_step", 0.0, [[0, 4, 2], [8, 0, 1]]),
        (0, "every_step", 1.0, [[], []]),
        (0, "last_step", 1.0, [[], []]),
    ],
)
def test_returns(num_choices, at, discount, expected):
    assert losses.returns(EARNED, num_choices, at, discount).tolist() == expected


# Sentences of 4 and of 2 words; what padding would earn is not counted.
MASK = torch.tensor([[True, True, True, True], [True, True, False, False]])


@pytest.mark.parametrize(
    "at, discount, expected",
    [
        ("last_step", 1.0, [[2, 2, 2, 2], [8, 8, 8, 8]]),
        ("every_step", 1.0, [[7, 6, 6, 2], [8, 8, 0, 0]]),
        ("every_step", 0.5, [[2.25, 2.5, 5, 2], [4, 8, 0, 0]]),
        ("every_step", 0.0, [[1, 0, 4, 2], [0, 8, 0, 0]]),
    ],
)
def test_returns_of_sentences_of_different_lengths(at, discount, expected):
    assert losses.returns(EARNED, 4, at, discount, MASK).tolist() == expected
    padded = EARNED.where(MASK, torch.nan)
    assert losses.returns(padded, 4, at, discount, MASK).tolist() == expected


def test_a_mask_without_padding_changes_nothing():
    for at in ("last_step", "every_step"):
        masked = losses.returns(EARNED, 4, at, 0.5, torch.ones(2, 4, dtype=torch.bool))
        assert torch.equal(masked, losses.returns(EARNED, 4, at, 0.5))


# Baselines

# The returns of 2 examples with 3 rollouts each, at 2 choices.
RETURNS = torch.tensor([[1.0, 10.0], [2.0, 20.0], [6.0, 60.0], [0.0, 0.0], [0.0, 1.0], [3.0, 2.0]])
VALUES = torch.tensor([[0.5, 9.0], [0.5, 8.0], [0.5, 7.0], [1.0, 6.0], [1.0, 5.0], [1.0, 4.0]])


class LiteralContext(Context):
    """A greedy rollout whose predictions are right at the last glimpse of the first example, and a running mean."""

    def __init__(self):
        self.seen = []

    def greedy_logits(self):
        logits = torch.zeros(6, 3, 2)
        logits[..., 0] = 1.0
        logits[:3, 2] = torch.tensor([0.0, 1.0])
        return logits

    def running_mean(self, reward):
        self.seen.append(float(reward))
        return torch.tensor(1.25)


EPISODE = Episode(
    log_probs=torch.zeros(6, 2),
    entropies=torch.zeros(6, 2),
    logits=torch.zeros(6, 3, 2),
    targets=torch.ones(6, dtype=torch.int64),
    values=VALUES,
    samples=3,
)
BASELINE_CASES = {
    "none": None,
    "learned": VALUES.tolist(),
    # The greedy rewards are (0, 0, 1) and (0, 0, 0); with discount 1 both choices get the last one.
    "self_critical": [[1, 1], [1, 1], [1, 1], [0, 0], [0, 0], [0, 0]],
    "leave_one_out": [[4, 40], [3.5, 35], [1.5, 15], [1.5, 1.5], [1.5, 1], [0, 0.5]],
    "moving_average": 1.25,
}


@pytest.mark.parametrize("name", BASELINES)
def test_baselines(name):
    context = LiteralContext()
    estimator = Reinforce(baseline=name, samples=3, reward="accuracy", discount=1.0)
    found = BASELINES[name].expected(RETURNS, EPISODE, context, estimator)
    if BASELINE_CASES[name] is None:
        assert found is None
    else:
        assert found.tolist() == BASELINE_CASES[name]
    # The mean of all returns enters the running mean: 12 / 6 at the first choice, 93 / 6 at the second.
    assert context.seen == ([8.75] if BASELINES[name].needs_running_mean else [])


REQUIREMENTS = {
    "none": [],
    "learned": ["needs_values"],
    "self_critical": ["needs_greedy"],
    "leave_one_out": ["min_samples"],
    "moving_average": ["needs_running_mean"],
}


@pytest.mark.parametrize("name", BASELINES)
def test_requirements_of_baselines(name):
    """An estimator with a baseline passes its requirements on; of these five, each is the requirement of one."""
    entry = BASELINES[name]
    estimator = Reinforce(baseline=name, samples=max(2, entry.min_samples))
    assert entry.needs_values == estimator.needs_values
    assert entry.needs_greedy == estimator.needs_greedy
    assert entry.needs_running_mean == estimator.needs_running_mean
    if name in REQUIREMENTS:
        names = ["needs_values", "needs_greedy", "needs_running_mean"]
        found = [*(["min_samples"] if entry.min_samples == 2 else []), *(key for key in names if getattr(entry, key))]
        assert found == REQUIREMENTS[name]


def test_contexts_without_what_a_baseline_needs():
    for name, message in (
        ("self_critical", "estimator.baseline self_critical needs greedy rollouts, which this task cannot make"),
        ("moving_average", "estimator.baseline moving_average needs a model with a running mean of its reward"),
    ):
        with pytest.raises(ConfigError, match=message):
            BASELINES[name].expected(RETURNS, EPISODE, Context(), Reinforce(baseline=name))
    with pytest.raises(NotImplementedError, match="cannot enumerate the places of a read"):
        Context().enumerate()


def test_leave_one_out():
    assert losses.leave_one_out(RETURNS, 3).tolist() == BASELINE_CASES["leave_one_out"]
    assert losses.leave_one_out(RETURNS[:2], 2).tolist() == [[2, 20], [1, 10]]
    of_last = losses.returns(EARNED, 3, "last_step")
    assert losses.leave_one_out(of_last, 2).tolist() == [[1, 1, 1], [2, 2, 2]]
    of_every = losses.returns(EARNED, 3, "every_step")
    assert losses.leave_one_out(of_every, 2).tolist() == [[9, 1, 1], [6, 6, 2]]


def test_leave_one_out_needs_two():
    with pytest.raises(ValueError, match="num_rollouts must be at least 2 for a leave-one-out baseline, got 1"):
        losses.leave_one_out(EARNED, 1)


def test_cases_are_complete():
    assert list(REWARD_CASES) == list(MARK_CASES) == list(REWARDS)
    assert list(BASELINE_CASES) == list(BASELINES)


def test_names_are_registered_once():
    for register, name in ((reward, "accuracy"), (baseline, "none")):
        with pytest.raises(ValueError, match=f"{name} is registered already"):
            register(name)(lambda *arguments: None)
    assert all(isinstance(entry, Reward) for entry in REWARDS.values())
    assert all(isinstance(entry, Baseline) for entry in BASELINES.values())


# Advantages


def test_advantages_have_no_gradient():
    baselines = torch.tensor([[1.0], [2.0]], requires_grad=True)
    returns = torch.tensor([[5.0], [5.0]])
    assert losses.advantages(returns, None).tolist() == [[5], [5]]
    advantages = losses.advantages(returns, baselines)
    assert advantages.tolist() == [[4], [3]] and not advantages.requires_grad


def test_normalize():
    advantages = torch.tensor([[1.0, 5.0], [3.0, 5.0], [1.0, 5.0], [3.0, 5.0]])
    assert_close(losses.normalize(advantages), [[-1.0, 0], [1, 0], [-1, 0], [1, 0]], 1e-5)
    # The mean may be taken over more than this batch: here over one whose mean is 0 and mean square 4.
    means = iter([torch.zeros(2), torch.full((2,), 4.0)])
    assert_close(losses.normalize(advantages, lambda _: next(means)), advantages / 2, 1e-5)


def test_normalizing_is_affine_at_each_choice():
    advantages = draw(6, 3, dtype=torch.float64) * 5
    normalized = losses.normalize(advantages)
    assert_close(normalized.mean(0), torch.zeros(3), 1e-12)
    assert_close(normalized.square().mean(0), torch.ones(3), 1e-5)
    scaled = advantages * torch.tensor([2.0, 10, 0.5]) + torch.tensor([1.0, -3, 0])
    assert_close(losses.normalize(scaled), normalized, 1e-4)
    for column, raw in zip(normalized.T, advantages.T, strict=True):
        slopes = (column[1:] - column[0]) / (raw[1:] - raw[0])
        assert_close(slopes, slopes[:1].expand(5), 1e-9)
        assert slopes[0] > 0


# The loss


def test_reinforce_sums_over_choices_and_averages_over_the_batch():
    log_probs = torch.tensor([[-1.0, -2.0], [-3.0, -4.0]], requires_grad=True)
    loss = losses.reinforce(log_probs, torch.tensor([[1.0, 0.5], [-1.0, 2.0]]))
    assert_close(loss, -(-1 - 1 + 3 - 8) / 2)
    assert_close(torch.autograd.grad(loss, log_probs)[0], [[-0.5, -0.25], [0.5, -1.0]])


def test_reinforce_refuses_silent_mistakes():
    log_probs = torch.zeros(2, 3)
    with pytest.raises(ValueError, match=r"must have the same shape, got \(2, 3\) and \(2, 1\)"):
        losses.reinforce(log_probs, torch.zeros(2, 1))
    with pytest.raises(ValueError, match="advantages must not require a gradient: detach them"):
        losses.reinforce(log_probs, torch.zeros(2, 3, requires_grad=True))


def test_baseline_error():
    baselines = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    returns = torch.tensor([[1.0, 0.0], [0.0, 4.0]], requires_grad=True)
    loss = losses.baseline_error(baselines, returns)
    assert_close(loss, (4 + 9) / 4)
    gradients = torch.autograd.grad(loss, (baselines, returns), allow_unused=True)
    assert_close(gradients[0], [[0.0, 1.0], [1.5, 0.0]])
    assert gradients[1] is None


def test_unknown_choices_are_refused():
    with pytest.raises(ValueError, match="at must be one of last_step, every_step, got 'first'"):
        losses.returns(EARNED, 1, "first")
    with pytest.raises(ConfigError, match="estimator.reward must be one of accuracy, log_likelihood, gain"):
        losses.rewards(LOGITS, TARGETS, "luck")
    with pytest.raises(ConfigError, match="estimator.baseline must be one of none, learned, self_critical"):
        BASELINES["luck"]


# The estimator: all parts together

LOG_PROBS = torch.tensor([[-1.0, -2.0, -4.0], [-0.5, -3.0, -8.0]])
ENTROPIES = torch.tensor([[1.0, 0.5, 0.25], [2.0, 1.5, 1.0]])
SENTENCES = Episode(
    log_probs=LOG_PROBS,
    entropies=ENTROPIES,
    logits=LOGITS,
    targets=WORDS,
    mask=torch.tensor([[True, True, True], [True, True, False]]),
)


def terms_of(episode, context=None, **settings):
    terms = Reinforce(**{"baseline": "none", "normalize": False, **settings}).terms(episode, context or Context())
    return {name: (weight, float(value)) for name, (weight, value) in terms.items()}


def test_terms_literally():
    episode = Episode(LOG_PROBS[:, 1:], ENTROPIES[:, 1:], LOGITS, TARGETS)  # the first of 3 glimpses was not chosen
    terms = terms_of(episode, reward="accuracy", weight=0.5)
    # Rewards of the choices: (0, 1) and (1, 1).
    assert terms == {"reinforce": (0.5, pytest.approx((4 + 3 + 8) / 2)), "reward": (0.0, 0.75)}
    terms = terms_of(episode, reward="accuracy", weight=0.5, discount=0.5)
    assert terms["reinforce"][1] == pytest.approx((2 * 0.5 + 4 + 3 * 1.5 + 8) / 2)
    terms = terms_of(episode, reward="accuracy", weight=0.5, reward_at="last_step")
    assert terms["reinforce"][1] == pytest.approx((2 + 4 + 3 + 8) / 2)


def test_the_entropy_bonus_is_a_negative_term():
    terms = terms_of(SENTENCES, reward="accuracy", entropy_weight=0.1)
    assert terms["neg_entropy"] == (0.1, pytest.approx(-6.25 / 6))
    assert "neg_entropy" not in terms_of(SENTENCES)


def test_values_are_fit_to_the_returns():
    values = torch.tensor([[0.5, 0.5], [1.0, 3.0]])
    episode = Episode(LOG_PROBS[:, 1:], ENTROPIES[:, 1:], LOGITS, TARGETS, values)
    terms = terms_of(episode, reward="accuracy", baseline="learned", baseline_weight=2.0)
    assert terms["baseline"] == (2.0, pytest.approx((0.25 + 0.25 + 0 + 4) / 4))
    # Advantages (-0.5, 0.5) and (0, -2).
    assert terms["reinforce"][1] == pytest.approx((-1 + 2 + 0 - 16) / 2)


def test_padding_has_no_advantage():
    """Not even with a baseline that leaves it one, or after normalization."""
    # Accuracy (1, 1, 0) and (0, 1, padding).
    assert terms_of(SENTENCES, reward="accuracy")["reinforce"][1] == pytest.approx((1 + 2 + 0 + 3) / 2)

    class OfWords(Context):
        scale = 2 / 5  # from a mean over 2 sentences to one over 5 words

        def mean(self, x):
            return x[SENTENCES.mask].mean()

        def batch_mean(self, x):
            return x[SENTENCES.mask].mean()

        def running_mean(self, reward):
            assert float(reward) == pytest.approx(0.6)
            return torch.tensor(0.5)

    terms = terms_of(SENTENCES, OfWords(), reward="accuracy", baseline="moving_average")
    assert terms["reinforce"][1] == pytest.approx((0.5 + 1 - 2 - 0.25 + 1.5) / 5)
    assert terms["reward"] == (0.0, pytest.approx(0.6))
    terms = terms_of(SENTENCES, OfWords(), reward="accuracy", baseline="moving_average", normalize=True)
    # The advantages are +-1/2 with mean 0.1 and standard deviation sqrt(0.24).
    gain = (0.4 * (1 + 2 + 3) - 0.6 * (4 + 0.5)) / math.sqrt(0.24)
    assert terms["reinforce"][1] == pytest.approx(gain / 5, rel=1e-4)


def test_normalization_is_at_each_choice():
    episode = Episode(LOG_PROBS[:, 1:], ENTROPIES[:, 1:], LOGITS, TARGETS)
    # Rewards (0, 1) and (1, 1): at the first choice -1 and 1, at the second no variance.
    terms = terms_of(episode, reward="accuracy", normalize=True)
    assert terms["reinforce"][1] == pytest.approx((-2 + 3) / 2, abs=1e-5)


def test_several_samples_per_example():
    """The other rollout of the same example is the baseline; rollouts of an example are next to each other."""
    logits = torch.stack([LOGITS[0], LOGITS[0].flip(0), LOGITS[1], LOGITS[1].flip(0)])
    log_probs = -torch.arange(1.0, 9).view(4, 2)
    episode = Episode(log_probs, log_probs, logits, TARGETS.repeat_interleave(2), samples=2)
    # Accuracy after glimpses 2 and 3: (0, 1), (0, 1), (1, 1) and (1, 0).
    terms = terms_of(episode, reward="accuracy", baseline="leave_one_out", samples=2)
    assert terms["reinforce"][1] == pytest.approx((6 * 1 + 8 * -1) / 4)


def test_a_batch_of_one_rollout_cannot_be_normalized():
    Reinforce(samples=2).check_batch(1)
    Reinforce(normalize=False).check_batch(1)
    with pytest.raises(ConfigError, match="estimator.normalize must be false with one rollout per batch, .* got true"):
        Reinforce().check_batch(1)
