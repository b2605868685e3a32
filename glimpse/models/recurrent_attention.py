"""The recurrent attention model: look T times, answer after each look.

Recurrent Models of Visual Attention (arXiv:1406.6247). The same loop serves training, validation, test and pictures,
hard and soft, points of the plane and a grid of glimpses encoded once (`glimpses.py`).

Of T glimpses the first is given (the centre, or a random place) and T - 1 are chosen; only these have a
log-probability and a baseline. With a learned first glimpse all T are chosen; in a control (`policy` other than
"learned") none is.

The answer is made from the last state, or together with what is recalled of all states so far (`thought.Recall`); where
to look next is up to the last state alone. A halting unit may say after each glimpse whether the answer will do, and
`lazy` stops there, or where the answer is certain enough, and computes no more.

Shapes: B batch, T glimpses, N of them chosen, D state, L cells of the grid.
"""

from typing import Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glimpse.attention import Annotations, Read, Reading, read
from glimpse.controls import check_rule, place
from glimpse.glimpses import GridGlimpses, PlaneGlimpses
from glimpse.metrics import confidence
from glimpse.networks import RecurrentCore
from glimpse.places import Noise
from glimpse.sensor import View
from glimpse.thought import Recall, Thought

First = Literal["centre", "random", "learned"]
Policy = Literal["learned", "centre", "random", "raster", "oracle"]
StopBy = Literal["confidence", "halting"]
HALT_DIM = 64  # hidden size of the halting unit


class Rollout(NamedTuple):
    """All that happened while looking T times."""

    logits: Tensor  # (B, T, classes): the answer after each glimpse
    locations: Tensor  # (B, T, 2): where each glimpse was; soft: the mean
    stds: Tensor  # (B, T, 2): how wide the attention was
    log_probs: Tensor | None  # (B, N): of the places chosen; None when soft
    entropies: Tensor  # (B, N): of the distributions they were chosen from
    baselines: Tensor | None  # (B, N): expected return before each choice; None without a baseline
    weights: Tensor | None  # (B, T, L): attention over the cells of a grid; None on the plane
    glimpses: Tensor  # (B, T, E): what the core was given: each glimpse as a vector
    halting: Tensor | None = None  # (B, T): logits of stopping after each glimpse; None without a halting unit
    recalled: Tensor | None = None  # (B, T, T): weights of the states behind each answer; None without memory


class Lazy(NamedTuple):
    """The answers of one who stopped early."""

    logits: Tensor  # (B, classes)
    glimpses: Tensor  # (B,): after how many glimpses


class Scene(NamedTuple):
    """What is looked at, and how."""

    images: Tensor  # (B, C, H, W)
    memory: View | Annotations
    boxes: Tensor | None
    given: Tensor | None
    how: Read
    sample: bool
    noise: Noise
    detach: bool  # whether the gradient of the reward ends at the attention

    def rows(self, index: Tensor) -> "Scene":
        """That of some of the images only."""
        boxes, given = (None if field is None else field[index] for field in (self.boxes, self.given))
        noise = self.noise.rows(index, len(self.images))
        rest = {"boxes": boxes, "given": given, "noise": noise}
        return self._replace(images=self.images[index], memory=self.memory.rows(index), **rest)


class RecurrentAttention(nn.Module):
    """Looks T times at an image and says after each glimpse what it shows."""

    def __init__(
        self,
        *,
        glimpses: PlaneGlimpses | GridGlimpses,
        core: RecurrentCore,
        num_classes: int,
        num_glimpses: int,
        first: First = "centre",
        policy: Policy = "learned",
        baseline: bool = True,
        reward_reaches_core: bool = True,
        recall: Recall | None = None,
        halt: bool = False,
    ):
        """Join the parts.

        Args:
            glimpses: How and where to look.
            core: What remembers. With `first="learned"` it must learn its initial state.
            num_classes: Number of classes.
            num_glimpses: Number T of glimpses.
            first: Where the first glimpse is.
            policy: Who places the other glimpses: "learned", the attention of the model; else a rule of `controls.py`,
                which places the first glimpse as well.
            baseline: Whether a learned baseline predicts the return before each choice.
            reward_reaches_core: Whether the gradient of the reward passes the location head into the core, as in the
                paper; else it ends there. Has no meaning for a soft read, which has no reward.
            recall: Memory of all states, to answer from them; without it, from the last state.
            halt: Whether a unit says after each glimpse how probably the answer will do. It sees the state cut off from
                the graph: it judges the model and does not shape it.
        """
        super().__init__()
        if num_glimpses < 1:
            raise ValueError(f"num_glimpses must be at least 1, got {num_glimpses}")
        if first not in ("centre", "random", "learned"):
            raise ValueError(f"first must be 'centre', 'random' or 'learned', got {first!r}")
        if first == "learned" and core.initial_output is None:
            raise ValueError("first='learned' needs a core with learn_initial=True")
        check_rule(policy, "learned")
        self.glimpses = glimpses
        self.core = core
        self.num_glimpses = num_glimpses
        self.first: First = first
        self.policy: Policy = policy
        self.reward_reaches_core = reward_reaches_core
        known = core.state_dim * (1 if recall is None else 2)
        self.classify = nn.Linear(known, num_classes)
        self.baseline = nn.Linear(core.state_dim, 1) if baseline else None
        self.recall = recall
        self.halt = nn.Sequential(nn.Linear(known, HALT_DIM), nn.ReLU(), nn.Linear(HALT_DIM, 1)) if halt else None

    @property
    def how(self) -> Read:
        """How the model reads unless told otherwise."""
        return self.glimpses.attention.how

    @property
    def num_choices(self) -> int:
        """How many of the glimpses the model chooses, the last ones."""
        if self.policy != "learned":
            return 0
        return self.num_glimpses - (self.first != "learned")

    def forward(
        self,
        images: Tensor,
        *,
        how: Read | None = None,
        sample: bool = True,
        noise: Noise | None = None,
        boxes: Tensor | None = None,
        given: Tensor | None = None,
    ) -> Rollout:
        """Look T times.

        Args:
            images: (B, C, H, W), floating point in [0, 1] or uint8.
            how: Read hard or soft; the model's own way if not given.
            sample: Whether hard reads sample their places, or take the most likely ones (greedy).
            noise: The chance to sample with; also places a random first glimpse.
            boxes: (B, N, 4), of the digits, in pixels: for the oracle, and of no effect on anyone else.
            given: (B, T, 2), where those glimpses are that the model does not choose, instead of by its rule: to look
                again as another rollout did, whose `locations` these may be.
        """
        scene = self._open(images, how=how, sample=sample, noise=noise, boxes=boxes, given=given)
        thought = self.begin(len(images))
        thoughts, looks, choices, baselines = [], [], [], []
        for t in range(self.num_glimpses):
            reading, chosen = self._read(t, thought, scene)
            if chosen:
                choices.append(reading)
                if self.baseline is not None:
                    # Cut off: the baseline must judge the state, not shape it.
                    baselines.append(self.baseline(thought.state[0].detach()).squeeze(-1))
            look = self.glimpses.look(reading)
            thought = self.think(look.glimpse, thought)
            thoughts.append(thought)
            looks.append(look)
        none = images.new_zeros(len(images), 0, dtype=thought.logits.dtype)
        on_grid = isinstance(self.glimpses, GridGlimpses)
        recalled = [F.pad(its.recalled, (0, self.num_glimpses - t)) for t, its in enumerate(thoughts, 1) if self.recall]
        return Rollout(
            logits=torch.stack([its.logits for its in thoughts], 1),
            locations=torch.stack([look.location for look in looks], 1),
            stds=torch.stack([self.glimpses.std(look) for look in looks], 1),
            log_probs=None if scene.how == "soft" else _stack([choice.log_prob for choice in choices], none),
            entropies=_stack([choice.attention.entropy() for choice in choices], none),
            baselines=None if self.baseline is None else _stack(baselines, none),
            weights=torch.stack([look.reading.attention.weights for look in looks], 1) if on_grid else None,
            glimpses=torch.stack([look.glimpse for look in looks], 1),
            halting=None if self.halt is None else torch.stack([its.halting for its in thoughts], 1),
            recalled=torch.stack(recalled, 1) if recalled else None,
        )

    @torch.no_grad()
    def lazy(
        self,
        images: Tensor,
        *,
        threshold: float,
        by: StopBy = "confidence",
        how: Read | None = None,
        sample: bool = False,
        noise: Noise | None = None,
        boxes: Tensor | None = None,
        multi_label: bool = False,
    ) -> Lazy:
        """Look at each image as often as it takes, at most T times, and answer.

        An image is done with after the first glimpse whose certainty exceeds the threshold, and is left out of all that
        is computed from then on. The answers are those of the whole rollout, cut off there.

        Args:
            images: As to `forward`; `how`, `sample`, `noise` and `boxes` too.
            threshold: In [0, 1]: with 0 one glimpse is enough, with 1 none is. `evaluate.py score` picks one.
            by: What is certain: "confidence", the probability of the answer; "halting", the halting unit.
            how: Read hard or soft.
            sample: Whether hard reads sample their places; greedy if not given.
            noise: The chance to sample with.
            boxes: Of the digits, for the oracle.
            multi_label: Whether each class is a yes or no of its own.
        """
        if not 0 <= threshold <= 1:
            raise ValueError(f"threshold must be in [0, 1], got {threshold}")
        if by not in get_args(StopBy):
            raise ValueError(f"by must be one of {', '.join(get_args(StopBy))}, got {by!r}")
        if by == "halting" and self.halt is None:
            raise ValueError("by='halting' needs a model with a halting unit")
        scene = self._open(images, how=how, sample=sample, noise=noise, boxes=boxes)
        thought = self.begin(len(images))
        left = torch.arange(len(images), device=images.device)
        logits = self.classify.weight.new_zeros(len(images), self.classify.out_features)
        glimpses = torch.full_like(left, self.num_glimpses)
        for t in range(self.num_glimpses):
            reading, _ = self._read(t, thought, scene)
            thought = self.think(self.glimpses.look(reading).glimpse, thought)
            logits[left] = thought.logits
            if by == "halting":
                certain = thought.halting.sigmoid()
            else:
                answers = thought.logits.sigmoid() if multi_label else thought.logits.softmax(-1)
                certain = confidence(answers, multi_label)
            done = certain > threshold
            glimpses[left[done]] = t + 1
            going = (~done).nonzero().squeeze(1)
            if not len(going):
                break
            if len(going) < len(left):
                left, thought, scene = left[going], thought.rows(going), scene.rows(going)
        return Lazy(logits, glimpses)

    def _open(
        self,
        images: Tensor,
        *,
        how: Read | None,
        sample: bool,
        noise: Noise | None,
        boxes: Tensor | None = None,
        given: Tensor | None = None,
    ) -> Scene:
        how = how or self.how
        detach = how == "hard" and not self.reward_reaches_core
        if images.is_floating_point():
            images = images.to(self.classify.weight.dtype)
        memory = self.glimpses.open(images, num_reads=self.num_glimpses if how == "hard" else 0, detach=detach)
        return Scene(images, memory, boxes, given, how, sample, noise or Noise(), detach)

    def _read(self, t: int, thought: Thought, scene: Scene) -> tuple[Reading, bool]:
        """Glimpse t, from 0, and whether it was the model that chose its place."""
        if t >= self.num_glimpses - self.num_choices:
            output = thought.state[0].detach() if scene.detach else thought.state[0]
            options = {"how": scene.how, "sample": scene.sample, "noise": scene.noise}
            return self.glimpses.attention(output, scene.memory, **options), True
        if scene.given is None:
            rule = self.first if self.policy == "learned" else self.policy
            like = self.classify.weight
            location = place(rule, t, self.num_glimpses, like, scene.images, scene.boxes, scene.noise)
        else:
            location = scene.given[:, t]
        return read(self.glimpses.given(scene.memory, location), scene.memory, scene.how, sample=False), False

    def begin(self, batch: int) -> Thought:
        """Before anything was seen."""
        return Thought(self.core.initial(batch))

    def think(self, glimpse: Tensor, thought: Thought) -> Thought:
        """Take in a glimpse vector (B, E), and answer."""
        state = self.core(glimpse, thought.state)
        known, memory, recalled = state[0], None, None
        if self.recall is not None:
            memory = self.recall.add(thought.memory, state[0])
            reading = self.recall(state[0], memory)
            known, recalled = torch.cat([state[0], reading.context], -1), reading.attention.weights
        halting = None if self.halt is None else self.halt(known.detach()).squeeze(-1)
        return Thought(state, memory, self.classify(known), halting, recalled)

    def answer(self, glimpses: Tensor) -> Tensor:
        """Answer from glimpse vectors alone: the core and the classifier, without the looking.

        Args:
            glimpses: (B, T, E), as in `Rollout.glimpses`.

        Returns:
            Logits (B, T, classes) after each glimpse; for those of a rollout, the logits of that rollout.
        """
        thought = self.begin(len(glimpses))
        logits = []
        for glimpse in glimpses.unbind(1):
            thought = self.think(glimpse, thought)
            logits.append(thought.logits)
        return torch.stack(logits, 1)


def _stack(columns: list[Tensor], empty: Tensor) -> Tensor:
    return torch.stack(columns, 1) if columns else empty
