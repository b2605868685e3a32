"""Heat maps of self-attention: which word of a sentence attended to which, in every layer and head.

Shapes: L source words, H heads.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor

from glimpse.data.vocabulary import Tokens
from glimpse.evaluation.translate import TrainedTranslator
from glimpse.models.inference import evaluating
from glimpse.models.sentence_encoder import encode_sentences
from glimpse.view.alignment import COLOR_BAR, GAP, MARGIN, PAD, SENTENCE_GAP, AxisLabels, Heatmap, draw_color_bar
from glimpse.view.text_layout import MUTED_COLOR, Line, make_lines, total_height, write_lines

NOTE = "Each row is a word that attends, each column a word attended to. The darker a cell, the larger the weight."
HEADING = Line("layer 1, head 1", 9, {"weight": "bold"})


class SelfAttentionMaps(NamedTuple):
    """The self-attention of a sentence."""

    source: Tokens
    weights: Tensor  # (layers, H, L, L): row i has the weights with which word i attended to each word


@torch.no_grad()
def trace_self_attention(
    loaded: TrainedTranslator, sentences: Sequence[Tokens], *, device: torch.device | str = "cpu"
) -> list[SelfAttentionMaps]:
    """Encode sentences with a translator, and keep the weights of its self-attention.

    Raises:
        ValueError: If it has no self-attention.
    """
    mixer, model = loaded.model.mixer, loaded.model.to(device)
    if mixer is None:
        raise ValueError(f"loaded must have self-attention, but {loaded.run} has none")
    found = []
    with evaluating(model):
        for words in sentences:
            annotations, mask = model.encoder(encode_sentences(loaded.source_vocabulary, [words]).to(device))
            found.append(SelfAttentionMaps(words, mixer.attention_maps(annotations, mask)[:, 0].cpu()))
    return found


def draw_self_attention(maps: Sequence[SelfAttentionMaps]) -> Figure:
    """Draw, for each sentence, a row of heat maps for each layer, with one for each head.

    Raises:
        ValueError: If there are no maps.
    """
    if not maps:
        raise ValueError("maps must be of at least one sentence, got none")
    heads = maps[0].weights.shape[1]
    panels = [_panel(one, 0, 0) for one in maps]
    width = max(heads * (panel.width + GAP) - GAP for panel in panels)
    notes = make_lines(NOTE.split(), width, 8, color=MUTED_COLOR)
    sources = [make_lines(one.source, width, 11) for one in maps]
    heights = [
        total_height(lines) + PAD + len(one.weights) * (HEADING.height + PAD + panel.height + GAP)
        for one, panel, lines in zip(maps, panels, sources, strict=True)
    ]
    height = sum(heights) + (SENTENCE_GAP - GAP) * len(maps) + total_height(notes) + COLOR_BAR
    figure = Figure(figsize=(width + 2 * MARGIN, height + 2 * MARGIN))
    top = MARGIN
    for one, lines, size in zip(maps, sources, heights, strict=True):
        _draw(figure, write_lines(figure, MARGIN, top, lines) + PAD, one)
        top += size + SENTENCE_GAP - GAP
    draw_color_bar(figure, write_lines(figure, MARGIN, top, notes))
    return figure


def _panel(one: SelfAttentionMaps, layer: int, head: int) -> Heatmap:
    labels = AxisLabels.of(one.source)
    return Heatmap(one.weights[layer, head], labels, labels)


def _draw(figure: Figure, top: float, one: SelfAttentionMaps) -> None:
    layers, heads = one.weights.shape[:2]
    for layer in range(layers):
        for head in range(heads):
            panel = _panel(one, layer, head)
            left = MARGIN + head * (panel.width + GAP)
            below = write_lines(figure, left, top, [HEADING._replace(text=f"layer {layer + 1}, head {head + 1}")])
            panel.draw(figure, left, below + PAD)
        top = below + PAD + panel.height + GAP
