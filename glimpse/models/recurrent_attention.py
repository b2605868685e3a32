"""The recurrent attention model: a recurrent network that classifies an image from T glimpses.

Recurrent Models of Visual Attention (arXiv:1406.6247). Each step of the rollout (`RecurrentAttention.look`):

1. the policy computes a distribution over locations from the hidden state, and reads a glimpse from it (`policy`);
2. the glimpse network encodes what was read and where into a glimpse vector (`glimpses`);
3. the recurrent core updates the hidden state (`core`), and a linear layer predicts class logits (`classify`).

Training, evaluation and the drawings all run this loop, with hard or soft reads, at points of the plane or at the cells
of a grid (`glimpses.py`).

Policies: a `LearnedPolicy` places the first glimpse by a rule (the center or a random location) and the other T - 1 by
attention; without a rule it places all T by attention, beginning with a learned initial state. A `FixedPolicy`, a
control, places all of them by a rule. Only the N glimpses placed by attention, the choices, have a log-probability and
a baseline.

Options: with a `StateMemory`, logits are predicted from the last hidden state and a context vector read from all states
so far; the policy still uses the last state only. A halting unit predicts after each glimpse the probability of
stopping there; `early_exit.stop_early` can stop by it.

Shapes: B batch, T glimpses, N choices, P numbers of a location (2 on the plane), D state, E glimpse vector.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glimpse.attention.annotation import Attention
from glimpse.attention.distributions import Noise
from glimpse.attention.placement import RULES, PlacementRule
from glimpse.attention.reading import LocationAttention, Reading, read, renamed_keywords
from glimpse.attention.settings import ReadMode
from glimpse.attention.state_memory import StateMemory
from glimpse.models.glimpses import Glimpses, RecurrentCore
from glimpse.models.rollout import GlimpseStep, Policy, Rollout, Scene, State

HALT_DIM = 64  # hidden size of the halting unit


@dataclass(frozen=True)
class FixedPolicy:
    """Places glimpses by a rule: a control, or the first glimpse of a learned policy."""

    rule: PlacementRule
    glimpses: Glimpses = field(repr=False)  # the model's own submodule
    detach_state = False

    @property
    def name(self) -> str:
        """The name of the rule."""
        return self.rule.name

    @property
    def first_rule(self) -> PlacementRule:
        """The rule, which places every glimpse."""
        return self.rule

    def num_choices(self, num_glimpses: int) -> int:
        """Return 0: attention places no glimpse."""
        return 0

    def __call__(self, t: int, state: State, scene: Scene) -> Reading[Any]:
        """Read glimpse t where the rule places it, or at the location that the scene prescribes."""
        location = self.rule(t, scene) if scene.locations is None else scene.locations[:, t]
        return read(self.glimpses.attention_at(scene.memory, location), scene.memory, scene.mode, sample=False)


@dataclass(frozen=True)
class LearnedPolicy:
    """Places glimpses by the model's attention."""

    attention: LocationAttention | Attention = field(repr=False)  # the model's own submodule
    first: FixedPolicy | None  # None: attention places the first glimpse too, from a learned initial state
    detach_state: bool = False  # whether the gradient of hard choices stops at the attention
    name = "learned"

    @property
    def first_rule(self) -> PlacementRule | None:
        """The rule of the first glimpse; None if attention places it."""
        return None if self.first is None else self.first.rule

    def num_choices(self, num_glimpses: int) -> int:
        """Return the number of glimpses, without a first one that is placed by a rule."""
        return num_glimpses - (self.first is not None)

    def __call__(self, t: int, state: State, scene: Scene) -> Reading[Any]:
        """Read glimpse t from the attention that the state gives."""
        if t == 0 and self.first is not None:
            return self.first(t, state, scene)
        output = state.core[0].detach() if self.detach_state and scene.mode == "hard" else state.core[0]
        return self.attention(
            output,
            scene.memory,
            mode=scene.mode,
            sample=scene.sample,
            noise=scene.noise,
            straight_through=scene.straight_through,
        )


class RecurrentAttention(nn.Module):
    """Classifies an image after each of T glimpses."""

    attends = True

    def __init__(
        self,
        *,
        glimpses: Glimpses,
        core: RecurrentCore,
        num_classes: int,
        num_glimpses: int,
        policy: Policy | None = None,
        baseline: bool = True,
        recall: StateMemory | None = None,
        halt: bool = False,
        average_reward: bool = False,
    ):
        """Assemble the model.

        Args:
            glimpses: Sensor, glimpse network and attention.
            core: The recurrent network; needs a learned initial state if attention places the first glimpse.
            num_classes: Number of classes.
            num_glimpses: Number T of glimpses.
            policy: A `LearnedPolicy` of the attention of `glimpses`, or a `FixedPolicy`; None: a learned policy with
                the first glimpse at the center.
            baseline: Whether a linear layer predicts the return before each choice.
            recall: Attention over all hidden states so far, as input of the classifier; None: the last state only.
            halt: Whether a halting unit predicts the probability of stopping after each glimpse. Its input is detached:
                it does not shape the state.
            average_reward: Whether to keep the running mean of the reward, for a baseline.
        """
        super().__init__()
        if num_glimpses < 1:
            raise ValueError(f"num_glimpses must be at least 1, got {num_glimpses}")
        if policy is None:
            policy = LearnedPolicy(glimpses.attention, FixedPolicy(RULES["center"], glimpses))
        if isinstance(policy, LearnedPolicy) and policy.attention is not glimpses.attention:
            raise ValueError("a learned policy must use the attention of the model's own glimpses, got another one")
        if policy.first_rule is None and core.initial_output is None:
            raise ValueError("core must have learn_initial=True if the policy learns the first location, got False")
        self.glimpses = glimpses
        self.core = core
        self.num_glimpses = num_glimpses
        self.policy: Policy = policy
        features = core.state_dim * (1 if recall is None else 2)
        self.classify = nn.Linear(features, num_classes)
        self.baseline = nn.Linear(core.state_dim, 1) if baseline else None
        self.recall = recall
        self.halt = nn.Sequential(nn.Linear(features, HALT_DIM), nn.ReLU(), nn.Linear(HALT_DIM, 1)) if halt else None
        if average_reward:
            self.register_buffer("average_reward", torch.tensor(torch.inf))  # infinite before the first batch

    @renamed_keywords(how="mode", given="locations")
    def forward(
        self,
        images: Tensor,
        *,
        mode: ReadMode | None = None,
        sample: bool = True,
        noise: Noise | None = None,
        boxes: Tensor | None = None,
        locations: Tensor | None = None,
        straight_through: bool = False,
    ) -> Rollout:
        """Take T glimpses, and predict class logits after each.

        Args:
            images: (B, C, H, W), floating point in [0, 1] or uint8.
            mode: Read mode, "hard" or "soft"; None: the model's own mode.
            sample: Whether hard reads sample their location, or take the most likely one (greedy).
            noise: Random numbers of sampling and of a random first glimpse; None: from torch's global generator.
            boxes: (B, N, 4), of the digits in pixels; only the oracle policy uses them.
            locations: (B, T, P), where to take the glimpses that are not choices; None: where their rule places them.
                To repeat the first glimpse of another rollout, pass its `locations`.
            straight_through: Whether hard reads have the gradient of soft ones (see `attention.reading.read`).
        """
        scene = self.prepare(
            images,
            mode=mode,
            sample=sample,
            noise=noise,
            boxes=boxes,
            locations=locations,
            straight_through=straight_through,
        )
        state, steps = self.initial_state(len(images)), []
        for t in range(self.num_glimpses):
            step = self.look(t, state, scene)
            steps.append(step)
            state = step.state
        return stack_rollout(steps, num_choices=self.num_choices, baseline=self.baseline)

    def look(self, t: int, state: State, scene: Scene) -> GlimpseStep:
        """Take glimpse t (from 0): choose a location, read there, encode the glimpse, update the state."""
        reading = self.policy(t, state, scene)
        glimpse = self.glimpses.encode(reading)
        return GlimpseStep(state, reading, glimpse, self.step(glimpse.vector, state))

    def step(self, glimpse: Tensor, state: State) -> State:
        """Update the state with a glimpse vector (B, E), and predict class logits."""
        core = self.core(glimpse, state.core)
        features, memory, weights = core[0], None, None
        if self.recall is not None:  # classify from the last state and a context vector of all states so far
            memory = self.recall.append(state.memory, core[0])
            reading = self.recall(core[0], memory)
            features, weights = torch.cat([core[0], reading.context], -1), reading.attention.weights
        halt = None if self.halt is None else self.halt(features.detach()).squeeze(-1)
        return State(core, memory, self.classify(features), halt, weights)

    def prepare(
        self,
        images: Tensor,
        *,
        mode: ReadMode | None = None,
        sample: bool = True,
        noise: Noise | None = None,
        boxes: Tensor | None = None,
        locations: Tensor | None = None,
        straight_through: bool = False,
    ) -> Scene:
        """Prepare images for the steps of a rollout; for the arguments see `forward`."""
        mode, dtype = mode or self.mode, self.classify.weight.dtype
        images = images.to(dtype) if images.is_floating_point() else images
        memory = self.glimpses.prepare(
            images,
            num_reads=self.num_glimpses if mode == "hard" else 0,
            detach=mode == "hard" and self.policy.detach_state,
        )
        options = (mode, sample, straight_through, noise or Noise(), boxes, locations, self.glimpses.location_dim)
        return Scene(images, memory, self.num_glimpses, dtype, *options)

    def initial_state(self, batch: int) -> State:
        """The state before the first glimpse."""
        return State(self.core.initial(batch))

    def classify_glimpses(self, vectors: Tensor) -> Tensor:
        """Predict class logits from given glimpse vectors: the core and the classifier, without attention.

        Args:
            vectors: (B, T, E), as in `Rollout.glimpse_vectors`.

        Returns:
            Logits (B, T, classes) after each glimpse; for the vectors of a rollout, the logits of that rollout.
        """
        state = self.initial_state(len(vectors))
        logits = []
        for vector in vectors.unbind(1):
            state = self.step(vector, state)
            logits.append(state.logits)
        return stack_steps(logits)

    @property
    def attention(self) -> LocationAttention | Attention:
        """The attention that places glimpses."""
        return self.glimpses.attention

    @property
    def mode(self) -> ReadMode:
        """The read mode of a rollout unless it is given another."""
        return self.glimpses.attention.mode

    @property
    def num_choices(self) -> int:
        """Number N of glimpses that attention places; they are the last ones."""
        return self.policy.num_choices(self.num_glimpses)

    @property
    def needs_boxes(self) -> bool:
        """Whether the policy needs the boxes of the digits."""
        return self.policy.first_rule is not None and self.policy.first_rule.needs_boxes

    @property
    def is_random(self) -> bool:
        """Whether a rule places glimpses at random, even if no choice is sampled."""
        return self.policy.first_rule is not None and self.policy.first_rule.is_random

    @property
    def first(self) -> str:
        """How the first glimpse is placed: the name of a rule, or "learned"."""
        return self.policy.name if self.policy.first_rule is None else self.policy.first_rule.name

    def attention_parameters(self) -> list[nn.Parameter]:
        """The parameters of the attention that places glimpses."""
        return list(self.glimpses.attention.parameters())


def stack_rollout(
    steps: Sequence[GlimpseStep],
    *,
    num_choices: int,
    baseline: Callable[[Tensor], Tensor] | None = None,
) -> Rollout:
    """Stack the steps of a rollout.

    Args:
        steps: T of them, at least one.
        num_choices: Number N of glimpses placed by attention, the last ones.
        baseline: Maps the state (B, D) before a choice to the expected return (B, 1); None: no baseline.
    """
    choices = steps[len(steps) - num_choices :]
    states, glimpses = [step.state for step in steps], [step.glimpse for step in steps]
    is_soft = steps[0].reading.log_prob is None
    no_choices = glimpses[0].vector.new_zeros(len(glimpses[0].vector), 0)

    def stack_choices(columns: list[Tensor | None]) -> Tensor:
        return stack_steps(columns) if columns else no_choices

    return Rollout(
        logits=stack_steps([state.logits for state in states]),
        locations=stack_steps([glimpse.location for glimpse in glimpses]),
        stds=stack_steps([glimpse.std for glimpse in glimpses]),
        log_probs=None if is_soft else stack_choices([step.reading.log_prob for step in choices]),
        entropies=stack_choices([step.reading.attention.entropy() for step in choices]),
        # One step at a time, as a batched product would round differently. The state is detached: the baseline must
        # not shape it.
        baselines=None
        if baseline is None
        else stack_choices([baseline(step.before.core[0].detach()).squeeze(-1) for step in choices]),
        attention_weights=_stack_optional([glimpse.attention_weights for glimpse in glimpses]),
        glimpse_vectors=stack_steps([glimpse.vector for glimpse in glimpses]),
        halt_logits=_stack_optional([state.halt_logits for state in states]),
        memory_weights=None
        if states[0].memory_weights is None
        else stack_steps(  # padded with zeros for the states to come
            [F.pad(w, (0, len(steps) - w.shape[1])) for state in states if (w := state.memory_weights) is not None]
        ),
    )


def stack_steps(columns: Sequence[Tensor | None]) -> Tensor:
    """Stack a tensor (B, ...) of each of T steps, none of them None, as (B, T, ...)."""
    return torch.stack([column for column in columns if column is not None], 1)


def _stack_optional(columns: Sequence[Tensor | None]) -> Tensor | None:
    """Stack a tensor of each step; None if the model makes no such tensor."""
    return None if columns[0] is None else stack_steps(columns)
