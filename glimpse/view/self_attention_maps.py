"""Maps of self-attention: which word of a sentence looked at which, in every layer and head.

Shapes: L source words, H heads.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor

from glimpse.data.captions import Words
from glimpse.sentences import encode_sentences
from glimpse.tasks import evaluating
from glimpse.translation import LoadedTranslator
from glimpse.view.alignment import FAR, GAP, MARGIN, PAD, SCALE, Labels, Map, draw_scale
from glimpse.view.lines import QUIET, Line, height_of, wrapped, write_lines

NOTE = "A row for each word that looks, a column for each that is looked at. The darker a cell, the more it weighs."
HEADING = Line("layer 1, head 1", 9, {"weight": "bold"})


class SelfMap(NamedTuple):
    """How the words of a sentence looked at each other."""

    source: Words
    weights: Tensor  # (layers, H, L, L): of row i, how much word i looked at each


@torch.no_grad()
def self_maps(
    loaded: LoadedTranslator, sentences: Sequence[Words], *, device: torch.device | str = "cpu"
) -> list[SelfMap]:
    """Let a translator with self-attention read sentences.

    Raises:
        ValueError: If it has none.
    """
    mixer, model = loaded.model.mixer, loaded.model.to(device)
    if mixer is None:
        raise ValueError(f"loaded must have self-attention, but {loaded.run} has none")
    found = []
    with evaluating(model):
        for words in sentences:
            annotations, mask = model.encoder(encode_sentences(loaded.source_vocabulary, [words]).to(device))
            found.append(SelfMap(words, mixer.maps(annotations, mask)[:, 0].cpu()))
    return found


def draw_self_maps(maps: Sequence[SelfMap]) -> Figure:
    """Draw, for each sentence, a row of maps for each layer, and in it one for each head.

    Raises:
        ValueError: If there are no maps.
    """
    if not maps:
        raise ValueError("maps must be of at least one sentence, got none")
    heads = maps[0].weights.shape[1]
    panels = [_panel(its, 0, 0) for its in maps]
    width = max(heads * (panel.width + GAP) - GAP for panel in panels)
    notes = wrapped(NOTE.split(), width, 8, color=QUIET)
    sources = [wrapped(its.source, width, 11) for its in maps]
    heights = [
        height_of(lines) + PAD + len(its.weights) * (HEADING.height + PAD + panel.height + GAP)
        for its, panel, lines in zip(maps, panels, sources, strict=True)
    ]
    height = sum(heights) + (FAR - GAP) * len(maps) + height_of(notes) + SCALE
    figure = Figure(figsize=(width + 2 * MARGIN, height + 2 * MARGIN))
    top = MARGIN
    for its, lines, room in zip(maps, sources, heights, strict=True):
        _draw(figure, write_lines(figure, MARGIN, top, lines) + PAD, its)
        top += room + FAR - GAP
    draw_scale(figure, write_lines(figure, MARGIN, top, notes))
    return figure


def _panel(its: SelfMap, layer: int, head: int) -> Map:
    labels = Labels.of(its.source)
    return Map(its.weights[layer, head], labels, labels)


def _draw(figure: Figure, top: float, its: SelfMap) -> None:
    layers, heads = its.weights.shape[:2]
    for layer in range(layers):
        for head in range(heads):
            panel = _panel(its, layer, head)
            left = MARGIN + head * (panel.width + GAP)
            below = write_lines(figure, left, top, [HEADING._replace(text=f"layer {layer + 1}, head {head + 1}")])
            panel.draw(figure, left, below + PAD)
        top = below + PAD + panel.height + GAP
