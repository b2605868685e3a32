"""The recurrent attention model: look T times, answer after each look.

Recurrent Models of Visual Attention (arXiv:1406.6247). The same loop serves training, validation, test and pictures,
hard and soft, points of the plane (`PlaneGlimpses`) and a grid of glimpses encoded once (`GridGlimpses`).

Of T glimpses the first is given (the centre, or a random place) and T - 1 are chosen; only these have a
log-probability and a baseline. With a learned first glimpse all T are chosen; in a control (`policy` other than
"learned") none is.

Shapes: B batch, T glimpses, N of them chosen, D state, L cells of the grid.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from glimpse.attention import Annotations, Attention, LocationAttention, Read, Reading, read
from glimpse.controls import check_rule, place
from glimpse.networks import GlimpseNetwork, RecurrentCore
from glimpse.places import Categorical, Gaussian, Noise
from glimpse.sensor import Sensor, View

First = Literal["centre", "random", "learned"]
Policy = Literal["learned", "centre", "random", "raster", "oracle"]


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


class Look(NamedTuple):
    """One glimpse, encoded."""

    glimpse: Tensor  # (B, out_dim)
    location: Tensor  # (B, 2)
    reading: Reading


class PlaneGlimpses(nn.Module):
    """Glimpses at points of the plane."""

    def __init__(self, *, sensor: Sensor, network: GlimpseNetwork, attention: LocationAttention):
        super().__init__()
        self.sensor = sensor
        self.network = network
        self.attention = attention

    def open(self, images: Tensor, *, num_reads: int, detach: bool) -> View:
        """Make images (B, C, H, W) ready for so many hard reads."""
        return self.sensor.view(images, num_reads)

    def given(self, memory: View, location: Tensor) -> Gaussian:
        """The attention to a place (B, 2) that nobody chose."""
        return self.attention.around(location)

    def look(self, reading: Reading) -> Look:
        """Encode what was read."""
        location = reading.place
        return Look(self.network(reading.context, location), location, reading)

    def std(self, look: Look) -> Tensor:
        """The width of the attention (B, 2)."""
        return look.reading.attention.std


class GridGlimpses(nn.Module):
    """Glimpses at the cells of a grid: all encoded once, as the annotations of the image, then attended to."""

    cells: Tensor

    def __init__(self, *, sensor: Sensor, network: GlimpseNetwork, attention: Attention, grid: tuple[int, int]):
        """Create the looker; `grid` is the number of rows and columns, spread evenly over the image."""
        super().__init__()
        self.sensor = sensor
        self.network = network
        self.attention = attention
        self.grid = grid
        rows, columns = ((torch.arange(n) + 0.5) * 2 / n - 1 for n in grid)
        self.register_buffer(
            "cells", torch.stack(torch.meshgrid(columns, rows, indexing="xy"), -1).view(-1, 2), persistent=False
        )  # (L, 2)

    def open(self, images: Tensor, *, num_reads: int, detach: bool) -> Annotations:
        """Take and encode all L glimpses of images (B, C, H, W); `detach` them from what decides where to look."""
        batch, places = len(images), len(self.cells)
        view = self.sensor.view(images, places)
        patches = torch.stack([view.at(cell.expand(batch, 2)) for cell in self.cells], 1)  # (B, L, K*C, G, G)
        locations = self.cells.expand(batch, places, 2)
        encoded = self.network(patches.flatten(0, 1), locations.reshape(-1, 2))
        return self.attention.annotate(encoded.view(batch, places, -1), detach_keys=detach)

    def given(self, memory: Annotations, location: Tensor) -> Categorical:
        """The attention to a place (B, 2) that nobody chose: to the cell next to it, and to no other."""
        cell = (location.unsqueeze(1) - self.cells).square().sum(-1).argmin(1)
        return Categorical.certain(cell, len(self.cells), memory.values.dtype)

    def look(self, reading: Reading) -> Look:
        """Pass on what was read: it is encoded already."""
        weights = reading.attention.weights
        location = weights @ self.cells if reading.log_prob is None else self.cells[reading.place]
        return Look(reading.context, location, reading)

    def std(self, look: Look) -> Tensor:
        """The width of the attention (B, 2)."""
        weights = look.reading.attention.weights
        mean = weights @ self.cells
        return (weights @ self.cells.square() - mean.square()).clamp(min=0).sqrt()


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
        self.classify = nn.Linear(core.state_dim, num_classes)
        self.baseline = nn.Linear(core.state_dim, 1) if baseline else None

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
        how = how or self.how
        noise = noise or Noise()
        detach = how == "hard" and not self.reward_reaches_core
        memory = self.glimpses.open(images, num_reads=self.num_glimpses if how == "hard" else 0, detach=detach)
        state = self.core.initial(len(images))
        logits, looks, choices, baselines = [], [], [], []
        for t in range(self.num_glimpses):
            if t < self.num_glimpses - self.num_choices:
                rule = self.first if self.policy == "learned" else self.policy
                if given is None:
                    location = place(rule, t, self.num_glimpses, self.classify.weight, images, boxes, noise)
                else:
                    location = given[:, t]
                reading = read(self.glimpses.given(memory, location), memory, how, sample=False)
            else:
                output = state[0].detach() if detach else state[0]
                reading = self.glimpses.attention(output, memory, how=how, sample=sample, noise=noise)
                choices.append(reading)
                if self.baseline is not None:
                    # Cut off: the baseline must judge the state, not shape it.
                    baselines.append(self.baseline(state[0].detach()).squeeze(-1))
            look = self.glimpses.look(reading)
            state = self.core(look.glimpse, state)
            logits.append(self.classify(state[0]))
            looks.append(look)
        none = images.new_zeros(len(images), 0, dtype=logits[0].dtype)
        on_grid = isinstance(self.glimpses, GridGlimpses)
        return Rollout(
            logits=torch.stack(logits, 1),
            locations=torch.stack([look.location for look in looks], 1),
            stds=torch.stack([self.glimpses.std(look) for look in looks], 1),
            log_probs=None if how == "soft" else _stack([choice.log_prob for choice in choices], none),
            entropies=_stack([choice.attention.entropy() for choice in choices], none),
            baselines=None if self.baseline is None else _stack(baselines, none),
            weights=torch.stack([look.reading.attention.weights for look in looks], 1) if on_grid else None,
            glimpses=torch.stack([look.glimpse for look in looks], 1),
        )

    def answer(self, glimpses: Tensor) -> Tensor:
        """Answer from glimpse vectors alone: the core and the classifier, without the looking.

        Args:
            glimpses: (B, T, E), as in `Rollout.glimpses`.

        Returns:
            Logits (B, T, classes) after each glimpse; for those of a rollout, the logits of that rollout.
        """
        state = self.core.initial(len(glimpses))
        logits = []
        for glimpse in glimpses.unbind(1):
            state = self.core(glimpse, state)
            logits.append(self.classify(state[0]))
        return torch.stack(logits, 1)


def _stack(columns: list[Tensor], empty: Tensor) -> Tensor:
    return torch.stack(columns, 1) if columns else empty
