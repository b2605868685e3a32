"""Decoding: greedy, sampled, and beam search, all by `Decoder.initial_state` and `Decoder.step`.

PAD, START and UNKNOWN are never chosen. Log-probabilities are the decoder's own, over its whole vocabulary, so that
they are those of teacher forcing. Hard reads take the most likely place, except in `sample`. Nothing here has a
gradient; put the decoder into evaluation mode, or there is dropout.

Beam search is done as by the authors of Show, Attend and Tell (arXiv:1502.03044): a hypothesis that ends is kept and
leaves the beam, which is one narrower from then on, so that a width of 1 is greedy search. The length penalty is
that of arXiv:1609.08144, section 7.

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
    """A sentence, and where the decoder looked for each word of it."""

    words: tuple[int, ...]  # n of them, without START and END
    log_prob: float  # of the words and END; of the words alone where END did not come in time
    weights: Tensor  # (n, L): the attention for each word; that for END is left out
    places: Tensor  # (n,): the place read for each word; soft: the most likely one


class BeamStep(NamedTuple):
    """One step of a beam search; hypothesis w of image b continues one of the step before."""

    parents: Tensor  # (B, W): which
    words: Tensor  # (B, W): the word added to it
    weights: Tensor  # (B, W, L): where the step before looked to find its next word
    places: Tensor  # (B, W)


class FinishedHypothesis(NamedTuple):
    """A hypothesis of one image: its last word is the one chosen at a step in a row of the beam."""

    score: float
    log_prob: float
    step: int
    row: int


def greedy(
    decoder: Decoder, annotations: Annotations, *, max_length: int, mode: ReadMode | None = None
) -> list[Hypothesis]:
    """Choose the most likely word at each step.

    Args:
        decoder: The decoder.
        annotations: Of B examples.
        max_length: The most words, END counted.
        mode: Read hard or soft; the decoder's own mode if not given.
    """
    return _greedy_or_sample(decoder, annotations, max_length, mode, None)


def sample(
    decoder: Decoder, annotations: Annotations, *, max_length: int, mode: ReadMode | None = None, noise: Noise
) -> list[Hypothesis]:
    """Sample each word, and before it the place of a hard read.

    Args:
        decoder: The decoder.
        annotations: Of B examples.
        max_length: The most words, END counted.
        mode: Read hard or soft; the decoder's own mode if not given.
        noise: The random numbers to sample with.
    """
    return _greedy_or_sample(decoder, annotations, max_length, mode, noise)


class BeamSearch(NamedTuple):
    """How sentences are searched for."""

    beam_width: int = 1  # hypotheses kept; 1 is greedy
    length_penalty: float = 0.0  # with a beam: how much longer sentences are favored
    max_length: int = 20  # the most words, END counted

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
    """Look for the sentence with the best score, the log-probability over ((5 + n) / 6) ** length_penalty.

    Of equal scores the sentence found first wins, and at a step the better parent, then the first word. If nothing has
    ended after `max_length` words, the most likely beginning is returned as it stands.

    Args:
        decoder: The decoder.
        annotations: Of B examples.
        beam_width: Number W of hypotheses kept, ended ones counted.
        max_length: The most words, END counted.
        length_penalty: How much longer sentences are favoured; 0 for not at all. n counts END.
        mode: Read hard or soft; the decoder's own mode if not given.
    """
    _check_length(max_length)
    if beam_width < 1:
        raise ValueError(f"beam_width must be at least 1, got {beam_width}")
    if not length_penalty >= 0:
        raise ValueError(f"length_penalty must be at least 0, got {length_penalty}")

    def scored(log_prob: float, length: int) -> float:
        return log_prob / ((5 + length) / 6) ** length_penalty

    batch = len(annotations.values)
    rank = torch.arange(beam_width, device=annotations.values.device)
    open_slots = torch.full((batch, 1), beam_width, device=rank.device)  # how many hypotheses may be open
    # Hypotheses, best first; those of minus infinity are not open: in the beginning all but one.
    log_probs = annotations.values.new_full((batch, beam_width), -math.inf)
    log_probs[:, 0] = 0
    # Steps are made for the R open ones alone, in the order of images.
    is_open = log_probs > -math.inf  # (B, W)
    images = torch.arange(batch, device=rank.device)  # (R,)
    memory, state = annotations, decoder.initial_state(annotations)
    word = torch.full_like(images, START)
    # Annotations are large, and new memory for them would cost more than the copying.
    copies = Annotations._make(_empty(part, batch * beam_width) for part in annotations)
    choices: list[BeamStep] = []
    best: list[FinishedHypothesis | None] = [None] * batch
    for length in range(1, max_length + 1):
        step = decoder.step(word, state, memory, mode=mode, sample=False)
        totals = log_probs.new_full((batch, beam_width, step.logits.shape[1]), -math.inf)
        totals[is_open] = log_probs[is_open].unsqueeze(1) + _allowed_log_probs(step.logits)
        log_probs, index = _first_best(totals.flatten(1), beam_width)
        log_probs = log_probs.masked_fill(rank >= open_slots, -math.inf)
        parents, words = index // totals.shape[2], index % totals.shape[2]  # (B, W) each
        row = (is_open.flatten().cumsum(0) - 1).view(batch, beam_width).gather(1, parents)  # (B, W), of the step
        choices.append(BeamStep(parents, words, step.reading.attention.weights[row], step.reading.place[row]))
        ended = (words == END) & (log_probs > -math.inf)
        for image, position in ended.nonzero().tolist():
            log_prob = log_probs[image, position].item()
            score = scored(log_prob, length)
            earlier = best[image]
            if earlier is None or score > earlier.score:
                best[image] = FinishedHypothesis(score, log_prob, length - 1, position)
        open_slots = open_slots - ended.sum(1, keepdim=True)
        log_probs = log_probs.masked_fill(ended, -math.inf)
        # An open hypothesis of log-probability p <= 0 ends, if ever, with some q <= p after n <= max_length words, and
        # the divisor grows with n as the penalty is not negative. So its score, q over the divisor of n, is at most q
        # over that of max_length, as q <= 0, and at most p over that of max_length. If a sentence found scores no less
        # than that for all that are open, nothing better will come.
        upper_bounds = [scored(log_prob, max_length) for log_prob in log_probs.amax(1).tolist()]
        finished = [
            found is not None and found.score >= upper_bound
            for upper_bound, found in zip(upper_bounds, best, strict=True)
        ]
        log_probs[torch.tensor(finished, dtype=torch.bool, device=rank.device)] = -math.inf
        is_open = log_probs > -math.inf
        if not is_open.any():
            break
        state = DecoderState(*(part[row[is_open]] for part in step.state))
        word = words[is_open]
        before, images = images, is_open.nonzero()[:, 0]
        if not torch.equal(images, before):
            memory = _copy(annotations, images, copies)
    hypotheses = []
    for image, found in enumerate(best):
        if found is None:
            longest = log_probs[image].max(0)
            log_prob = longest.values.item()
            found = FinishedHypothesis(log_prob, log_prob, length - 1, int(longest.indices))
        hypotheses.append(_backtrack(choices, image, found))
    return hypotheses


@torch.no_grad()
def _greedy_or_sample(
    decoder: Decoder, annotations: Annotations, max_length: int, mode: ReadMode | None, noise: Noise | None
) -> list[Hypothesis]:
    """Choose one word at a time, the most likely one, or with noise a sampled one."""
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
    """The log-probabilities (B, V) of the words, minus infinity for those that are never chosen."""
    log_probs = logits.log_softmax(-1)
    log_probs[:, [PAD, START, UNKNOWN]] = -math.inf
    return log_probs


def _empty(part: Tensor | None, rows: int) -> Tensor | None:
    return None if part is None else part.new_empty(rows, *part.shape[1:])


def _copy(annotations: Annotations, images: Tensor, copies: Annotations) -> Annotations:
    """The annotations of the images (R,), each as often as it is named, copied into the first rows of `copies`."""
    rows = [None if copy is None else copy[: len(images)] for copy in copies]
    for part, row in zip(annotations, rows, strict=True):
        if part is not None:
            torch.index_select(part, 0, images, out=row)
    return Annotations._make(rows)


def _first_best(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest of each row (B, S), in order, and their indices: (B, count) each; topk may pick any of equals."""
    values = values.clone()
    best = []
    for _ in range(count):
        best.append(values.max(1, keepdim=True))
        values.scatter_(1, best[-1].indices, -math.inf)
    return torch.cat([each.values for each in best], 1), torch.cat([each.indices for each in best], 1)


def _backtrack(choices: list[BeamStep], image: int, found: FinishedHypothesis) -> Hypothesis:
    """Follow a hypothesis back to its beginning."""
    row, path = found.row, []
    for step in reversed(choices[: found.step + 1]):
        path.append((step, row))
        row = int(step.parents[image, row])
    path.reverse()
    words = [int(step.words[image, row]) for step, row in path]
    if words[-1] == END:
        words, path = words[:-1], path[:-1]
    weights = choices[0].weights.new_zeros(len(path), choices[0].weights.shape[2])
    places = choices[0].places.new_zeros(len(path))
    for i, (step, row) in enumerate(path):
        weights[i], places[i] = step.weights[image, row], step.places[image, row]
    return Hypothesis(tuple(words), found.log_prob, weights, places)


def _check_length(max_length: int) -> None:
    if max_length < 1:
        raise ValueError(f"max_length must be at least 1, got {max_length}")
