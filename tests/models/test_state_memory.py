"""Memory: the states so far are looked up, none ahead of its time, and by the same steps wherever the model answers."""

from itertools import product

import pytest
import torch
from support.pairs import pairs
from support.tensors import TinyData, assert_close, draw, draw_bytes, make_task, reached, tiny_model, under

from glimpse import losses
from glimpse.attention.distributions import Noise
from glimpse.attention.scorers import SCORERS
from glimpse.attention.state_memory import StateMemory
from glimpse.envs import GlimpseVectorEnv, env_options, play
from glimpse.models.rollout import State
from glimpse.tasks.train_settings import TrainSettings
from glimpse.training.optimizer import make_optimizer

IMAGES, TARGETS = draw_bytes(5, 1, 12, 14), torch.arange(5) % 3
ATTEND = "--network.readout=attend"
CORES = ("rnn", "gru", "lstm")


@pairs(read=("hard", "soft"), core=CORES, scorer=SCORERS)
def test_logits_depend_on_the_state_and_the_memory(read, core, scorer):
    """Against a loop that keeps all states, scores each of them alone, and takes the weighted sum."""
    model = tiny_model(ATTEND, f"--read={read}", f"--network.core={core}", f"--attention.scorer={scorer}")
    rollout = model(IMAGES, noise=Noise(1))
    state, states, net = model.core.initial(5), [], model.recall.scorer
    for t in range(3):
        state = model.core(rollout.glimpse_vectors[:, t], state)
        states.append(state[0])
        scores = torch.stack([net(state[0], net.key(past).unsqueeze(1)).squeeze(1) for past in states], 1)
        weights = scores.softmax(1)
        context = sum(weights[:, i].unsqueeze(1) * net.value(past) for i, past in enumerate(states))
        assert_close(model.classify(torch.cat([state[0], context], 1)), rollout.logits[:, t], 1e-5)
        assert_close(rollout.memory_weights[:, t, : t + 1], weights, 1e-6)
        assert not rollout.memory_weights[:, t, t + 1 :].any()
    assert_close(rollout.memory_weights.sum(-1), torch.ones(5, 3), 1e-6)
    assert (rollout.memory_weights[:, 2].std(1) > 1e-4).all()  # else the mean of all states would do as well


def test_memory_is_causal():
    model, glimpses = tiny_model(ATTEND), draw(5, 4, 12)
    whole = model.classify_glimpses(glimpses)
    for t in range(1, 4):
        assert torch.equal(model.classify_glimpses(glimpses[:, :t]), whole[:, :t])
        other = glimpses.clone()
        other[:, t:] += 1
        assert torch.equal(model.classify_glimpses(other)[:, :t], whole[:, :t])
        assert (model.classify_glimpses(other)[:, t:] != whole[:, t:]).any(-1).all()


def test_memory_keeps_what_the_state_forgets():
    """With a core whose state is the last glimpse alone, only the memory depends on earlier glimpses."""
    model, glimpses = tiny_model(ATTEND, "--network.core=rnn"), draw(5, 3, 12)
    forgetful = tiny_model("--network.core=rnn")
    for its in (model, forgetful):
        torch.nn.init.zeros_(its.core.cell.weight_hh)
    other = glimpses.clone()
    other[:, 0] += 1
    assert torch.equal(forgetful.classify_glimpses(other)[:, -1], forgetful.classify_glimpses(glimpses)[:, -1])
    assert (model.classify_glimpses(other)[:, -1] - model.classify_glimpses(glimpses)[:, -1]).abs().amax(1).min() > 1e-4


def test_memory_reads_are_soft_and_draw_no_noise():
    """A hard model with memory samples the places of one without, if all else is the same."""
    model, plain = tiny_model(ATTEND), tiny_model()
    plain.load_state_dict({**model.state_dict(), "classify.weight": model.classify.weight[:, :10]}, strict=False)
    one, other = model(IMAGES, noise=Noise(3)), plain(IMAGES, noise=Noise(3))
    assert torch.equal(one.locations, other.locations) and torch.equal(one.log_probs, other.log_probs)
    assert model.mode == "hard" and model.recall.mode == "soft" and other.memory_weights is None


def test_a_model_plays_its_own_rollout():
    for core in CORES:
        model = tiny_model(ATTEND, "--network.halt=true", f"--network.core={core}")
        data = TinyData(IMAGES, TARGETS)
        envs = GlimpseVectorEnv(num_envs=5, data=data, split="test", **env_options(model))
        played = play(model, envs, options={"index": torch.arange(5).numpy()})
        with torch.no_grad():
            rollout = model(IMAGES, sample=False)
        assert torch.equal(played.logits, rollout.logits) and torch.equal(played.locations, rollout.locations)


@pytest.mark.parametrize("read, places", list(product(("hard", "soft"), ("plane", "grid"))))
def test_gradients(read, places):
    """Cross-entropy trains the memory, but not the attention of hard reads."""
    model = tiny_model(ATTEND, f"--read={read}", f"--attention.places={places}")
    rollout = model(IMAGES, noise=Noise(0))
    rest = ("recall", "classify", "core", "glimpses.network")
    expected = under(model, *rest) | (under(model, "glimpses.attention") if read == "soft" else set())
    assert reached(losses.cross_entropy(rollout.logits, TARGETS), model) == expected
    if read == "hard":
        chosen = losses.reinforce(rollout.log_probs, torch.ones_like(rollout.log_probs))
        assert not reached(chosen, model) & under(model, "recall")  # the policy does not depend on it


def test_memory_has_the_full_learning_rate():
    """The learning-rate multiplier applies to the attention that places glimpses only."""
    for places in ("plane", "grid"):
        model = tiny_model(ATTEND, f"--attention.places={places}")
        names = {parameter: name for name, parameter in model.named_parameters()}
        groups = make_optimizer(model, TrainSettings(attention_lr_mult=0.25)).param_groups
        found = {group["lr_mult"]: {names[parameter] for parameter in group["params"]} for group in groups}
        assert found[0.25] == under(model, "glimpses.attention")
        assert found[1.0] == under(model, "") - found[0.25] >= under(model, "recall")


def test_every_parameter_learns():
    task = make_task(ATTEND, "--network.halt=true", data=TinyData(IMAGES, TARGETS))
    assert task.every_parameter_has_gradient
    terms = task.loss_terms(task.model, next(iter(task.batches(0))), Noise(0))
    assert reached(sum(weight * value for weight, value in terms.values()), task.model) == under(task.model, "")


def test_rows_of_a_state():
    recall, states = StateMemory(state_dim=4, dim=3), draw(6, 3, 4)
    memory = None
    for t in range(3):
        memory = recall.append(memory, states[:, t])
    together = recall.annotate(states)
    assert_close(memory.keys, together.keys)
    assert_close(memory.values, together.values)
    assert memory.mask is None
    state = State((states[:, 0], states[:, 1]), memory, states[:, 2], states[:, 2, 0], None)
    index = torch.tensor([4, 1])
    some = state.rows(index)
    assert [part.tolist() for part in some.core] == [part[index].tolist() for part in state.core]
    assert torch.equal(some.memory.keys, memory.keys[index]) and torch.equal(some.memory.values, memory.values[index])
    assert torch.equal(some.logits, state.logits[index]) and torch.equal(some.halt_logits, state.halt_logits[index])
    assert some.memory_weights is None and State(state.core).rows(index).memory is None
    masked = recall.annotate(states, torch.tensor([[True, True, False]]).expand(6, 3)).rows(index)
    assert masked.mask.tolist() == [[True, True, False]] * 2
