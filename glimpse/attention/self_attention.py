"""Self-attention: annotations that look at each other before anyone looks at them.

Attention Is All You Need (arXiv:1706.03762), 3.2 and 3.3. Each of the L annotations asks, as the state of a decoder
does, with a query of its own, and reads softly from all of them, itself included; `scaled_dot` is the score of the
scorer of that name, for many queries at a time. Several heads do so side by side, each in a part of the space.

Nothing here knows where an annotation is: if they change places, so does what is made of them, and that is all. What an
annotation has to say of its place comes with it, from the encoder: a recurrent one has counted the steps,
`SmallEncoder` adds the place, and the convolutions of a backbone notice the edges of the image.

Departures from the paper: norms come before attention and layers, not after the sums (arXiv:2002.04745), so that what
is passed on is a plain sum that begins with the annotation itself, and no warm-up is needed; there is no dropout.

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
    """Annotations that have looked at each other."""

    annotations: Tensor  # (B, L, A)
    weights: Tensor | None  # (B, H, L, L): of row i, how much annotation i looked at each; None if not asked for


class SelfAttention(nn.Module):
    """softmax(q . k / sqrt(E)) v in each head, and a linear layer of what all heads have read."""

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
        """Let annotations look at each other.

        Args:
            annotations: (B, L, A).
            mask: (B, L), true where there is an annotation; all of them if not given. The others are not looked at;
                what they themselves become means nothing.
            need_weights: Whether to return the weights too. They are then computed one by one; torch's own fused
                function, which takes less time and memory, does not tell them.
        """
        check_mask(mask, annotations)
        queries, keys, values = (
            layer(annotations).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, H, L, E)
            for layer in (self.query, self.key, self.value)
        )
        seen = None if mask is None else mask[:, None, None]  # (B, 1, 1, L)
        weights = None
        if need_weights:
            logits = scaled_dot(queries, keys)
            weights = Categorical(logits if seen is None else logits.masked_fill(~seen, -torch.inf)).weights
            read = weights @ values
        else:
            read = F.scaled_dot_product_attention(queries, keys, values, attn_mask=seen)
        return SelfAttentionOutput(self.join(read.transpose(1, 2).flatten(2)), weights)


class SelfAttentionBlock(nn.Module):
    """Self-attention, then two layers at each place with ReLU between them; both are added to what they are given."""

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
    """Layers of self-attention, to stand between what makes annotations and what reads them."""

    def __init__(self, *, dim: int, heads: int = 4, num_layers: int = 1):
        """Create the layers.

        Args:
            dim: Size A of an annotation.
            heads: Number H of heads, a divisor of `dim`.
            num_layers: Number of layers.
        """
        super().__init__()
        if num_layers < 1:
            raise ValueError(f"num_layers must be at least 1, got {num_layers}")
        self.layers = nn.ModuleList(SelfAttentionBlock(dim=dim, heads=heads) for _ in range(num_layers))

    def forward(self, annotations: Tensor, mask: Tensor | None = None) -> Tensor:
        """Mix annotations (B, L, A), of which the mask (B, L) may leave some out, into as many new ones."""
        for layer in self.layers:
            annotations = layer(annotations, mask).annotations
        return annotations

    def attention_maps(self, annotations: Tensor, mask: Tensor | None = None) -> Tensor:
        """What looked at what: the weights (layers, B, H, L, L), for pictures."""
        weights = []
        for layer in self.layers:
            annotations, seen = layer(annotations, mask, need_weights=True)
            weights.append(seen)
        return torch.stack(weights)
