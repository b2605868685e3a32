"""The task of describing images: its losses, its baseline, its scores, and the whole of a training of digits."""

import json
import math
import re
import shutil

import pytest
import torch
from PIL import Image
from support.photos import arguments, make_karpathy
from support.runs import REPOSITORY, assert_same_run, load_script, train_main
from support.tensors import ALONE, assert_close, reached

from glimpse import losses
from glimpse.attention.annotation import Attention
from glimpse.attention.distributions import Noise
from glimpse.attention.scorers import SCORERS
from glimpse.data.digit_grammar import Digit
from glimpse.errors import ConfigError, RunError
from glimpse.evaluation.caption import CaptionResult, caption_dataset, score_captions
from glimpse.models.decoding import BeamSearch
from glimpse.models.encoder_decoder import Captioner
from glimpse.models.glimpses import GridGlimpses
from glimpse.tasks.base import build_task, update_running_mean
from glimpse.tasks.captioning import CaptioningTask
from glimpse.tasks.classification import ClassificationTask
from glimpse.tasks.classification_commands import load_runs
from glimpse.tasks.settings import load_config
from glimpse.training.load import open_runs
from glimpse.training.run import Run

TINY = {
    "seed": 0,
    "read": "soft",
    "model": "captioner",
    "data.kind": "digit_captions",
    "data.canvas": 84,
    "data.num_digits": 2,
    "data.num_distractors": 2,
    "encoder.dim": 12,
    "encoder.stride": 12,
    "encoder.self_attention": 0,
    "decoder.embed_dim": 10,
    "decoder.state_dim": 14,
    "decoder.dropout": 0.1,
    "decoder.max_length": 8,
    "attention.scorer": "additive",
    "attention.scorer_dim": 6,
    "attention.window": "null",
    "loss.baseline": "moving_average",
    "loss.reinforce": 0.5,
    "loss.discount": 0.0,
    "loss.entropy": 0.01,
    "loss.doubly_stochastic": 0.1,
    "loss.mix": 0.0,
    "loss.mix_end": "null",
    "train.epochs": 2,
    "train.batch_size": 16,
    "train.limit": 64,
    "train.threads": 1,
    "train.tensorboard": "false",
    "score.limit": 30,
    "score.batch_size": 15,
}


pytestmark = pytest.mark.usefixtures("few_test_examples")

TEST = CaptioningTask.test  # of all test examples


def options(**settings):
    return [f"--{key}={value}" for key, value in {**TINY, **settings}.items()]


def make(**settings):
    return build_task(load_config(options(**settings)), ALONE, open_run=Run.open)


@pytest.fixture(scope="module")
def tasks():
    return {read: make(read=read) for read in ("soft", "hard")}


def terms_of(task, seed=3):
    batch = next(iter(task.batches(0)))
    return batch, task.loss_terms(task.model, batch, Noise(seed))


def test_classifier_and_captioner_hold_the_same_attention(tasks):
    """One class, and the same reading for the same inputs, hard and soft."""
    grid = build_task(
        load_config(["--attention.places=grid", "--train.limit=128"]), ALONE, open_run=Run.open
    ).model.glimpses
    captioner = tasks["soft"].model
    assert isinstance(grid, GridGlimpses) and type(grid.attention) is type(captioner.decoder.attention) is Attention
    one, other = (Attention(state_dim=4, annotation_dim=5, dim=3) for _ in range(2))
    other.load_state_dict(one.state_dict())
    state, annotations = torch.randn(2, 4), torch.randn(2, 6, 5)
    for mode in ("soft", "hard"):
        first, second = (
            attention(state, attention.annotate(annotations), mode=mode, noise=Noise(1)) for attention in (one, other)
        )
        assert torch.equal(first.context, second.context) and torch.equal(first.place, second.place)
    weights = one.where(state, one.annotate(annotations)).weights
    assert_close(
        one(state, one.annotate(annotations), mode="soft").context,
        torch.einsum("bl,bla->ba", weights, annotations),
        1e-6,
    )


def test_soft_terms(tasks):
    task = tasks["soft"]
    batch, terms = terms_of(task)
    words, lengths = task.vocabulary.encode([one for (one,) in batch.captions])
    telling = task.model(batch.images, words, noise=Noise(3))
    assert_close(terms["cross_entropy"][1], losses.caption_cross_entropy(telling.logits, words[:, 1:], lengths))
    assert_close(terms["doubly_stochastic"][1], losses.doubly_stochastic(telling.weights, lengths))
    assert {name: weight for name, (weight, _) in terms.items()} == {"cross_entropy": 1.0, "doubly_stochastic": 0.1}
    assert reached(terms["cross_entropy"][1], task.model) == {name for name, _ in task.model.named_parameters()}


def test_hard_terms_by_a_loop():
    task = make(read="hard", **{"loss.discount": 0.5})
    batch, terms = terms_of(task)
    words, lengths = task.vocabulary.encode([one for (one,) in batch.captions])
    telling = task.model(batch.images, words, noise=Noise(3))
    likely = telling.logits.detach().log_softmax(-1)
    rewards = [[float(likely[b, n, words[b, n + 1]]) for n in range(lengths[b])] for b in range(len(words))]
    returns = [[sum(0.5 ** (k - n) * row[k] for k in range(n, len(row))) for n in range(len(row))] for row in rewards]
    count = sum(map(len, returns))
    mean = sum(map(sum, returns)) / count  # before any batch there is no average but its own
    log_probs = telling.log_probs.detach().tolist()
    expected = -sum(
        (value - mean) * log_prob
        for row, chances in zip(returns, log_probs, strict=True)
        for value, log_prob in zip(row, chances, strict=False)  # padding has a chance, but no return
    )
    # Large terms cancel, so the tolerance is absolute.
    assert float(terms["reinforce"][1].detach()) == pytest.approx(expected / count, abs=1e-5)
    assert float(terms["reward"][1]) == pytest.approx(mean, rel=1e-5)
    assert terms["reinforce"][0] == 0.5 and terms["neg_entropy"][0] == 0.01
    assert float(task.model.average_reward) == pytest.approx(mean, rel=1e-5)


def test_which_gradient_goes_where(tasks):
    task = tasks["hard"]
    _, terms = terms_of(task)
    scorer = {name for name, _ in task.model.named_parameters() if ".scorer." in name}
    assert scorer and not scorer & reached(terms["cross_entropy"][1], task.model)
    assert scorer <= reached(terms["reinforce"][1], task.model)
    everything = sum(weight * value for weight, value in terms.values() if weight)
    assert reached(everything, task.model) == {name for name, _ in task.model.named_parameters()}


def test_moving_average():
    average = make(read="hard").model.average_reward
    assert average.isinf()
    assert float(update_running_mean(average, torch.tensor(-2.0))) == -2.0  # the first is compared with itself
    assert float(update_running_mean(average, torch.tensor(-1.0))) == -2.0
    assert float(average) == pytest.approx(-1.9)
    assert float(update_running_mean(average, torch.tensor(0.0))) == pytest.approx(-1.9)
    without = make(read="hard", **{"loss.baseline": "none"})
    terms_of(without)
    assert without.model.average_reward.isinf()


def test_mixing_reads_softly_as_often_as_it_says():
    task = make(read="hard", **{"loss.mix": 0.4, "train.batch_size": 4})
    batch = next(iter(task.batches(0)))
    soft = sum("reinforce" not in task.loss_terms(task.model, batch, Noise(seed)) for seed in range(150))
    assert abs(soft / 150 - 0.4) < 4 * math.sqrt(0.24 / 150)


def test_the_share_of_soft_batches_may_change():
    task = make(read="hard", **{"loss.mix": 1.0, "loss.mix_end": 0.5})
    shares = []
    for progress in (0.0, 0.25, 0.5, 1.0):
        task.on_progress(progress)
        shares.append(task.estimator.soft_fraction_at(task.progress))
    assert shares == [1.0, 0.875, 0.75, 0.5]
    task.on_progress(0.0)
    assert "reinforce" not in terms_of(task)[1]
    early = make(read="hard", **{"loss.mix": 1.0, "loss.mix_end": 0.5, "loss.mix_until": 0.5})
    assert early.estimator.soft_fraction_at(0.25) == 0.75
    assert early.estimator.soft_fraction_at(0.9) == 0.5
    kept = make(read="hard", **{"loss.mix": 0.3})
    assert kept.estimator.soft_fraction_at(0.9) == pytest.approx(0.3)


# Scores


def said(text, digits, places=None):
    words = tuple(text.split())
    centres = torch.zeros(len(words), 2) if places is None else torch.tensor(places)
    return CaptionResult(words, centres, [words], digits, (84, 84))


THREE, SEVEN = Digit(3, 0, 0, 28, 28), Digit(7, 0, 56, 28, 84)


def test_scores_by_hand():
    places = [[0.0, 0.0], [14.0, 14.0], [0.0, 0.0], [0.0, 0.0], [70.0, 70.0]]
    descriptions = [
        said("a three above a seven", (THREE, SEVEN), places),  # true; looks at the three, and beside the seven
        said("a three below a seven", (THREE, SEVEN)),  # both looked at from the corner: on the three only
        said("a three", (THREE, SEVEN)),
        said("three a three", (THREE,)),
    ]
    scores = score_captions(descriptions).as_dict()
    assert scores["true_and_complete"] == 0.25 and scores["grammatical"] == 0.75 and scores["images"] == 4
    assert scores["BLEU-1"] == pytest.approx(1) and scores["ROUGE-L"] == pytest.approx(1)
    assert scores["on_digit"] == pytest.approx((1 + 0 + 1 + 0 + 1 + 2) / 7)
    assert score_captions([said("a four", (THREE,))]).digits.on_digit is None  # no digit that is there was named


def test_scores_where_nobody_knows_what_there_is():
    scores = score_captions([said("a red square", ()), said("a dog", ())]).as_dict()
    assert scores.keys() == {"images", "BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-L", "CIDEr"}
    assert scores["images"] == 2 and scores["BLEU-2"] == pytest.approx(1)


def test_meteor_is_optional(fake_meteor):
    assert "METEOR" not in score_captions([said("a three", (THREE,))]).as_dict()
    assert score_captions([said("a three", (THREE,))], meteor=True).as_dict()["METEOR"] == fake_meteor


def test_meteor_is_left_out_without_java(no_java):
    assert "METEOR" not in score_captions([said("a three", (THREE,))], meteor=True).as_dict()


def test_validation_is_greedy_and_the_test_has_its_beam(tmp_path):
    """With the outputs of a search as references, only the same search has perfect scores."""
    root = make_karpathy(tmp_path)
    settings = {
        "read": "hard",
        "score__read": "soft",
        "score__limit": 3,
        "score__beam": 3,
        "score__length_penalty": 0.7,
    }
    config = load_config(arguments(seed=2, data__root=root, **settings))

    def make_confident():
        """The task, with large weights, so that outputs depend on the search."""
        task = build_task(config, ALONE)
        with torch.no_grad():
            for parameter in task.model.decoder.parameters():
                parameter.mul_(2)
        return task

    def outputs(data, search, mode="soft"):
        found = caption_dataset(task.model, task.vocabulary, data, mode=mode, search=search)
        return [" ".join(result.words) for result in found]

    task = make_confident()
    greedy, beam = BeamSearch(max_length=9), BeamSearch(beam_width=3, length_penalty=0.7, max_length=9)
    assert task.config.search() == beam
    valid, test = outputs(task.data.valid, greedy), outputs(task.data.test, beam)
    assert valid[:3] != outputs(task.data.valid, greedy, "hard")[:3] and test != outputs(task.data.test, greedy)
    captions = json.loads((root / "captions.json").read_text())
    for split, texts in (("val", valid), ("test", test)):
        images = [image for image in captions["images"] if image["split"] == split]
        for image, text in zip(images, texts, strict=True):
            image["sentences"] = [{"raw": text}]
    (root / "captions.json").write_text(json.dumps(captions))
    task = make_confident()
    valid, test = task.validate().as_dict(), TEST(task).as_dict()
    assert (valid["images"], test["images"]) == (3, 4)
    assert valid["ROUGE-L"] == test["ROUGE-L"] == pytest.approx(1)


def test_validation_record():
    task = make(**{"score.limit": 4})
    scores = task.validate()
    record = task.validation_record(scores)
    assert record == {"error": 1 - scores.digits.true_and_complete, **scores.as_dict()} and scores.images == 4


def test_the_line_after_an_epoch(tasks):
    assert tasks["soft"].format_scores({"true_and_complete": 0.042, "BLEU-4": 0.9}) == "true and complete 4.20"


def test_places_are_those_attended_to(tasks):
    task = tasks["hard"]
    [description] = caption_dataset(
        task.model, task.vocabulary, task.data.test, limit=1, search=BeamSearch(max_length=5)
    )
    batch = next(task.data.test.in_order(batch_size=1))
    annotations = task.model.annotate(batch.images)
    state, word, places = task.model.eval().decoder.initial_state(annotations), torch.tensor([1]), []
    for _ in description.words:
        step = task.model.decoder.step(word, state, annotations, mode="hard", sample=False)
        logits = step.logits.clone()
        logits[:, :2] = -math.inf  # neither padding nor a second start
        word, state = logits.argmax(1), step.state
        row, column = divmod(int(step.reading.place), 7)
        places.append([12 * column + 6.0, 12 * row + 6.0])
    task.model.train()
    assert description.points.tolist() == places
    assert [digit.label for digit in description.digits] == [int(c) for c in batch.classes[0] if c >= 0]


# The whole


KINDS = {
    "soft": {"read": "soft"},
    "hard": {"read": "hard"},
    "local": {
        "read": "hard",
        "attention.scorer": "dot",
        "attention.window": 2,
        "encoder.self_attention": 2,
        "encoder.heads": 3,
        "decoder.state_dim": 12,
    },
}


@pytest.fixture(scope="module", params=KINDS)
def trained(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param) / "run"
    assert train_main([*options(**KINDS[request.param]), f"--run_dir={folder}"]) == 0
    return Run.open(folder)


def test_the_settings_make_the_attention():
    model = make(**KINDS["local"]).model
    attention, mixer = model.decoder.attention, model.mixer
    assert isinstance(attention.scorer, SCORERS["dot"]) and (attention.window.radius, attention.window.axes) == (2, 2)
    assert len(mixer.layers) == 2 and mixer.layers[0].attention.heads == 3 and model.image_size == (84, 84)
    batch = next(make().data.test.in_order(batch_size=2))
    memory = model.annotate(batch.images)
    assert torch.equal(memory.values, mixer(model.encoder(batch.images)))
    assert memory.extent.tolist() == [[7, 7]] * 2
    weights = attention.where(memory.values[:, 0], memory).weights
    assert ((weights > 0).sum(1) <= 25).all()
    assert mixer.attention_maps(model.encoder(batch.images)).shape == (2, 2, 3, 49, 49)


def test_score_of_a_run_is_that_of_its_test(trained, capsys, fake_meteor, few_test_examples):
    evaluate = load_script("evaluate").main
    assert evaluate(["score", str(trained.folder), "--limit", str(few_test_examples), "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert found["scores"] == {**trained.read_json("result.json")["test"], "METEOR": fake_meteor}
    assert (
        found["scores"]["images"] == few_test_examples and found["beam"] == 1 and found["read"] == trained.config.read
    )
    assert evaluate(["score", str(trained.folder), "--limit", "40"]) == 0
    out = capsys.readouterr().out
    assert "greedy, 40 test images" in out and "true and complete %" in out and "BLEU-4" in out
    assert re.search(rf"^METEOR +{100 * fake_meteor:.2f}$", out, re.M)


def test_the_run_has_its_words(trained):
    loaded = CaptioningTask.load(Run.open(trained.folder))
    assert isinstance(loaded.model, Captioner) and not loaded.model.training
    assert loaded.vocabulary.words == make().vocabulary.words


def test_stopped_and_resumed_is_the_same(trained, tmp_path):
    from glimpse.training.train import train

    def stop(engine):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(trained.config, name="", folder=tmp_path / "run", suffix=stop)
    assert train_main(["--resume", str(tmp_path / "run")]) == 0
    assert_same_run(Run.open(tmp_path / "run"), trained)


def test_what_is_not_for_captions_says_so(trained, tmp_path, capsys):
    with pytest.raises(RunError, match=f"{trained.folder} writes captions: it cannot be loaded as one that classifies"):
        load_runs(ClassificationTask, open_runs([trained.folder]))
    evaluate = load_script("evaluate").main
    for command in (["compare", "--limit=5", f"--out={tmp_path / 'out'}"], ["coverage"], ["variance"]):
        assert evaluate([command[0], str(trained.folder), *command[1:]]) == 2
        own = "score, animate, glimpses, report and caption"
        message = f"{trained.folder} writes captions: {command[0]} does not apply to it, but {own} do\n"
        assert capsys.readouterr().err == f"evaluate.py: error: {message}"
    assert not list(tmp_path.iterdir())


def test_a_run_of_digits_can_be_watched(trained, tmp_path, capsys):
    out = tmp_path / "captions.gif"
    assert load_script("evaluate").main(["animate", str(trained.folder), "--images=4", f"--out={out}"]) == 0
    assert capsys.readouterr().out == f"Wrote {out}\n"
    told = caption_dataset(
        *CaptioningTask.load(Run.open(trained.folder))[1:3], make().data.test, limit=5, search=BeamSearch(max_length=8)
    )
    with Image.open(out) as picture:
        assert picture.n_frames == 1 + len(told[4].words)


def test_a_classifier_is_no_captioner(tmp_path):
    run = Run.create(load_config([]), name="", metadata={}, folder=tmp_path / "run")
    with pytest.raises(RunError, match="run classifies: it cannot be loaded as one that writes captions"):
        CaptioningTask.load(Run.open(run.folder))


def test_broken_words(trained, tmp_path):
    shutil.copytree(trained.folder, tmp_path / "run")
    (tmp_path / "run" / "meta.json").write_text('{"image_shape": [1, 84, 84]}')
    with pytest.raises(RunError, match="meta.json is broken: KeyError"):
        CaptioningTask.load(Run.open(tmp_path / "run"))


@pytest.mark.parametrize(
    "settings, message",
    [
        (
            {"model": "attention"},
            "^data.kind must be one of .* recurrent_attention, got 'digit_captions', which is for mod",
        ),
        (
            {"data.kind": "cluttered", "data.num_digits": 1},
            "with model captioner, got 'cluttered', which is for model rec",
        ),
        (
            {"loss.baseline": "learned"},
            "^estimator.baseline must be one of none, self_critical, .* with model captioner, got 'learned'",
        ),
        (
            {"estimator.reward": "gain"},
            "^estimator.reward must be one of accuracy, log_likelihood, .* with model captioner, got 'gain'",
        ),
        ({"data.num_digits": 5}, "^data.max_digits must be at most 4, got 5"),
        (
            {"data.num_digits": 4, "data.canvas": 83},
            r"^data.canvas must be of at least 7056 pixels for 4 digits, got \[83, 83\]$",
        ),
        ({"train.batch_size": 65}, "train.batch_size must be at most 64 .train.limit., got 65"),
    ],
)
def test_settings_that_do_not_go_together(settings, message):
    with pytest.raises(ConfigError, match=message):
        make(**settings)


def test_a_classifier_may_have_a_moving_average_too():
    """Its model keeps the average only then, so that the weights of all others are what they were."""
    config = load_config(["--loss.baseline=moving_average", "--train.limit=128"])
    assert build_task(config, ALONE).model.average_reward.isinf()
    assert "average_reward" not in build_task(load_config(["--train.limit=128"]), ALONE).model.state_dict()


@pytest.mark.parametrize("read", ["soft", "hard"])
def test_config_files(read):
    config = load_config(file=REPOSITORY / "configs" / f"digit_captions_{read}.yaml")
    task = build_task(config, ALONE, open_run=Run.open)
    assert task.model.mode == read and task.data.test.image_shape == (1, 84, 84)
    assert task.model.encoder.grid(84, 84) == (7, 7)
