"""Multi-head self-attention over annotations, between an encoder and the attention of a decoder.

Attention Is All You Need (arXiv:1706.03762), 3.2 and 3.3. Each of the L annotations is a query and reads softly from
all of them, itself included; the score is that of the scorer `scaled_dot`, for many queries at once. Each head works
in its own subspace.

The layers are equivariant to permutations of the annotations. Positions come from the encoder: a recurrent encoder
counts steps, `SmallEncoder` adds a position encoding, and zero padding shows a backbone the edges of the image.

Departures from the paper: layer normalization comes before attention and feed-forward layers (pre-norm,
arXiv:2002.04745), so that no warm-up is needed; there is no dropout.

Shapes: B batch, L places, A annotation size, H heads, E = A / H size of a head.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glimpse.attention.annotation import check_mask
from glimpse.attention.distributions import Categorical
from glimpse.attention.scorers import scaled_dot


class SelfAttentionOutput(NamedTuple):
    """The result of a self-attention layer."""

    annotations: Tensor  # (B, L, A)
    weights: Tensor | None  # (B, H, L, L): row i has the weights of query i; None unless `need_weights`


class SelfAttention(nn.Module):
    """softmax(q . k / sqrt(E)) v in each head, then a linear layer over the concatenated heads."""

    def __init__(self, *, dim: int, heads: int = 4):
        """Create the attention for annotations of size `dim`, which must be a multiple of `heads`."""
        super().__init__()
        if heads < 1 or dim % heads:
            raise ValueError(f"heads must be a divisor of dim {dim}, got {heads}")
        self.heads = heads
        self.query = nn.Linear(dim, dim, bias=False)
        self.key = nn.Linear(dim, dim, bias=False)
        self.value = nn.Linear(dim, dim, bias=False)
        self.join = nn.Linear(dim, dim, bias=False)

    def forward(
        self, annotations: Tensor, mask: Tensor | None = None, *, need_weights: bool = False
    ) -> SelfAttentionOutput:
        """Apply self-attention.

        Args:
            annotations: (B, L, A).
            mask: (B, L) bool, false where padded; None: no padding. Padded annotations are not attended to; their own
                outputs are meaningless.
            need_weights: Whether to return the weights, which takes more time and memory than torch's fused function.
        """
        check_mask(mask, annotations)
        queries, keys, values = (
            layer(annotations).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, H, L, E)
            for layer in (self.query, self.key, self.value)
        )
        key_mask = None if mask is None else mask[:, None, None]  # (B, 1, 1, L)
        weights = None
        if need_weights:
            logits = scaled_dot(queries, keys)
            weights = Categorical(logits if key_mask is None else logits.masked_fill(~key_mask, -torch.inf)).weights
            read = weights @ values
        else:
            read = F.scaled_dot_product_attention(queries, keys, values, attn_mask=key_mask)
        return SelfAttentionOutput(self.join(read.transpose(1, 2).flatten(2)), weights)


class SelfAttentionBlock(nn.Module):
    """A pre-norm transformer block: self-attention and a two-layer ReLU network, each with a residual connection."""

    def __init__(self, *, dim: int, heads: int):
        super().__init__()
        self.attention = SelfAttention(dim=dim, heads=heads)
        self.attention_norm = nn.LayerNorm(dim)
        self.layers = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim))

    def forward(
        self, annotations: Tensor, mask: Tensor | None = None, *, need_weights: bool = False
    ) -> SelfAttentionOutput:
        """See `SelfAttention.forward`."""
        mixed = self.attention(self.attention_norm(annotations), mask, need_weights=need_weights)
        annotations = annotations + mixed.annotations
        return SelfAttentionOutput(annotations + self.layers(annotations), mixed.weights)


class SelfAttentionStack(nn.Module):
    """A stack of self-attention blocks between an encoder and a decoder."""

    def __init__(self, *, dim: int, heads: int = 4, num_layers: int = 1):
        """Create the blocks.

        Args:
            dim: Size A of an annotation.
            heads: Number H of heads, a divisor of `dim`.
            num_layers: Number of blocks.
        """
        super().__init__()
        if num_layers < 1:
            raise ValueError(f"num_layers must be at least 1, got {num_layers}")
        self.layers = nn.ModuleList(SelfAttentionBlock(dim=dim, heads=heads) for _ in range(num_layers))

    def forward(self, annotations: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return new annotations (B, L, A); the mask (B, L) is false where padded."""
        for layer in self.layers:
            annotations = layer(annotations, mask).annotations
        return annotations

    def attention_maps(self, annotations: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the attention weights (layers, B, H, L, L) of all blocks."""
        weights = []
        for layer in self.layers:
            annotations, layer_weights = layer(annotations, mask, need_weights=True)
            weights.append(layer_weights)
        return torch.stack(weights)
