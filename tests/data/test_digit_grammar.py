"""The grammar against sentences parsed by hand, a slow check of truth, and corrupted captions."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

from glimpse.data.digit_grammar import (
    MAX_WORDS,
    PLURAL,
    SINGULAR,
    Claims,
    Digit,
    Noun,
    Verdict,
    captions_of,
    digit_mentions,
    judge,
    parse,
)
from glimpse.seeding import random_bits

CANVAS = (84, 84)
VALID = Verdict(grammatical=True, complete=True, true=True)


def digit(label, x, y):
    return Digit(label, x, y, x + 28, y + 28)


def scenes(count, *, seed=0, labels=10, canvas=CANVAS):
    """Random scenes of 1 to 4 digits that do not overlap."""
    rng = np.random.default_rng(seed)
    generated = []
    while len(generated) < count:
        x, y = rng.integers(0, canvas[1] - 27, 4).tolist(), rng.integers(0, canvas[0] - 27, 4).tolist()
        n = 1 + len(generated) % 4
        if all(abs(x[i] - x[j]) >= 28 or abs(y[i] - y[j]) >= 28 for i in range(n) for j in range(i)):
            generated.append(tuple(digit(int(rng.integers(labels)), x[i], y[i]) for i in range(n)))
    return generated


def five(scene, *, seed=0, canvas=CANVAS):
    return captions_of(scene, canvas, random_bits(seed, shape=(5,)).tolist())


def slow_cell(one, canvas):
    x, y = (one.x0 + one.x1) / 2, (one.y0 + one.y1) / 2
    return sum(y >= canvas[0] * k / 3 for k in (1, 2)), sum(x >= canvas[1] * k / 3 for k in (1, 2))


def slow_truth(claims, scene, canvas):
    """Try all assignments of digits of the scene to named digits."""
    owners = [index for index, noun in enumerate(claims.nouns) for _ in range(noun.number)]
    for chosen in product(range(len(scene)), repeat=len(owners)):
        fits = len(set(chosen)) == len(chosen)
        for owner, index in zip(owners, chosen, strict=True):
            noun = claims.nouns[owner]
            fits &= scene[index].label == noun.label
            fits &= noun.place is None or noun.place == slow_cell(scene[index], canvas)
            for other_owner, other in zip(owners, chosen, strict=True):
                if other_owner == owner + 1 and claims.relations[owner]:
                    dx = (scene[other].x0 + scene[other].x1) / 2 - (scene[index].x0 + scene[index].x1) / 2
                    dy = (scene[other].y0 + scene[other].y1) / 2 - (scene[index].y0 + scene[index].y1) / 2
                    fits &= {
                        "above": dy >= 14 and dy >= abs(dx),
                        "below": -dy >= 14 and -dy >= abs(dx),
                        "left": dx >= 14 and dx >= abs(dy),
                        "right": -dx >= 14 and -dx >= abs(dy),
                    }[claims.relations[owner]]
        if fits:
            return True
    return False


@pytest.mark.parametrize(
    ("sentence", "nouns", "relations"),
    [
        ("a three", [(3, 1)], []),
        ("an eight at the top left", [(8, 1, (0, 0))], []),
        ("there is a three at the top", [(3, 1, (0, 1))], []),
        ("the image shows the digit one on the right", [(1, 1, (1, 2))], []),
        ("the digit zero is in the middle", [(0, 1, (1, 1))], []),
        ("at the bottom left is a three", [(3, 1, (2, 0))], []),
        ("at the bottom there is a three", [(3, 1, (2, 1))], []),
        ("there are four sixes", [(6, 4)], []),
        ("two twos are at the bottom right", [(2, 2, (2, 2))], []),
        ("a three above a seven", [(3, 1), (7, 1)], ["above"]),
        ("two nines and a four at the bottom left", [(9, 2), (4, 1, (2, 0))], [None]),
        ("two nines at the top right and a four", [(9, 2, (0, 2)), (4, 1)], [None]),
        ("a three is to the left of a seven", [(3, 1), (7, 1)], ["left"]),
        ("a three right of a seven on the left", [(3, 1), (7, 1, (1, 0))], ["right"]),
        ("a one above a two and a three", [(1, 1), (2, 1), (3, 1)], ["above", None]),
        ("a one above a two left of two threes", [(1, 1), (2, 1), (3, 2)], ["above", "left"]),
        (
            "a one below a two and an eight to the right of another one",
            [(1, 1), (2, 1), (8, 1), (1, 1)],
            ["below", None, "right"],
        ),
        ("at the top is a nine and on the left another nine", [(9, 1, (0, 1)), (9, 1, (1, 0))], [None]),
        ("a nine is at the top and a four on the left", [(9, 1, (0, 1)), (4, 1, (1, 0))], [None]),
        ("at the top left there is a nine left of a four", [(9, 1, (0, 0)), (4, 1)], ["left"]),
    ],
)
def test_parse(sentence, nouns, relations):
    assert parse(tuple(sentence.split())) == Claims(tuple(Noun(*noun) for noun in nouns), tuple(relations))


@pytest.mark.parametrize(
    "sentence",
    [
        "",
        "three",
        "a",
        "a eight",
        "an three",
        "a threes",
        "one threes",
        "five threes",
        "two three",
        "a dog",
        "there are a three",
        "there is two threes",
        "two threes is in the middle",
        "there three",
        "a three is",
        "a three and",
        "and a three",
        "a three above",
        "a three a four",
        "a three at the top at the left",
        "at the top a three",
        "a three at the top above a four",  # the place would be ambiguous between the nouns
        "at the top is a three at the top",
        "at the top is a three and a four",  # the place would be ambiguous between the nouns
        "another three",
        "a four and another three",
        "there is a three is at the top",
        "the image shows there is a three",
        "a three left a four",
        "a three to the left a four",
        "a three is at the top and a four",
        "there is",
        "in the middle",
    ],
)
def test_ungrammatical_sentences(sentence):
    words = tuple(sentence.split())
    assert parse(words) is None
    assert judge(words, (digit(3, 0, 0),), CANVAS) == Verdict(grammatical=False, complete=False, true=False)


def test_places_are_thirds_of_the_canvas_by_centers():
    names = {
        (0, 0): "at the top left",
        (0, 1): "at the top",
        (0, 2): "at the top right",
        (1, 0): "on the left",
        (1, 1): "in the middle",
        (1, 2): "on the right",
        (2, 0): "at the bottom left",
        (2, 1): "at the bottom",
        (2, 2): "at the bottom right",
    }
    # On a canvas 60 high and 90 wide centers are in the first third below 20 and 30, in the last from 40 and 60 on.
    for (row, y), (column, x) in product([(0, 19), (1, 20), (1, 39), (2, 40)], [(0, 29), (1, 30), (1, 59), (2, 60)]):
        scene = (Digit(5, x - 3, y - 2, x + 3, y + 2),)
        for cell, name in names.items():
            verdict = judge(("a", "five", *name.split()), scene, (60, 90))
            assert verdict == (True, True, cell == (row, column))


@pytest.mark.parametrize(
    ("dx", "dy", "directions"),
    [
        (14, 0, {"left"}),
        (13, 0, set()),
        (14, 14, {"left", "above"}),
        (20, -19, {"left"}),
        (-20, 19, {"right"}),
        (-14, 15, {"above"}),
        (3, -30, {"below"}),
        (-14, -14, {"right", "below"}),
        (0, 0, set()),
    ],
)
def test_relations_compare_centers_with_a_margin(dx, dy, directions):
    scene = (digit(1, 40, 40), digit(2, 40 + dx, 40 + dy))
    relations = {"left": "left of", "right": "right of", "above": "above", "below": "below"}
    for direction, words in relations.items():
        verdict = judge(tuple(f"a one {words} a two".split()), scene, (120, 120))
        assert verdict == (True, True, direction in directions)
        if direction in ("left", "right"):
            assert judge(tuple(f"a one is to the {words} a two".split()), scene, (120, 120)) == verdict


def test_statements_about_a_plural_hold_for_each():
    above, level = (
        (digit(9, 0, 0), digit(9, 40, 0), digit(4, 20, 50)),
        (digit(9, 0, 0), digit(9, 40, 50), digit(4, 0, 50)),
    )
    sentence = ("two", "nines", "above", "a", "four")
    assert judge(sentence, above, CANVAS) == VALID
    assert judge(sentence, level, CANVAS) == (True, True, False)
    placed = ("two", "nines", "at", "the", "top", "left", "and", "a", "four")
    assert judge(placed, above, (300, 300)) == VALID
    assert judge(placed, above, CANVAS) == (True, True, False)


def test_every_caption_is_a_true_and_complete_sentence():
    for index, scene in enumerate(scenes(2000)):
        captions = five(scene, seed=index)
        assert len(set(captions)) == 5
        for caption in captions:
            assert 2 <= len(caption) <= MAX_WORDS
            assert judge(caption, scene, CANVAS) == VALID


def test_few_labels_and_a_long_canvas():
    # Many repeated labels: plurals, "another", chains that read the same in reverse.
    for index, scene in enumerate(scenes(1000, seed=1, labels=2, canvas=(70, 150))):
        captions = five(scene, seed=index, canvas=(70, 150))
        assert len(set(captions)) == 5
        assert all(judge(caption, scene, (70, 150)) == VALID for caption in captions)


def test_judge_agrees_with_the_slow_check_on_captions_of_other_scenes():
    generated = scenes(300, seed=2, labels=2)
    verdicts = Counter()
    for index, scene in enumerate(generated):
        for caption in five(generated[index - 4], seed=index):
            verdict = judge(caption, scene, CANVAS)
            claims = parse(caption)
            named = Counter()
            for noun in claims.nouns:
                named[noun.label] += noun.number
            assert verdict.complete == (named == Counter(one.label for one in scene))
            assert verdict.true == slow_truth(claims, scene, CANVAS)
            verdicts[verdict] += 1
    assert len(verdicts) == 3 and min(verdicts.values()) > 50  # incomplete, false, and true by coincidence


def swapped(words, position, word):
    return (*words[:position], word, *words[position + 1 :])


OPPOSITE = {"above": "below", "below": "above", "left": "right", "right": "left"}


def test_corrupted_captions_are_caught():
    flipped = moved = 0
    for index, scene in enumerate(scenes(400, seed=3)):
        for caption in five(scene, seed=index):
            for position, label in digit_mentions(caption):
                names = PLURAL if caption[position] in PLURAL else SINGULAR
                verdict = judge(swapped(caption, position, names[(label + 1) % 10]), scene, CANVAS)
                assert not verdict.complete and not verdict.true
            if " and " in " ".join(caption):
                last = len(caption) - caption[::-1].index("and") - 1
                assert not judge(caption[:last], scene, CANVAS).complete
            again = (*caption, "and", "another", SINGULAR[scene[0].label])
            assert not judge(again, scene, CANVAS).complete and not judge(again, scene, CANVAS).true
            if len({one.label for one in scene}) < len(scene):
                continue  # "a nine above another nine" is as true with "below"
            for position, word in enumerate(caption):
                if word in ("above", "below") or (
                    word in ("left", "right") and "of" in caption[position + 1 : position + 2]
                ):
                    assert judge(swapped(caption, position, OPPOSITE[word]), scene, CANVAS) == (True, True, False)
                    flipped += 1
                elif word in ("top", "bottom"):
                    other = swapped(caption, position, {"top": "bottom", "bottom": "top"}[word])
                    assert judge(other, scene, CANVAS) == (True, True, False)
                    moved += 1
    assert flipped > 500 and moved > 300


def test_an_incomplete_caption_may_be_true():
    scene = (digit(3, 0, 0), digit(7, 0, 50))
    assert judge(("a", "three", "at", "the", "top", "left"), scene, CANVAS) == (True, False, True)
    assert judge(("a", "three", "and", "a", "seven", "and", "a", "four"), scene, CANVAS) == (True, False, False)


def test_captions_are_literal():
    scene = (digit(7, 44, 50), digit(3, 2, 4))
    every = captions_of(scene, CANVAS, random_bits(1, shape=(100,)).tolist())
    assert len(every) == len(set(every)) == 11 + 14  # lists and chains
    sentences = {" ".join(caption) for caption in every}
    assert sentences > {
        "a three and a seven",
        "there is a three at the top left and a seven at the bottom right",
        "at the top left is a three and at the bottom right a seven",
        "a three above a seven",
        "a seven is below a three",
        "the digit three is above the digit seven",
        "at the top left there is a three above a seven",
        "the image shows a three above a seven at the bottom right",
    }
    assert captions_of(scene, CANVAS, [0]) == [("a", "three", "and", "a", "seven")]
    assert captions_of(scene, CANVAS, [2**64 - 1]) == [
        ("the", "digit", "seven", "is", "below", "the", "digit", "three")
    ]
    assert captions_of(scene, CANVAS, []) == []


def test_mentions():
    words = ("two", "nines", "and", "a", "two", "above", "an", "eight")
    assert digit_mentions(words) == [(1, 9), (4, 2), (7, 8)]
    assert digit_mentions(("two", "twos", "three")) == [(1, 2), (2, 3)]
    assert digit_mentions(("the", "four")) == [(1, 4)]
    assert digit_mentions(()) == []
    for index, scene in enumerate(scenes(200, seed=4)):
        for caption in five(scene, seed=index):
            assert [label for _, label in digit_mentions(caption)] == [noun.label for noun in parse(caption).nouns]


@pytest.mark.parametrize("count", [0, 5])
def test_a_scene_has_one_to_four_digits(count):
    scene = (digit(1, 0, 0),) * count
    with pytest.raises(ValueError, match=f"scene must have 1 to 4 digits, got {count}"):
        captions_of(scene, CANVAS, [0])
    with pytest.raises(ValueError, match=f"scene must have 1 to 4 digits, got {count}"):
        judge(("a", "one"), scene, CANVAS)
