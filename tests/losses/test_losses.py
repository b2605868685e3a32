"""Losses against literal numbers, and the estimator against the exact gradient of a problem small enough to list."""

import math
from itertools import product

import pytest
import torch
from support.tensors import assert_close, draw

from glimpse import losses

# Log-probabilities of 3 classes after 2 glimpses of 2 images.
LOGITS = torch.tensor([[[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]], [[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]]]).log()
TARGETS = torch.tensor([0, 2])
MARKS = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
MARK_LOGITS = torch.tensor([[[0.0, 0.0]], [[math.log(3), math.log(3)]]])  # yes with 1/2, 1/2; and 3/4, 3/4


def test_log_likelihood():
    assert_close(losses.log_likelihood(LOGITS, TARGETS).exp(), [[0.5, 0.1], [0.5, 0.2]])
    assert_close(losses.log_likelihood(LOGITS + 7, TARGETS).exp(), [[0.5, 0.1], [0.5, 0.2]])
    assert_close(losses.log_likelihood(MARK_LOGITS, MARKS).exp(), [[1 / 4], [3 / 16]])


def test_cross_entropy():
    assert_close(losses.cross_entropy(LOGITS, TARGETS), -math.log(0.5 * 0.1 * 0.5 * 0.2) / 4)
    assert_close(losses.cross_entropy(LOGITS, TARGETS, "every_step"), -math.log(0.5 * 0.1 * 0.5 * 0.2) / 4)
    assert_close(losses.cross_entropy(LOGITS, TARGETS, "last_step"), -math.log(0.1 * 0.2) / 2)
    assert_close(losses.cross_entropy(MARK_LOGITS, MARKS), -math.log(1 / 4 * 3 / 16) / 2)


def test_correct():
    assert losses.correct(LOGITS, TARGETS).tolist() == [[1, 0], [1, 0]]
    logits = torch.tensor([[[1.0, -1.0], [1.0, 1.0], [-1.0, -1.0]]])
    assert losses.correct(logits, torch.tensor([[1.0, 0.0]])).tolist() == [[1, 0, 0]]


def test_rewards():
    logits = LOGITS.clone().requires_grad_()
    assert losses.rewards(logits, TARGETS).tolist() == [[1, 0], [1, 0]]
    likelihood = losses.rewards(logits, TARGETS, "log_likelihood")
    assert_close(likelihood.exp(), [[0.5, 0.1], [0.5, 0.2]])
    assert not likelihood.requires_grad


REWARDS = torch.tensor([[1.0, 0.0, 4.0, 2.0], [0.0, 8.0, 0.0, 1.0]])


@pytest.mark.parametrize(
    "num_choices, when, discount, expected",
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
def test_returns(num_choices, when, discount, expected):
    assert losses.returns(REWARDS, num_choices, when, discount).tolist() == expected


def test_leave_one_out():
    returns = torch.tensor([[1.0, 10.0], [2.0, 20.0], [6.0, 60.0], [0.0, 0.0], [0.0, 1.0], [3.0, 2.0]])
    expected = [[4, 40], [3.5, 35], [1.5, 15], [1.5, 1.5], [1.5, 1], [0, 0.5]]
    assert losses.leave_one_out(returns, 3).tolist() == expected
    assert losses.leave_one_out(returns[:2], 2).tolist() == [[2, 20], [1, 10]]
    of_last = losses.returns(REWARDS, 3, "last_step")
    assert losses.leave_one_out(of_last, 2).tolist() == [[1, 1, 1], [2, 2, 2]]
    of_each = losses.returns(REWARDS, 3, "every_step")
    assert losses.leave_one_out(of_each, 2).tolist() == [[9, 1, 1], [6, 6, 2]]


def test_leave_one_out_needs_two():
    with pytest.raises(ValueError, match="num_rollouts must be at least 2 to leave one out, got 1"):
        losses.leave_one_out(REWARDS, 1)


def test_normalise():
    advantages = torch.tensor([[1.0, 5.0], [3.0, 5.0], [1.0, 5.0], [3.0, 5.0]])
    assert_close(losses.normalize(advantages), [[-1.0, 0], [1, 0], [-1, 0], [1, 0]], 1e-5)
    # The mean may be taken over more than this batch: here over one whose mean is 0 and mean square 4.
    means = iter([torch.zeros(2), torch.full((2,), 4.0)])
    assert_close(losses.normalize(advantages, lambda _: next(means)), advantages / 2, 1e-5)


def test_normalising_is_affine_at_each_choice():
    advantages = draw(6, 3, dtype=torch.float64) * 5
    normalised = losses.normalize(advantages)
    assert_close(normalised.mean(0), torch.zeros(3), 1e-12)
    assert_close(normalised.square().mean(0), torch.ones(3), 1e-5)
    assert_close(
        losses.normalize(advantages * torch.tensor([2.0, 10, 0.5]) + torch.tensor([1.0, -3, 0])), normalised, 1e-4
    )
    for column, raw in zip(normalised.T, advantages.T, strict=True):
        slopes = (column[1:] - column[0]) / (raw[1:] - raw[0])
        assert_close(slopes, slopes[:1].expand(5), 1e-9)
        assert slopes[0] > 0


def test_advantages_have_no_gradient():
    baselines = torch.tensor([[1.0], [2.0]], requires_grad=True)
    returns = torch.tensor([[5.0], [5.0]])
    assert losses.advantages(returns, None).tolist() == [[5], [5]]
    advantages = losses.advantages(returns, baselines)
    assert advantages.tolist() == [[4], [3]] and not advantages.requires_grad


def test_reinforce_sums_over_choices_and_averages_over_the_batch():
    log_probs = torch.tensor([[-1.0, -2.0], [-3.0, -4.0]], requires_grad=True)
    loss = losses.reinforce(log_probs, torch.tensor([[1.0, 0.5], [-1.0, 2.0]]))
    assert_close(loss, -(-1 - 1 + 3 - 8) / 2)
    assert_close(torch.autograd.grad(loss, log_probs)[0], [[-0.5, -0.25], [0.5, -1.0]])


def test_reinforce_refuses_what_would_go_wrong_in_silence():
    log_probs = torch.zeros(2, 3)
    with pytest.raises(ValueError, match=r"must have the same shape, got \(2, 3\) and \(2, 1\)"):
        losses.reinforce(log_probs, torch.zeros(2, 1))
    with pytest.raises(ValueError, match="advantages must not require a gradient: detach them"):
        losses.reinforce(log_probs, torch.zeros(2, 3, requires_grad=True))


def test_unknown_words_are_refused():
    for call, message in (
        (lambda: losses.cross_entropy(LOGITS, TARGETS, "all"), "when must be one of last_step, every_step, got 'all'"),
        (lambda: losses.returns(REWARDS, 1, "first"), "when must be one of last_step, every_step, got 'first'"),
        (lambda: losses.rewards(LOGITS, TARGETS, "luck"), "kind must be one of accuracy, log_likelihood, got 'luck'"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_baseline_error():
    baselines = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    returns = torch.tensor([[1.0, 0.0], [0.0, 4.0]], requires_grad=True)
    loss = losses.baseline_error(baselines, returns)
    assert_close(loss, (4 + 9) / 4)
    gradients = torch.autograd.grad(loss, (baselines, returns), allow_unused=True)
    assert_close(gradients[0], [[0.0, 1.0], [1.5, 0.0]])
    assert gradients[1] is None


class SmallWorld:
    """A first look nobody chose, then two choices among three places, the second in view of the first.

    All nine trajectories can be listed, so every expectation is a sum.
    """

    def __init__(self):
        self.first_logits = (draw(3, seed=1, dtype=torch.float64) * 2).requires_grad_()
        self.second_logits = (draw(3, 3, seed=2, dtype=torch.float64) * 2).requires_grad_()
        self.parameters = [self.first_logits, self.second_logits]
        self.trajectories = list(product(range(3), range(3)))
        first, second = draw(3, seed=3, dtype=torch.float64), draw(3, 3, seed=4, dtype=torch.float64)
        self.rewards = torch.stack(
            [torch.stack([first.new_tensor(0.7), first[i], second[i, j]]) for i, j in self.trajectories]
        )

    def log_probs(self):
        """(9, 2)."""
        first, second = self.first_logits.log_softmax(0), self.second_logits.log_softmax(1)
        return torch.stack([torch.stack([first[i], second[i, j]]) for i, j in self.trajectories])

    def probabilities(self):
        """(9,)."""
        return self.log_probs().sum(1).exp()

    def returns(self, when):
        """(9, 2)."""
        return losses.returns(self.rewards, 2, when)

    def true_gradient(self, when):
        """Of the expected sum of rewards, or of the expected last one."""
        earned = self.rewards[:, -1] if when == "last_step" else self.rewards.sum(1)
        return torch.autograd.grad((self.probabilities() * earned).sum(), self.parameters)

    def expected_estimate(self, when, baselines):
        """The expectation, over all trajectories, of the gradient of the reinforce loss, one rollout at a time."""
        advantages = losses.advantages(self.returns(when), baselines)
        log_probs, chances = self.log_probs(), self.probabilities().detach()
        total = sum(chances[n] * losses.reinforce(log_probs[n : n + 1], advantages[n : n + 1]) for n in range(9))
        return torch.autograd.grad(total, self.parameters)

    def state_baseline(self, when):
        """Any function of what is known before each choice: nothing at first, then the first place."""
        of_state = torch.tensor([-3.0, 0.4, 11.0], dtype=torch.float64)
        return torch.stack([torch.stack([of_state.new_tensor(5.0), of_state[i]]) for i, _ in self.trajectories])

    def greedy_baseline(self, when):
        """What the most likely trajectory earns."""
        i = int(self.first_logits.argmax())
        greedy = self.trajectories.index((i, int(self.second_logits[i].argmax())))
        return self.returns(when)[greedy : greedy + 1].expand(9, 2)

    def no_baseline(self, when):
        return None


def assert_opposite(estimate, gradient):
    """The loss goes down where the expected return goes up."""
    for ours, true in zip(estimate, gradient, strict=True):
        assert true.abs().max() > 1e-3
        assert_close(-ours, true, 1e-12)


@pytest.mark.parametrize("when", ["last_step", "every_step"])
@pytest.mark.parametrize("baseline", ["no_baseline", "state_baseline", "greedy_baseline"])
def test_expected_estimate_is_the_true_gradient(baseline, when):
    world = SmallWorld()
    assert_opposite(world.expected_estimate(when, getattr(world, baseline)(when)), world.true_gradient(when))


@pytest.mark.parametrize("when", ["last_step", "every_step"])
def test_expected_leave_one_out_estimate_is_the_true_gradient(when):
    """Over all 81 pairs of rollouts of the same image."""
    world = SmallWorld()
    log_probs, chances, returns = world.log_probs(), world.probabilities().detach(), world.returns(when)
    total = 0
    for pair in product(range(9), repeat=2):
        rows = list(pair)
        advantages = losses.advantages(returns[rows], losses.leave_one_out(returns[rows], 2))
        total = total + chances[rows].prod() * losses.reinforce(log_probs[rows], advantages)
    assert_opposite(torch.autograd.grad(total, world.parameters), world.true_gradient(when))


def test_a_baseline_that_knows_the_choice_would_bias_the_estimate():
    """The comparison above can fail: half of one's own return is no baseline."""
    world = SmallWorld()
    estimate = world.expected_estimate("last_step", world.returns("last_step") / 2)
    assert (estimate[0] + world.true_gradient("last_step")[0]).abs().max() > 1e-3


def test_a_state_baseline_can_reduce_the_variance():
    """With the expected return of each state as the baseline the estimates scatter less around the same mean."""
    world = SmallWorld()
    returns, chances = world.returns("last_step"), world.probabilities().detach()
    second = world.second_logits.detach().softmax(1)
    of_state = (second * returns[:, 1].view(3, 3)).sum(1)
    values = torch.stack([torch.stack([(chances * returns[:, 0]).sum(), of_state[i]]) for i, _ in world.trajectories])

    def mean_square(baselines):
        advantages = losses.advantages(returns, baselines)
        total = 0.0
        for n in range(9):
            loss = losses.reinforce(world.log_probs()[n : n + 1], advantages[n : n + 1])
            total += chances[n] * sum(g.square().sum() for g in torch.autograd.grad(loss, world.parameters))
        return total

    assert mean_square(values) < 0.8 * mean_square(None)


# Captions

# Probabilities of 3 words at 3 steps of 2 captions; the second caption has 2 words.
SAID = torch.tensor(
    [
        [[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]],
        [[0.2, 0.3, 0.5], [0.6, 0.2, 0.2], [0.98, 0.01, 0.01]],
    ]
).log()
SAID_WORDS, SAID_LENGTHS = torch.tensor([[0, 1, 2], [2, 1, 0]]), torch.tensor([3, 2])


def test_caption_cross_entropy():
    expected = -math.log(0.5 * 0.8 * 0.6 * 0.5 * 0.2) / 5
    assert_close(losses.caption_cross_entropy(SAID, SAID_WORDS, SAID_LENGTHS), expected)
    assert_close(losses.caption_cross_entropy(SAID + 7, SAID_WORDS, SAID_LENGTHS), expected)
    assert_close(losses.caption_cross_entropy(SAID[:1], SAID_WORDS[:1], SAID_LENGTHS[:1]), -math.log(0.24) / 3)


def test_caption_cross_entropy_of_padding():
    logits, words = SAID.clone().requires_grad_(), SAID_WORDS.clone()
    words[1, 2] = 1
    loss = losses.caption_cross_entropy(logits, words, SAID_LENGTHS)
    assert_close(loss.detach(), losses.caption_cross_entropy(SAID, SAID_WORDS, SAID_LENGTHS))
    gradient = torch.autograd.grad(loss, logits)[0]
    assert not gradient[1, 2].any() and gradient[1, :2].any() and gradient[0, 2].any()


def test_doubly_stochastic():
    weights = torch.tensor([[[0.5, 0.5], [1.0, 0.0], [0.25, 0.75]], [[0.25, 0.75], [0.5, 0.5], [0.0, 1.0]]])
    # Sums over the words: (1.75, 1.25) and, of two words, (0.75, 1.25).
    assert_close(losses.doubly_stochastic(weights, torch.tensor([3, 2])), (0.5625 + 0.0625 + 0.0625 + 0.0625) / 2)
    assert_close(losses.doubly_stochastic(weights, torch.tensor([3, 3])), (0.5625 + 0.0625 + 0.0625 + 1.5625) / 2)
    assert_close(losses.doubly_stochastic(weights[1:], torch.tensor([2])), 0.125)
    everywhere = torch.full((1, 4, 4), 0.25)
    assert_close(losses.doubly_stochastic(everywhere, torch.tensor([4])), 0.0)


def test_wrong_captions():
    with pytest.raises(ValueError, match=r"lengths must have shape \(2,\), got \(3,\)"):
        losses.caption_cross_entropy(SAID, SAID_WORDS, torch.ones(3))
    with pytest.raises(ValueError, match=r"lengths must have shape \(2,\), got \(2, 1\)"):
        losses.doubly_stochastic(SAID, torch.ones(2, 1))
    with pytest.raises(ValueError, match=r"words must have shape \(2, 3\), got \(2, 4\)"):
        losses.caption_cross_entropy(SAID, torch.zeros(2, 4, dtype=torch.int64), SAID_LENGTHS)


# Halting


def test_halting_literally():
    # Stops with 1/4 after the first glimpse, with 1/3 of the rest after the second, else after the third.
    halting = torch.tensor([[1 / 4, 1 / 3, 0.9]]).logit()
    assert_close(losses.halting_distribution(halting), [[1 / 4, 1 / 4, 1 / 2]])
    each = torch.tensor([[2.0, 1.0, 0.5]])
    assert_close(losses.halting_cost(halting, each, 0.0), 0.5 + 0.25 + 0.25)
    assert_close(losses.halting_cost(halting, each, 0.1), 1.0 + 0.1 * (0.25 + 0.5 + 1.5))
    assert_close(losses.halting_distribution(torch.tensor([[3.0]])), [[1.0]])
    assert losses.step_numbers(each).tolist() == [1, 2, 3]


def test_halting_is_the_enumeration_of_all_coins():
    """Every outcome of a coin after each glimpse, with its probability: one stops at the first head, or at the end."""
    stop, each = draw(3, 4, dtype=torch.float64), draw(3, 4, seed=1, dtype=torch.float64)
    expected, cost = torch.zeros(3, 4, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    for row in range(3):
        for coins in product((True, False), repeat=4):
            chance = math.prod(p if head else 1 - p for p, head in zip(stop[row].tolist(), coins, strict=True))
            step = coins.index(True) if True in coins else 3
            expected[row, step] += chance
            cost[row] += chance * (each[row, step] + 0.3 * (step + 1))
    found = losses.halting_distribution(stop.logit())
    assert_close(found, expected, 1e-12)
    assert_close(found.sum(1), torch.ones(3), 1e-12)
    assert_close(losses.halting_cost(stop.logit(), each, 0.3), cost.mean(), 1e-12)


def test_certain_halting_stays_a_number():
    halting = torch.tensor([[200.0, -200.0, 0.0], [-200.0, 200.0, 0.0], [-200.0, -200.0, -200.0]], requires_grad=True)
    assert_close(losses.halting_distribution(halting), torch.eye(3))
    losses.halting_cost(halting, torch.ones(3, 3), 0.1).backward()
    assert halting.grad.isfinite().all()


def test_halting_is_learned_from_the_answers_and_does_not_teach_them():
    halting, each = torch.zeros(1, 3, requires_grad=True), torch.tensor([[1.0, 0.2, 0.1]], requires_grad=True)
    losses.halting_cost(halting, each, 0.05).backward()
    assert each.grad is None
    # After the first glimpse stopping costs 1.05, going on 0.5 * 0.3 + 0.5 * 0.25; after the second, 0.3 against 0.25.
    # Each derivative: how probably one is there, times p (1 - p), times the difference.
    assert_close(halting.grad, [[0.25 * (1.05 - 0.275), 0.5 * 0.25 * (0.3 - 0.25), 0.0]])


def test_halting_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"halting and each must have the same shape, got \(2, 3\) and \(2, 2\)"):
        losses.halting_cost(torch.zeros(2, 3), torch.zeros(2, 2), 0.1)
