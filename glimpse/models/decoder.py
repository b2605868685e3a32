"""The decoder: an LSTM that generates a sentence word by word, and reads annotations by attention before each word.

Show, Attend and Tell (arXiv:1502.03044), 3.1.2 the LSTM decoder and 4.2.1 its gate. The annotations may be those of an
image or of a source sentence (`sentence_encoder.py`); `Attention` reads them, hard or soft. Teacher forcing, greedy
decoding, sampling and beam search all use the same step.

Departures from the paper. A sentence begins with the token START; the authors' code begins with a vector of zeros. The
gate is an option, for hard and soft reads; the paper has it in the section on soft attention only. The output follows
the formula of the paper; the authors' code has a tanh before its last layer. The paper does not say where dropout is
applied; here, as in the authors' code, on h_t in the output and before the last layer.

The context vector is an input of the recurrence and of the output. With `output_context`, the output can have another
one, such as the expected context vector of a hard read (`expected_context`).

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
    """The expected context vector (B, A) of a reading, hard or soft; for use as `output_context`."""
    return annotations.expect(reading.attention)


class DecoderState(NamedTuple):
    """The state of the LSTM."""

    hidden: Tensor  # (B, D), h, the query of the attention
    cell: Tensor  # (B, D), c


class DecoderHidden(NamedTuple):
    """The result of one step, up to its last layer."""

    output: Tensor  # (B, M), the input of the last layer
    state: DecoderState  # after the step
    reading: Reading[Categorical]
    context: Tensor  # (B, A), input of the recurrence, before the gate
    output_context: Tensor  # (B, A), input of the output, before the gate


class DecoderStep(NamedTuple):
    """The result of one step."""

    logits: Tensor  # (B, V), of the next word
    state: DecoderState  # after the step
    reading: Reading[Categorical]
    context: Tensor  # (B, A), input of the recurrence, before the gate
    output_context: Tensor  # (B, A), input of the output, before the gate


class DecoderOutput(NamedTuple):
    """The result of N steps of teacher forcing: step t reads, with word t - 1 as input, and predicts word t."""

    logits: Tensor  # (B, N, V)
    weights: Tensor  # (B, N, L), attention weights
    places: Tensor  # (B, N) int64, the place read; soft: the most likely one
    log_probs: Tensor | None  # (B, N), of the places; None when soft
    entropies: Tensor  # (B, N), of the attention


class Decoder(nn.Module):
    """Generates a sentence word by word, reading annotations before each word.

    With z_t the context vector read with the query h_tm1, times the scalar gate sigmoid(Linear(h_tm1)) if there is
    one, and E y_tm1 the embedding of the previous word:

        h_t, c_t = LSTM([E y_tm1, z_t], h_tm1, c_tm1),   logits = L_o (E y_tm1 + L_h h_t + L_z z_t);

    h_0 and c_0 are each one tanh layer of the mean of the annotations' values.
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
            attention: The attention, for states of size D and annotations of size A.
            vocabulary_size: Number V of words.
            embed_dim: Size M of a word embedding; L_h and L_z map to this size as well.
            state_dim: Size D of the state.
            annotation_dim: Size A of an annotation.
            dropout: Dropout probability of h_t (in the output only) and of the input of L_o. It draws from the noise of
                the step, so that it depends on the seed alone.
            gate: Whether a gate scales the context vector.
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
        """The read mode unless a call is given another."""
        return self.attention.mode

    def attention_parameters(self) -> list[nn.Parameter]:
        """The parameters of the attention."""
        return list(self.attention.parameters())

    def initial_state(self, annotations: Annotations) -> DecoderState:
        """The state before the first word, from the mean of the annotations that are not masked."""
        values, mask = annotations.values, annotations.mask
        if mask is None:
            mean = values.mean(1)
        else:
            present = mask.unsqueeze(-1)
            mean = values.masked_fill(~present, 0).sum(1) / present.sum(1)
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
        """Read a context vector, update the state with it and the previous word, and predict the next word.

        Args:
            word: (B,) int64, the previous word.
            state: The state before the step.
            annotations: What to read, from `attention.annotate`.
            mode: Read mode, "hard" or "soft"; None: the attention's own mode.
            sample: Whether a hard read samples its place, or takes the most likely one (greedy).
            noise: Random numbers of sampling and, in training, of dropout; None: from torch's global generator.
            straight_through: Whether hard reads have the gradient of soft ones (see `attention.reading.read`).
            output_context: Maps a reading to the context vector of the output; None: that of the recurrence.
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
        """Compute a step up to its last layer."""
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
        """Predict each word from those before it (teacher forcing).

        Args:
            annotations: What to read, from `attention.annotate`.
            words: (B, N + 1) int64, beginning with START; shorter sentences may be padded with any word.
            mode: See `step`.
            sample: See `step`.
            noise: See `step`.
            straight_through: See `step`.
            output_context: See `step`.
        """
        batch = len(annotations.values)
        if words.dim() != 2 or len(words) != batch or words.shape[1] < 2:
            raise ValueError(
                f"words must have shape ({batch}, N + 1): START and at least one more word for each example, "
                f"got {tuple(words.shape)}"
            )
        noise = noise or Noise()
        state = self.initial_state(annotations)
        steps = []
        for word in words[:, :-1].unbind(1):
            steps.append(self._step(word, state, annotations, mode, sample, noise, straight_through, output_context))
            state = steps[-1].state
        readings = [step.reading for step in steps]
        log_probs = [reading.log_prob for reading in readings if reading.log_prob is not None]
        return DecoderOutput(
            # The last layer is by far the largest: one product for all words is faster than one for each.
            logits=self.to_words(torch.stack([step.output for step in steps], 1)),
            weights=torch.stack([reading.attention.weights for reading in readings], 1),
            places=torch.stack([reading.place for reading in readings], 1),
            log_probs=torch.stack(log_probs, 1) if log_probs else None,
            entropies=torch.stack([reading.attention.entropy() for reading in readings], 1),
        )

    def _drop(self, x: Tensor, noise: Noise) -> Tensor:
        return noise.dropout(x, self.dropout) if self.training else x
