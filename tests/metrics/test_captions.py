"""Caption metrics against numbers worked by hand, and against coco-caption itself."""

import os
import random
import subprocess
import sys
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

from glimpse.metrics import captions as caption_metrics
from glimpse.metrics.captions import (
    bleu,
    bleu_each,
    caption_scores,
    cider_d,
    cider_d_each,
    missing_metrics,
    rouge_l,
    rouge_l_each,
)

SCORERS = [bleu, bleu_each, rouge_l, rouge_l_each, cider_d, cider_d_each, caption_scores]


def split(*captions):
    return [tuple(caption.split()) for caption in captions]


def joined(candidates, references):
    """A corpus as coco-caption wants it: references, then candidates."""
    return (
        {image: [" ".join(words) for words in captions] for image, captions in enumerate(references)},
        {image: [" ".join(words)] for image, words in enumerate(candidates)},
    )


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))


# BLEU


def test_bleu_by_hand():
    # 1-grams 5 of 6, for "a" is there twice and once in each reference; then 3 of 5, 2 of 4 and 1 of 3.
    candidates = split("a red square above a circle")
    references = [split("a red square above the circle", "a blue circle")]
    expected = (0.833333, 0.707107, 0.629961, 0.537285)
    assert bleu(candidates, references) == pytest.approx(expected, abs=1e-6)
    assert bleu_each(candidates, references) == [pytest.approx(expected, abs=1e-6)]
    assert bleu(candidates, references, max_n=2) == pytest.approx(expected[:2], abs=1e-6)


def test_bleu_counts_a_word_as_often_as_one_reference_has_it():
    candidates = split("the the the the the the the")
    references = [split("the cat is on the mat", "there is a cat on the mat")]
    assert bleu(candidates, references, max_n=1) == pytest.approx((2 / 7,), abs=1e-8)
    # No pair of words matches: the root of 2/7 * 1e-15/6, not zero.
    assert bleu(candidates, references, max_n=2)[1] == pytest.approx(6.9007e-9, rel=1e-4)


def test_bleu_of_a_short_candidate():
    # Two of four words: exp(1 - 4/2). There are no 3-grams: 1e-15/1e-9 stands for their precision, and of 4-grams.
    expected = (0.367879, 0.367879, 0.00367879, 0.000367879)
    assert bleu(split("a dog"), [split("a dog runs fast")]) == pytest.approx(expected, rel=1e-5)


def test_bleu_penalty_takes_the_shorter_of_two_as_close_references():
    for references in (split("a b", "a b c d"), split("a b c d", "a b")):
        assert bleu(split("a b c"), [references])[0] == pytest.approx(1.0)
    # The closest, not the shortest: exp(1 - 4/3).
    assert bleu(split("a b c"), [split("a", "a b c d")])[0] == pytest.approx(0.716531, abs=1e-6)


def test_bleu_of_a_corpus_sums_before_it_divides():
    candidates = split("a dog", "a red square above a circle")
    references = [split("a dog runs fast"), split("a red square above the circle", "a blue circle")]
    # 8 words for 10: exp(-1/4). 1-grams 7 of 8, 2-grams 4 of 6.
    assert bleu(candidates, references, max_n=2) == pytest.approx((0.681451, 0.594819), abs=1e-6)


# ROUGE-L


def test_rouge_by_hand():
    # Three words in common in order, of four and four.
    assert rouge_l(split("police killed the gunman"), [split("police kill the gunman")]) == pytest.approx(0.75)
    # Precision 3/4 is that of the second reference, recall 1 that of the first: 2.44 * 0.75 / (1 + 1.44 * 0.75).
    references = [split("a b", "a b c x y z")]
    assert rouge_l(split("a b c d"), references) == pytest.approx(0.879808, abs=1e-6)
    candidates = split("police killed the gunman", "a b c d")
    assert rouge_l_each(candidates, [split("police kill the gunman"), *references]) == pytest.approx([0.75, 0.879808])
    assert rouge_l(candidates, [split("police kill the gunman"), *references]) == pytest.approx(0.814904, abs=1e-6)


def test_rouge_finds_the_longest_common_subsequence():
    generator = random.Random(0)
    for _ in range(100):
        one, other = (tuple(generator.choices("abc", k=generator.randint(1, 7))) for _ in range(2))
        common = max(
            length
            for length in range(len(one) + 1)
            if set(combinations(one, length)) & set(combinations(other, length))
        )
        precision, recall = common / len(one), common / len(other)
        expected = 2.44 * precision * recall / (recall + 1.44 * precision) if common else 0.0
        assert rouge_l([one], [[other]]) == pytest.approx(expected)


# CIDEr-D


def test_cider_by_hand():
    # "a" is in both images and weighs nothing. Image 0 is perfect in 1-grams and 2-grams and has no longer: 10 * 2 / 4.
    candidates, references = split("a dog", "a cat"), [split("a dog"), split("a bird")]
    assert cider_d_each(candidates, references) == pytest.approx([5.0, 0.0])
    assert cider_d(candidates, references) == pytest.approx(2.5)


def test_cider_clips_and_penalises_length():
    # All weigh the same: (min(2, 1) * 1) / (2 * sqrt(1 + 1 + 4)), times exp(-(2 * 2) / (2 * 6 * 6)), times 10 / 4.
    candidates, references = split("dog dog", "y"), [split("dog runs fast fast"), split("x")]
    assert cider_d_each(candidates, references) == pytest.approx([0.482733, 0.0], abs=1e-6)


def test_cider_weighs_by_rarity():
    # Of 4 images "red" is in 2 and weighs log 2; "cat", in 1, and "dog", in none, weigh log 4: 10 / 4 * 1 / (1 + 4).
    candidates = split("red dog", "", "", "")
    references = [split("red cat"), split("red bird", "big red bird"), split("x"), split("y")]
    assert cider_d_each(candidates, references) == pytest.approx([0.5, 0.0, 0.0, 0.0])


def test_cider_of_one_image_knows_nothing_rare():
    assert cider_d(split("a red dog runs"), [split("a red dog runs")]) == 0.0


# All of them


def corpus(seed, *, images, most_references, vocabulary, longest, empty=0.0):
    """Captions that share words; `empty` is the share of captions without words."""
    generator = random.Random(seed)
    words = [f"word{index}" for index in range(vocabulary)]

    def caption():
        return () if generator.random() < empty else tuple(generator.choices(words, k=generator.randint(1, longest)))

    references = [[caption() for _ in range(generator.randint(1, most_references))] for _ in range(images)]
    candidates = [caption() for _ in range(images)]
    for image in range(0, images, 3):  # some are nearly right, so that long n-grams match
        copied = list(generator.choice(references[image]))
        if copied:
            copied[generator.randrange(len(copied))] = generator.choice(words)
        candidates[image] = tuple(copied)
    return candidates, references


CORPORA = {
    "varied": dict(images=60, most_references=5, vocabulary=40, longest=15),
    "repeated words": dict(images=40, most_references=4, vocabulary=3, longest=12),
    "one reference": dict(images=50, most_references=1, vocabulary=20, longest=10),
    "many references": dict(images=12, most_references=25, vocabulary=20, longest=10),
    "empty captions": dict(images=60, most_references=3, vocabulary=10, longest=6, empty=0.3),
    "short captions": dict(images=60, most_references=3, vocabulary=5, longest=2, empty=0.1),
    "long captions": dict(images=6, most_references=3, vocabulary=8, longest=150),
    "one image": dict(images=1, most_references=5, vocabulary=6, longest=8),
}


@pytest.mark.parametrize("name", CORPORA)
def test_equal_to_coco_caption(name):
    for seed in range(3):
        candidates, references = corpus(seed, **CORPORA[name])
        texts = joined(candidates, references)
        theirs, theirs_each = Bleu(4).compute_score(*texts, verbose=0)
        assert bleu(candidates, references) == pytest.approx(theirs, rel=1e-9, abs=1e-15)
        np.testing.assert_allclose(bleu_each(candidates, references), np.transpose(theirs_each), rtol=1e-9, atol=1e-15)
        for total, each, scorer in [(rouge_l, rouge_l_each, Rouge()), (cider_d, cider_d_each, Cider())]:
            theirs, theirs_each = scorer.compute_score(*texts)
            assert total(candidates, references) == pytest.approx(theirs, rel=1e-9, abs=1e-12)
            np.testing.assert_allclose(each(candidates, references), theirs_each, rtol=1e-9, atol=1e-12)


def test_the_random_corpora_have_something_to_compare(no_java):
    scores = caption_scores(*corpus(0, **CORPORA["varied"]))
    assert all(score > 0.05 for score in scores.values()), scores
    candidates, _ = corpus(0, **CORPORA["empty captions"])
    assert () in candidates


@pytest.mark.parametrize("score", SCORERS)
def test_order_of_references_does_not_matter(score, no_java):
    candidates, references = corpus(3, **CORPORA["varied"])
    backwards = [captions[::-1] for captions in references]
    np.testing.assert_allclose(flat(score(candidates, references)), flat(score(candidates, backwards)), rtol=1e-12)


@pytest.mark.parametrize("score", [bleu_each, rouge_l_each, cider_d_each])
def test_order_of_images_does_not_matter(score):
    candidates, references = corpus(4, **CORPORA["varied"])
    np.testing.assert_allclose(
        score(candidates[::-1], references[::-1]), score(candidates, references)[::-1], rtol=1e-12
    )


def flat(scores):
    return list(scores.values()) if isinstance(scores, dict) else scores


def test_perfect_candidates_have_the_highest_scores(no_java):
    references = [split("a red dog runs fast", "x"), split("the old cat sat still")]
    scores = caption_scores([captions[0] for captions in references], references)
    assert [scores[f"BLEU-{n}"] for n in (1, 2, 3, 4)] == pytest.approx([1.0] * 4)
    assert scores["ROUGE-L"] == 1.0
    # The candidate of the first image is like one of two references, and nothing like the other.
    assert scores["CIDEr"] == pytest.approx((5.0 + 10.0) / 2)


def test_empty_candidates_score_nothing(no_java):
    scores = caption_scores([(), ()], [split("a dog"), split("a cat", "one cat")])
    assert list(scores.values()) == pytest.approx([0.0] * 6, abs=1e-12)


@pytest.mark.parametrize("score", SCORERS)
def test_wrong_corpora_are_refused(score):
    dog = ("a", "dog")
    with pytest.raises(ValueError, match="same images, got 2 candidates and references of 1 images"):
        score([dog, dog], [[dog]])
    with pytest.raises(ValueError, match="at least one image to score, got none"):
        score([], [])
    with pytest.raises(ValueError, match="at least one reference, image 1 has none"):
        score([dog, dog], [[dog], []])
    with pytest.raises(ValueError, match="tuple of words.* got the string 'a dog' as a candidate of image 0"):
        score(["a dog"], [[dog]])
    with pytest.raises(ValueError, match="got the string 'a dog' as a reference of image 1"):
        score([dog, dog], [[dog], [dog, "a dog"]])
    with pytest.raises(ValueError, match="got the string 'a' as a reference of image 0"):  # a list too few
        score([dog], [dog])


@pytest.mark.parametrize("score", [bleu, bleu_each])
def test_bleu_needs_an_order(score):
    with pytest.raises(ValueError, match="max_n must be at least 1, got 0"):
        score(split("a dog"), [split("a dog")], max_n=0)


# METEOR


def test_without_java_meteor_is_left_out_and_said_so(no_java, capfd):
    candidates, references = corpus(0, **CORPORA["varied"])
    scores = caption_scores(candidates, references)
    assert list(scores) == ["BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-L", "CIDEr"]
    assert tuple(scores.values())[:4] == bleu(candidates, references)
    assert (scores["ROUGE-L"], scores["CIDEr"]) == (rouge_l(candidates, references), cider_d(candidates, references))
    assert capfd.readouterr() == ("", "")
    assert missing_metrics() == {"METEOR": "METEOR is left out, because it needs Java (no `java` on the path)."}


def test_what_meteor_lacks_is_named(monkeypatch, no_java):
    monkeypatch.setattr(caption_metrics, "find_spec", lambda name: None)
    package = "the package pycocoevalcap (not installed)"
    assert missing_metrics()["METEOR"].endswith(f"needs Java (no `java` on the path) and {package}.")
    monkeypatch.setattr(caption_metrics.shutil, "which", lambda name: f"/bin/{name}")
    assert missing_metrics() == {"METEOR": f"METEOR is left out, because it needs {package}."}


def stand_in_java(folder, monkeypatch, program):
    """Puts a `java` that runs a Python program first on the path."""
    java = folder / "java"
    java.write_text(f"#!{sys.executable} -SE\n{program}")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def spied_processes(monkeypatch):
    """The processes started from here on."""
    started, start = [], subprocess.Popen

    def spy(*arguments, **options):
        started.append(start(*arguments, **options))
        return started[-1]

    monkeypatch.setattr("pycocoevalcap.meteor.meteor.subprocess", SimpleNamespace(Popen=spy, PIPE=subprocess.PIPE))
    return started


def test_meteor_is_run_and_its_process_ended(tmp_path, monkeypatch, capfd):
    # Speaks like METEOR: the statistics of a line are its number of words, the score of a caption half of that, and the
    # score of the corpus that of all words together.
    program = f"""
import sys
with open({str(tmp_path / "heard")!r}, "w") as heard:
    for line in sys.stdin:
        print(line, end="", file=heard, flush=True)
        command, *parts = line.rstrip("\\n").split(" ||| ")
        numbers = [len(parts[-1].split())] if command == "SCORE" else [int(part) / 2 for part in parts]
        for number in numbers + ([sum(numbers) / 100] if command == "EVAL" else []):
            print(number, flush=True)
"""
    stand_in_java(tmp_path, monkeypatch, program)
    started = spied_processes(monkeypatch)
    assert missing_metrics() == {}
    scores = caption_scores(split("a red dog", "a cat"), [split("a dog", "the dog"), split("one cat")])
    assert scores["METEOR"] == (3 + 2) / 2 / 100
    assert list(scores)[:6] == ["BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-L", "CIDEr"]
    heard = (tmp_path / "heard").read_text().splitlines()
    assert heard == ["SCORE ||| a dog ||| the dog ||| a red dog", "SCORE ||| one cat ||| a cat", "EVAL ||| 3 ||| 2"]
    (process,) = started
    assert process.returncode is not None
    assert process.stdin.closed and process.stdout.closed and process.stderr.closed
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import sys; sys.exit('no memory for the heap')", "no memory for the heap"),
        ("while True: print('what?', flush=True)", "no error message"),
    ],
    ids=["ends", "talks nonsense"],
)
def test_a_failed_meteor_gives_its_reason_and_leaves_no_process(tmp_path, monkeypatch, program, reason):
    stand_in_java(tmp_path, monkeypatch, program)
    started = spied_processes(monkeypatch)
    with pytest.raises(RuntimeError, match=f"the Java process of METEOR failed: {reason}"):
        caption_scores(split("a dog"), [split("a dog")])
    (process,) = started
    assert process.returncode is not None
    assert process.stdin.closed and process.stdout.closed and process.stderr.closed
