"""Losses of classes, words and halting, on literal numbers."""

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


def test_unknown_steps_are_refused():
    with pytest.raises(ValueError, match="at must be one of last_step, every_step, got 'all'"):
        losses.cross_entropy(LOGITS, TARGETS, "all")


# Captions

# Probabilities of 3 words at 3 steps of 2 captions; the second caption has 2 words.
CAPTION_LOGITS = torch.tensor(
    [
        [[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]],
        [[0.2, 0.3, 0.5], [0.6, 0.2, 0.2], [0.98, 0.01, 0.01]],
    ]
).log()
CAPTION_WORDS, CAPTION_LENGTHS = torch.tensor([[0, 1, 2], [2, 1, 0]]), torch.tensor([3, 2])


def test_caption_cross_entropy():
    expected = -math.log(0.5 * 0.8 * 0.6 * 0.5 * 0.2) / 5
    assert_close(losses.caption_cross_entropy(CAPTION_LOGITS, CAPTION_WORDS, CAPTION_LENGTHS), expected)
    assert_close(losses.caption_cross_entropy(CAPTION_LOGITS + 7, CAPTION_WORDS, CAPTION_LENGTHS), expected)
    first = losses.caption_cross_entropy(CAPTION_LOGITS[:1], CAPTION_WORDS[:1], CAPTION_LENGTHS[:1])
    assert_close(first, -math.log(0.24) / 3)


def test_caption_cross_entropy_of_padding():
    logits, words = CAPTION_LOGITS.clone().requires_grad_(), CAPTION_WORDS.clone()
    words[1, 2] = 1
    loss = losses.caption_cross_entropy(logits, words, CAPTION_LENGTHS)
    assert_close(loss.detach(), losses.caption_cross_entropy(CAPTION_LOGITS, CAPTION_WORDS, CAPTION_LENGTHS))
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
        losses.caption_cross_entropy(CAPTION_LOGITS, CAPTION_WORDS, torch.ones(3))
    with pytest.raises(ValueError, match=r"lengths must have shape \(2,\), got \(2, 1\)"):
        losses.doubly_stochastic(CAPTION_LOGITS, torch.ones(2, 1))
    with pytest.raises(ValueError, match=r"words must have shape \(2, 3\), got \(2, 4\)"):
        losses.caption_cross_entropy(CAPTION_LOGITS, torch.zeros(2, 4, dtype=torch.int64), CAPTION_LENGTHS)


# Halting


def test_halting_on_literal_numbers():
    # Stops with 1/4 after the first glimpse, with 1/3 of the rest after the second, else after the third.
    halt_logits = torch.tensor([[1 / 4, 1 / 3, 0.9]]).logit()
    assert_close(losses.halting_distribution(halt_logits), [[1 / 4, 1 / 4, 1 / 2]])
    step_losses = torch.tensor([[2.0, 1.0, 0.5]])
    assert_close(losses.halting_cost(halt_logits, step_losses, 0.0), 0.5 + 0.25 + 0.25)
    assert_close(losses.halting_cost(halt_logits, step_losses, 0.1), 1.0 + 0.1 * (0.25 + 0.5 + 1.5))
    assert_close(losses.halting_distribution(torch.tensor([[3.0]])), [[1.0]])
    assert losses.step_numbers(step_losses).tolist() == [1, 2, 3]


def test_halting_is_the_enumeration_of_all_coins():
    """All outcomes of a coin toss after each glimpse: the model stops at the first head, or at the end."""
    stop, step_losses = draw(3, 4, dtype=torch.float64), draw(3, 4, seed=1, dtype=torch.float64)
    expected, cost = torch.zeros(3, 4, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    for row in range(3):
        for coins in product((True, False), repeat=4):
            probability = math.prod(p if head else 1 - p for p, head in zip(stop[row].tolist(), coins, strict=True))
            step = coins.index(True) if True in coins else 3
            expected[row, step] += probability
            cost[row] += probability * (step_losses[row, step] + 0.3 * (step + 1))
    found = losses.halting_distribution(stop.logit())
    assert_close(found, expected, 1e-12)
    assert_close(found.sum(1), torch.ones(3), 1e-12)
    assert_close(losses.halting_cost(stop.logit(), step_losses, 0.3), cost.mean(), 1e-12)


def test_certain_halting_stays_finite():
    halt_logits = torch.tensor([[200.0, -200, 0], [-200, 200, 0], [-200, -200, -200]], requires_grad=True)
    assert_close(losses.halting_distribution(halt_logits), torch.eye(3))
    losses.halting_cost(halt_logits, torch.ones(3, 3), 0.1).backward()
    assert halt_logits.grad.isfinite().all()


def test_the_halting_cost_has_no_gradient_to_the_losses():
    halt_logits = torch.zeros(1, 3, requires_grad=True)
    step_losses = torch.tensor([[1.0, 0.2, 0.1]], requires_grad=True)
    losses.halting_cost(halt_logits, step_losses, 0.05).backward()
    assert step_losses.grad is None
    # After the first glimpse stopping costs 1.05, going on 0.5 * 0.3 + 0.5 * 0.25; after the second, 0.3 against 0.25.
    # Each derivative: how probably one is there, times p (1 - p), times the difference.
    assert_close(halt_logits.grad, [[0.25 * (1.05 - 0.275), 0.5 * 0.25 * (0.3 - 0.25), 0.0]])


def test_halting_of_another_shape_is_refused():
    message = r"halt_logits and step_losses must have the same shape, got \(2, 3\) and \(2, 2\)"
    with pytest.raises(ValueError, match=message):
        losses.halting_cost(torch.zeros(2, 3), torch.zeros(2, 2), 0.1)
