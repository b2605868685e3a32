"""The heat maps show, for every word that was written, the weights of all source words; nothing is cut off."""

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from support.tensors import assert_close
from support.translations import PAIRS, WORDS, some_aligned

from glimpse.data.dates import Dates
from glimpse.data.sentence_pairs import SentencePair
from glimpse.evaluation.translation_traces import check_same_sentences
from glimpse.view.alignment import HARD_NOTE, SPAN_NOTE, WEIGHT_NOTE, draw_alignments


def drawn(axes):
    return torch.tensor(axes.images[0].get_array().data)


def rectangles(axes):
    return [(*patch.get_xy(), patch.get_width(), patch.get_height()) for patch in axes.patches]


def texts(figure):
    return [text.get_text() for text in figure.texts]


def test_each_panel_has_the_weights_of_its_sentence_of_its_model():
    aligned = [some_aligned("soft"), some_aligned("hard", seed=1)]
    *panels, scale = draw_alignments(aligned).axes
    panels = iter(panels)
    for row, pair in enumerate(PAIRS):
        for its in aligned:
            axes, one = next(panels), its.translations[row]
            assert drawn(axes).shape == (len(one.words), len(pair.source))
            assert_close(drawn(axes), one.weights)
            assert axes.images[0].get_clim() == (0, 1)
            # Column j is source word j, row i is word i, from the top down.
            assert [text.get_text() for text in axes.get_xticklabels()] == list(pair.source)
            assert [text.get_text() for text in axes.get_yticklabels()] == list(one.words)
            assert axes.get_xticks().tolist() == list(range(len(pair.source)))
            assert axes.get_yticks().tolist() == list(range(len(one.words)))
            assert axes.get_ylim() == (len(one.words) - 0.5, -0.5) and axes.get_xlim() == (-0.5, len(pair.source) - 0.5)
            picked = [(line.get_xdata(), line.get_ydata()) for line in axes.lines]
            if its.mode == "hard":
                [(x, y)] = picked
                assert list(x) == one.places.tolist() and list(y) == list(range(len(one.words)))
            else:
                assert picked == []
    assert next(panels, None) is None and drawn(scale).shape == (1, 256)


def test_what_is_meant_is_framed_where_it_is_known():
    first, second, _ = draw_alignments([some_aligned()]).axes
    assert rectangles(first) == [(4.5, -0.5, 1, 1), (4.5, 0.5, 1, 1), (1.5, 2.5, 2, 1)]  # none for the third and fifth
    assert rectangles(second) == [(0.5, -0.5, 1, 1), (0.5, 0.5, 1, 1)]
    unknown = [pair._replace(alignment_spans=()) for pair in PAIRS]
    assert [rectangles(axes) for axes in draw_alignments([some_aligned(pairs=unknown)]).axes] == [[], [], []]


def test_pixels_are_darkest_in_the_cell_that_weighs_most():
    aligned = some_aligned()
    figure = draw_alignments([aligned])
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    height = canvas.get_width_height()[1]
    pixels = torch.tensor(bytearray(canvas.buffer_rgba()), dtype=torch.uint8).view(height, -1, 4).int()
    for axes, one in zip(figure.axes, aligned.translations, strict=False):
        for word, place in enumerate(one.places.tolist()):
            points = [axes.transData.transform((column, word)) for column in range(len(one.pair.source))]
            shades = torch.stack([pixels[height - 1 - int(y), int(x), :3].sum() for x, y in points])
            assert int(shades.argmin()) == place


def test_texts_are_written_as_they_are():
    aligned = [some_aligned("soft", script=Dates.script), some_aligned("hard", words=(PAIRS[0].references[0], ()))]
    lines = texts(draw_alignments(aligned))
    assert lines[:6] == [
        "on the 3 rd of may",
        "soft, soft attention",
        "05-3more (wrong)",
        "hard, hard attention",
        "0 5 - 3 (correct)",
        "reference: 05-3",
    ]
    assert lines[6:12] == [
        "2 $may_$",
        "soft, soft attention",
        "0$6_$ (wrong)",
        "hard, hard attention",
        "(no words) (wrong)",
        "reference: 05",
    ]
    assert " ".join(lines[12:-2]) == HARD_NOTE + SPAN_NOTE + WEIGHT_NOTE and lines[-2:] == ["0", "1"]


def test_of_own_sentences_nothing_is_said_to_be_right_or_wrong():
    own = [SentencePair(pair.source, ()) for pair in PAIRS]
    lines = texts(draw_alignments([some_aligned(pairs=own)]))
    assert "0 5 - 3 more" in lines and not any("reference" in line for line in lines)
    assert " ".join(lines[-4:-2]) == WEIGHT_NOTE


@pytest.mark.parametrize("dpi", [100, 150])
def test_long_sentences_go_on_beneath_and_nothing_meets_or_is_cut_off(dpi):
    source = tuple(f"word{number}" for number in range(25)) + ("mmmmmmmmmmmmmmmmmmmmmmmm", "the", "$a_$", "ab", ".")
    pairs = [SentencePair(source, (("mmmmmmmmmmmm",) * 40, ("b",))), SentencePair(("a",), (("$b_$",),))]
    words = (("mmmmmmmmmmmmmmmmmmmmmmmm", "$x_$") * 12, ("yes",))
    aligned = [
        some_aligned(mode, words=words, pairs=pairs, name="m" * 150) for mode in ("hard", "soft", "hard", "soft")
    ]
    figure = draw_alignments(aligned)
    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    width, height = canvas.get_width_height()
    panels = [axes.get_window_extent() for axes in figure.axes]
    assert panels[0].y0 == pytest.approx(panels[1].y0) and panels[2].y1 < panels[0].y0  # two by two
    ticks = [text for axes in figure.axes for text in (*axes.get_xticklabels(), *axes.get_yticklabels())]
    boxes = panels + [text.get_window_extent() for text in [*figure.texts, *ticks] if text.get_text()]
    for box in boxes:
        assert box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height
    assert not [(i, j) for i in range(len(boxes)) for j in range(i) if boxes[i].overlaps(boxes[j])]
    assert width / dpi < 20


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="traces must be of at least one model, got none"):
        draw_alignments([])
    with pytest.raises(ValueError, match="traces must be of at least one sentence, got none"):
        draw_alignments([some_aligned(pairs=(), words=())])
    with pytest.raises(ValueError, match="same sentences, but those of hard and soft differ"):
        draw_alignments([some_aligned(), some_aligned("hard", pairs=PAIRS[::-1], words=WORDS[::-1])])
    with pytest.raises(ValueError, match="traces must be of models with attention, but none has none"):
        draw_alignments([some_aligned(), some_aligned(None)])
    check_same_sentences([some_aligned(), some_aligned(None)])
