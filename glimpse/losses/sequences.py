"""Losses of captions and translations.

Shapes: B batch, N words, L places, V vocabulary.
"""

import torch
from torch import Tensor

from glimpse.losses.classification import log_likelihood


def caption_cross_entropy(logits: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
    """Return the mean cross-entropy over all words of a batch, without padding.

    Args:
        logits: (B, N, V).
        words: (B, N), target tokens: the caption without START and with END, padded.
        lengths: (B,), number of words of each caption, END included, at least 1.
    """
    _check_captions(logits, lengths)
    if words.shape != logits.shape[:2]:
        raise ValueError(f"words must have shape {tuple(logits.shape[:2])}, got {tuple(words.shape)}")
    return -log_likelihood(logits, words).where(token_mask(logits, lengths), 0).sum() / lengths.sum()


def doubly_stochastic(weights: Tensor, lengths: Tensor) -> Tensor:
    """Return the doubly stochastic penalty: sum over places of (1 - sum over words of the weights)^2, batch mean.

    Show, Attend and Tell (arXiv:1502.03044), 4.2.1.

    Args:
        weights: (B, N, L), attention weights.
        lengths: (B,), number of words of each caption, END included; padding is ignored.
    """
    _check_captions(weights, lengths)
    attended = weights.where(token_mask(weights, lengths).unsqueeze(-1), 0).sum(1)
    return (1 - attended).square().sum(1).mean()


def token_mask(steps: Tensor, lengths: Tensor) -> Tensor:
    """Return the mask (B, N) of steps (B, N, ...), false where padded."""
    return torch.arange(steps.shape[1], device=steps.device) < lengths.unsqueeze(1)


def _check_captions(steps: Tensor, lengths: Tensor) -> None:
    """Raise a ValueError unless there is one length per example."""
    if lengths.shape != steps.shape[:1]:
        raise ValueError(f"lengths must have shape ({len(steps)},), got {tuple(lengths.shape)}")
