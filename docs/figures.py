"""Draw the figures of the tutorial, docs/attention.md, from the models that ship with the package.

python docs/figures.py               write them all to docs/attention
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse, Rectangle
from torch import Tensor

from glimpse.attention.annotation import Annotations, Attention
from glimpse.attention.distributions import Gaussian, Noise
from glimpse.attention.reading import read
from glimpse.attention.self_attention import SelfAttention
from glimpse.attention.sensor import Sensor, from_pixels, to_pixels
from glimpse.attention.settings import ReadMode
from glimpse.data import ClutteredMNIST
from glimpse.data.sentence_pairs import SentencePair
from glimpse.evaluation.glimpse_traces import trace_glimpses
from glimpse.evaluation.translate import TrainedTranslator
from glimpse.evaluation.translation_traces import trace_translations
from glimpse.models.sentence_encoder import encode_sentences
from glimpse.tasks.translation import TranslationTask
from glimpse.training.load import load
from glimpse.training.run import Run
from glimpse.view.alignment import AxisLabels, Heatmap, draw_alignments
from glimpse.view.drawing import ATTENTION_COLOR, FOOTPRINT_COLOR, READ_COLOR, draw_boxes, draw_image, draw_patches
from glimpse.view.glimpse_sheet import draw_sheet
from glimpse.view.output import save_figure

DATE = "the third of May, nineteen ninety-eight"
STEP = 8  # of the translation, the first digit of the day: the attention is spread over several words there
FEATURES = 16  # the first features of a note, which are drawn
DARKEST = 0.15  # the self-attention weight that is drawn darkest
STDS = (0.2, 0.1, 0.05, 0.01)
IMAGES = (0, 2)  # of the test split
SIDE = 60
QUIET, GRID = "#666666", "#cccccc"


def main(arguments: list[str]) -> int:
    """Draw all figures; returns the exit code, 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "attention", help="folder to write to")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        with torch.inference_mode():
            save_figure(draw(), options.out / f"{name}.png")
    return 0


def draw_alignment() -> Figure:
    """The attention to the words of a date for each character of its translation."""
    loaded = TranslationTask.load(Run.open("dates-soft"))
    pair = SentencePair(loaded.tokenizer.split(DATE), ())
    return draw_alignments([trace_translations(loaded, [pair], name="dates-soft")])


def draw_reads() -> Figure:
    """The same distribution over the notes read twice: soft, the weighted sum of all, and hard, one sampled note."""
    loaded = TranslationTask.load(Run.open("dates-soft"))
    words, notes, state = _before(loaded, STEP)
    attention = loaded.model.decoder.attention.where(state, notes)
    figure = Figure(figsize=(8, 4.4), layout="constrained")
    grid = figure.add_gridspec(4, 2, width_ratios=(len(words), 1), height_ratios=(1, 1.3, 1, 1.3))
    for row, mode in enumerate(("soft", "hard")):
        reading = read(attention, notes, mode, noise=Noise(0))
        weights = read_weights = attention.weights[0]
        if mode == "hard":
            read_weights = torch.nn.functional.one_hot(reading.place[0], len(words)).to(weights)
        bars = figure.add_subplot(grid[2 * row, 0])
        _draw_weights(bars, words, weights, read_weights, mode)
        _draw_notes(figure.add_subplot(grid[2 * row + 1, 0]), notes.values[0, :, :FEATURES].T, read_weights)
        sheet = figure.add_subplot(grid[2 * row + 1, 1])
        _draw_notes(sheet, reading.context[0, :FEATURES, None], torch.ones(1))
        sheet.set_title("cheat sheet", fontsize=9)
    return figure


def draw_window() -> Figure:
    """A distribution over words with a window and without."""
    loaded = TranslationTask.load(Run.open("dates-soft"))
    words, notes, state = _before(loaded, STEP)
    torch.manual_seed(0)
    local = Attention(state_dim=state.shape[1], annotation_dim=notes.values.shape[2], window=2)
    local.scorer.load_state_dict(loaded.model.decoder.attention.scorer.state_dict())
    row = local.annotate(notes.values)
    everywhere = loaded.model.decoder.attention.where(state, notes).weights[0].numpy()
    near = local.where(state, row).weights[0].numpy()
    point, radius = float(local.window.center(state, row.extent)), local.window.radius
    figure = Figure(figsize=(8, 2.8), layout="constrained")
    axes = figure.add_subplot()
    places = (torch.arange(len(words)) + 0.5).numpy()  # as the window measures positions
    axes.axvspan(point - radius, point + radius, color=READ_COLOR, alpha=0.15, linewidth=0)
    axes.bar(places - 0.2, everywhere, 0.38, color="white", edgecolor=QUIET, label="without a window")
    axes.bar(places + 0.2, near, 0.38, color=ATTENTION_COLOR, label="in the window")
    x = np.linspace(point - radius, point + radius, 100)
    gaussian = np.exp(-0.5 * (2 / radius * (x - point)) ** 2)
    axes.plot(x, gaussian * near.max(), color=READ_COLOR, label="the Gaussian around the point, not to scale")
    axes.plot([point], [0], "^", color=READ_COLOR, markersize=9, clip_on=False, zorder=3)
    axes.set_xticks(places, words)
    axes.set(xlim=(0, len(words)), ylim=(0, 1.15 * float(near.max())), ylabel="weight")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    return figure


def draw_crops() -> Figure:
    """The expectation of a glimpse as its std shrinks, and the glimpse itself."""
    image, _, boxes = _data().select(IMAGES[:1])
    x0, y0, x1, y1 = boxes[0, 0].tolist()
    mean = from_pixels(torch.tensor([[(x0 + x1) / 2, (y0 + y1) / 2]]), SIDE, SIDE)
    sensor = Sensor(patch_size=12, num_scales=3)
    view = sensor.view(image)
    figure = Figure(figsize=(8.5, 2.45), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.03, hspace=0.0)
    grid = figure.add_gridspec(2, len(STDS) + 1, height_ratios=(1, 0.4))
    for column, std in enumerate((*STDS, None)):
        axes = figure.add_subplot(grid[0, column])
        draw_image(axes, image[0])
        if std is None:
            patches = view.at(mean)
            draw_boxes(axes, sensor.boxes(mean, SIDE, SIDE)[0])
        else:
            patches = view.expect(Gaussian(mean, torch.full((1, 2), std)))
            size = 4 * std * SIDE / 2
            style = {"facecolor": (1, 1, 1, 0.25), "edgecolor": FOOTPRINT_COLOR, "linewidth": 1.2}
            axes.add_patch(Ellipse(to_pixels(mean, SIDE, SIDE)[0].tolist(), size, size, **style))
        axes.set_title("hard" if std is None else f"soft, std {std:g}", fontsize=9)
        draw_patches(figure.add_subplot(grid[1, column]), patches.view(3, 1, 12, 12))
    return figure


def draw_self_attention() -> Figure:
    """Which notes of a date are similar: self-attention whose linear maps are all the identity."""
    loaded = TranslationTask.load(Run.open("dates-soft"))
    words, notes, _ = _before(loaded, 0)
    layer = SelfAttention(dim=notes.values.shape[2], heads=1)
    for linear in (layer.query, layer.key, layer.value, layer.join):
        torch.nn.init.eye_(linear.weight)
    weights = layer(notes.values, need_weights=True).weights[0, 0]
    labels = AxisLabels.of(words)
    heatmap = Heatmap((weights / DARKEST).clamp(max=1), labels, labels)
    figure = Figure(figsize=(heatmap.width + 0.4, heatmap.height + 0.4))
    heatmap.draw(figure, 0.2, 0.2)
    return figure


def draw_glimpses() -> Figure:
    """All glimpses of the shipped classifier on two images."""
    data = _data()
    names = tuple(data.class_names)
    return draw_sheet(
        trace_glimpses(load("cluttered60-hard"), data.select(IMAGES), name="cluttered60-hard", class_names=names)
    )


FIGURES: dict[str, Callable[[], Figure]] = {
    "alignment": draw_alignment,
    "reads": draw_reads,
    "window": draw_window,
    "crops": draw_crops,
    "self_attention": draw_self_attention,
    "glimpses": draw_glimpses,
}


def _data() -> ClutteredMNIST:
    return ClutteredMNIST(split="test", canvas=(SIDE, SIDE))


def _before(loaded: TrainedTranslator, step: int) -> tuple[tuple[str, ...], Annotations, Tensor]:
    """The words of the date, their annotations, and the decoder's state (1, D) after so many characters."""
    [translation] = loaded.translate([DATE])
    words, decoder = translation.pair.source, loaded.model.decoder
    notes = loaded.model.annotate(encode_sentences(loaded.source_vocabulary, [words]))
    tokens, _ = loaded.vocabulary.encode([translation.words])
    state = decoder.initial_state(notes)
    for token in tokens[:, :step].unbind(1):
        state = decoder.step(token, state, notes).state
    return words, notes, state.hidden


def _draw_weights(axes: Axes, words: tuple[str, ...], weights: Tensor, read_weights: Tensor, mode: ReadMode) -> None:
    """Draw bars of the weights, with the words below; those of words that are read are filled."""
    places = range(len(words))
    color = ATTENTION_COLOR if mode == "soft" else READ_COLOR
    colors = [color if weight else "white" for weight in read_weights]
    axes.bar(places, weights.tolist(), 0.7, color=colors, edgecolor=QUIET)
    axes.set_xticks(places, words, fontsize=9)
    axes.set(yticks=[], xlim=(-0.5, len(words) - 0.5))
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)
    title = "soft: the weighted sum of all notes" if mode == "soft" else "hard: one sampled note"
    axes.set_title(title, fontsize=10, loc="left")


def _draw_notes(axes: Axes, values: Tensor, weights: Tensor) -> None:
    """Draw notes (features, L) as columns of colors, whose opacity is their weight relative to the largest."""
    opacity = (weights / weights.max()).clamp(min=0.08)
    for column, alpha in enumerate(opacity.tolist()):
        extent = (column - 0.35, column + 0.35, len(values), 0)
        style = {"cmap": "PuOr", "vmin": -1, "vmax": 1, "aspect": "auto", "interpolation": "nearest"}
        axes.imshow(values[:, column : column + 1].numpy(), alpha=alpha, extent=extent, **style)
        axes.add_patch(Rectangle((column - 0.35, 0), 0.7, len(values), fill=False, edgecolor=GRID, linewidth=0.8))
    axes.set(xlim=(-0.5, values.shape[1] - 0.5), ylim=(len(values), 0))
    axes.axis("off")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
