"""The decoder: an LSTM that writes a sentence word by word, and reads from annotations before each word.

Show, Attend and Tell (arXiv:1502.03044), 3.1.2 the LSTM decoder and 4.2.1 its gate. The decoder knows nothing of
images: it writes about any annotations, those of a source sentence included (`sentence_encoder.py`), and reads them
through `Attention`, hard or soft. One step serves teacher forcing, greedy, sampled and beam search.

Departures from the paper. A word START begins a sentence; the authors' code begins with a vector of zeros. The gate is
an option; the paper has it in the section on soft attention only, here it serves both reads. The output is the formula
of the paper; the authors' code has a tanh before its last layer. Dropout, which the paper mentions without a place, is
where the authors' code has it in the output: on h_t, and before the last layer.

What is read goes two ways, into the recurrence and into the output, and need not be the same: with `output_context`, a
caller gives the output something else, such as the expectation behind a hard read (`expected_context`).

Shapes: B batch, N words, L places, A annotation size, D state size, M embedding size, V vocabulary.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from glimpse.attention.annotation import Annotations, Attention
from glimpse.attention.distributions import Categorical, Noise
from glimpse.attention.reading import Reading, renamed_keywords
from glimpse.attention.settings import ReadMode

OutputContext = Callable[[Reading[Categorical], Annotations], Tensor]  # to (B, A)


def expected_context(reading: Reading[Categorical], annotations: Annotations) -> Tensor:
    """For the output, the expectation (B, A) of what could have been read, however it was read."""
    return annotations.expect(reading.attention)


class DecoderState(NamedTuple):
    """The state of the LSTM."""

    hidden: Tensor  # (B, D), h: what attention is asked with
    cell: Tensor  # (B, D), c


class DecoderHidden(NamedTuple):
    """The result of one step, up to its last layer."""

    output: Tensor  # (B, M), what the last layer makes the next word of
    state: DecoderState  # after the step
    reading: Reading[Categorical]  # what was read
    context: Tensor  # (B, A), what the recurrence was given of it, before the gate
    output_context: Tensor  # (B, A), what the output was given, before the gate


class DecoderStep(NamedTuple):
    """The result of one step."""

    logits: Tensor  # (B, V), of the next word
    state: DecoderState  # after the step
    reading: Reading[Categorical]  # what was read
    context: Tensor  # (B, A), what the recurrence was given of it, before the gate
    output_context: Tensor  # (B, A), what the output was given, before the gate


class DecoderOutput(NamedTuple):
    """The N steps with given words (teacher forcing): step t reads, takes in word t - 1 and predicts word t."""

    logits: Tensor  # (B, N, V)
    weights: Tensor  # (B, N, L): the attention
    places: Tensor  # (B, N) int64: the place read; soft: the most likely one
    log_probs: Tensor | None  # (B, N): of the places; None when soft
    entropies: Tensor  # (B, N): of the attention


class Decoder(nn.Module):
    """Writes a sentence word by word, reading from annotations before each word.

    With z_t what is read by h_tm1, times the gate sigmoid(Linear(h_tm1)), a scalar, if there is one, and E y_tm1 the
    embedding of the previous word:

        h_t, c_t = LSTM([E y_tm1, z_t], h_tm1, c_tm1),   logits = L_o (E y_tm1 + L_h h_t + L_z z_t);

    h_0 and c_0 are each one tanh layer of the mean of what can be read: of the annotations' values.
    """

    def __init__(
        self,
        *,
        attention: Attention,
        vocabulary_size: int,
        embed_dim: int,
        state_dim: int,
        annotation_dim: int,
        dropout: float = 0.0,
        gate: bool = True,
    ):
        """Create the decoder.

        Args:
            attention: Where to read; made for the same sizes of state and annotation.
            vocabulary_size: Number V of words.
            embed_dim: Size M of an embedded word; L_h and L_z lead to this size as well.
            state_dim: Size D of the state.
            annotation_dim: Size A of an annotation.
            dropout: Part of h_t (for the output alone) and of what L_o is given that is dropped in training. Drawn from
                the noise of the step, so that it too depends on the seed alone.
            gate: Whether a gate decides how much of what was read is used.
        """
        super().__init__()
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be at least 0 and less than 1, got {dropout}")
        self.attention = attention
        self.annotation_dim = annotation_dim
        self.dropout = dropout
        self.initial_hidden = nn.Sequential(nn.Linear(annotation_dim, state_dim), nn.Tanh())
        self.initial_cell = nn.Sequential(nn.Linear(annotation_dim, state_dim), nn.Tanh())
        self.gate = nn.Linear(state_dim, 1) if gate else None
        self.embed = nn.Embedding(vocabulary_size, embed_dim)
        self.cell = nn.LSTMCell(embed_dim + annotation_dim, state_dim)
        self.from_hidden = nn.Linear(state_dim, embed_dim)
        self.from_context = nn.Linear(annotation_dim, embed_dim, bias=False)
        self.to_words = nn.Linear(embed_dim, vocabulary_size)

    @property
    def mode(self) -> ReadMode:
        """How the decoder reads unless told otherwise."""
        return self.attention.mode

    def attention_parameters(self) -> list[nn.Parameter]:
        """The parameters that decide where to look."""
        return list(self.attention.parameters())

    def initial_state(self, annotations: Annotations) -> DecoderState:
        """Return the state before the first word, from the mean of the values that there are."""
        values, mask = annotations.values, annotations.mask
        if mask is None:
            mean = values.mean(1)
        else:
            there = mask.unsqueeze(-1)
            mean = values.masked_fill(~there, 0).sum(1) / there.sum(1)
        return DecoderState(self.initial_hidden(mean), self.initial_cell(mean))

    def step(
        self,
        word: Tensor,
        state: DecoderState,
        annotations: Annotations,
        *,
        mode: ReadMode | None = None,
        sample: bool = True,
        noise: Noise | None = None,
        straight_through: bool = False,
        output_context: OutputContext | None = None,
    ) -> DecoderStep:
        """Read, take in the previous word, and predict the next.

        Args:
            word: (B,) int64, the previous word.
            state: The state after it was predicted.
            annotations: What to read from, prepared by `attention.annotate`.
            mode: Read hard or soft; the attention's own mode if not given.
            sample: Whether a hard read samples its place, or takes the most likely one (greedy).
            noise: The random numbers of sampling and, in training, of dropout.
            straight_through: Whether hard reads have the gradient of soft ones (see `attention.reading.read`).
            output_context: What the output is given of a reading; if not given, what the recurrence is given.
        """
        if word.shape != annotations.values.shape[:1]:
            raise ValueError(
                f"word must have shape ({len(annotations.values)},), one for each example, got {tuple(word.shape)}"
            )
        hidden = self._step(word, state, annotations, mode, sample, noise or Noise(), straight_through, output_context)
        return DecoderStep(self.to_words(hidden.output), *hidden[1:])

    def _step(
        self,
        word: Tensor,
        state: DecoderState,
        annotations: Annotations,
        mode: ReadMode | None,
        sample: bool,
        noise: Noise,
        straight_through: bool,
        output_context: OutputContext | None,
    ) -> DecoderHidden:
        """A step up to its last layer."""
        reading = self.attention(
            state.hidden, annotations, mode=mode, sample=sample, noise=noise, straight_through=straight_through
        )
        context = reading.context
        gate = None if self.gate is None else torch.sigmoid(self.gate(state.hidden))
        gated = context if gate is None else gate * context
        for_output, gated_output = context, gated
        if output_context is not None:
            for_output = output_context(reading, annotations)
            gated_output = for_output if gate is None else gate * for_output
        embedded = self.embed(word)
        state = DecoderState(*self.cell(torch.cat([embedded, gated], 1), state))
        output = embedded + self.from_hidden(self._drop(state.hidden, noise)) + self.from_context(gated_output)
        return DecoderHidden(self._drop(output, noise), state, reading, context, for_output)

    @renamed_keywords(how="mode")
    def forward(
        self,
        annotations: Annotations,
        words: Tensor,
        *,
        mode: ReadMode | None = None,
        sample: bool = True,
        noise: Noise | None = None,
        straight_through: bool = False,
        output_context: OutputContext | None = None,
    ) -> DecoderOutput:
        """Predict given words, each from those before it (teacher forcing).

        Args:
            annotations: What to read from, prepared by `attention.annotate`.
            words: (B, N + 1) int64, beginning with START; may be padded at the end with any words.
            mode: See `step`, as for the rest.
            sample: See `step`.
            noise: See `step`.
            straight_through: See `step`.
            output_context: See `step`.
        """
        batch = len(annotations.values)
        if words.dim() != 2 or len(words) != batch or words.shape[1] < 2:
            raise ValueError(
                f"words must have shape ({batch}, N + 1): START and at least one word more for each example, "
                f"got {tuple(words.shape)}"
            )
        noise = noise or Noise()
        state = self.initial_state(annotations)
        steps = []
        for word in words[:, :-1].unbind(1):
            steps.append(self._step(word, state, annotations, mode, sample, noise, straight_through, output_context))
            state = steps[-1].state
        readings = [step.reading for step in steps]
        log_probs = [reading.log_prob for reading in readings]
        return DecoderOutput(
            # The last layer is by far the largest: once for all words is faster than once for each.
            logits=self.to_words(torch.stack([step.output for step in steps], 1)),
            weights=torch.stack([reading.attention.weights for reading in readings], 1),
            places=torch.stack([reading.place for reading in readings], 1),
            log_probs=None if log_probs[0] is None else torch.stack(log_probs, 1),
            entropies=torch.stack([reading.attention.entropy() for reading in readings], 1),
        )

    def _drop(self, x: Tensor, noise: Noise) -> Tensor:
        return noise.dropout(x, self.dropout) if self.training else x
