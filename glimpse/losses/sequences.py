"""Losses of captions and translations.

Shapes: B batch, N words, L places, V vocabulary.
"""

import torch
from torch import Tensor

from glimpse.losses.classification import log_likelihood


def caption_cross_entropy(logits: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
    """Mean cross-entropy of the words of captions, each word counted once, padding not at all.

    Args:
        logits: (B, N, V), the predictions.
        words: (B, N), what should have been predicted: the caption without START, with END, padded.
        lengths: (B,), the number of words of each, END counted, at least 1.
    """
    _check_captions(logits, lengths)
    if words.shape != logits.shape[:2]:
        raise ValueError(f"words must have shape {tuple(logits.shape[:2])}, got {tuple(words.shape)}")
    return -log_likelihood(logits, words).where(token_mask(logits, lengths), 0).sum() / lengths.sum()


def doubly_stochastic(weights: Tensor, lengths: Tensor) -> Tensor:
    """How unevenly the places were looked at: sum over places of (1 - attention summed over the words) squared.

    Show, Attend and Tell (arXiv:1502.03044), 4.2.1; the mean over the batch.

    Args:
        weights: (B, N, L), the attention.
        lengths: (B,), the number of words of each caption, END counted; steps after the last are left out.
    """
    _check_captions(weights, lengths)
    attended = weights.where(token_mask(weights, lengths).unsqueeze(-1), 0).sum(1)
    return (1 - attended).square().sum(1).mean()


def token_mask(steps: Tensor, lengths: Tensor) -> Tensor:
    """Which of the steps (B, N, ...) are of words and not of padding: (B, N)."""
    return torch.arange(steps.shape[1], device=steps.device) < lengths.unsqueeze(1)


def _check_captions(steps: Tensor, lengths: Tensor) -> None:
    if lengths.shape != steps.shape[:1]:
        raise ValueError(f"lengths must have shape ({len(steps)},), got {tuple(lengths.shape)}")
