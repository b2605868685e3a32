"""Heat maps of self-attention: the weights between the words of a sentence, for each layer and head.

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

NOTE = "Rows: the words that attend. Columns: the words attended to. The darker a cell, the larger the weight."
HEADING = Line("layer 1, head 1", 9, {"weight": "bold"})


class SelfAttentionMaps(NamedTuple):
    """The self-attention weights of a sentence."""

    source: Tokens
    weights: Tensor  # (layers, H, L, L): row i has the weights of word i, which sum to one


@torch.no_grad()
def trace_self_attention(
    loaded: TrainedTranslator, sentences: Sequence[Tokens], *, device: torch.device | str = "cpu"
) -> list[SelfAttentionMaps]:
    """Encode sentences with a translator, and record its self-attention weights.

    Raises:
        ValueError: If the translator has no self-attention.
    """
    mixer, model = loaded.model.mixer, loaded.model.to(device)
    if mixer is None:
        raise ValueError(f"loaded must have self-attention, but {loaded.run} has none")
    traces = []
    with evaluating(model):
        for words in sentences:
            annotations, mask = model.encoder(encode_sentences(loaded.source_vocabulary, [words]).to(device))
            traces.append(SelfAttentionMaps(words, mixer.attention_maps(annotations, mask)[:, 0].cpu()))
    return traces


def draw_self_attention(maps: Sequence[SelfAttentionMaps]) -> Figure:
    """Draw, for each sentence, a row of heat maps for each layer, one for each head.

    Raises:
        ValueError: If `maps` is empty.
    """
    if not maps:
        raise ValueError("maps must be of at least one sentence, got none")
    heads = maps[0].weights.shape[1]
    panels = [_panel(sentence, 0, 0) for sentence in maps]
    width = max(heads * (panel.width + GAP) - GAP for panel in panels)
    notes = make_lines(NOTE.split(), width, 8, color=MUTED_COLOR)
    sources = [make_lines(sentence.source, width, 11) for sentence in maps]
    heights = [
        total_height(lines) + PAD + len(sentence.weights) * (HEADING.height + PAD + panel.height + GAP)
        for sentence, panel, lines in zip(maps, panels, sources, strict=True)
    ]
    height = sum(heights) + (SENTENCE_GAP - GAP) * len(maps) + total_height(notes) + COLOR_BAR
    figure = Figure(figsize=(width + 2 * MARGIN, height + 2 * MARGIN))
    top = MARGIN
    for sentence, lines, size in zip(maps, sources, heights, strict=True):
        _draw(figure, write_lines(figure, MARGIN, top, lines) + PAD, sentence)
        top += size + SENTENCE_GAP - GAP
    draw_color_bar(figure, write_lines(figure, MARGIN, top, notes))
    return figure


def _panel(sentence: SelfAttentionMaps, layer: int, head: int) -> Heatmap:
    labels = AxisLabels.of(sentence.source)
    return Heatmap(sentence.weights[layer, head], labels, labels)


def _draw(figure: Figure, top: float, sentence: SelfAttentionMaps) -> None:
    layers, heads = sentence.weights.shape[:2]
    for layer in range(layers):
        for head in range(heads):
            panel = _panel(sentence, layer, head)
            left = MARGIN + head * (panel.width + GAP)
            below = write_lines(figure, left, top, [HEADING._replace(text=f"layer {layer + 1}, head {head + 1}")])
            panel.draw(figure, left, below + PAD)
        top = below + PAD + panel.height + GAP
