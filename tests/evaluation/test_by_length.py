"""Scores by the length of the source: the numbers by hand, the intervals, and the table, rows and figure."""

import math

import pytest
from sacrebleu.metrics import BLEU
from support.sentences import finished, untrained
from support.translations import make_translation_trace

from glimpse.data.sentence_pairs import SentencePair
from glimpse.errors import RunError
from glimpse.evaluation.by_length import (
    ALL,
    LengthComparison,
    LengthGroup,
    ScoredTranslator,
    bleu_interval,
    compare_lengths,
)
from glimpse.metrics.statistics import Estimate, wilson_interval
from glimpse.metrics.translations import by_length
from glimpse.tasks.translation import TranslationTask
from glimpse.training.run import Run
from glimpse.view.by_length import draw_lengths, length_group_rows, length_run_rows, length_table
from glimpse.view.comparison import rows_to_csv

TWO = LengthComparison(
    metric="error",
    split="test",
    counts={"1-5": 40, "6-10": 60, ALL: 100},
    groups=[
        LengthGroup(
            "with",
            True,
            [
                ScoredTranslator(
                    "a",
                    0,
                    {"1-5": Estimate(0.1, 0.05, 0.2), "6-10": Estimate(0.2, 0.1, 0.3), ALL: Estimate(0.16, 0.1, 0.2)},
                ),
                ScoredTranslator(
                    "b",
                    1,
                    {"1-5": Estimate(0.3, 0.2, 0.4), "6-10": Estimate(0.2, 0.1, 0.3), ALL: Estimate(0.24, 0.2, 0.3)},
                ),
            ],
        ),
        LengthGroup(
            "without",
            False,
            [
                ScoredTranslator(
                    "c",
                    0,
                    {"1-5": Estimate(0.5, 0.4, 0.6), "6-10": Estimate(0.9, 0.8, 0.95), ALL: Estimate(0.74, 0.6, 0.8)},
                )
            ],
        ),
    ],
)


class FakeTranslator:
    """Translates sentences of some lengths correctly, and others as a wrong word."""

    def __init__(self, run, is_correct):
        self.run, self.is_correct = run, is_correct

    def translate_pairs(self, pairs, *, batch_size, device):
        words = [pair.references[0] if self.is_correct(len(pair.source)) else ("x",) for pair in pairs]
        return make_translation_trace(pairs=pairs, words=words).translations


def silent(text):
    pass


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {
        "zero": finished(folder / "zero"),
        "one": finished(folder / "one", seed=1),
        "none": finished(folder / "none", attention__places="none"),
        "twin": finished(folder / "twin"),
        "unfinished": untrained(folder / "unfinished", seed=2),
    }


def sentences(spans=((0, 1),)):
    return [SentencePair(("s",) * length, (("r",),), spans) for length in (1, 5, 6, 10, 10, 11)]


def test_by_length():
    assert by_length(sentences()) == {"1-5": [0, 1], "6-10": [2, 3, 4], "11-15": [5]}


def test_errors_are_counted_by_length(runs):
    translators = [
        FakeTranslator(runs["zero"], lambda length: length < 10),
        FakeTranslator(runs["none"], lambda length: length == 5),
        FakeTranslator(runs["one"], lambda length: True),
    ]
    lengths = compare_lengths(translators, sentences(), log=silent)
    assert lengths.metric == "error" and lengths.counts == {"1-5": 2, "6-10": 3, "11-15": 1, ALL: 6}
    first, second = lengths.groups
    assert [run.seed for run in first.runs] == [0, 1] and (first.has_attention, second.has_attention) == (True, False)
    wrong = {"1-5": (0, 1), "6-10": (2, 3), "11-15": (1, 1), ALL: (3, 5)}
    for words, (with_attention, without) in wrong.items():
        count = lengths.counts[words]
        assert first.runs[0].scores[words] == (with_attention / count, *wilson_interval(with_attention, count))
        assert first.runs[1].scores[words].mean == 0
        assert second.score(words) == (without / count, *wilson_interval(without, count))
        assert first.score(words).mean == pytest.approx(with_attention / count / 2)
    # Student's interval of two runs: 12.706 standard errors of the mean to either side, and errors end at 0 and 1.
    assert first.score("6-10").low == 0 and first.score("6-10").high == 1
    assert first.score("1-5") == (0, 0, 0)


def test_other_text_is_scored_by_bleu(runs):
    long = [SentencePair(tuple("abcdefg"[:size]), (tuple("abcdefg"[:size]),)) for size in (4, 5, 6, 7)]
    lengths = compare_lengths([FakeTranslator(runs["zero"], lambda length: length != 6)], long, log=silent)
    assert lengths.metric == "BLEU" and list(lengths.counts) == ["1-5", "6-10", ALL]
    scores = lengths.groups[0].runs[0].scores
    assert scores["1-5"] == pytest.approx((1, 1, 1)) and 0.4 < scores["6-10"].mean < 1


def test_the_interval_of_bleu():
    pairs = [SentencePair(("s",), (tuple("abcdefgh"), tuple("abxd"))) for _ in range(40)]
    words = [tuple("abcdefgh"), tuple("abcdeegh")] * 20
    interval = bleu_interval(make_translation_trace(pairs=pairs, words=words).translations)
    hypotheses = [" ".join(tokens) for tokens in words]
    expected = BLEU(tokenize="none", force=True).corpus_score(hypotheses, [["a b c d e f g h"] * 40, ["a b x d"] * 40])
    assert interval.mean == pytest.approx(expected.score / 100)
    assert interval.low < interval.mean < interval.high < 1
    # The share of perfect sentences is 1/2, with a standard error of 0.079; BLEU goes from 0.63 to 1 as it does.
    worst = bleu_interval(make_translation_trace(pairs=pairs[:1], words=words[1:2]).translations)
    assert worst.low == pytest.approx(worst.mean) == pytest.approx(worst.high)
    assert (interval.high - interval.low) / (1 - worst.mean) == pytest.approx(2 * 1.96 * 0.5 / math.sqrt(40), rel=0.25)
    assert bleu_interval(make_translation_trace(pairs=pairs, words=words).translations) == interval


def test_runs_that_cannot_be_compared(runs):
    def compare(*names):
        compare_lengths([FakeTranslator(runs[name], lambda length: True) for name in names], sentences(), log=silent)

    with pytest.raises(RunError, match="unfinished is not finished"):
        compare("zero", "unfinished")
    with pytest.raises(RunError, match="zero and .*twin are runs of the same config with the same seed, 0"):
        compare("zero", "twin")


def test_trained_runs_are_scored(runs):
    loaded = TranslationTask.load(Run.open(runs["zero"].folder))
    pairs = [SentencePair(("3", "/", "5"), (tuple("0123-"),), ((0, 1),)), SentencePair(("may",), ((),), ((0, 1),))]
    outputs = [translation.words for translation in loaded.translate_pairs(pairs)]
    right = [pair._replace(references=(words,)) for pair, words in zip(pairs, outputs, strict=True)]
    assert compare_lengths([loaded], right, log=silent).groups[0].score(ALL).mean == 0
    assert compare_lengths([loaded], [right[0], pairs[1]], log=silent).groups[0].score(ALL).mean == 0.5


def test_the_table():
    table = length_table(TWO)
    assert table.title == "Translations that are not exact, in %, by the length of the source, 100 test sentences"
    assert table.header == ["source words", "runs", "1-5 (40)", "6-10 (60)", "all (100)"]
    assert table.rows[0][:2] == ["with", "2"] and table.rows[0][3] == "20.00 (20.00-20.00)"
    assert table.rows[1] == ["without", "1", "50.00 (40.00-60.00)", "90.00 (80.00-95.00)", "74.00 (60.00-80.00)"]
    [note] = table.notes
    assert "over seeds (Student's t) for several runs, over sentences (Wilson's) for a single run." in note
    single = length_table(TWO._replace(metric="BLEU", groups=TWO.groups[1:]))
    assert (
        single.title.startswith("BLEU, by") and "over sentences (by the bootstrap) for a single run" in single.notes[0]
    )
    assert "95% intervals over seeds (Student's t)." in length_table(TWO._replace(groups=TWO.groups[:1])).notes[0]


def test_the_rows():
    lines = rows_to_csv(length_group_rows(TWO)).splitlines()
    assert lines[0] == "config,runs,attention,split,source_words,sentences,metric,value,low,high,interval"
    assert lines[2] == "with,2,True,test,6-10,60,error,0.2,0.2,0.2,seeds"
    assert lines[4] == "without,1,False,test,1-5,40,error,0.5,0.4,0.6,sentences" and len(lines) == 7
    lines = rows_to_csv(length_run_rows(TWO)).splitlines()
    assert lines[0] == "config,seed,run,attention,split,source_words,sentences,metric,value,low,high"
    assert lines[4] == "with,1,b,True,test,1-5,40,error,0.3,0.2,0.4" and len(lines) == 10


def test_the_figure():
    figure = draw_lengths(TWO)
    [axes] = figure.axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1-5\n(40)", "6-10\n(60)"]
    assert axes.get_ylabel() == "test error %" and axes.get_ylim()[0] == 0
    for bars, values, style in zip(axes.containers, [(20, 20), (50, 90)], ["-", "--"], strict=True):
        line, _, [ends] = bars
        assert line.get_ydata() == pytest.approx(values) and line.get_linestyle() == style
        assert [round(x) for x in line.get_xdata()] == [0, 1]
    assert [segment[:, 1].tolist() for segment in ends.get_segments()] == [
        pytest.approx([40, 60]),
        pytest.approx([80, 95]),
    ]
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["with", "without"]
