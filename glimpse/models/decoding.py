"""Decoding: greedy, sampling and beam search, all by `Decoder.initial_state` and `Decoder.step`.

PAD, START and UNKNOWN are never generated. Log-probabilities are normalized over the whole vocabulary, so that they
equal those of teacher forcing. Hard reads take the most likely place, except in `sample`. Decoding computes no
gradients; put the decoder into evaluation mode, as it would otherwise apply dropout.

Beam search follows the authors' code of Show, Attend and Tell (arXiv:1502.03044): a finished hypothesis is kept and
leaves the beam, which is one narrower from then on, so that a width of 1 is greedy decoding. The length penalty is that
of arXiv:1609.08144, section 7.

Shapes: B batch, L places, W beam width, R open hypotheses, V vocabulary.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from glimpse.attention.annotation import Annotations
from glimpse.attention.distributions import Categorical, Noise
from glimpse.attention.settings import ReadMode
from glimpse.data.vocabulary import END, PAD, START, UNKNOWN
from glimpse.models.decoder import Decoder, DecoderState


class Hypothesis(NamedTuple):
    """A generated sentence of n words, with the attention at each word."""

    words: tuple[int, ...]  # n of them, without START and END
    log_prob: float  # of the words and END; of the words alone if END was not reached within max_length
    weights: Tensor  # (n, L), attention weights at each word, without those at END
    places: Tensor  # (n,), the place read at each word; soft: the most likely one


class BeamStep(NamedTuple):
    """One step of beam search: each hypothesis extends a parent, a hypothesis of the previous step, by a word."""

    parents: Tensor  # (B, W), index of the parent in the beam
    words: Tensor  # (B, W), the word added
    weights: Tensor  # (B, W, L), attention weights at that word
    places: Tensor  # (B, W), the place read at that word


class FinishedHypothesis(NamedTuple):
    """A finished hypothesis of one example, as the position of its last word in the list of steps."""

    score: float
    log_prob: float
    step: int  # index of the `BeamStep` of its last word
    row: int  # index in the beam at that step


def greedy(
    decoder: Decoder, annotations: Annotations, *, max_length: int, mode: ReadMode | None = None
) -> list[Hypothesis]:
    """Generate the most likely word at each step.

    Args:
        decoder: The decoder.
        annotations: Of B examples.
        max_length: Maximum number of words, END included.
        mode: Read mode, "hard" or "soft"; None: the decoder's own mode.
    """
    return _greedy_or_sample(decoder, annotations, max_length, mode, None)


def sample(
    decoder: Decoder, annotations: Annotations, *, max_length: int, mode: ReadMode | None = None, noise: Noise
) -> list[Hypothesis]:
    """Sample each word, and the place of each hard read.

    Args:
        decoder: The decoder.
        annotations: Of B examples.
        max_length: Maximum number of words, END included.
        mode: Read mode, "hard" or "soft"; None: the decoder's own mode.
        noise: Random numbers of the samples.
    """
    return _greedy_or_sample(decoder, annotations, max_length, mode, noise)


class BeamSearch(NamedTuple):
    """Options of greedy decoding and beam search."""

    beam_width: int = 1  # number of hypotheses; 1 is greedy decoding
    length_penalty: float = 0.0  # of beam search: how strongly longer sentences are favored
    max_length: int = 20  # maximum number of words, END included

    def __str__(self) -> str:
        return f"beam {self.beam_width}" if self.beam_width > 1 else "greedy"


GREEDY = BeamSearch()


@torch.no_grad()
def beam(
    decoder: Decoder,
    annotations: Annotations,
    *,
    beam_width: int,
    max_length: int,
    length_penalty: float = 0.0,
    mode: ReadMode | None = None,
) -> list[Hypothesis]:
    """Search for the sentence of n words with the best score: log-probability / ((5 + n) / 6) ** length_penalty.

    Ties go to the hypothesis that finished first; within a step, to the parent ranked higher, then to the word of lower
    index. If no hypothesis finishes within `max_length` words, the most likely unfinished one is returned.

    Args:
        decoder: The decoder.
        annotations: Of B examples.
        beam_width: Number W of hypotheses, finished ones included.
        max_length: Maximum number of words, END included.
        length_penalty: How strongly longer sentences are favored; 0: not at all. Its n includes END.
        mode: Read mode, "hard" or "soft"; None: the decoder's own mode.
    """
    _check_length(max_length)
    if beam_width < 1:
        raise ValueError(f"beam_width must be at least 1, got {beam_width}")
    if not length_penalty >= 0:
        raise ValueError(f"length_penalty must be at least 0, got {length_penalty}")

    def penalized(log_prob: float, length: int) -> float:
        return log_prob / ((5 + length) / 6) ** length_penalty

    batch = len(annotations.values)
    rank = torch.arange(beam_width, device=annotations.values.device)
    open_slots = torch.full((batch, 1), beam_width, device=rank.device)  # width of the beam, less finished hypotheses
    # Hypotheses, best first; minus infinity marks one that is not open: at the start, all but the first.
    log_probs = annotations.values.new_full((batch, beam_width), -math.inf)
    log_probs[:, 0] = 0
    # The decoder steps the R open hypotheses only, in the order of images.
    is_open = log_probs > -math.inf  # (B, W)
    images = torch.arange(batch, device=rank.device)  # (R,)
    memory, state = annotations, decoder.initial_state(annotations)
    word = torch.full_like(images, START)
    # Annotations are large: allocating them anew at each step would cost more than copying them.
    buffers = Annotations._make(_empty(field, batch * beam_width) for field in annotations)
    steps: list[BeamStep] = []
    best: list[FinishedHypothesis | None] = [None] * batch
    for length in range(1, max_length + 1):
        step = decoder.step(word, state, memory, mode=mode, sample=False)
        totals = log_probs.new_full((batch, beam_width, step.logits.shape[1]), -math.inf)
        totals[is_open] = log_probs[is_open].unsqueeze(1) + _allowed_log_probs(step.logits)
        log_probs, index = _first_best(totals.flatten(1), beam_width)
        log_probs = log_probs.masked_fill(rank >= open_slots, -math.inf)
        parents, words = index // totals.shape[2], index % totals.shape[2]  # (B, W) each
        row = (is_open.flatten().cumsum(0) - 1).view(batch, beam_width).gather(1, parents)  # (B, W), of the step
        steps.append(BeamStep(parents, words, step.reading.attention.weights[row], step.reading.place[row]))
        at_end = (words == END) & (log_probs > -math.inf)
        for image, position in at_end.nonzero().tolist():
            log_prob = log_probs[image, position].item()
            score = penalized(log_prob, length)
            earlier = best[image]
            if earlier is None or score > earlier.score:
                best[image] = FinishedHypothesis(score, log_prob, length - 1, position)
        open_slots = open_slots - at_end.sum(1, keepdim=True)
        log_probs = log_probs.masked_fill(at_end, -math.inf)
        # An open hypothesis of log-probability p <= 0 can only finish with some q <= p after n <= max_length words, and
        # the divisor of the score grows with n, as the penalty is not negative. So its score is at most p over the
        # divisor of max_length. Once a finished hypothesis scores no less than this bound of every open one, no better
        # one can follow.
        upper_bounds = [penalized(log_prob, max_length) for log_prob in log_probs.amax(1).tolist()]
        finished = [
            hypothesis is not None and hypothesis.score >= upper_bound
            for upper_bound, hypothesis in zip(upper_bounds, best, strict=True)
        ]
        log_probs[torch.tensor(finished, dtype=torch.bool, device=rank.device)] = -math.inf
        is_open = log_probs > -math.inf
        if not is_open.any():
            break
        state = DecoderState(*(field[row[is_open]] for field in step.state))
        word = words[is_open]
        before, images = images, is_open.nonzero()[:, 0]
        if not torch.equal(images, before):
            memory = _copy(annotations, images, buffers)
    hypotheses = []
    for image, hypothesis in enumerate(best):
        if hypothesis is None:
            unfinished = log_probs[image].max(0)
            log_prob = unfinished.values.item()
            hypothesis = FinishedHypothesis(log_prob, log_prob, length - 1, int(unfinished.indices))
        hypotheses.append(_backtrack(steps, image, hypothesis))
    return hypotheses


@torch.no_grad()
def _greedy_or_sample(
    decoder: Decoder, annotations: Annotations, max_length: int, mode: ReadMode | None, noise: Noise | None
) -> list[Hypothesis]:
    """Generate one word at a time: the most likely one, or a sample if there is noise."""
    _check_length(max_length)
    state = decoder.initial_state(annotations)
    word = torch.full((len(annotations.values),), START, device=annotations.values.device)
    is_open = torch.ones_like(word, dtype=torch.bool)
    total = annotations.values.new_zeros(len(word))
    words, weights, places = [], [], []
    for _ in range(max_length):
        step = decoder.step(word, state, annotations, mode=mode, sample=noise is not None, noise=noise)
        state = step.state
        log_probs = _allowed_log_probs(step.logits)
        word = Categorical(log_probs).mode() if noise is None else Categorical(log_probs).sample(noise)
        total = total + log_probs.gather(1, word.unsqueeze(1)).squeeze(1).where(is_open, 0)
        words.append(word.where(is_open, END))
        weights.append(step.reading.attention.weights)
        places.append(step.reading.place)
        is_open = is_open & (word != END)
        if not is_open.any():
            break
    sentences = [row[: row.index(END)] if END in row else row for row in torch.stack(words, 1).tolist()]
    all_weights, all_places = torch.stack(weights, 1), torch.stack(places, 1)
    return [
        Hypothesis(tuple(row), total[i].item(), all_weights[i, : len(row)], all_places[i, : len(row)])
        for i, row in enumerate(sentences)
    ]


def _allowed_log_probs(logits: Tensor) -> Tensor:
    """The log-probabilities (B, V) of the words, minus infinity for those that are never generated."""
    log_probs = logits.log_softmax(-1)
    log_probs[:, [PAD, START, UNKNOWN]] = -math.inf
    return log_probs


def _empty(field: Tensor | None, rows: int) -> Tensor | None:
    return None if field is None else field.new_empty(rows, *field.shape[1:])


def _copy(annotations: Annotations, images: Tensor, buffers: Annotations) -> Annotations:
    """The annotations of the images (R,), which may repeat, copied into the first rows of `buffers`."""
    rows = [None if buffer is None else buffer[: len(images)] for buffer in buffers]
    for field, row in zip(annotations, rows, strict=True):
        if field is not None:
            torch.index_select(field, 0, images, out=row)
    return Annotations._make(rows)


def _first_best(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest values of each row (B, S), and their indices; unlike with topk, ties are ordered by index."""
    values = values.clone()
    best = []
    for _ in range(count):
        best.append(values.max(1, keepdim=True))
        values.scatter_(1, best[-1].indices, -math.inf)
    return torch.cat([largest.values for largest in best], 1), torch.cat([largest.indices for largest in best], 1)


def _backtrack(steps: list[BeamStep], image: int, finished: FinishedHypothesis) -> Hypothesis:
    """Follow a hypothesis back to its first word."""
    row, path = finished.row, []
    for step in reversed(steps[: finished.step + 1]):
        path.append((step, row))
        row = int(step.parents[image, row])
    path.reverse()
    words = [int(step.words[image, row]) for step, row in path]
    if words[-1] == END:
        words, path = words[:-1], path[:-1]
    weights = steps[0].weights.new_zeros(len(path), steps[0].weights.shape[2])
    places = steps[0].places.new_zeros(len(path))
    for i, (step, row) in enumerate(path):
        weights[i], places[i] = step.weights[image, row], step.places[image, row]
    return Hypothesis(tuple(words), finished.log_prob, weights, places)


def _check_length(max_length: int) -> None:
    if max_length < 1:
        raise ValueError(f"max_length must be at least 1, got {max_length}")
