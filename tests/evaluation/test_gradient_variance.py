"""The variance of the gradient equals that of an exact enumeration; a biased baseline is detected."""

import itertools
import math

import pytest
import torch
from support.tensors import TinyData, assert_close, draw, draw_bytes, tiny_config, tiny_model
from torch import nn

from glimpse import losses
from glimpse.attention.distributions import Categorical, Noise
from glimpse.attention.placement import RULES
from glimpse.errors import ConfigError
from glimpse.evaluation import gradient_variance as variance
from glimpse.evaluation.gradient_variance import (
    BaselineVariance,
    GradientSamples,
    GradientVariance,
    jackknife_interval,
    mean_shift,
    measure,
    total_variance,
)
from glimpse.losses.policy_gradient import BASELINES
from glimpse.models.recurrent_attention import FixedPolicy, LearnedPolicy, RecurrentAttention
from glimpse.models.rollout import Rollout
from glimpse.seeding import Stream, noise_seed
from glimpse.view.gradient_variance import draw_variance, variance_table

ALL = ["none", "learned", "self_critical", "leave_one_out"]  # those that these tests enumerate
GRID = ("--attention.places=grid", "--attention.grid=[1, 3]")


@pytest.fixture(autouse=True)
def no_other_baselines(request, monkeypatch):
    """Measure with the enumerated baselines only; with the moving average, too, which `measure` leaves out."""
    if "every_baseline" not in request.fixturenames:
        monkeypatch.setattr(variance, "BASELINES", {name: BASELINES[name] for name in (*ALL, "moving_average")})


@pytest.fixture
def every_baseline(monkeypatch):
    """All registered baselines, with one more."""
    entry = BASELINES["none"]._replace(expected=lambda returns, *_: returns.new_full((), 0.5))
    monkeypatch.setitem(BASELINES, "one_half", entry)


def estimator_of(**settings):
    return tiny_config(*(f"--loss.{name}={value}" for name, value in settings.items())).estimator


def two_images():
    return TinyData(draw_bytes(2, 1, 12, 14, seed=3), torch.tensor([0, 2]))


class LookUp(RecurrentAttention):
    """A model in tables: three glimpses, the last two chosen among three cells, so 9 rollouts of an image.

    An image is a number; where to look, what to expect and what to answer depend on it and on the cells (1, 2, 3) seen
    so far (0 where there are none yet).
    """

    def __init__(self):
        nn.Module.__init__(self)
        self.num_glimpses = 3
        self.glimpses = nn.Module()
        self.glimpses.attention = nn.Module()
        self.glimpses.attention.mode = "hard"
        self.policy = LearnedPolicy(self.glimpses.attention, FixedPolicy(RULES["center"], self.glimpses))
        self.glimpses.attention.scores = nn.Parameter(2 * draw(2, 4, 3, seed=4))  # image, first cell, second cell
        self.baseline = nn.Parameter(-2 * draw(2, 4, seed=5))
        self.probabilities = nn.Parameter(5 * draw(2, 4, 4, 3, seed=6))

    def forward(self, images, *, sample=True, noise=None):
        image, none = images[:, 0, 0, 0].long(), torch.zeros(len(images), dtype=torch.int64)

        def choose(seen):
            attention = Categorical(self.glimpses.attention.scores[image, seen])
            cell = attention.sample(noise) if sample else attention.mode()
            return cell + 1, attention.log_prob(cell)

        first, first_log_prob = choose(none)
        second, second_log_prob = choose(first)
        seen = [(none, none), (first, none), (first, second)]
        empty = dict.fromkeys(Rollout._fields)
        return Rollout(**empty)._replace(
            logits=torch.stack([self.probabilities[image, *cells] for cells in seen], 1),
            log_probs=torch.stack([first_log_prob, second_log_prob], 1),
            baselines=torch.stack([self.baseline[image, none], self.baseline[image, first]], 1),
        )


def numbered_images():
    return TinyData(torch.tensor([0, 1]).view(2, 1, 1, 1), torch.tensor([0, 2]))


class Forced:
    """Noise that makes row i choose the cells of sequence i, one after the other."""

    def __init__(self, sequences):
        self.columns = iter(torch.tensor(sequences).unbind(1))

    def uniform(self, like):
        return nn.functional.one_hot(next(self.columns), like.shape[1]).to(like)


class Enumerated:
    """All S sequences of choices for one image."""

    def __init__(self, model, image, target, estimator):
        sequences = list(itertools.product(range(3), repeat=2))
        images, targets = image.expand(len(sequences), -1, -1, -1), target.repeat(len(sequences))
        rollout = model(images, noise=Forced(sequences))
        greedy = model(images, sample=False)

        def returns(rollout):
            rewards = losses.rewards(rollout.logits, targets, estimator.reward).double()
            return losses.returns(rewards, 2, estimator.reward_at, estimator.discount)

        self.probabilities = rollout.log_probs.detach().double().sum(1).exp()  # (S,)
        self.returns = returns(rollout)  # (S, N)
        self.baselines = {
            "none": torch.zeros_like(self.returns),
            "learned": rollout.baselines.detach().double(),
            "self_critical": returns(greedy),
        }
        weights = model.glimpses.attention.scores
        gradients = [torch.autograd.grad(each, weights, retain_graph=True)[0] for each in rollout.log_probs.flatten()]
        self.scores = torch.stack(gradients).view(len(sequences), 2, -1).double()  # (S, N, P): of the log-probabilities
        expected = (rollout.log_probs.sum(1).exp() * self.returns[:, -1]).sum()
        self.true_gradient = -torch.autograd.grad(expected, weights)[0].flatten().double()  # if the last answer counts

    def moments(self, name, num_rollouts):
        """Mean (N + 1, P) and total variance (N + 1,) of an estimate, of each choice and of all, over all tuples."""
        tuples = torch.tensor(list(itertools.product(range(9), repeat=num_rollouts)))  # (9^M, M)
        weights = self.probabilities[tuples].prod(1)
        returns = self.returns[tuples]  # (9^M, M, N)
        if name == "leave_one_out":
            others = [[j for j in range(num_rollouts) if j != i] for i in range(num_rollouts)]
            baselines = torch.stack([returns[:, rest].mean(1) for rest in others], 1)
        else:
            baselines = self.baselines[name][tuples]
        terms = -((returns - baselines).unsqueeze(-1) * self.scores[tuples]).mean(1)  # (9^M, N, P)
        estimates = torch.cat([terms, terms.sum(1, keepdim=True)], 1)
        mean = (weights.view(-1, 1, 1) * estimates).sum(0)
        return mean, (weights.view(-1, 1, 1) * (estimates - mean).square()).sum((0, 2))


def standard_error(row):
    low, high = row.interval
    return math.log(high / low) / (2 * 1.96)


@pytest.mark.parametrize(
    ("settings", "rollouts"),
    [
        ({"reward": "log_likelihood", "reward_when": "every_step", "discount": 0.5}, 3),
        ({"reward": "accuracy", "reward_when": "last_step"}, 2),
    ],
)
def test_the_variance_is_that_of_all_that_can_happen(settings, rollouts):
    model, data, estimator, repeats = LookUp(), numbered_images(), estimator_of(**settings), 500
    both = [Enumerated(model, data.images[[i]], data.targets[[i]], estimator) for i in range(2)]
    assert all(0.02 < case.probabilities.max() < 0.9 for case in both)
    assert sum(float(case.returns.std(0).sum()) for case in both) > 0.1
    result = measure(model, data, estimator, images=2, rollouts=rollouts, repeats=repeats)
    assert [row.baseline for row in result.estimators] == ALL
    assert [row.rollouts for row in result.estimators] == [rollouts, rollouts, rollouts + 1, rollouts]
    exact = {}
    for row in result.estimators:
        means, variances = zip(*(case.moments(row.baseline, rollouts) for case in both), strict=True)
        mean, each = sum(means) / 2, sum(variances) / 4  # two independent images, averaged
        exact[row.baseline] = float(each[-1])
        error = standard_error(row)
        assert 0.01 < error < 0.1
        assert abs(math.log(row.variance / each[-1])) < 3 * error
        for measured, choice in zip(row.per_choice, each[:-1].tolist(), strict=True):
            assert abs(math.log(measured / choice)) < 5 * error
        signal = float(mean[-1].square().sum())
        # ||mean + noise||^2 has the standard deviation 2 ||mean|| sigma, sigma at most that of all parameters together.
        assert abs(row.signal - signal) < 4 * (2 * math.sqrt(signal * each[-1] / repeats) + float(each[-1]) / repeats)
        assert row.signal_to_noise == row.signal / row.variance
        assert row.mean_shift < 2
        torch.testing.assert_close(mean, sum(case.moments("none", rollouts)[0] for case in both) / 2)
    for row in result.estimators[1:]:
        low, high = row.ratio_interval
        true = exact[row.baseline] / exact["none"]
        assert row.ratio == pytest.approx(row.variance / result.estimators[0].variance)
        assert abs(math.log(row.ratio / true)) < 3 * math.log(high / low) / (2 * 1.96)
    # The baselines differ by more than the measurement errs, else agreement would mean little.
    assert max(exact.values()) > 1.5 * min(exact.values())


def test_the_mean_is_the_gradient_of_the_expected_return():
    model, data, estimator = LookUp(), numbered_images(), estimator_of(reward="log_likelihood", reward_when="last_step")
    exact = sum(Enumerated(model, data.images[[i]], data.targets[[i]], estimator).true_gradient for i in range(2)) / 2
    estimates = variance._repeat(model, list(data.in_order(batch_size=2)), estimator, 3, 200, 0)
    for name in ALL:
        assert mean_shift(estimates[name].totals, exact.expand(200, -1)) < 2
        assert mean_shift(estimates[name].totals, torch.zeros(200, len(exact))) > 4  # the gradient is not zero


def with_biased_baseline(model, targets, rollouts, estimator):
    """The same model with a baseline that depends on the choice, which biases the gradient."""
    forward = model.forward

    def biased_forward(*arguments, **options):
        rollout = forward(*arguments, **options)
        if not options.get("sample", True):
            return rollout
        rewards = losses.rewards(rollout.logits, targets.repeat_interleave(rollouts), estimator.reward)
        return rollout._replace(baselines=0.5 * losses.returns(rewards, 2, estimator.reward_at, estimator.discount))

    model.forward = biased_forward
    return model


def test_a_biased_baseline_is_detected():
    data, estimator = numbered_images(), estimator_of(reward="log_likelihood", reward_when="last_step")
    model = with_biased_baseline(LookUp(), data.targets, 3, estimator)
    rows = {row.baseline: row for row in measure(model, data, estimator, images=2, rollouts=3, repeats=100).estimators}
    assert rows["learned"].ratio == pytest.approx(0.25)  # half of each estimate: a small variance is not all
    assert rows["learned"].mean_shift > 3
    assert rows["self_critical"].mean_shift < 2
    assert rows["leave_one_out"].mean_shift < 2


def test_greedy_begins_where_the_sampled_rollout_did():
    model, data, estimator = tiny_model("--attention.first=random", "--num_glimpses=2"), two_images(), estimator_of()
    firsts = {True: [], False: []}
    forward = model.forward

    def recording_forward(*arguments, **options):
        rollout = forward(*arguments, **options)
        firsts[options.get("sample", True)].append(rollout.locations[:, 0])
        return rollout

    model.forward = recording_forward
    result = measure(model, data, estimator, images=2, rollouts=3, repeats=10)
    sampled, greedy = torch.stack(firsts[True]), torch.stack(firsts[False])  # (R, B*M, 2)
    assert torch.equal(sampled, greedy)
    assert len(sampled.view(-1, 2).unique(dim=0)) == 10 * 2 * 3
    assert [row.rollouts for row in result.estimators] == [3, 3, 6, 3]


@pytest.mark.parametrize(
    "options",
    [
        ("--attention.learn_std=true",),
        (*GRID, "--attention.scorer=scaled_dot"),  # whose values reach later choices through the core
        (*GRID, "--attention.scorer=scaled_dot", "--loss.reward_reaches_core=false"),
        (*GRID, "--attention.window=1"),
    ],
)
def test_an_estimate_is_the_gradient_of_the_reinforce_loss(options):
    model, data, estimator = tiny_model(*options), two_images(), estimator_of(reward="log_likelihood")
    batch = next(data.in_order(batch_size=2))
    estimate = variance._estimate(model, batch, estimator, 2, variance.Noise(5))
    rollout = model(batch.images.repeat_interleave(2, 0), noise=variance.Noise(5))
    returns = losses.returns(
        losses.rewards(rollout.logits, batch.targets.repeat_interleave(2), estimator.reward), 2, "every_step"
    )
    for name, baselines in (("none", 0), ("learned", rollout.baselines), ("leave_one_out", returns[[1, 0, 3, 2]])):
        model.zero_grad()
        losses.reinforce(rollout.log_probs, (returns - baselines).detach()).backward(retain_graph=True)
        parameters = model.glimpses.attention.parameters()
        plain = torch.cat([torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in parameters])
        torch.testing.assert_close(estimate[name].sum(0), plain.double(), rtol=1e-4, atol=1e-6)


def test_batches_are_weighted_by_their_images_and_have_their_own_noise():
    model, data = tiny_model(), TinyData(draw_bytes(3, 1, 12, 14), torch.tensor([1, 2, 0]))
    batches = list(data.in_order(batch_size=2))
    found = variance._repeat(model, batches, estimator_of(), 2, 10, 0)["none"].totals
    for repeat in range(10):
        expected = 0
        for index, (batch, weight) in enumerate(zip(batches, (2 / 3, 1 / 3), strict=True)):
            noise = Noise(noise_seed(Stream.VARIANCE_NOISE, 0, repeat, index))
            expected = expected + weight * variance._estimate(model, batch, estimator_of(), 2, noise)["none"].sum(0)
        assert_close(found[repeat], expected)
    assert len({tuple(total.tolist()) for total in found}) == 10


def test_a_summary_of_three_estimates():
    without = GradientSamples(torch.tensor([[0.0, 0.0], [2.0, 0.0], [4.0, 6.0]]).double(), (1.0, 2.0))
    row = variance._summarize("learned", 4, GradientSamples(3 * without.totals, (9.0, 18.0)), without)
    assert row.variance == pytest.approx(9 * 16)
    assert row.signal == pytest.approx(9 * (8 - 16 / 3))  # the mean is (2, 2)
    assert (row.ratio, *row.ratio_interval) == pytest.approx((9, 9, 9))  # they vary together, in all repetitions
    assert row.mean_shift == pytest.approx(math.sqrt(4 * 8 / (4 * 16 / 3)))
    assert row[:2] == ("learned", 4) and row.per_choice == (9.0, 18.0)


def test_a_single_choice_is_all_there_is():
    for row in measure(tiny_model("--num_glimpses=2"), two_images(), estimator_of(), repeats=10).estimators:
        assert row.per_choice == pytest.approx((row.variance,))


def test_measuring_leaves_the_model_alone_and_repeats_itself():
    model, data, estimator = (
        tiny_model(),
        TinyData(draw_bytes(5, 1, 12, 14), torch.tensor([0, 1, 2, 0, 1])),
        estimator_of(),
    )
    before = {name: value.clone() for name, value in model.state_dict().items()}
    options = {"rollouts": 2, "repeats": 10}
    result = measure(model, data, estimator, **options)
    assert (result.images, result.rollouts, result.repeats, result.first_choice) == (5, 2, 10, 2)
    assert result.parameters == 22 and result.notes == ()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())
    assert measure(model, data, estimator, **options) == result
    assert measure(model, data, estimator, seed=1, **options) != result
    assert measure(model, data, estimator, images=3, **options).images == 3
    size = variance.BATCH_SIZE + 1
    larger = TinyData(draw_bytes(size, 1, 12, 14), torch.arange(size) % 3)
    assert measure(model, larger, estimator, images=size, **options).images == size


def test_a_model_without_a_learned_baseline():
    model = tiny_model("--loss.baseline=none", "--attention.first=learned")
    result = measure(model, two_images(), estimator_of(), repeats=10)
    assert [row.baseline for row in result.estimators] == ["none", "self_critical", "leave_one_out"]
    assert result.notes == ("The learned baseline is left out: the model has none.",)
    assert result.notes[0] in variance_table(result).notes
    assert result.first_choice == 1 and len(result.estimators[0].per_choice) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model=cnn",), "needs a hard model that samples locations, got a whole-image network"),
        (("--read=soft",), "needs a hard model that samples locations, got read soft"),
        (("--attention.policy=raster",), "needs a hard model that samples locations, got policy raster"),
        (("--num_glimpses=1",), "got policy learned, num_glimpses 1, first center"),
    ],
)
def test_a_model_without_choices_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        measure(tiny_model(*options), two_images(), estimator_of())


def test_an_attention_without_parameters_is_refused():
    model = tiny_model(*GRID, "--network.state_dim=12", "--attention.scorer=dot")
    with pytest.raises(ConfigError, match="needs an attention with parameters, got scorer dot, without any"):
        measure(model, two_images(), estimator_of())


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"images": 0}, "images must be at least 1, got 0"),
        ({"rollouts": 1}, "rollouts must be at least 2, for the leave-one-out baseline, got 1"),
        ({"repeats": 9}, "repeats must be at least 10, for meaningful intervals, got 9"),
    ],
)
def test_too_small_numbers_are_refused(setting, message):
    with pytest.raises(ConfigError, match=message):
        measure(tiny_model(), two_images(), estimator_of(), **setting)


def test_total_variance_of_three():
    value, left_out = total_variance(torch.tensor([[0.0, 0.0], [2.0, 0.0], [4.0, 6.0]]).double())
    assert value == pytest.approx(16)
    assert left_out.tolist() == pytest.approx([20, 26, 2])  # (2, 0) with (4, 6); (0, 0) with (4, 6); with (2, 0)


def test_the_interval_covers_the_variance_in_95_of_100_cases():
    scales = torch.tensor([3.0, 1.0, 1.0, 0.3]).double()
    generator = torch.Generator().manual_seed(0)
    covered = widths = 0
    for _ in range(1000):
        estimates = 5 + scales * torch.randn(50, 4, generator=generator, dtype=torch.float64)
        low, high = jackknife_interval(*total_variance(estimates))
        covered += low < float(scales.square().sum()) < high
        widths += math.log(high / low) / 1000
    assert 920 <= covered <= 975
    # The logarithm has variance 2 (sum of scale^4) / (sum of scale^2)^2 / (R - 1).
    error = math.sqrt(2 * float(scales.pow(4).sum()) / float(scales.square().sum()) ** 2 / 49)
    assert widths == pytest.approx(2 * 1.96 * error, rel=0.1)


def test_the_jackknife_of_a_known_case():
    low, high = jackknife_interval(2.0, torch.tensor([1.0, math.e]).double())  # deviations of the logs: a half
    assert low == pytest.approx(2 * math.exp(-1.959964 * 0.5))
    assert high == pytest.approx(2 * math.exp(1.959964 * 0.5))


@pytest.mark.parametrize("estimates", [torch.zeros(10, 3), torch.eye(10, 3)[:, :1] * 3 + 1])
def test_the_interval_of_a_single_event_is_infinite(estimates):
    assert jackknife_interval(*total_variance(estimates.double())) == (0.0, math.inf)


def test_mean_shift_is_in_standard_errors():
    other = torch.tensor([[5.0, 1.0], [3.0, 0.0], [8.0, 2.0]])
    assert mean_shift(other + torch.tensor([[1.0, 0], [2.0, 0], [3.0, 0]]), other) == pytest.approx(2 * math.sqrt(3))
    assert mean_shift(other, other) == 0
    assert mean_shift(other + 1, other) == math.inf


@pytest.mark.parametrize("scales", [[1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [2.0, 1.0, 0.5] * 10])
def test_mean_shift_of_equal_means_rarely_exceeds_two(scales):
    scales, generator = torch.tensor(scales), torch.Generator().manual_seed(1)
    values = [
        mean_shift(scales * torch.randn(100, len(scales), generator=generator), torch.zeros(100, len(scales)))
        for _ in range(1000)
    ]
    assert sum(value > 2 for value in values) <= 60
    assert sum(value**2 for value in values) / 1000 == pytest.approx(1, abs=0.15)


def made_up(*variances, baselines=ALL):
    rows = [
        BaselineVariance(
            baseline=name,
            rollouts=4 + (name == "self_critical"),
            variance=value,
            interval=(value * 0.9, value * 1.25),
            ratio=value / variances[0],
            ratio_interval=(0.5, 0.75),
            signal=-0.5,
            mean_shift=1.234,
            per_choice=(value / 2, value / 4),
        )
        for name, value in zip(baselines, variances, strict=True)
    ]
    return GradientVariance(tuple(rows), 64, 4, 100, 514, 2, ("A note.",))


def test_table_shows_the_variances():
    table = variance_table(made_up(2000.0, 8.0, 4.0, 2.0))
    assert table.rows[0] == ["none", "4", "2.00e+03", "1.80e+03 to 2.50e+03", "1", "-", "-2.50e-04", "-"]
    assert table.rows[2] == ["self-critical", "5", "4", "3.6 to 5", "0.002", "0.5 to 0.75", "-0.125", "1.23"]
    assert [row[0] for row in table.rows] == ["none", "learned", "self-critical", "leave-one-out"]
    assert all(len(row) == len(table.header) for row in table.rows)
    assert "514 attention parameters from 64 images with 4 sampled rollouts per image; 100" in table.notes[0]
    assert table.notes[-1] == "A note."


@pytest.mark.parametrize(
    "variances", [(8.0, 6.0, 1.0, 0.9), (0.00822, 0.00911, 0.00733, 0.00744), (900.0, 60.0, 0.2, 0.01)]
)
def test_figure_shows_the_variances(variances):
    figure = draw_variance(made_up(*variances))
    left, right = figure.axes
    wide = variances[0] > 20 * variances[-1]
    points = [line for line in left.lines if len(line.get_xdata()) == 1]
    values = [line.get_xdata()[0] for line in points] if wide else [bar.get_width() for bar in left.patches]
    assert tuple(values) == variances and len(left.patches) == (0 if wide else 4)
    intervals = [tuple(line.get_xdata()) for line in left.lines if line not in points]
    assert intervals == [(0.9 * value, 1.25 * value) for value in variances]
    assert [label.get_text() for label in left.get_yticklabels()] == [
        "none",
        "learned",
        "self-critical",
        "leave-one-out",
    ]
    assert left.get_xscale() == right.get_yscale() == ("log" if wide else "linear")
    for line, value in zip(right.lines, variances, strict=True):
        assert list(line.get_xdata()) == [2, 3]
        assert list(line.get_ydata()) == [value / 2, value / 4]
    assert len({line.get_marker() for line in right.lines}) == len({line.get_color() for line in right.lines}) == 4
    assert_whole(figure)


def assert_whole(figure):
    """Nothing is cut off, and the numbers stay within the axes of their bars."""
    figure.draw_without_rendering()
    canvas = figure.bbox
    assert (canvas.width, canvas.height) == (1000, 400)
    box = figure.get_tightbbox().transformed(figure.dpi_scale_trans)
    assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= canvas.width and box.y1 <= canvas.height
    left = figure.axes[0]
    assert all(text.get_window_extent().x1 <= left.get_window_extent().x1 for text in left.texts)


def test_every_registered_baseline_is_measured_and_shown(every_baseline):
    rollouts = max(entry.min_samples for entry in BASELINES.values())
    result = measure(tiny_model("--num_glimpses=2"), two_images(), estimator_of(), rollouts=rollouts, repeats=10)
    names = [name for name, entry in BASELINES.items() if not entry.needs_running_mean]
    assert [row.baseline for row in result.estimators] == names and names[-1] == "one_half"
    shown = [name.replace("_", "-") for name in names]
    assert [row[0] for row in variance_table(result).rows] == shown
    left, right = draw_variance(result).axes
    assert [label.get_text() for label in left.get_yticklabels()] == shown
    assert len({(line.get_marker(), line.get_color()) for line in right.lines}) == len(shown)


def test_rewards_that_are_all_zero():
    model, data = tiny_model("--num_glimpses=2"), TinyData(draw_bytes(2, 1, 12, 14), torch.tensor([0, 0]))
    with torch.no_grad():
        model.classify.bias[0] = -1e6  # never right: all returns are 0
        model.baseline.weight.zero_()
        model.baseline.bias.fill_(0.5)
    result = measure(model, data, estimator_of(reward="accuracy"), repeats=10)
    rows = {row.baseline: row for row in result.estimators}
    assert rows["none"].variance == rows["leave_one_out"].variance == 0
    assert rows["none"].interval == (0.0, math.inf)
    assert math.isnan(rows["none"].ratio) and math.isnan(rows["none"].signal_to_noise)
    assert rows["learned"].variance > 0 and math.isnan(rows["learned"].ratio)  # a baseline can increase the variance
    table = variance_table(result)
    assert table.rows[0] == ["none", "4", "0", "-", "-", "-", "-", "-"]
    assert_whole(draw_variance(result))
    assert_whole(draw_variance(result._replace(estimators=result.estimators[::2])))  # nothing but zeros
