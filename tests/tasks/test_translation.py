"""The task of translating: the losses of captions, its scores by hand, and runs that are resumed and shared."""

import math
import shutil

import pytest
import torch
from support.runs import (
    REPOSITORY,
    assert_nearly_same_losses,
    assert_same_run,
    rows_without_time,
    train_by_two,
    train_main,
)
from support.sentences import make, options, untrained, write_text
from support.tensors import ALONE, assert_close, reached

import glimpse
from glimpse import losses
from glimpse.attention.annotation import Attention
from glimpse.attention.distributions import Noise
from glimpse.data.date_formats import split_date
from glimpse.data.sentence_pairs import SentencePair, pairs_of
from glimpse.data.vocabulary import UNKNOWN
from glimpse.errors import ConfigError, RunError
from glimpse.evaluation.translate import TrainedTranslator, translate
from glimpse.metrics.translations import Translation, TranslationScores, translation_bleu
from glimpse.models.decoding import BeamSearch
from glimpse.models.encoder_decoder import Translator
from glimpse.models.sentence_encoder import Sentences
from glimpse.tasks.base import build_task
from glimpse.tasks.captioning import CaptioningTask
from glimpse.tasks.classification import ClassificationTask
from glimpse.tasks.classification_commands import load_runs
from glimpse.tasks.sequences import SequenceTask
from glimpse.tasks.settings import load_config
from glimpse.tasks.translation import TranslationTask
from glimpse.training.load import open_runs
from glimpse.training.run import Run
from glimpse.training.train import train

pytestmark = pytest.mark.usefixtures("few_test_examples")

TEST = TranslationTask.test  # of all test examples
SEARCH = BeamSearch(max_length=12)


@pytest.fixture(scope="module")
def tasks():
    return {read: make(read=read) for read in ("soft", "hard")}


def terms_of(task, seed=3):
    batch = next(iter(task.batches(0)))
    return batch, task.loss_terms(task.model, batch, Noise(seed))


# Losses


def test_captions_and_translations_learn_alike(tasks):
    """The one method, for both tasks."""
    for name in ("loss_terms", "validate", "validation_record", "format_scores"):
        assert getattr(CaptioningTask, name) is getattr(TranslationTask, name) is getattr(SequenceTask, name), name
    assert TEST is SequenceTask.test
    assert type(tasks["soft"].model.decoder.attention) is Attention


def test_inputs_and_targets(tasks):
    task = tasks["soft"]
    batch = next(iter(task.batches(0)))
    source, said = task.inputs_and_targets(batch)
    assert isinstance(source, Sentences) and source.words.shape == (16, batch.width)
    for row, pair in enumerate(batch.pairs):
        words = [task.source_vocabulary.words[number - 4] for number in source.words[row, : source.lengths[row]]]
        assert tuple(words) == pair.source and said[row] == pair.references[0]


def test_soft_terms(tasks):
    task = tasks["soft"]
    batch, terms = terms_of(task)
    source, said = task.inputs_and_targets(batch)
    words, lengths = task.vocabulary.encode(said)
    telling = task.model(source, words, noise=Noise(3))
    assert_close(terms["cross_entropy"][1], losses.caption_cross_entropy(telling.logits, words[:, 1:], lengths))
    assert {name: weight for name, (weight, _) in terms.items()} == {"cross_entropy": 1.0}
    assert reached(terms["cross_entropy"][1], task.model) == {name for name, _ in task.model.named_parameters()}


def test_hard_terms(tasks):
    task = tasks["hard"]
    task.model.average_reward.fill_(math.inf)
    batch, terms = terms_of(task)
    source, said = task.inputs_and_targets(batch)
    words, lengths = task.vocabulary.encode(said)
    telling = task.model(source, words, noise=Noise(3))
    rewards = telling.logits.detach().log_softmax(-1).gather(-1, words[:, 1:].unsqueeze(-1)).squeeze(-1)
    mean = rewards.mean()  # all dates have ten words and an end
    assert lengths.tolist() == [11] * 16
    assert float(terms["reward"][1]) == pytest.approx(float(mean), rel=1e-5)
    expected = -((rewards - mean) * telling.log_probs).mean()
    assert float(terms["reinforce"][1].detach()) == pytest.approx(float(expected.detach()), abs=1e-5)
    assert terms["reinforce"][0] == 0.5 and terms["neg_entropy"][0] == 0.01
    assert_close(terms["neg_entropy"][1], -telling.entropies.mean())
    scorer = {name for name, _ in task.model.named_parameters() if ".scorer." in name}
    assert scorer and not scorer & reached(terms["cross_entropy"][1], task.model)
    everything = sum(weight * value for weight, value in terms.values() if weight)
    assert reached(everything, task.model) == {name for name, _ in task.model.named_parameters()}


def test_some_batches_of_a_hard_model_may_be_read_softly():
    task = make(read="hard", loss__mix=1.0, loss__mix_end=0.5)
    task.on_progress(0.0)
    assert terms_of(task)[1].keys() == {"cross_entropy"}
    task.on_progress(1.0)
    assert task.estimator.soft_fraction_at(task.progress) == 0.5


@pytest.mark.parametrize("read", ["soft", "hard"])
def test_without_a_choice(read):
    task = make(read=read, attention__places="none")
    _, terms = terms_of(task)
    everything = sum(weight * value for weight, value in terms.values() if weight)
    assert reached(everything, task.model) == {name for name, _ in task.model.named_parameters()}
    if read == "hard":
        assert float(terms["reinforce"][1].detach()) == 0 and float(terms["neg_entropy"][1].detach()) == 0
    scores = task.validate()
    assert scores.aligned and scores.on_span is None and scores.as_dict()["on_span"] is None
    assert load_config(options(read=read, attention__places="none")).describe() == "translation without attention"


# Scores


def said(text, source="x y z", references=("a b",), spans=(), places=None, width=None):
    words, source = tuple(text.split()), tuple(source.split())
    weights = torch.zeros(len(words), len(source) if width is None else width)
    places = torch.zeros(len(words), dtype=torch.int64) if places is None else torch.tensor(places)
    return Translation(
        SentencePair(source, tuple(tuple(one.split()) for one in references), spans), words, -1.0, weights, places
    )


def test_exact_by_hand():
    scores = TranslationScores.of([said("a b"), said("a"), said("b a", references=("a b", "b a")), said("a b c")])
    assert scores.sentences == 4 and scores.exact == 0.5
    assert not scores.aligned and "on_span" not in scores.as_dict()


def test_bleu_by_hand():
    """One sentence of five words: 4 of 5, 3 of 4, 2 of 3 and 1 of 2 n-grams are right."""
    one = said("the cat sat on mats", references=("the cat sat on it",))
    assert translation_bleu([one]) == pytest.approx((4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)
    short = said("the cat sat on", references=("the cat sat on it",))
    assert translation_bleu([short]) == pytest.approx(math.exp(1 - 5 / 4))
    punctuated = said("a dog-cat , don't stop", references=("a dog-cat , don't stop",))
    assert translation_bleu([punctuated]) == pytest.approx(1)
    apart = said("a dog - cat , do n't", references=("a dog-cat , don't",))
    assert translation_bleu([apart]) < 0.3  # words are compared as they are


def test_bleu_of_several_references():
    both = [said("a b c d", references=("x y z w", "a b c d")), said("a b c e", references=("a b c e",))]
    assert translation_bleu(both) == pytest.approx(1)


def test_scores_by_length():
    right, wrong = ("a b c d", ("a b c d",)), ("a", ("a b c d",))
    aligned = [
        said(text, "w " * length, references, ((0, 1),))
        for length, (text, references) in [(1, right), (5, wrong), (6, right), (10, right), (23, wrong)]
    ]
    scores = TranslationScores.of(aligned).as_dict()
    by_length = {key: value for key, value in scores.items() if "_words_" in key}
    assert by_length == {"exact_words_1-5": 0.5, "exact_words_6-10": 1.0, "exact_words_21-25": 0.0}
    unaligned = [one._replace(pair=one.pair._replace(alignment_spans=())) for one in aligned]
    scores = TranslationScores.of(unaligned).as_dict()
    assert [key for key in scores if "_words_" in key] == ["BLEU_words_1-5", "BLEU_words_6-10", "BLEU_words_21-25"]
    assert scores["BLEU_words_6-10"] == pytest.approx(1)


def test_attention_on_the_words_meant():
    spans = ((1, 3), (1, 3), (0, 0), (0, 1))
    one = said("a b c d", spans=spans, places=[1, 2, 2, 1])  # the last is beside, the third is from nowhere
    longer = said("a b c d e", spans=spans, places=[0, 2, 2, 0, 1])
    shorter = said("a", spans=spans, places=[2])
    assert TranslationScores.of([one]).on_span == pytest.approx(2 / 3)
    assert TranslationScores.of([one, longer, shorter]).on_span == pytest.approx((2 + 2 + 1) / 7)
    assert TranslationScores.of([said("a b", spans=spans, width=1)]).on_span is None  # there was no choice


def test_translations_come_in_order_whatever_the_batches(tasks):
    task = tasks["soft"]
    pairs = pairs_of(task.data.valid, 25)
    assert pairs == task.data.valid.fixed_pairs(slice(25))
    together, apart = (
        translate(task.model, task.source_vocabulary, task.vocabulary, pairs, search=SEARCH, batch_size=size)
        for size in (500, 4)
    )
    assert [one.pair for one in together] == pairs
    for one, other in zip(together, apart, strict=True):
        assert one.words == other.words and one.log_prob == pytest.approx(other.log_prob, rel=1e-4)
        assert one.weights.shape == (len(one.words), len(one.pair.source))
        assert_close(one.weights, other.weights, 1e-5)
        assert_close(one.weights.sum(1), torch.ones(len(one.words)), 1e-5)
        assert one.places.equal(one.weights.argmax(1))
    assert task.model.training


def test_validation_is_greedy_and_the_test_has_its_beam(tmp_path):
    """With the outputs of a search as references, only the same search has perfect scores."""
    root = write_text(tmp_path / "text")
    settings = {
        "seed": 1,
        "read": "hard",
        "data__kind": "parallel",
        "data__root": root,
        "train__batch_size": 4,
        "score__beam": 3,
        "score__length_penalty": 0.7,
        "score__read": "soft",
        "score__limit": 4,
    }

    def make_confident():
        """The task, with large weights, so that outputs depend on the search."""
        task = make(**settings)
        with torch.no_grad():
            for parameter in task.model.parameters():
                parameter.mul_(3)
        return task

    def outputs(data, search, mode="soft"):
        found = translate(task.model, task.source_vocabulary, task.vocabulary, pairs_of(data), mode=mode, search=search)
        return [" ".join(translation.words) for translation in found]

    task = make_confident()
    greedy, beam = BeamSearch(max_length=12), BeamSearch(beam_width=3, length_penalty=0.7, max_length=12)
    assert task.config.search() == beam
    valid, test = outputs(task.data.valid, greedy), outputs(task.data.test, beam)
    assert valid[:4] != outputs(task.data.valid, greedy, "hard")[:4] and test != outputs(task.data.test, greedy)
    for name, texts in (("val", valid), ("test", test)):
        (root / f"{name}.de").write_text("".join(f"{text}\n" for text in texts))
    task = make_confident()
    valid, test = task.validate(), TEST(task)
    assert (valid.sentences, valid.exact, test.sentences, test.exact) == (4, 1, 6, 1)


def test_validation_record(tasks):
    scores = tasks["soft"].validate()
    assert tasks["soft"].validation_record(scores) == {"error": 1 - scores.exact, **scores.as_dict()}
    assert tasks["soft"].format_scores({"exact": 0.5}) == "exact 50.00"


def test_a_decoder_never_says_that_it_does_not_know(tmp_path):
    task = make(data__kind="parallel", data__root=write_text(tmp_path / "text"), train__batch_size=4)
    with torch.no_grad():
        task.model.decoder.to_words.bias[UNKNOWN] = 100.0
    told = translate(task.model, task.source_vocabulary, task.vocabulary, pairs_of(task.data.test), search=SEARCH)
    assert told and all("<unknown>" not in one.words for one in told)
    scores = task.validate()
    assert task.selection_metric == "BLEU"
    assert task.validation_record(scores)["error"] == pytest.approx(1 - scores.translation_bleu)


# Runs


@pytest.mark.parametrize("read", ["soft", "hard"])
def test_stopped_and_resumed_is_the_same(read, tmp_path, capsys):
    assert train_main([*options(read=read, loss__mix=0.3), f"--run_dir={tmp_path / 'straight'}"]) == 0
    out = capsys.readouterr().out
    assert f"Translation with {read} attention; " in out and "20,000 sentences; seed 0; 1 x cpu" in out
    assert "Test, 100 sentences, weights of epoch" in out and "exact %, 6-10 source words" in out
    assert f"python evaluate.py translate {tmp_path / 'straight'} SENTENCE" in out
    straight = Run.open(tmp_path / "straight")

    def stop(engine):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(straight.config, name="", folder=tmp_path / "run", suffix=stop)
    assert train_main(["--resume", str(tmp_path / "run")]) == 0
    assert_same_run(Run.open(tmp_path / "run"), straight)
    assert straight.read_json("result.json")["test"]["sentences"] == 100


def test_weights_to_begin_with(tmp_path):
    run = untrained(tmp_path / "run", seed=3)
    task = make(init_from=run.folder)
    expected = make(seed=3).model.state_dict()
    assert all(torch.equal(value, expected[key]) for key, value in task.model.state_dict().items())
    with pytest.raises(RunError, match="is a checkpoint of another architecture"):
        make(init_from=run.folder, encoder__dim=14)


def swap_words(root, one, other):
    """Put one English word of the text in the place of another, as often as it occurs."""
    for file in root.glob("*.en"):
        file.write_text(file.read_text().replace(one, other))


def test_weights_for_other_words_are_refused(tmp_path):
    settings = {"data__kind": "parallel", "data__root": write_text(tmp_path / "text"), "train__batch_size": 4}
    run = untrained(tmp_path / "run", **settings)
    make(**settings, init_from=run.folder)
    swap_words(tmp_path / "text", "dog", "cat")
    with pytest.raises(RunError, match="vocabulary of init_from .*run does not match the data: cat is missing$"):
        make(**settings, init_from=run.folder)


def test_going_on_with_other_words_is_refused(tmp_path, capsys):
    settings = {"data__kind": "parallel", "data__root": write_text(tmp_path / "text"), "train__batch_size": 4}

    def stop(engine):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(load_config(options(**settings, train__limit="null")), name="", folder=tmp_path / "run", suffix=stop)
    swap_words(tmp_path / "text", "dog", "cat")
    assert train_main(["--resume", str(tmp_path / "run")]) == 2
    message = "has changed since training began: different source words ("
    assert message in (error := capsys.readouterr().err) and "dog then, cat now" in error
    swap_words(tmp_path / "text", "cat", "dog")
    assert train_main(["--resume", str(tmp_path / "run")]) == 0


def test_two_processes_do_what_one_does(tmp_path):
    """Texts of different lengths, dropout on both sides, hard reads, some batches read softly."""
    settings = {
        "read": "hard",
        "data__kind": "parallel",
        "data__root": write_text(tmp_path / "text"),
        "train__batch_size": 8,
        "train__limit": "null",
        "train__optimizer": "sgd",
        "train__lr": 0.01,
        "loss__mix": 0.4,
        "encoder__dropout": 0.2,
    }
    assert train_main([*options(**settings), f"--run_dir={tmp_path / 'straight'}"]) == 0
    train_by_two([*options(**settings), f"--run_dir={tmp_path / 'shared'}"])
    straight = Run.open(tmp_path / "straight")
    hard = ["train/reinforce" in row for row in rows_without_time(straight) if "lr" in row]
    assert any(hard) and not all(hard)
    assert_nearly_same_losses(Run.open(tmp_path / "shared"), straight)


def test_load(tmp_path):
    run = untrained(tmp_path / "run", score__beam=2)
    loaded = glimpse.load(run.folder)
    assert isinstance(loaded, TrainedTranslator) and isinstance(loaded.model, Translator) and not loaded.model.training
    task = make()
    assert loaded.source_vocabulary.words == task.source_vocabulary.words
    assert loaded.vocabulary.words == task.vocabulary.words
    texts = ["Sunday 3 May 1998", "the 3rd of may"]
    found = loaded.translate(texts)
    assert [one.pair.source for one in found] == [split_date(text) for text in texts]
    expected = translate(
        *loaded[1:4],
        [SentencePair(split_date(text), ()) for text in texts],
        search=SEARCH._replace(beam_width=2),
        batch_size=15,
    )
    for one, other in zip(found, expected, strict=True):
        assert one.words == other.words and one.weights.equal(other.weights)
        assert one.weights.shape == (len(one.words), len(one.pair.source))
    assert loaded.unknown_words(("may", "foo")) == ["foo"]
    with pytest.raises(RunError, match="words of the vocabulary of .*run, got 'foo', 'bar' in 'foo May bar'"):
        loaded.translate(["foo May bar"])
    with pytest.raises(RunError, match="sentence 2 must have words, got ' '"):
        loaded.translate(["May 3", " "])


def test_unknown_words_that_were_met_in_training(tmp_path):
    settings = {"data__kind": "parallel", "data__root": write_text(tmp_path / "text"), "train__batch_size": 4}
    loaded = TranslationTask.load(Run.open(untrained(tmp_path / "run", **settings, encoder__min_count=5).folder))
    assert "one" not in loaded.source_vocabulary.words and "dog" in loaded.source_vocabulary.words
    [translated] = loaded.translate(["one dog"])
    assert translated.pair.source == ("one", "dog")


# Mistakes


def test_other_runs_are_no_translators(tmp_path):
    run = Run.create(load_config([]), name="", metadata={}, folder=tmp_path / "run")
    with pytest.raises(RunError, match="run classifies: it cannot be loaded as one that translates"):
        TranslationTask.load(Run.open(run.folder))


def test_translators_are_no_classifiers(tmp_path):
    run = untrained(tmp_path / "run")
    with pytest.raises(RunError, match="run translates: it cannot be loaded as one that classifies"):
        load_runs(ClassificationTask, open_runs([run.folder]))


def test_broken_words(tmp_path):
    run = untrained(tmp_path / "run")
    shutil.copytree(run.folder, tmp_path / "broken")
    (tmp_path / "broken" / "meta.json").write_text('{"words": ["a"]}')
    with pytest.raises(RunError, match="meta.json is broken: KeyError"):
        TranslationTask.load(Run.open(tmp_path / "broken"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"model": "captioner"},
            "^data.kind must be one of .* with model captioner, got 'dates', which is for model tran",
        ),
        (
            {"model": "attention"},
            "^data.kind must be one of .* recurrent_attention, got 'dates', which is for model transl",
        ),
        (
            {"data__kind": "cluttered"},
            "^data.kind must be one of dates, parallel with model translator, got 'cluttered', ",
        ),
        (
            {"attention__places": "plane"},
            "^attention.kind must be one of words, final_state with model translator, got",
        ),
        ({"encoder__dim": 13}, "encoder.dim must be even, a half for each direction, got 13"),
        ({"attention__places": "none", "attention__window": 2}, "^attention.window is a setting of attention.kind wor"),
        (
            {"attention__places": "none", "encoder__self_attention": 1},
            "encoder.self_attention_layers must be 0 with attention.kind final_state",
        ),
        ({"encoder__self_attention": 1, "encoder__heads": 5}, "encoder.num_heads must be"),
        ({"attention__scorer": "dot"}, "decoder.state_dim must be 12, .*got 14"),
        ({"encoder__embed_dim": 0}, "encoder.embed_dim must be at least 1, got 0"),
        ({"encoder__min_count": 0}, "encoder.min_count must be at least 1, got 0"),
        ({"encoder__dropout": 1.0}, r"encoder.dropout must be in \[0, 1\), got 1.0"),
        ({"loss__doubly_stochastic": 0.1}, "^loss.doubly_stochastic is a setting of model captioner, and the mode"),
        (
            {"loss__baseline": "learned"},
            "^estimator.baseline must be one of none, self_critical, .* with model translator, got 'learned'",
        ),
        (
            {"estimator__reward": "gain"},
            "^estimator.reward must be one of accuracy, log_likelihood, .* with model translator, got 'gain'",
        ),
        ({"train__batch_size": 65}, "train.batch_size must be at most 64 .train.limit., got 65"),
    ],
)
def test_settings_that_do_not_go_together(settings, message):
    with pytest.raises(ConfigError, match=message):
        make(**settings)


def test_places_of_sentences_are_for_translators():
    message = "attention.kind must be one of plane, grid with model recurrent_attention, got 'words'"
    with pytest.raises(ConfigError, match=message):
        load_config(["--attention.places=words"])


def test_more_than_there_is(tmp_path):
    root = write_text(tmp_path / "text")
    with pytest.raises(ConfigError, match=r"at most 24 \(the training examples\), got 25"):
        make(data__kind="parallel", data__root=root, train__limit="null", train__batch_size=25)


def test_a_task_that_leaves_things_open_cannot_be_made():
    with pytest.raises(
        TypeError, match="abstract class SequenceTask with abstract methods .*evaluate.*inputs_and_targ"
    ):
        SequenceTask(None, None, None, ALONE, vocabulary=None)


# Configs


@pytest.mark.parametrize("name", ["dates_soft", "dates_hard", "dates_self", "dates_none"])
def test_configs_of_dates(name):
    config = load_config(file=REPOSITORY / "configs" / f"{name}.yaml")
    task = build_task(config, ALONE, open_run=Run.open)
    assert task.model.encoder.whole == (name == "dates_none")
    assert (task.model.mixer is not None) == (name == "dates_self")
    assert task.model.mode == ("hard" if name == "dates_hard" else "soft") and task.config.decoder.max_length >= 11


@pytest.mark.parametrize("name", ["multi30k_soft", "multi30k_none"])
def test_configs_of_text(name, tmp_path):
    write_text(tmp_path)
    for split, names in (("train", "train"), ("val", "val"), ("test_2016_flickr", "test")):
        for language in ("en", "de"):
            shutil.copy(tmp_path / f"{names}.{language}", tmp_path / f"{split}.lc.norm.tok.{language}")
    config = load_config(
        [f"--data.root={tmp_path}", "--train.batch_size=4"], file=REPOSITORY / "configs" / f"{name}.yaml"
    )
    task = build_task(config, ALONE, open_run=Run.open)
    assert task.model.encoder.whole == (name == "multi30k_none") and len(task.data.test) == 6
    assert load_config(file=REPOSITORY / "configs" / f"{name}.yaml").data.root == "data/multi30k"
