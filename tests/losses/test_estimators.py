"""Estimators: the expected gradient of REINFORCE is the exact policy gradient; new estimators fit the interfaces.

The exact gradients are enumerations of all sequences of places, weighted by their probabilities.
"""

from itertools import product
from typing import ClassVar, Literal

import pytest
import torch
from support.pairs import pairs
from support.parts import listed
from support.sentences import make as make_translation_task
from support.tensors import ALONE, assert_close, draw

from glimpse import losses
from glimpse.errors import ConfigError
from glimpse.losses.estimators import ESTIMATORS, Context, Episode, Estimator
from glimpse.losses.estimators.reinforce import Reinforce
from glimpse.losses.policy_gradient import BASELINES, baseline
from glimpse.tasks.base import build_task
from glimpse.tasks.settings import load_config

NUM_STEPS, NUM_EXAMPLES = 3, 2
WEIGHT = 0.5


class World:
    """Two examples, few places, and predictions that depend on the places read so far.

    "glimpses": the first of 3 glimpses is not chosen; then 2 choices among 3 places, and a class for each example.
    "words": 3 choices among 2 places, of which the last is padding, and a target for each word.
    """

    def __init__(self, kind):
        self.num_places, self.num_choices = {"glimpses": (3, 2), "words": (2, 3)}[kind]
        self.sequences = list(product(range(self.num_places), repeat=self.num_choices))
        self.policy = [
            (2 * draw(*[self.num_places] * (i + 1), seed=i, dtype=torch.float64)).requires_grad_()
            for i in range(self.num_choices)
        ]
        self.logits = torch.stack([self._predictions(example) for example in range(NUM_EXAMPLES)])  # (B, S, T, 2)
        # A function of the example and of the places before each choice: the output of a baseline head.
        tables = [3 * draw(NUM_EXAMPLES, *[self.num_places] * i, seed=50 + i).double() for i in range(self.num_choices)]
        self.values = torch.stack(
            [
                torch.stack([torch.stack([tables[i][example, *places[:i]] for i in range(self.num_choices)])])
                for example, places in product(range(NUM_EXAMPLES), self.sequences)
            ]
        ).view(NUM_EXAMPLES, len(self.sequences), self.num_choices)
        self.mask = None
        self.targets = torch.tensor([0, 1])
        if kind == "words":
            self.mask = torch.tensor([True, True, False])
            self.targets = torch.tensor([[0, 1, 1], [1, 0, 1]])

    def _predictions(self, example):
        """(S, T, 2)."""
        unchosen = NUM_STEPS - self.num_choices
        tables = [
            3 * draw(*[self.num_places] * (t + 1 - unchosen), 2, seed=10 * example + t + 26, dtype=torch.float64)
            for t in range(NUM_STEPS)
        ]
        return torch.stack(
            [
                torch.stack([tables[t][places[: t + 1 - unchosen]] for t in range(NUM_STEPS)])
                for places in self.sequences
            ]
        )

    def log_probs(self):
        """(S, N)."""
        tables = [table.log_softmax(-1) for table in self.policy]
        return torch.stack(
            [torch.stack([tables[i][places[: i + 1]] for i in range(self.num_choices)]) for places in self.sequences]
        )

    def greedy_sequence(self):
        """The index of the sequence of the most likely places."""
        places = ()
        for table in self.policy:
            places = (*places, int(table[places].argmax()))
        return self.sequences.index(places)

    def earned(self, reward, reward_at):
        """The sum of the rewards of each sequence, or its last reward: (B, S)."""
        rows = []
        for example in range(NUM_EXAMPLES):
            targets = self.targets[example : example + 1].expand(len(self.sequences), *self.targets.shape[1:])
            rewards = losses.rewards(self.logits[example], targets, reward)
            rewards = rewards if self.mask is None else rewards[:, self.mask]
            rows.append(rewards.sum(1) if reward_at == "every_step" else rewards[:, -1])
        return torch.stack(rows)

    def exact_gradient(self, earned, examples):
        """The gradient of the expected reward (B, S), averaged over examples, by the policy."""
        probabilities = self.log_probs().sum(1).exp()
        return torch.autograd.grad((probabilities * earned[examples].mean(0)).sum(), self.policy)

    def batches(self, examples, samples):
        """Every batch of rollouts there can be, as indices of sequences, with its probability."""
        probabilities = self.log_probs().sum(1).exp().detach()
        for rows in product(range(len(self.sequences)), repeat=len(examples) * samples):
            yield list(rows), probabilities[list(rows)].prod()

    def expected_gradient(self, estimator):
        """The expectation, over all batches, of the gradient of the estimator's loss."""
        samples = estimator.num_samples
        examples = list(range(NUM_EXAMPLES)) if samples == 1 else [1]  # few enough to enumerate
        log_probs, total = self.log_probs(), 0.0
        for rows, probability in self.batches(examples, samples):
            loss = self.loss(estimator, [example for example in examples for _ in range(samples)], rows, log_probs)
            total = total + probability * loss
        return torch.autograd.grad(total, self.policy), examples

    def loss(self, estimator, examples, rows, log_probs):
        """The weighted sum of the terms of a batch."""
        episode = Episode(
            log_probs=log_probs[rows],
            entropies=torch.zeros(len(rows), self.num_choices),
            logits=self.logits[examples, rows],
            targets=self.targets[examples],
            values=self.values[examples, rows] if estimator.needs_values else None,
            mask=None if self.mask is None else self.mask.expand(len(rows), -1),
            samples=estimator.num_samples,
        )
        terms = estimator.terms(episode, WorldContext(self, examples))
        return sum(weight * value for weight, value in terms.values() if weight)


class WorldContext(Context):
    """Greedy rollouts of a world, and the running mean of earlier batches, which is any constant."""

    scale = 0.25

    def __init__(self, world, examples):
        self.world, self.examples = world, examples

    def greedy_logits(self):
        return self.world.logits[self.examples, self.world.greedy_sequence()]

    def running_mean(self, reward):
        return torch.tensor(-0.7, dtype=torch.float64)


def assert_minus(estimate, gradient):
    """The loss decreases in the direction in which the expected reward increases."""
    for ours, exact in zip(estimate, gradient, strict=True):
        assert_close(-ours, WEIGHT * WorldContext.scale * exact, 1e-6)
    assert max(exact.abs().max() for exact in gradient) > 1e-3


@pairs(
    reward=["log_likelihood", "accuracy"],
    reward_at=["last_step", "every_step"],
    name=BASELINES,
    kind=["glimpses", "words"],
)
def test_the_expected_gradient_is_the_exact_one(kind, name, reward_at, reward):
    world = World(kind)
    estimator = Reinforce(
        weight=WEIGHT,
        baseline=name,
        samples=BASELINES[name].min_samples,
        reward=reward,
        reward_at=reward_at,
        discount=1.0,
        normalize=False,
    )
    estimate, examples = world.expected_gradient(estimator)
    assert_minus(estimate, world.exact_gradient(world.earned(reward, reward_at), examples))


def test_gains_have_the_gradient_of_the_last_log_likelihood():
    """The sum of all gains is the last log-likelihood, but for a constant."""
    world = World("glimpses")
    estimator = Reinforce(weight=WEIGHT, baseline="none", reward="gain", discount=1.0, normalize=False)
    estimate, examples = world.expected_gradient(estimator)
    assert_minus(estimate, world.exact_gradient(world.earned("log_likelihood", "last_step"), examples))


def test_padding_has_no_gradient():
    world = World("words")
    estimate, _ = world.expected_gradient(Reinforce(baseline="none", normalize=False))
    assert estimate[0].abs().max() > 1e-3 and not estimate[2].any()


def test_a_baseline_that_depends_on_the_choice_is_biased(monkeypatch):
    """So the comparison above can fail."""
    monkeypatch.setitem(BASELINES, "half_return", BASELINES["none"]._replace(expected=lambda returns, *_: returns / 2))
    world = World("glimpses")
    estimator = Reinforce(weight=WEIGHT, baseline="half_return", discount=1.0, normalize=False)
    estimate, examples = world.expected_gradient(estimator)
    exact = world.exact_gradient(world.earned("log_likelihood", "every_step"), examples)
    assert (estimate[0] + WEIGHT * WorldContext.scale * exact[0]).abs().max() > 1e-3


def test_a_baseline_of_the_state_can_reduce_the_variance():
    """With the expected return of each state as the baseline, the squared norm of the estimates decreases."""
    world = World("glimpses")
    earned = world.earned("log_likelihood", "last_step")
    log_probs = world.log_probs().detach()
    second = earned.view(NUM_EXAMPLES, 3, 3) * log_probs[:, 1].exp().view(3, 3)
    after_first = second.sum(2)  # (B, 3): expected return after the first choice
    before = (after_first * world.policy[0].detach().softmax(0)).sum(1)
    for example, (row, places) in product(range(NUM_EXAMPLES), enumerate(world.sequences)):
        world.values[example, row] = torch.stack([before[example], after_first[example, places[0]]])

    def mean_square(name):
        estimator = Reinforce(baseline=name, reward_at="last_step", normalize=False, baseline_weight=0.0)
        total = 0.0
        for rows, probability in world.batches([0, 1], 1):
            loss = world.loss(estimator, [0, 1], rows, world.log_probs())
            total += probability * sum(g.square().sum() for g in torch.autograd.grad(loss, world.policy))
        return total

    assert mean_square("learned") < 0.8 * mean_square("none")


# New estimators and a new baseline, which exist in this test only


class Marginal(Estimator):
    """estimator: the exact marginal likelihood, summed over all places."""

    kind: Literal["marginal"] = "marginal"
    needs_enumeration: ClassVar[bool] = True

    def terms(self, episode, context):
        log_probs, log_likelihoods = context.enumerate()
        return {"marginal": (1.0, -context.mean((log_probs + log_likelihoods).logsumexp(-1)))}


class Variational(Estimator):
    """estimator: a lower bound of the marginal likelihood, for a tempered posterior over places."""

    kind: Literal["variational"] = "variational"
    needs_enumeration: ClassVar[bool] = True
    temperature: float = 1.0

    def check(self):
        super().check()
        self.require_positive("temperature")

    def terms(self, episode, context):
        joint = sum(context.enumerate())
        posterior = (joint / self.temperature).log_softmax(-1).detach()
        bound = (posterior.exp() * (joint - posterior)).sum(-1)
        return {"bound": (1.0, -context.mean(bound))}


class SentenceReward(Reinforce):
    """estimator: REINFORCE whose return is the fraction of correct words of the whole sentence."""

    kind: Literal["sentence_reward"] = "sentence_reward"

    def returns(self, logits, episode):
        correct = losses.correct(logits, episode.targets) * episode.mask
        return (correct.sum(1) / episode.mask.sum(1)).unsqueeze(1).expand_as(correct)


@pytest.fixture
def stubs(monkeypatch):
    for name, cls in (("marginal", Marginal), ("variational", Variational), ("sentence_reward", SentenceReward)):
        monkeypatch.setitem(ESTIMATORS, name, cls)


class EnumeratedContext(Context):
    """One choice between two places, with prior 1/4 and 3/4, and likelihood 0.8 and 0.4."""

    def __init__(self):
        self.prior = torch.tensor([[[1 / 4, 3 / 4]]], dtype=torch.float64).log().requires_grad_()
        self.likelihood = torch.tensor([[[0.8, 0.4]]], dtype=torch.float64).log().requires_grad_()

    def enumerate(self):
        return self.prior.log_softmax(-1), self.likelihood


NO_EPISODE = Episode(*[torch.zeros(1, 1)] * 4)


@pytest.mark.parametrize("estimator", [Marginal(), Variational()], ids=lambda estimator: estimator.kind)
def test_an_exact_estimator(estimator):
    """The marginal is 0.2 + 0.3, and the bound is tight at the posterior 2/5 and 3/5."""
    context = EnumeratedContext()
    [(weight, loss)] = estimator.terms(NO_EPISODE, context).values()
    assert weight == 1.0
    assert_close(loss, -torch.tensor(0.5).log())
    prior, likelihood = torch.autograd.grad(loss, [context.prior, context.likelihood])
    assert_close(prior, [[[1 / 4 - 2 / 5, 3 / 4 - 3 / 5]]])
    assert_close(likelihood, [[[-2 / 5, -3 / 5]]])


def test_a_bound_is_below_the_marginal():
    context = EnumeratedContext()
    [(_, exact)] = Marginal().terms(NO_EPISODE, context).values()
    gaps = [Variational(temperature=t).terms(NO_EPISODE, context)["bound"][1] - exact for t in (0.25, 1, 4)]
    assert gaps[0] > 1e-2 and gaps[1].abs() < 1e-12 and gaps[2] > 1e-2


@pytest.mark.parametrize("name", [name for name, entry in BASELINES.items() if not entry.needs_values])
def test_a_reward_of_whole_sentences(name):
    world = World("words")
    samples = BASELINES[name].min_samples
    estimator = SentenceReward(weight=WEIGHT, baseline=name, samples=samples, normalize=False)
    estimate, examples = world.expected_gradient(estimator)
    # The fraction of the two words whose most likely prediction is the target.
    correct = world.logits[:, :, :2].argmax(-1) == world.targets[:, None, :2]
    assert_minus(estimate, world.exact_gradient(correct.double().mean(-1), examples))


def test_stubs_are_settings(stubs):
    """They are chosen by a config, checked, written and read like those of the package."""
    for kind, cls in (("marginal", Marginal), ("variational", Variational)):
        config = load_config(["--model=recurrent_attention", f"--estimator.kind={kind}"])
        assert type(config.estimator) is cls and f"kind: {kind}" in config.to_yaml()
    assert load_config(["--estimator.kind=variational", "--estimator.temperature=2"]).estimator.temperature == 2
    with pytest.raises(ConfigError, match="estimator.temperature must be positive, got 0.0"):
        load_config(["--estimator.kind=variational", "--estimator.temperature=0"])
    with pytest.raises(ConfigError, match=f"estimator.kind must be one of {listed(ESTIMATORS)}, got 'exact'"):
        load_config(["--estimator.kind=exact"])


@pytest.mark.parametrize("kind", ["marginal", "variational"])
def test_a_task_that_cannot_enumerate_its_places_says_so(stubs, kind):
    options = [f"--estimator.kind={kind}", "--train.batch_size=2", "--train.limit=2", "--data.canvas=28"]
    message = f"estimator.kind must be one that does not enumerate all places of a read, got {kind}: a model that cl"
    with pytest.raises(ConfigError, match=message):
        build_task(load_config(options), ALONE)


def test_a_task_trains_with_a_reward_of_whole_sentences(stubs):
    """The attention of a translator gets a gradient of the reward of its sentences, and nothing else changes."""
    settings = {"read": "hard", "loss__baseline": "self_critical", "loss__entropy": 0.0, "decoder__dropout": 0.0}
    task = make_translation_task(**settings, estimator__kind="sentence_reward")
    assert type(task.estimator) is SentenceReward
    terms = task.loss_terms(task.model, next(task.batches(0)), task.noise(0, 0))
    weight, loss = terms["reinforce"]
    assert weight == 0.5 and 0 <= float(terms["reward"][1]) <= 1
    gradients = torch.autograd.grad(loss, task.model.attention_parameters())
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_a_new_baseline(monkeypatch):
    """A registered function is a value of estimator.baseline at once."""
    names = dict(BASELINES)
    try:

        @baseline("batch_mean")
        def batch_mean(returns, episode, context, estimator):
            return context.batch_mean(returns)

        estimator = load_config(["--estimator.baseline=batch_mean"]).estimator
        log_probs = torch.tensor([[-1.0], [-2.0]])
        logits = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])
        episode = Episode(log_probs, torch.zeros(2, 1), logits, torch.tensor([0, 0]))
        estimator = estimator.replace(reward="accuracy", normalize=False)
        assert_close(estimator.terms(episode, Context())["reinforce"][1], (0.5 - 1) / 2)
    finally:
        for name in BASELINES.keys() - names:
            del BASELINES[name]
