"""Heat maps show the weights of all source words for every output word, without clipping."""

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from support.tensors import assert_close
from support.translations import PAIRS, WORDS, make_translation_trace

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
    traces = [make_translation_trace("soft"), make_translation_trace("hard", seed=1)]
    *panels, scale = draw_alignments(traces).axes
    panels = iter(panels)
    for row, pair in enumerate(PAIRS):
        for trace in traces:
            axes, one = next(panels), trace.translations[row]
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
            if trace.mode == "hard":
                [(x, y)] = picked
                assert list(x) == one.places.tolist() and list(y) == list(range(len(one.words)))
            else:
                assert picked == []
    assert next(panels, None) is None and drawn(scale).shape == (1, 256)


def test_aligned_words_are_framed_where_they_are_known():
    first, second, _ = draw_alignments([make_translation_trace()]).axes
    assert rectangles(first) == [(4.5, -0.5, 1, 1), (4.5, 0.5, 1, 1), (1.5, 2.5, 2, 1)]  # none for the third and fifth
    assert rectangles(second) == [(0.5, -0.5, 1, 1), (0.5, 0.5, 1, 1)]
    unknown = [pair._replace(alignment_spans=()) for pair in PAIRS]
    assert [rectangles(axes) for axes in draw_alignments([make_translation_trace(pairs=unknown)]).axes] == [[], [], []]


def test_pixels_are_darkest_in_the_cell_with_the_largest_weight():
    trace = make_translation_trace()
    figure = draw_alignments([trace])
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    height = canvas.get_width_height()[1]
    pixels = torch.tensor(bytearray(canvas.buffer_rgba()), dtype=torch.uint8).view(height, -1, 4).int()
    for axes, one in zip(figure.axes, trace.translations, strict=False):
        for word, place in enumerate(one.places.tolist()):
            points = [axes.transData.transform((column, word)) for column in range(len(one.pair.source))]
            shades = torch.stack([pixels[height - 1 - int(y), int(x), :3].sum() for x, y in points])
            assert int(shades.argmin()) == place


def test_texts_are_not_interpreted():
    traces = [
        make_translation_trace("soft", tokenizer=Dates.tokenizer),
        make_translation_trace("hard", words=(PAIRS[0].references[0], ())),
    ]
    lines = texts(draw_alignments(traces))
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


def test_sentences_without_references_have_no_verdict():
    own = [SentencePair(pair.source, ()) for pair in PAIRS]
    lines = texts(draw_alignments([make_translation_trace(pairs=own)]))
    assert "0 5 - 3 more" in lines and not any("reference" in line for line in lines)
    assert " ".join(lines[-5:-2]) == WEIGHT_NOTE


@pytest.mark.parametrize("dpi", [100, 150])
def test_long_sentences_wrap_without_overlap_or_clipping(dpi):
    source = tuple(f"word{number}" for number in range(25)) + ("mmmmmmmmmmmmmmmmmmmmmmmm", "the", "$a_$", "ab", ".")
    pairs = [SentencePair(source, (("mmmmmmmmmmmm",) * 40, ("b",))), SentencePair(("a",), (("$b_$",),))]
    words = (("mmmmmmmmmmmmmmmmmmmmmmmm", "$x_$") * 12, ("yes",))
    traces = [
        make_translation_trace(mode, words=words, pairs=pairs, name="m" * 150)
        for mode in ("hard", "soft", "hard", "soft")
    ]
    figure = draw_alignments(traces)
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


def test_invalid_arguments():
    with pytest.raises(ValueError, match="traces must be of at least one model, got none"):
        draw_alignments([])
    with pytest.raises(ValueError, match="traces must be of at least one sentence, got none"):
        draw_alignments([make_translation_trace(pairs=(), words=())])
    with pytest.raises(ValueError, match="same sentences, but those of hard and soft differ"):
        draw_alignments(
            [make_translation_trace(), make_translation_trace("hard", pairs=PAIRS[::-1], words=WORDS[::-1])]
        )
    with pytest.raises(ValueError, match="traces must be of models with attention, but none has none"):
        draw_alignments([make_translation_trace(), make_translation_trace(None)])
    check_same_sentences([make_translation_trace(), make_translation_trace(None)])
