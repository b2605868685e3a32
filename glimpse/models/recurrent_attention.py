"""The recurrent attention model: take T glimpses, answer after each.

Recurrent Models of Visual Attention (arXiv:1406.6247). The same loop serves training, validation, test and pictures,
hard and soft, points of the plane and a grid of glimpses encoded once (`glimpses.py`).

Where each glimpse is, a policy decides. Of T glimpses of a `LearnedPolicy` the first is usually placed by a rule (the
center, or a random place) and T - 1 are chosen; only these have a log-probability and a baseline. Without a rule for
the first all T are chosen; of a `FixedPolicy`, a control, none is.

The answer is made from the last state, or together with what is read from the memory of all states so far
(`StateMemory`); where to look next is up to the last state alone. A halting unit may say after each glimpse how
probably the answer will do, and `early_exit.stop_early` stops there, or where the answer is certain enough, and
computes no more.

Shapes: B batch, T glimpses, N of them chosen, P numbers of a location (2 on the plane), D state, E glimpse vector.
"""

from collections.abc import Callable, Iterable, Sequence
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
from glimpse.models.glimpses import GridGlimpses, PlaneGlimpses, RecurrentCore
from glimpse.models.rollout import GlimpseStep, Policy, Rollout, Scene, State

HALT_DIM = 64  # hidden size of the halting unit


@dataclass(frozen=True)
class FixedPolicy:
    """Places that nobody chose, by a rule: a control, or the first glimpse of a learned policy."""

    rule: PlacementRule
    glimpses: PlaneGlimpses | GridGlimpses = field(repr=False)  # the model's own submodule
    detach_state = False

    @property
    def name(self) -> str:
        """The name of the rule."""
        return self.rule.name

    @property
    def first_rule(self) -> PlacementRule:
        """The rule, which places all glimpses."""
        return self.rule

    def num_choices(self, num_glimpses: int) -> int:
        """None is chosen."""
        return 0

    def __call__(self, t: int, state: State, scene: Scene) -> Reading[Any]:
        """Take glimpse t where the rule says, or the scene's own locations."""
        location = self.rule(t, scene) if scene.locations is None else scene.locations[:, t]
        return read(self.glimpses.attention_at(scene.memory, location), scene.memory, scene.mode, sample=False)


@dataclass(frozen=True)
class LearnedPolicy:
    """Places that the model's attention chooses."""

    attention: LocationAttention | Attention = field(repr=False)  # the model's own submodule
    first: FixedPolicy | None  # None: the first glimpse is chosen too, by a learned initial state
    detach_state: bool = False
    name = "learned"

    @property
    def first_rule(self) -> PlacementRule | None:
        """The rule of the first glimpse."""
        return None if self.first is None else self.first.rule

    def num_choices(self, num_glimpses: int) -> int:
        """All are chosen, but for a first glimpse that is placed by a rule."""
        return num_glimpses - (self.first is not None)

    def __call__(self, t: int, state: State, scene: Scene) -> Reading[Any]:
        """Take glimpse t where the attention chooses, given the state."""
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
    """Takes T glimpses of an image and answers after each; a `rollout.Classifier`."""

    attends = True

    def __init__(
        self,
        *,
        glimpses: PlaneGlimpses | GridGlimpses,
        core: RecurrentCore,
        num_classes: int,
        num_glimpses: int,
        policy: Policy | None = None,
        baseline: bool = True,
        recall: StateMemory | None = None,
        halt: bool = False,
        average_reward: bool = False,
    ):
        """Join the parts.

        Args:
            glimpses: How and where to look.
            core: The recurrent network. If the first glimpse is chosen too it must learn its initial state.
            num_classes: Number of classes.
            num_glimpses: Number T of glimpses.
            policy: Where to look: a `LearnedPolicy` of the attention of `glimpses`, or a `FixedPolicy`; if not given,
                the former, with the first glimpse at the center.
            baseline: Whether a learned baseline predicts the return before each choice.
            recall: Memory of all states, to answer from them; without it, from the last state.
            halt: Whether a unit says after each glimpse how probably the answer will do. It sees the state cut off from
                the graph: it judges the model and does not shape it.
            average_reward: Whether to keep the running mean of the reward, for a baseline.
        """
        super().__init__()
        if num_glimpses < 1:
            raise ValueError(f"num_glimpses must be at least 1, got {num_glimpses}")
        if policy is None:
            policy = LearnedPolicy(glimpses.attention, FixedPolicy(RULES["center"], glimpses))
        if isinstance(policy, LearnedPolicy) and policy.attention is not glimpses.attention:
            raise ValueError("a learned policy must be of the attention of the model's own glimpses")
        if policy.first_rule is None and core.initial_output is None:
            raise ValueError("a policy that chooses the first glimpse needs a core with learn_initial=True")
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

    @property
    def mode(self) -> ReadMode:
        """How the model reads unless told otherwise."""
        return self.glimpses.attention.mode

    @property
    def num_choices(self) -> int:
        """How many of the glimpses the model chooses, the last ones."""
        return self.policy.num_choices(self.num_glimpses)

    @property
    def needs_boxes(self) -> bool:
        """Whether the policy must be given the boxes of the digits."""
        return self.policy.first_rule is not None and self.policy.first_rule.needs_boxes

    @property
    def is_random(self) -> bool:
        """Whether glimpses are placed at random even where nothing is sampled."""
        return self.policy.first_rule is not None and self.policy.first_rule.is_random

    @property
    def first(self) -> str:
        """What places the first glimpse: the name of a rule, or "learned"."""
        return self.policy.name if self.policy.first_rule is None else self.policy.first_rule.name

    def attention_parameters(self) -> list[nn.Parameter]:
        """The parameters that decide where to look."""
        return list(self.glimpses.attention.parameters())

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
        """Take T glimpses.

        Args:
            images: (B, C, H, W), floating point in [0, 1] or uint8.
            mode: Read hard or soft; the model's own mode if not given.
            sample: Whether hard reads sample their places, or take the most likely ones (greedy).
            noise: The random numbers to sample with; also places a random first glimpse.
            boxes: (B, N, 4), of the digits, in pixels: for the oracle, and of no effect on anyone else.
            locations: (B, T, P), where those glimpses are that the model does not choose, instead of by its rule: to
                look again as another rollout did, whose `locations` these may be.
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
        """Make images ready for a rollout; for the arguments see `forward`."""
        mode, dtype = mode or self.mode, self.classify.weight.dtype
        images = images.to(dtype) if images.is_floating_point() else images
        memory = self.glimpses.prepare(
            images,
            num_reads=self.num_glimpses if mode == "hard" else 0,
            detach=mode == "hard" and self.policy.detach_state,
        )
        return Scene(
            images, memory, self.num_glimpses, dtype, mode, sample, straight_through, noise or Noise(), boxes, locations
        )

    def initial_state(self, batch: int) -> State:
        """The state before the first glimpse."""
        return State(self.core.initial(batch))

    def look(self, t: int, state: State, scene: Scene) -> GlimpseStep:
        """Take glimpse t, from 0: decide where, read there, encode it, take it in, answer."""
        reading = self.policy(t, state, scene)
        glimpse = self.glimpses.encode(reading)
        return GlimpseStep(state, reading, glimpse, self.step(glimpse.vector, state))

    def step(self, glimpse: Tensor, state: State) -> State:
        """Take in a glimpse vector (B, E), and answer."""
        core = self.core(glimpse, state.core)
        features, memory, weights = core[0], None, None
        if self.recall is not None:  # answer from all states so far, not from the last alone
            memory = self.recall.append(state.memory, core[0])
            reading = self.recall(core[0], memory)
            features, weights = torch.cat([core[0], reading.context], -1), reading.attention.weights
        halt = None if self.halt is None else self.halt(features.detach()).squeeze(-1)
        return State(core, memory, self.classify(features), halt, weights)

    def classify_glimpses(self, vectors: Tensor) -> Tensor:
        """Answer from glimpse vectors alone: the core and the classifier, without the looking.

        Args:
            vectors: (B, T, E), as in `Rollout.glimpse_vectors`.

        Returns:
            Logits (B, T, classes) after each glimpse; for those of a rollout, the logits of that rollout.
        """
        state = self.initial_state(len(vectors))
        logits = []
        for vector in vectors.unbind(1):
            state = self.step(vector, state)
            logits.append(state.logits)
        return stack_steps(logits)


def stack_rollout(
    steps: Sequence[GlimpseStep],
    *,
    num_choices: int,
    baseline: Callable[[Tensor], Tensor] | None = None,
) -> Rollout:
    """Stack the steps of a rollout.

    Args:
        steps: T of them, at least one.
        num_choices: How many of the places were chosen, the last N.
        baseline: From the state (B, D) before a choice to the return (B, 1) that is expected of it.
    """
    chosen = steps[len(steps) - num_choices :]
    states, glimpses = [step.state for step in steps], [step.glimpse for step in steps]
    batch, empty = len(glimpses[0].vector), glimpses[0].vector.new_zeros(0)

    def of_choices(columns: list[Tensor | None]) -> Tensor:
        return stack_steps(columns) if columns else empty.view(batch, 0)

    is_soft = steps[0].reading.log_prob is None
    on_grid, has_unit, has_memory = (
        its is not None for its in (glimpses[0].attention_weights, states[0].halt_logits, states[0].memory_weights)
    )
    return Rollout(
        logits=stack_steps(state.logits for state in states),
        locations=torch.stack([glimpse.location for glimpse in glimpses], 1),
        stds=torch.stack([glimpse.std for glimpse in glimpses], 1),
        log_probs=None if is_soft else of_choices([step.reading.log_prob for step in chosen]),
        entropies=of_choices([step.reading.attention.entropy() for step in chosen]),
        # Step by step, as one product of all steps would round otherwise; and of a state that is cut off from the
        # graph: the baseline must judge the state, not shape it.
        baselines=None
        if baseline is None
        else of_choices([baseline(step.before.core[0].detach()).squeeze(-1) for step in chosen]),
        attention_weights=stack_steps(its.attention_weights for its in glimpses) if on_grid else None,
        glimpse_vectors=torch.stack([glimpse.vector for glimpse in glimpses], 1),
        halt_logits=stack_steps(state.halt_logits for state in states) if has_unit else None,
        memory_weights=stack_steps(
            its if its is None else F.pad(its, (0, len(steps) - t))
            for t, its in enumerate((state.memory_weights for state in states), 1)
        )
        if has_memory
        else None,
    )


def stack_steps(columns: Iterable[Tensor | None]) -> Tensor:
    """What T steps gave (B, ...) as one tensor (B, T, ...); of each step there is something."""
    return torch.stack([column for column in columns if column is not None], 1)
