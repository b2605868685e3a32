"""The task: which losses train the model, how the std shrinks, and how scores are counted."""

import math
from types import SimpleNamespace

import pytest
import torch
from support import tensors
from support.tensors import ALONE, TinyData, assert_close, draw, draw_bytes, reached, tiny_config, tiny_model, under
from torch import nn

from glimpse import losses
from glimpse.attention.distributions import Noise
from glimpse.distributed import Processes
from glimpse.evaluation.classify import ClassificationScores, ClassifierOutcome, evaluate_classifier, score
from glimpse.metrics.statistics import wilson_interval
from glimpse.models.rollout import Rollout
from glimpse.seeding import noise_seed
from glimpse.tasks.build import make_model

CPU = torch.device("cpu")
IMAGES, TARGETS = draw_bytes(10, 1, 12, 14), torch.arange(10) % 3


def make_task(*options, data=None, processes=ALONE):
    return tensors.make_task(*options, data=data or TinyData(IMAGES, TARGETS), processes=processes)


def first_batch(task):
    return next(iter(task.batches(0)))


def terms_of(task, seed=5):
    return task.loss_terms(task.model, first_batch(task), Noise(seed))


def rollout_of(task, seed=5, rollouts=1, **settings):
    """The rollout from which `terms_of` computes, and its targets."""
    images, targets = IMAGES[:4].repeat_interleave(rollouts, 0), TARGETS[:4].repeat_interleave(rollouts, 0)
    return task.model(images, noise=Noise(seed), **settings), targets


# Losses


def test_a_soft_start_reads_hard_batches_softly():
    """With rollouts too: a soft read is the same for each of them, and is made once."""
    options = ("--read=hard", "--loss.rollouts=3", "--loss.mix_end=0", "--loss.mix_until=0.5", "--loss.mix=1")
    task = make_task(*options)
    terms = terms_of(task)
    rollout, targets = rollout_of(task, mode="soft")
    assert set(terms) == {"cross_entropy", "error"}
    assert_close(terms["cross_entropy"][1], losses.cross_entropy(rollout.logits, targets))
    task.on_progress(0.6)
    assert "reinforce" in terms_of(task)
    task.on_progress(0.25)
    soft = sum("reinforce" not in terms_of(task, seed) for seed in range(150))
    assert abs(soft / 150 - 0.5) < 4 * math.sqrt(0.25 / 150)


def test_a_soft_read_leaves_the_baseline_idle():
    assert make_task("--read=hard", "--loss.baseline=learned").every_parameter_has_gradient
    for mix in (["--loss.mix=0.5"], ["--loss.mix=0", "--loss.mix_end=0.5"]):
        assert not make_task("--read=hard", "--loss.baseline=learned", *mix).every_parameter_has_gradient


@pytest.mark.parametrize("options", [("--read=soft",), ("--attention.policy=random",), ("--model=fc",)])
def test_what_learns_no_places_by_reward_is_not_mixed(options):
    task, plain = make_task(*options, "--loss.mix=0.9"), make_task(*options)
    for seed in range(5):
        assert_close(terms_of(task, seed)["cross_entropy"][1], terms_of(plain, seed)["cross_entropy"][1])


@pytest.mark.parametrize("places", ["plane", "grid"])
@pytest.mark.parametrize("rollouts", [1, 2])
def test_soft_learns_from_cross_entropy_alone(places, rollouts):
    task = make_task("--read=soft", f"--attention.places={places}", f"--loss.rollouts={rollouts}")
    terms = terms_of(task)
    assert set(terms) == {"cross_entropy", "error"}
    rollout, targets = rollout_of(task)
    assert terms["cross_entropy"][0] == 1 and terms["error"][0] == 0
    assert_close(terms["cross_entropy"][1], losses.cross_entropy(rollout.logits, targets))
    assert_close(terms["error"][1], (rollout.logits[:, -1].argmax(-1) != targets).float().mean())


@pytest.mark.parametrize("when", ["every_step", "last_step"])
def test_cross_entropy_after_each_glimpse_or_the_last(when):
    task = make_task("--read=soft", f"--loss.classify={when}")
    rollout, targets = rollout_of(task)
    logits = rollout.logits if when == "every_step" else rollout.logits[:, -1:]
    expected = nn.functional.cross_entropy(logits.flatten(0, 1), targets.repeat_interleave(logits.shape[1]))
    assert_close(terms_of(task)["cross_entropy"][1], expected)


def test_a_single_given_glimpse_leaves_nothing_to_reinforce():
    assert set(terms_of(make_task("--num_glimpses=1"))) == {"cross_entropy", "error"}
    assert not make_task("--num_glimpses=1").every_parameter_has_gradient
    learned = make_task("--num_glimpses=1", "--attention.first=learned")
    assert "reinforce" in terms_of(learned) and learned.every_parameter_has_gradient
    assert make_task("--num_glimpses=2").every_parameter_has_gradient


def returns_by_hand(rollout, targets):
    """The log-likelihoods of the answers to come, summed: what each of two choices of three glimpses led to."""
    rewards = rollout.logits.log_softmax(-1)[torch.arange(len(targets)), :, targets].detach()
    return torch.stack([rewards[:, 1] + rewards[:, 2], rewards[:, 2]], 1)


def reinforce_by_hand(rollout, advantages):
    return -(rollout.log_probs * advantages).sum(1).mean()


PLAIN = ("--loss.reward=log_likelihood", "--loss.normalise=false", "--loss.reinforce=0.25")


def test_hard_without_a_baseline():
    task = make_task(*PLAIN, "--loss.baseline=none")
    terms = terms_of(task)
    assert set(terms) == {"cross_entropy", "error", "reinforce", "reward"}
    rollout, targets = rollout_of(task)
    returns = returns_by_hand(rollout, targets)
    assert terms["reinforce"][0] == 0.25 and terms["reward"][0] == 0
    assert_close(terms["reinforce"][1], reinforce_by_hand(rollout, returns))
    assert_close(terms["reward"][1], returns.mean())
    assert_close(terms["cross_entropy"][1], losses.cross_entropy(rollout.logits, targets))


def test_hard_with_a_learned_baseline():
    task = make_task(*PLAIN, "--loss.baseline=learned", "--loss.baseline_weight=0.5")
    terms = terms_of(task)
    assert set(terms) == {"cross_entropy", "error", "reinforce", "reward", "baseline"}
    rollout, targets = rollout_of(task)
    gap = returns_by_hand(rollout, targets) - rollout.baselines
    assert_close(terms["reinforce"][1], reinforce_by_hand(rollout, gap.detach()))
    assert terms["baseline"][0] == 0.5
    assert_close(terms["baseline"][1], gap.square().mean())


def test_hard_with_a_self_critical_baseline():
    task = make_task(*PLAIN, "--loss.baseline=self_critical", "--attention.std=0.5")
    terms = terms_of(task)
    assert set(terms) == {"cross_entropy", "error", "reinforce", "reward"}
    rollout, targets = rollout_of(task)
    greedy, _ = rollout_of(task, sample=False)
    gap = returns_by_hand(rollout, targets) - returns_by_hand(greedy, targets)
    assert gap.any()
    assert_close(terms["reinforce"][1], reinforce_by_hand(rollout, gap))


def test_self_critical_rollouts_have_no_chance_of_their_own():
    """The noise given decides everything, a random first glimpse of the greedy rollout included."""
    task = make_task(*PLAIN, "--loss.baseline=self_critical", "--attention.first=random")
    with torch.random.fork_rng():
        torch.manual_seed(1)
        one = terms_of(task)
        torch.manual_seed(2)
        two = terms_of(task)
    assert one["reinforce"][1] == two["reinforce"][1]


def test_self_critical_rollouts_begin_where_the_sampled_ones_do():
    """With a std of almost nothing both rollouts are the same, so there is nothing to criticise."""
    options = ("--loss.baseline=self_critical", "--attention.first=random", "--attention.std=1.0e-12")
    assert_close(terms_of(make_task(*PLAIN, *options))["reinforce"][1], 0.0, 1e-3)


@pytest.mark.parametrize("rollouts", [2, 3])
def test_hard_with_the_other_rollouts_as_the_baseline(rollouts):
    task = make_task(*PLAIN, f"--loss.rollouts={rollouts}", "--loss.baseline=leave_one_out")
    terms = terms_of(task)
    assert set(terms) == {"cross_entropy", "error", "reinforce", "reward"}
    rollout, targets = rollout_of(task, rollouts=rollouts)
    assert len(targets) == 4 * rollouts
    returns = returns_by_hand(rollout, targets)
    others = torch.zeros_like(returns)
    for row in range(len(returns)):
        image = row // rollouts
        same = [other for other in range(image * rollouts, (image + 1) * rollouts) if other != row]
        others[row] = returns[same].mean(0)
    assert_close(terms["reinforce"][1], reinforce_by_hand(rollout, returns - others))
    assert_close(terms["cross_entropy"][1], losses.cross_entropy(rollout.logits, targets))


def test_rollouts_of_an_image_differ():
    task = make_task("--loss.rollouts=3")
    locations = rollout_of(task, rollouts=3)[0].locations.view(4, 3, 3, 2)
    assert torch.equal(locations[:, 0, 0], locations[:, 1, 0])  # all begin at the centre
    assert not torch.equal(locations[:, 0, 1], locations[:, 1, 1])
    rollout, targets = rollout_of(task, rollouts=3)
    assert_close(terms_of(task)["cross_entropy"][1], losses.cross_entropy(rollout.logits, targets))


def test_normalised_advantages():
    task = make_task("--loss.reward=log_likelihood", "--loss.baseline=none", "--loss.normalise=true")
    rollout, targets = rollout_of(task)
    returns = returns_by_hand(rollout, targets)
    advantages = (returns - returns.mean(0)) / returns.std(0, unbiased=False)
    assert_close(terms_of(task)["reinforce"][1], reinforce_by_hand(rollout, advantages), 1e-3)
    assert_close(terms_of(task)["reward"][1], returns.mean())


@pytest.mark.parametrize("when, discount", [("last_step", 1.0), ("every_step", 0.0), ("every_step", 0.5)])
def test_rewards_as_configured(when, discount):
    task = make_task(
        "--loss.baseline=none", "--loss.normalise=false", f"--loss.reward_when={when}", f"--loss.discount={discount}"
    )
    rollout, targets = rollout_of(task)
    right = (rollout.logits.argmax(-1) == targets.unsqueeze(1)).float()
    last = right[:, 2]
    first = last if when == "last_step" else right[:, 1] + discount * last
    returns = torch.stack([first, last], 1)
    terms = terms_of(task)
    assert_close(terms["reinforce"][1], reinforce_by_hand(rollout, returns))
    assert_close(terms["reward"][1], returns.mean())


@pytest.mark.parametrize("places", ["plane", "grid"])
def test_entropy_bonus(places):
    task = make_task("--loss.entropy=0.125", f"--attention.places={places}", "--attention.learn_std=true")
    weight, value = terms_of(task)["neg_entropy"]
    assert weight == 0.125
    assert_close(value, -rollout_of(task)[0].entropies.mean())
    assert value.requires_grad
    assert "neg_entropy" not in terms_of(make_task())


@pytest.mark.parametrize("read", ["hard", "soft"])
def test_multi_label_data(read):
    marks = (torch.arange(30).view(10, 3) % 4 == 0).float()
    task = make_task(f"--read={read}", "--loss.rollouts=2", data=TinyData(IMAGES, marks))
    terms = terms_of(task)
    rollout, _ = rollout_of(task, rollouts=2 if read == "hard" else 1)
    targets = marks[:4].repeat_interleave(len(rollout.logits) // 4, 0)
    probability = rollout.logits.sigmoid()
    of_truth = torch.where(targets.unsqueeze(1).bool(), probability, 1 - probability)
    assert_close(terms["cross_entropy"][1], -of_truth.log().sum(-1).mean(), 1e-5)


@pytest.mark.parametrize("baseline", ["none", "learned", "self_critical", "leave_one_out"])
@pytest.mark.parametrize("places", ["plane", "grid"])
def test_only_weighted_terms_have_a_gradient_and_together_they_reach_everything(places, baseline):
    task = make_task("--loss.rollouts=2", f"--loss.baseline={baseline}", f"--attention.places={places}")
    terms = terms_of(task)
    for name, (weight, value) in terms.items():
        assert value.dim() == 0 and value.requires_grad == (weight > 0), name
    sum(weight * value for weight, value in terms.values()).backward()
    assert [name for name, parameter in task.model.named_parameters() if parameter.grad is None] == []


@pytest.mark.parametrize("options", [("--read=hard",), ("--read=soft",), ("--loss.mix_end=0", "--loss.mix=1")])
@pytest.mark.parametrize("readout", ["last", "state_memory"])
def test_halting_unit(options, readout):
    task = make_task("--network.halt=true", "--loss.glimpse_cost=0.125", f"--network.readout={readout}", *options)
    terms = terms_of(task)
    rollout, targets = rollout_of(task, mode="hard" if options == ("--read=hard",) else "soft")
    each = -rollout.logits.log_softmax(-1)[torch.arange(4), :, targets]
    stop, going = rollout.halt_logits.sigmoid(), torch.ones(4)
    cost = glimpses = 0.0
    for t in range(3):
        here = going * (stop[:, t] if t < 2 else 1)
        cost, glimpses = cost + here * (each[:, t] + 0.125 * (t + 1)), glimpses + here * (t + 1)
        going = going - here
    assert terms["halting"][0] == 1 and terms["glimpses"][0] == 0
    assert_close(terms["halting"][1], cost.mean(), 1e-5)
    assert_close(terms["glimpses"][1], glimpses.mean(), 1e-5)
    assert not terms["glimpses"][1].requires_grad
    assert reached(terms["halting"][1], task.model) == under(task.model, "halt")
    for name in terms.keys() - {"halting"}:
        assert not reached(terms[name][1], task.model) & under(task.model, "halt"), name


def test_a_halting_unit_changes_nothing_else():
    plain, halting = make_task(), make_task("--network.halt=true")
    weights = plain.model.state_dict()
    assert all(torch.equal(weights[name], halting.model.state_dict()[name]) for name in weights)
    terms, others = terms_of(plain), terms_of(halting)
    assert others.keys() - terms.keys() == {"halting", "glimpses"}
    assert all(torch.equal(value, others[name][1]) for name, (_, value) in terms.items())


# Schedule, batches and noise


@pytest.mark.parametrize(
    "progress, expected", [(0.0, 0.4), (0.125, 0.4 / math.sqrt(2)), (0.25, 0.2), (0.5, 0.1), (0.75, 0.1), (1.0, 0.1)]
)
def test_std_shrinks_geometrically(progress, expected):
    task = make_task("--attention.std=0.4", "--attention.std_end=0.1", "--attention.std_until=0.5")
    task.on_progress(progress)
    assert_close(task.model.glimpses.attention.std, expected)


def test_std_stays_unless_told_to_shrink():
    task = make_task("--attention.std=0.4")
    task.on_progress(1.0)
    assert_close(task.model.glimpses.attention.std, 0.4)
    make_task("--attention.places=grid", "--attention.std_end=0.1").on_progress(0.5)  # there is no std to change


def test_batches_of_an_epoch():
    task = make_task("--train.batch_size=3")
    assert task.steps_per_epoch == 3
    assert [len(batch.targets) for batch in task.batches(0)] == [3, 3, 3]
    limited = make_task("--train.batch_size=3", "--train.limit=7")
    assert limited.steps_per_epoch == len(list(limited.batches(0))) == 2
    assert make_task("--train.batch_size=10", "--train.limit=100").steps_per_epoch == 1


def test_normalization_needs_two_rollouts():
    with pytest.raises(ValueError, match="estimator.normalize must be false with one rollout per batch, .*got true"):
        make_task("--train.batch_size=1", "--loss.normalise=true", "--read=hard")
    assert make_task("--train.batch_size=1", "--loss.normalise=true", "--loss.rollouts=2").steps_per_epoch > 1
    assert make_task("--train.batch_size=1", "--loss.normalise=true", "--read=soft").steps_per_epoch > 1


def test_building_a_model_leaves_the_callers_random_numbers_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    model = make_model(tiny_config(), image_shape=(1, 12, 14), num_classes=3)
    assert torch.equal(torch.rand(3), expected)
    again = make_model(tiny_config(), image_shape=(1, 12, 14), num_classes=3)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


def test_batch_larger_than_the_data():
    with pytest.raises(ValueError, match=r"train.batch_size must be at most 10 \(the training examples\), got 11"):
        make_task("--train.batch_size=11")
    with pytest.raises(ValueError, match=r"train.batch_size must be at most 5 \(train.limit\), got 6"):
        make_task("--train.batch_size=6", "--train.limit=5")


def drawn(task, epoch, step):
    return tuple(task.noise(epoch, step).normal(torch.zeros(4)).tolist())


def test_noise_of_each_step_is_its_own():
    task = make_task()
    steps = [(epoch, step) for epoch in range(3) for step in range(3)]
    assert len({drawn(task, *step) for step in steps}) == 9
    assert drawn(task, 1, 2) == drawn(make_task(), 1, 2) != drawn(make_task("--seed=1"), 1, 2)


def test_noise_is_shared_between_processes():
    shares = [make_task(processes=Processes(rank, 2, CPU)).noise(1, 2).normal(torch.zeros(4)) for rank in (0, 1)]
    assert torch.equal(torch.cat(shares), make_task().noise(1, 2).normal(torch.zeros(8)))


def test_noise_seeds_fit_torch():
    seeds = [noise_seed(101, seed, 0, 0) for seed in range(50)]
    assert len(set(seeds)) == 50 and all(0 <= seed < 2**63 for seed in seeds)
    assert noise_seed(1, 2, 3) == noise_seed(1, 2, 3)


def test_about():
    assert make_task().metadata() == {"image_shape": (1, 12, 14), "class_names": ("0", "1", "2")}


# Scores


class Puppet(nn.Module):
    """Gives scripted answers: image i, whose pixels are all i, gets `logits[r][i]` in rollout r, and such locations."""

    needs_boxes = False

    def __init__(self, logits, locations=None):
        super().__init__()
        self.logits = torch.as_tensor(logits)  # (R, images, T, classes)
        shape = (*self.logits.shape[:3], 2)
        self.locations = torch.zeros(shape) if locations is None else torch.as_tensor(locations).expand(shape)
        self.calls = []

    def forward(self, images, *, mode=None, sample=True, noise=None):
        index = images[:, 0, 0, 0].long()
        rollout = sum(call.index == tuple(index.tolist()) for call in self.calls) % len(self.logits)
        self.calls.append(
            SimpleNamespace(index=tuple(index.tolist()), mode=mode, sample=sample, training=self.training)
        )
        answers, places = self.logits[rollout][index], self.locations[rollout][index]
        none = torch.zeros(len(index), 0)
        return Rollout(answers, places, torch.zeros_like(places), None, none, None, None, places[..., :0])


def numbered(targets, boxes=None, num_classes=2, side=8):
    """Data whose image i has only pixels of value i."""
    images = torch.arange(len(targets), dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, side, side)
    return TinyData(images, targets, boxes, num_classes=num_classes)


def saying(*classes):
    """Logits (images, T, 2) of a puppet that is sure of these classes."""
    return nn.functional.one_hot(torch.tensor(classes), 2).float() * 4


@pytest.mark.parametrize("batch_size", [1, 3, 500])
def test_error_and_interval_after_each_glimpse(batch_size):
    puppet = Puppet(saying([0, 1, 1], [0, 0, 0], [0, 0, 1], [1, 1, 1]).unsqueeze(0))
    scores = score(puppet, numbered(torch.tensor([1, 0, 1, 1])), batch_size=batch_size)
    assert scores.as_dict() == {
        "images": 4,
        "error": [0.5, 0.25, 0.0],
        "interval": [wilson_interval(2, 4), wilson_interval(1, 4), wilson_interval(0, 4)],
    }


def test_only_the_first_images_are_scored_with_a_limit():
    puppet = Puppet(saying([0], [0], [1], [1]).unsqueeze(0))
    scores = score(puppet, numbered(torch.tensor([0, 1, 0, 0])), batch_size=2, limit=3)
    assert scores.images == 3 and scores.error == [2 / 3]


@pytest.mark.parametrize(
    "rollout_mode, sample, rollouts", [("greedy", False, 1), ("sampled", True, 1), ("averaged", True, 3)]
)
@pytest.mark.parametrize("training", [True, False])
def test_how_the_model_is_called(rollout_mode, sample, rollouts, training):
    puppet = Puppet(saying([0], [1]).unsqueeze(0)).train(training)
    score(puppet, numbered(torch.tensor([0, 1])), rollout_mode=rollout_mode, mode="soft", rollouts=3)
    assert len(puppet.calls) == rollouts and puppet.training == training
    assert all(call.sample == sample and call.mode == "soft" and not call.training for call in puppet.calls)


def test_probabilities_are_averaged_not_their_logarithms():
    """Two rollouts of three are fairly sure of class 0 and one is certain of class 1: on average 0 has 0.6."""
    probabilities = torch.tensor([[0.9, 0.1], [0.9, 0.1], [1e-9, 1 - 1e-9]], dtype=torch.float64)
    puppet = Puppet(probabilities.log().view(3, 1, 1, 2) + 5)  # logits need not be normalised
    assert probabilities.mean(0).argmax() == 0 and probabilities.log().mean(0).argmax() == 1
    assert score(puppet, numbered(torch.tensor([0])), rollout_mode="averaged", rollouts=3).error == [0]
    assert score(puppet, numbered(torch.tensor([1])), rollout_mode="averaged", rollouts=3).error == [1]


def test_probabilities_of_marks_are_averaged_too():
    probabilities = torch.tensor([[0.9, 0.2], [0.9, 0.2], [1e-9, 0.9]], dtype=torch.float64)  # 0.6 and 0.43
    puppet = Puppet(probabilities.logit().view(3, 1, 1, 2))
    assert probabilities.logit().mean(0)[0] < 0
    assert score(puppet, numbered(torch.tensor([[1.0, 0.0]])), rollout_mode="averaged", rollouts=3).error == [0]
    assert score(puppet, numbered(torch.tensor([[0.0, 0.0]])), rollout_mode="averaged", rollouts=3).error == [1]


def test_averaging_certain_answers():
    puppet = Puppet(torch.tensor([[[[200.0, -200.0]]], [[[200.0, -200.0]]]]))
    for targets in (torch.tensor([0]), torch.tensor([[1.0, 0.0]])):
        assert score(puppet, numbered(targets), rollout_mode="averaged", rollouts=2).error == [0]


BOX = torch.tensor([[[2.0, 2, 4, 4]]])  # of an image of 8 x 8: -0.5 <= x, y < 0


@pytest.mark.parametrize("batch_size", [1, 2])
def test_hits(batch_size):
    places = torch.tensor([[[[-0.5, -0.5], [0.0, -0.5]], [[-0.25, -0.25], [-0.25, -0.25]]]])
    puppet = Puppet(saying([0, 0], [0, 0]).unsqueeze(0), places)
    data = numbered(torch.tensor([0, 0]), BOX.expand(2, 1, 4))
    assert score(puppet, data, batch_size=batch_size).on_target == [1.0, 0.5]
    unknown = score(puppet, numbered(torch.tensor([0, 0])))
    assert unknown.on_target is None and "hit" not in unknown.as_dict()


def test_hits_are_averaged_over_rollouts():
    places = torch.tensor([-0.25, 0.5, 0.5, 0.5]).view(4, 1, 1, 1)
    puppet = Puppet(saying([0], [0]).expand(4, 2, 1, 2), places)
    scores = score(puppet, numbered(torch.tensor([0, 0]), BOX.expand(2, 1, 4)), rollout_mode="averaged", rollouts=4)
    assert scores.on_target == [0.25]


def real_scores(*options, **settings):
    data = TinyData(draw_bytes(60, 1, 12, 14), torch.arange(60) % 3, torch.tensor([[[3.0, 3, 9, 9]]]).expand(60, 1, 4))
    return score(tiny_model("--attention.std=0.7", *options), data, **settings)


@pytest.mark.parametrize("options", [("--read=hard",), ("--read=soft",), ("--attention.places=grid",)])
def test_greedy_scores_depend_on_nothing_else(options):
    scores = [real_scores(*options, batch_size=size, seed=seed) for size, seed in ((500, 0), (7, 0), (60, 9))]
    assert scores[0] == scores[1] == scores[2]


@pytest.mark.parametrize("first", ["center", "random"])
@pytest.mark.parametrize("rollout_mode", ["sampled", "averaged"])
def test_sampled_scores_depend_on_the_seed_alone(rollout_mode, first):
    def run(seed):
        return real_scores(f"--attention.first={first}", rollout_mode=rollout_mode, rollouts=2, seed=seed)

    with torch.random.fork_rng():
        torch.manual_seed(1)
        one = run(3)
        torch.manual_seed(2)
        assert run(3) == one
    assert run(4) != one


def test_scores_leave_the_random_state_alone():
    before = torch.get_rng_state()
    model, data = tiny_model(), TinyData(IMAGES, TARGETS)
    torch.set_rng_state(before)
    score(model, data, rollout_mode="sampled")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("rollout_mode", ["greedy", "averaged"])
def test_greedy_and_averaged_modes_differ_from_one_sample(rollout_mode):
    assert real_scores(rollout_mode=rollout_mode, rollouts=8).on_target != real_scores(rollout_mode="sampled").on_target


def test_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="rollout_mode must be .*got 'best'"):
        score(Puppet(saying([0]).unsqueeze(0)), numbered(torch.tensor([0])), rollout_mode="best")


def test_validation_and_test_are_greedy():
    task = make_task("--score.limit=7", "--score.batch_size=3")
    expected = score(task.model, TinyData(IMAGES, TARGETS), rollout_mode="greedy", limit=7)
    found = task.validate()
    assert found == expected and found.on_target is None
    assert task.validation_record(found) == {"error": expected.error[-1], "errors": expected.error, "hits": None}
    assert task.test() == score(task.model, TinyData(IMAGES, TARGETS), rollout_mode="greedy")
    assert task.test().images == 10  # whatever the limit of validation


def test_a_soft_model_can_be_scored_hard():
    boxes = torch.tensor([[[3.0, 3, 9, 9]]]).expand(10, 1, 4)
    task = make_task("--read=soft", "--score.read=hard", "--attention.std=0.7", data=TinyData(IMAGES, TARGETS, boxes))
    calls = []
    forward = task.model.forward
    task.model.forward = lambda images, **options: calls.append(options) or forward(images, **options)
    scores = task.test()
    assert {(call["mode"], call["sample"]) for call in calls} == {("hard", False)}
    assert scores.on_target == task.validate().on_target is not None


# Outcomes


def probabilities_of(logits):
    return torch.tensor(logits, dtype=torch.float64).softmax(-1)


@pytest.mark.parametrize("batch_size", [1, 2, 500])
def test_outcome_of_scripted_rollouts(batch_size):
    """Two images, two glimpses, three rollouts: answers, places and hits against a loop over all of them."""
    logits = draw(3, 2, 2, 2, seed=1) * 6 - 3
    places = draw(3, 2, 2, 2, seed=2) * 2 - 1
    places[0, 0, 0] = places[2, 1, 1] = torch.tensor([-0.25, -0.3])  # in the box of the one, of the other
    boxes = torch.tensor([[[2.0, 2, 4, 4]], [[0.0, 1, 5, 6]]])
    targets = torch.tensor([1, 0])
    outcome = evaluate_classifier(
        Puppet(logits, places), numbered(targets, boxes), rollout_mode="averaged", rollouts=3, batch_size=batch_size
    )
    assert outcome.probabilities.shape == (2, 2, 2) and outcome.correct.shape == (2, 2)
    assert outcome.locations.shape == (2, 3, 2, 2) and outcome.on_target.shape == (2, 3, 2)
    assert outcome.targets.tolist() == [1, 0]
    for image in range(2):
        x0, y0, x1, y1 = boxes[image, 0].tolist()
        for glimpse in range(2):
            mean = sum(probabilities_of(logits[rollout, image, glimpse].tolist()) for rollout in range(3)) / 3
            assert_close(outcome.probabilities[image, glimpse], mean, 1e-6)
            assert outcome.correct[image, glimpse] == (mean.argmax() == targets[image])
            for rollout in range(3):
                x, y = ((value + 1) * 4 for value in places[rollout, image, glimpse].tolist())
                assert outcome.on_target[image, rollout, glimpse] == (x0 <= x < x1 and y0 <= y < y1)
                assert torch.equal(outcome.locations[image, rollout, glimpse], places[rollout, image, glimpse])
    assert 0 < outcome.on_target.sum() < 12


@pytest.mark.parametrize("rollout_mode", ["greedy", "sampled"])
def test_outcome_of_one_rollout(rollout_mode):
    logits = draw(1, 3, 2, 2, seed=3)
    outcome = evaluate_classifier(
        Puppet(logits), numbered(torch.tensor([0, 1, 1])), rollout_mode=rollout_mode, rollouts=5, batch_size=2
    )
    assert_close(outcome.probabilities, logits[0].softmax(-1))
    assert outcome.locations.shape == (3, 1, 2, 2) and outcome.on_target is None
    assert outcome.correct.equal(logits[0].argmax(-1) == torch.tensor([[0], [1], [1]]))


def test_a_single_rollout_is_judged_before_rounding():
    """Both classes have a probability that rounds to 1 or to 1/2; the logits still tell which is meant."""
    outcome = evaluate_classifier(Puppet(torch.tensor([[[[0.0, 1e-9]]]])), numbered(torch.tensor([1])))
    assert outcome.correct.tolist() == [[True]]
    outcome = evaluate_classifier(Puppet(torch.tensor([[[[1e-9, -1e-9]]]])), numbered(torch.tensor([[1.0, 0.0]])))
    assert outcome.correct.tolist() == [[True]]


def test_answers_of_marks_are_each_a_probability():
    logits = draw(2, 3, 2, 2, seed=4) * 6 - 3
    marks = torch.tensor([[1.0, 0.0], [1, 1], [0, 0]])
    outcome = evaluate_classifier(Puppet(logits), numbered(marks), rollout_mode="averaged", rollouts=2)
    expected = logits.sigmoid().mean(0)
    assert_close(outcome.probabilities, expected)
    assert outcome.correct.equal(((expected > 0.5) == marks.bool().unsqueeze(1)).all(-1))
    assert torch.equal(outcome.targets, marks)


@pytest.mark.parametrize("rollout_mode, rollouts", [("greedy", 1), ("averaged", 3)])
def test_outcomes_have_what_the_halting_unit_says(rollout_mode, rollouts):
    model = tiny_model("--network.halt=true", "--attention.std=0.5").eval()
    outcome = evaluate_classifier(model, SOME, rollout_mode=rollout_mode, rollouts=3, batch_size=13, seed=8)
    with torch.no_grad():
        looks = [
            model(SOME.images, sample=rollout_mode != "greedy", noise=Noise(noise_seed(102, 8, 0, repeat)))
            for repeat in range(rollouts)
        ]
    assert_close(outcome.halt_probabilities, sum(look.halt_logits.sigmoid() for look in looks) / rollouts, 1e-6)
    assert evaluate_classifier(tiny_model(), SOME).halt_probabilities is None


def test_counting_an_outcome():
    right = torch.tensor([[False, True], [False, True], [True, True], [False, False]])
    hit = torch.tensor([[[True, False]] * 2, [[True, True], [False, True]], [[False, True]] * 2, [[False, True]] * 2])
    outcome = ClassifierOutcome(torch.zeros(4, 2, 3), torch.zeros(4), right, torch.zeros(4, 2, 2, 2), hit)
    assert ClassificationScores.of(outcome).as_dict() == {
        "images": 4,
        "error": [0.75, 0.25],
        "interval": [wilson_interval(3, 4), wilson_interval(1, 4)],
        "hit": [3 / 8, 6 / 8],
    }
    assert ClassificationScores.of(outcome._replace(on_target=None)).as_dict().keys() == {"images", "error", "interval"}


SOME = TinyData(draw_bytes(13, 1, 12, 14), torch.arange(13) % 3, torch.tensor([[[3.0, 3, 9, 9]]]).expand(13, 1, 4))
KINDS = [
    ("--read=hard",),
    ("--read=soft",),
    ("--read=hard", "--attention.places=grid"),
    ("--read=hard", "--attention.policy=raster"),
    ("--read=hard", "--attention.policy=oracle"),
    ("--model=fc",),
    ("--model=cnn",),
]


@pytest.mark.parametrize("options", KINDS, ids=lambda options: " ".join(options))
@pytest.mark.parametrize("training", [True, False])
def test_greedy_outcomes_do_not_depend_on_the_batches(options, training):
    model = tiny_model("--attention.std=0.5", *options).train(training)
    whole = evaluate_classifier(model, SOME, batch_size=13)
    assert model.training == training
    for size in (1, 4):
        found = evaluate_classifier(model, SOME, batch_size=size)
        assert_close(found.probabilities, whole.probabilities, 1e-6)
        assert_close(found.locations, whole.locations, 1e-5)
        assert found.correct.equal(whole.correct) and found.targets.equal(SOME.targets)
    few = evaluate_classifier(model, SOME, batch_size=4, limit=6)
    assert len(few.correct) == 6 and few.correct.equal(whole.correct[:6])


@pytest.mark.parametrize("options", KINDS, ids=lambda options: " ".join(options))
def test_scores_equal_a_loop_over_the_images(options):
    model = tiny_model("--attention.std=0.5", *options).eval()
    wrong, on_digit = 0, 0
    for index in range(13):
        image, target, box = (field[index : index + 1] for field in (SOME.images, SOME.targets, SOME.boxes))
        told = {"boxes": box} if "--attention.policy=oracle" in options else {}
        with torch.no_grad():
            rollout = model(image, sample=False, **told)
        wrong = wrong + (rollout.logits[0].argmax(-1) != target).long()
        x, y = ((rollout.locations[0] + 1) * torch.tensor([7.0, 6.0])).unbind(1)
        on_digit = on_digit + ((x >= 3) & (x < 9) & (y >= 3) & (y < 9)).long()
    scores = score(model, SOME, batch_size=5)
    assert scores.images == 13 and scores.error == [count / 13 for count in wrong.tolist()]
    if options[0].startswith("--model"):
        assert scores.on_target is None
    else:
        assert scores.on_target == pytest.approx([count / 13 for count in on_digit.tolist()])


@pytest.mark.parametrize("rollout_mode, rollouts", [("sampled", 1), ("averaged", 3)])
def test_sampled_outcomes_are_rollouts_with_noise_of_their_own(rollout_mode, rollouts):
    """Repeated by hand: rollout r of batch i has a seed made of the seed given, i and r."""
    model = tiny_model("--attention.std=0.5").eval()
    outcome = evaluate_classifier(model, SOME, rollout_mode=rollout_mode, rollouts=3, batch_size=5, seed=8)
    for index, start in enumerate((0, 5, 10)):
        rows = slice(start, start + 5)
        with torch.no_grad():
            looks = [
                model(SOME.images[rows], noise=Noise(noise_seed(102, 8, index, repeat))) for repeat in range(rollouts)
            ]
        assert_close(outcome.probabilities[rows], sum(look.logits.softmax(-1) for look in looks) / rollouts, 1e-6)
        for repeat, look in enumerate(looks):
            assert torch.equal(outcome.locations[rows, repeat], look.locations)
    assert len(outcome.locations[:, :, 1].flatten(0, 1).unique(dim=0)) == 13 * rollouts


def test_random_controls_look_elsewhere_in_each_rollout():
    model = tiny_model("--attention.policy=random")
    places = evaluate_classifier(model, SOME, rollout_mode="averaged", rollouts=3).locations
    assert len(places.view(-1, 2).unique(dim=0)) == 13 * 3 * 3
    greedy = [
        evaluate_classifier(model, SOME, seed=seed).locations for seed in (0, 0, 1)
    ]  # greedy, but still at random places
    assert torch.equal(greedy[0], greedy[1]) and not torch.equal(greedy[0], greedy[2])
