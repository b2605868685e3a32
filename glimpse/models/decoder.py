"""The decoder that attends while it writes, and the captioner that gives it an image to look at.

Show, Attend and Tell (arXiv:1502.03044), 3.1.2 the LSTM decoder and 4.2.1 its gate. The decoder knows nothing of
images: it writes about any annotations, those of a source sentence included (`sentences.py`), and reads them through
`Attention`, hard or soft. One step serves teacher forcing, greedy, sampled and beam search.

Departures from the paper. A word START begins a sentence; the authors' code begins with a vector of zeros. The gate is
an option; the paper has it in the section on soft attention only, here it serves both reads. The output is the formula
of the paper; the authors' code has a tanh before its last layer. Dropout, which the paper mentions without a place, is
where the authors' code has it in the output: on h_t, and before the last layer.

Shapes: B batch, N words, L places, A annotation size, D state size, M embedding size, V vocabulary.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from glimpse.attention import Annotations, Attention, Read, Reading
from glimpse.places import Noise
from glimpse.self_attention import Mixer


class State(NamedTuple):
    """All that the decoder remembers."""

    hidden: Tensor  # (B, D), h: what attention is asked with
    cell: Tensor  # (B, D), c


class Unspoken(NamedTuple):
    """What one step gave, but for the words."""

    output: Tensor  # (B, M), what the last layer makes the next word of
    state: State  # after the step
    reading: Reading  # what was read, before the gate


class Step(NamedTuple):
    """What one step gave."""

    logits: Tensor  # (B, V), of the next word
    state: State  # after the step
    reading: Reading  # what was read, before the gate


class Telling(NamedTuple):
    """What happened while N given words were told: step t reads, takes in word t - 1 and predicts word t."""

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
    def how(self) -> Read:
        """How the decoder reads unless told otherwise."""
        return self.attention.how

    def start(self, annotations: Annotations) -> State:
        """Return the state before the first word, from the mean of the values that there are."""
        values, mask = annotations.values, annotations.mask
        if mask is None:
            mean = values.mean(1)
        else:
            there = mask.unsqueeze(-1)
            mean = values.masked_fill(~there, 0).sum(1) / there.sum(1)
        return State(self.initial_hidden(mean), self.initial_cell(mean))

    def step(
        self,
        word: Tensor,
        state: State,
        annotations: Annotations,
        *,
        how: Read | None = None,
        sample: bool = True,
        noise: Noise | None = None,
    ) -> Step:
        """Read, take in the previous word, and predict the next.

        Args:
            word: (B,) int64, the previous word.
            state: The state after it was predicted.
            annotations: What to read from, prepared by `attention.annotate`.
            how: Read hard or soft; the attention's own way if not given.
            sample: Whether a hard read samples its place, or takes the most likely one (greedy).
            noise: The chance to sample and, in training, to drop with.
        """
        if word.shape != annotations.values.shape[:1]:
            raise ValueError(
                f"word must have shape ({len(annotations.values)},), one for each example, got {tuple(word.shape)}"
            )
        output, state, reading = self._think(word, state, annotations, how, sample, noise or Noise())
        return Step(self.to_words(output), state, reading)

    def _think(
        self, word: Tensor, state: State, annotations: Annotations, how: Read | None, sample: bool, noise: Noise
    ) -> Unspoken:
        """A step up to its last layer."""
        reading = self.attention(state.hidden, annotations, how=how, sample=sample, noise=noise)
        context = reading.context
        if self.gate is not None:
            context = torch.sigmoid(self.gate(state.hidden)) * context
        embedded = self.embed(word)
        state = State(*self.cell(torch.cat([embedded, context], 1), state))
        output = embedded + self.from_hidden(self._drop(state.hidden, noise)) + self.from_context(context)
        return Unspoken(self._drop(output, noise), state, reading)

    def forward(
        self,
        annotations: Annotations,
        words: Tensor,
        *,
        how: Read | None = None,
        sample: bool = True,
        noise: Noise | None = None,
    ) -> Telling:
        """Tell given words, each predicted from those before it (teacher forcing).

        Args:
            annotations: What to read from, prepared by `attention.annotate`.
            words: (B, N + 1) int64, beginning with START; may be padded at the end with any words.
            how: See `step`, as for `sample` and `noise`.
            sample: See `step`.
            noise: See `step`.
        """
        batch = len(annotations.values)
        if words.dim() != 2 or len(words) != batch or words.shape[1] < 2:
            raise ValueError(
                f"words must have shape ({batch}, N + 1): START and at least one word more for each example, "
                f"got {tuple(words.shape)}"
            )
        noise = noise or Noise()
        state = self.start(annotations)
        steps = []
        for word in words[:, :-1].unbind(1):
            steps.append(self._think(word, state, annotations, how, sample, noise))
            state = steps[-1].state
        readings = [step.reading for step in steps]
        log_probs = [reading.log_prob for reading in readings]
        return Telling(
            # The last layer is by far the largest: once for all words is faster than once for each.
            logits=self.to_words(torch.stack([step.output for step in steps], 1)),
            weights=torch.stack([reading.attention.weights for reading in readings], 1),
            places=torch.stack([reading.place for reading in readings], 1),
            log_probs=None if log_probs[0] is None else torch.stack(log_probs, 1),
            entropies=torch.stack([reading.attention.entropy() for reading in readings], 1),
        )

    def _drop(self, x: Tensor, noise: Noise) -> Tensor:
        return noise.drop(x, self.dropout) if self.training else x


class Teller(nn.Module):
    """Tells in words what it is shown: an encoder makes annotations of it, a decoder writes while it reads them."""

    average_reward: Tensor

    def __init__(self, *, encoder: nn.Module, decoder: Decoder, mixer: Mixer | None = None):
        """Join the parts.

        Args:
            encoder: Makes annotations of size `out_dim`, which it must expose; of what, the subclasses say.
            decoder: What writes.
            mixer: What lets the annotations look at each other before they are read. It stands apart from the encoder,
                so that it learns where that is frozen, and takes annotations that were kept.
        """
        super().__init__()
        if encoder.out_dim != decoder.annotation_dim:
            raise ValueError(
                f"the decoder reads annotations of size {decoder.annotation_dim}, the encoder makes {encoder.out_dim}"
            )
        self.encoder = encoder
        self.mixer = mixer
        self.decoder = decoder
        self.register_buffer("average_reward", torch.tensor(math.inf))  # of the last batches; infinite before any

    @property
    def how(self) -> Read:
        """How it reads unless told otherwise."""
        return self.decoder.how

    def annotate(self, source: Any, *, noise: Noise | None = None) -> Annotations:
        """Prepare what is shown to be read, with the chance to drop with in training."""
        raise NotImplementedError

    def forward(
        self, source: Any, words: Tensor, *, how: Read | None = None, sample: bool = True, noise: Noise | None = None
    ) -> Telling:
        """Tell given words of what is shown (see `annotate`, and `Decoder.forward` for the rest)."""
        noise = noise or Noise()
        return self.decoder(self.annotate(source, noise=noise), words, how=how, sample=sample, noise=noise)


class Captioner(Teller):
    """Describes an image.

    The encoder maps images (B, C, H, W) to annotations (B, L, out_dim), and has `grid(height, width)`, the rows and
    columns of the L places in images of that size (see `encoders.py`).
    """

    def __init__(
        self,
        *,
        encoder: nn.Module,
        decoder: Decoder,
        mixer: Mixer | None = None,
        image_size: tuple[int, int] | None = None,
    ):
        """Join the parts (see `Teller`).

        Args:
            encoder: From images to annotations.
            decoder: What writes.
            mixer: What lets the annotations look at each other.
            image_size: Height and width of the images whose annotations may come encoded. Only a window needs it.
        """
        super().__init__(encoder=encoder, decoder=decoder, mixer=mixer)
        self.image_size = image_size

    def annotate(self, source: Tensor | Annotations, *, noise: Noise | None = None) -> Annotations:
        """Prepare images to be read.

        Args:
            source: (B, C, H, W), what the encoder takes; or (B, L, A), floating point, what it would make of them,
                kept from an earlier time; or annotations already prepared, which stay as they are.
            noise: Of no use: the encoders of images leave nothing to chance.
        """
        if isinstance(source, Annotations):
            return source
        size = self.image_size
        if source.dim() == 4:
            size, source = tuple(source.shape[2:]), self.encoder(source)
        elif source.dim() != 3 or source.shape[2] != self.encoder.out_dim or not source.is_floating_point():
            raise ValueError(
                f"images must have shape (B, C, H, W), or be encoded as floating point (B, L, {self.encoder.out_dim}), "
                f"got {source.dtype} {tuple(source.shape)}"
            )
        attention = self.decoder.attention
        if attention.window is not None and size is None:
            raise ValueError("image_size must be given for a window on images that come encoded, got None")
        annotations = source if self.mixer is None else self.mixer(source)
        return attention.annotate(annotations, grid=None if attention.window is None else self.encoder.grid(*size))
