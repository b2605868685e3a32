"""A small grammar of sentences about digits on a canvas: it says what is true of a scene, and judges what is said.

A sentence is a row of nouns, such as "a three" or "two nines", each perhaps with its place, joined by "and" or by a
relation. Its reading has no choices:
- a place belongs to one noun alone: the one before it, or, where the sentence begins with a place, the one after it;
- a relation holds between the nouns on its two sides, whatever follows: in "a one above a two and a three" nothing
  is said of where the three is;
- what is said of a plural noun holds for each of its digits, and a relation for every pair of digits;
- places are the nine cells that thirds of the canvas make, by the centre of a digit: "at the top" is the cell in the
  middle of the top row, "on the left" that in the middle of the left column;
- "above", "below", "left of", "right of": centers at least `MARGIN` pixels apart on that axis, no more on the other.

The sentences, where NOUN is "a three", "an eight", "another three" (after an earlier one), "the digit three" or "two
threes" (up to four), and BE agrees with the first noun:
    [there BE | the image shows] NOUN {RELATION NOUN} [PLACE] {and NOUN {RELATION NOUN} [PLACE]}
    NOUN BE PLACE {and NOUN PLACE}
    NOUN BE RELATION NOUN {RELATION NOUN} [PLACE]
    PLACE [there] BE NOUN {RELATION NOUN}
    PLACE [there] BE NOUN {and PLACE NOUN}
"""

import re
from collections.abc import Sequence
from itertools import pairwise, permutations
from typing import Literal, NamedTuple

from glimpse.data.vocabulary import Tokens

MARGIN = 14  # pixels, half the side of a digit
LONGEST = 16  # words in a caption of `captions_of`
MOST_DIGITS = 4  # in a scene

Cell = tuple[int, int]  # row and column, each 0..2
Direction = Literal["above", "below", "left", "right"]
Frame = Literal["plain", "there", "shows", "is", "front", "front there"]
_OPENINGS: tuple[Frame, ...] = ("plain", "there", "shows")


class Digit(NamedTuple):
    """A digit of a scene, with its box in pixels, half-open."""

    label: int
    x0: float
    y0: float
    x1: float
    y1: float


Scene = tuple[Digit, ...]


class Noun(NamedTuple):
    """One or several digits of one label, as named in a sentence."""

    label: int
    count: int
    place: Cell | None = None  # None: not said


class Claims(NamedTuple):
    """What a sentence says."""

    nouns: tuple[Noun, ...]
    relations: tuple[Direction | None, ...]  # of each noun to the next; None for "and"


class Verdict(NamedTuple):
    """How a sentence fits a scene."""

    grammatical: bool  # if not, the others are False
    complete: bool  # it names the digits of the scene, each as often as it is there
    true: bool  # the digits it names can be found in the scene such that all that is said of them holds


class Wording(NamedTuple):
    """One way to say something."""

    claims: Claims
    frame: Frame
    article: str = "a"  # or "the digit"
    long: bool = False  # "to the left of" rather than "left of"


SINGULAR = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
PLURAL = ("zeros", "ones", "twos", "threes", "fours", "fives", "sixes", "sevens", "eights", "nines")
_ROWS = (
    ("at the top left", "at the top", "at the top right"),
    ("on the left", "in the middle", "on the right"),
    ("at the bottom left", "at the bottom", "at the bottom right"),
)
_PLACES: dict[Cell, Tokens] = {(y, x): tuple(_ROWS[y][x].split()) for y in range(3) for x in range(3)}
_SHORT: dict[Direction, Tokens] = {
    "above": ("above",),
    "below": ("below",),
    "left": ("left", "of"),
    "right": ("right", "of"),
}
_LONG: dict[Direction, Tokens] = {**_SHORT, "left": ("to", "the", "left", "of"), "right": ("to", "the", "right", "of")}
_OPPOSITE: dict[Direction, Direction] = {"above": "below", "below": "above", "left": "right", "right": "left"}
_NOUNS: dict[tuple[str, int, int], Tokens] = {}  # by article, label and count
for _label, _one in enumerate(SINGULAR):
    _NOUNS["a", _label, 1] = ("an" if _one == "eight" else "a", _one)
    _NOUNS["another", _label, 1] = ("another", _one)
    _NOUNS["the digit", _label, 1] = ("the", "digit", _one)
    for _count in range(2, MOST_DIGITS + 1):
        _NOUNS["a", _label, _count] = (SINGULAR[_count], PLURAL[_label])

# Every phrase with its kind and meaning. The kinds' first letters spell a sentence.
_PHRASES: dict[Tokens, tuple[str, object]] = {
    **{words: ("another" if noun[0] == "another" else "noun", Noun(*noun[1:])) for noun, words in _NOUNS.items()},
    **{words: ("place", cell) for cell, words in _PLACES.items()},
    **{words: ("relation", direction) for table in (_SHORT, _LONG) for direction, words in table.items()},
    ("is",): ("be", 1),
    ("are",): ("be", 2),
    ("and",): ("&", None),
    ("there",): ("there", None),
    ("the", "image", "shows"): ("shows", None),
}
_LONGEST_PHRASE = max(map(len, _PHRASES))
_CLAUSE = "n(rn)*p?"
_SENTENCE = re.compile(f"(tb|s)?{_CLAUSE}(&{_CLAUSE})*|nb(p(&np)*|(rn)+p?)|pt?bn((rn)*|(&pn)*)")


def parse(words: Tokens) -> Claims | None:
    """What a sentence says; None if it is no sentence of the grammar."""
    phrases, start = [], 0
    while start < len(words):
        # The longest phrase that fits is the right one: no sentence goes on after "at the top" with "left".
        for stop in range(min(start + _LONGEST_PHRASE, len(words)), start, -1):
            if (phrase := _PHRASES.get(tuple(words[start:stop]))) is not None:
                break
        else:
            return None
        phrases.append(phrase)
        start = stop
    shape = "".join("n" if kind == "another" else kind[0] for kind, _ in phrases)
    if not _SENTENCE.fullmatch(shape):
        return None

    nouns, relations = [], []
    place = relation = None
    for kind, meaning in phrases:
        if kind in ("noun", "another"):
            if kind == "another" and meaning.label not in (noun.label for noun in nouns):
                return None
            if nouns:
                relations.append(relation)
            nouns.append(meaning._replace(place=place))
            place = relation = None
        elif kind == "relation":
            relation = meaning
        elif kind == "place" and shape[0] == "p":
            place = meaning
        elif kind == "place":
            nouns[-1] = nouns[-1]._replace(place=meaning)
    if any(kind == "be" and number != min(nouns[0].count, 2) for kind, number in phrases):
        return None
    return Claims(tuple(nouns), tuple(relations))


def judge(words: Tokens, scene: Scene, canvas: tuple[int, int]) -> Verdict:
    """Compares a sentence with a scene.

    Args:
        words: any words.
        scene: 1 to 4 digits.
        canvas: (H, W) in pixels.

    Returns:
        Whether it is a sentence, names all digits and no other, and is true.
    """
    _check(scene)
    claims = parse(words)
    if claims is None:
        return Verdict(grammatical=False, complete=False, true=False)
    named = [noun.label for noun in claims.nouns for _ in range(noun.count)]
    return Verdict(
        grammatical=True,
        complete=sorted(named) == sorted(digit.label for digit in scene),
        true=any(_hold(claims, digits, canvas) for digits in permutations(scene, len(named))),
    )


def digit_mentions(words: Tokens) -> list[tuple[int, int]]:
    """The words that name digits, in a sentence or in any words: where they are, and the label of each.

    A number before a plural, as "two" in "two nines", is a count and names no digit.
    """
    mentions = []
    for position, word in enumerate(words):
        if word in PLURAL:
            mentions.append((position, PLURAL.index(word)))
        elif word in SINGULAR and not (position + 1 < len(words) and words[position + 1] in PLURAL):
            mentions.append((position, SINGULAR.index(word)))
    return mentions


def captions_of(scene: Scene, canvas: tuple[int, int], bits: Sequence[int]) -> list[Tokens]:
    """True sentences about a scene, each of which names all digits once, in at most `LONGEST` words.

    Digits are named in reading order (the row of the canvas, then from left to right), in some captions backwards.
    Digits of one label are named together where they first come, or one by one along a chain of relations.

    Args:
        scene: 1 to 4 digits.
        canvas: (H, W) in pixels.
        bits: a 64-bit integer for each caption wanted; the captions depend on nothing else.

    Returns:
        Captions that differ from each other, as many as there are bits, or all if there are fewer (there are at least
        five, unless centres lie closer together than digits side by side do).
    """
    _check(scene)
    wordings = _wordings(scene, canvas)
    captions = []
    for number in bits:
        while wordings:
            caption = _say(wordings.pop(number * len(wordings) >> 64))
            if len(caption) <= LONGEST and caption not in captions:  # a chain may read the same backwards
                captions.append(caption)
                break
    return captions


def _check(scene: Scene) -> None:
    if not 1 <= len(scene) <= MOST_DIGITS:
        raise ValueError(f"scene must have 1 to {MOST_DIGITS} digits, got {len(scene)}")


def _cell(digit: Digit, canvas: tuple[int, int]) -> Cell:
    """The cell of the canvas that has the digit's centre; centres outside count for the nearest."""
    height, width = canvas
    row, column = 3 * (digit.y0 + digit.y1) // (2 * height), 3 * (digit.x0 + digit.x1) // (2 * width)
    return int(min(max(row, 0), 2)), int(min(max(column, 0), 2))


def _stands(one: Digit, direction: Direction, other: Digit) -> bool:
    """Whether one digit is above (or below, ...) the other."""
    if direction in ("below", "right"):
        one, other = other, one
    right, down = (other.x0 + other.x1 - one.x0 - one.x1) / 2, (other.y0 + other.y1 - one.y0 - one.y1) / 2
    along, across = (down, right) if direction in ("above", "below") else (right, down)
    return along >= MARGIN and along >= abs(across)


def _hold(claims: Claims, digits: Scene, canvas: tuple[int, int]) -> bool:
    """Whether all claims hold, if these digits are those named, in their order."""
    rest = iter(digits)
    groups = [[next(rest) for _ in range(noun.count)] for noun in claims.nouns]
    return all(
        digit.label == noun.label and noun.place in (None, _cell(digit, canvas))
        for noun, group in zip(claims.nouns, groups, strict=True)
        for digit in group
    ) and all(
        relation is None or all(_stands(one, relation, other) for one in before for other in after)
        for relation, (before, after) in zip(claims.relations, pairwise(groups), strict=True)
    )


def _say(wording: Wording) -> Tokens:
    """The sentence, word by word."""
    (nouns, relations), frame, article, long = wording
    be = "is" if nouns[0].count == 1 else "are"
    words = {"there": ["there", be], "shows": ["the", "image", "shows"]}.get(frame, [])
    fronted = frame in ("front", "front there")
    links = _LONG if long else _SHORT
    named = set()
    for index, (label, count, place) in enumerate(nouns):
        if index:
            words += links.get(relations[index - 1], ("and",))
        if place and fronted:
            words += _PLACES[place]
        if not index and fronted:
            words += ("there", be) if frame == "front there" else (be,)
        words += _NOUNS["another" if label in named else article, label, count]
        if not index and frame == "is":
            words.append(be)
        if place and not fronted:
            words += _PLACES[place]
        named.add(label)
    return tuple(words)


def _wordings(scene: Scene, canvas: tuple[int, int]) -> list[Wording]:
    """The ways to say a scene, in a fixed order, some longer than `LONGEST`."""
    ordered = sorted(scene, key=lambda digit: (_cell(digit, canvas)[0], digit.x0 + digit.x1, digit.y0 + digit.y1))
    by_label: dict[int, list[Digit]] = {}
    for digit in ordered:
        by_label.setdefault(digit.label, []).append(digit)
    singles, groups = [[digit] for digit in ordered], list(by_label.values())
    wordings = _lists(groups, canvas) + _chains(groups, canvas)
    if len(groups) < len(singles):
        wordings += _chains(singles, canvas)
        if len(singles) == 2:
            wordings += [way for way in _lists(singles, canvas) if way.claims.nouns[0].place]
    return wordings


def _lists(groups: list[list[Digit]], canvas: tuple[int, int]) -> list[Wording]:
    """Nouns joined by "and": without places, and with all their places, or one where all would be too long."""
    nouns, places = _nouns(groups, canvas)
    links = (None,) * (len(nouns) - 1)
    wordings = [Wording(Claims(nouns, links), frame) for frame in _OPENINGS]
    if len(nouns) <= 2 and all(places):
        placed = Claims(tuple(noun._replace(place=place) for noun, place in zip(nouns, places, strict=True)), links)
        wordings += [Wording(placed, frame) for frame in (*_OPENINGS, "is", "front", "front there")]
        if len({noun.label for noun in nouns}) == sum(noun.count for noun in nouns):
            wordings += [Wording(placed, frame, "the digit") for frame in ("plain", "shows", "is")]
        return wordings
    for index, place in enumerate(places):
        if place:
            some = Claims((*nouns[:index], nouns[index]._replace(place=place), *nouns[index + 1 :]), links)
            wordings += [Wording(some, frame) for frame in _OPENINGS]
    return wordings


def _chains(groups: list[list[Digit]], canvas: tuple[int, int]) -> list[Wording]:
    """Nouns joined by relations, onwards and backwards, without places or with one at either end."""
    relations = tuple(
        next((d for d in _OPPOSITE if all(_stands(one, d, other) for one in before for other in after)), None)
        for before, after in pairwise(groups)
    )
    if len(groups) < 2 or None in relations:
        return []
    nouns, places = _nouns(groups, canvas)
    onwards = Claims(nouns, relations)
    backwards = Claims(nouns[::-1], tuple(_OPPOSITE[relation] for relation in relations[::-1]))
    wordings = [Wording(onwards, frame) for frame in (*_OPENINGS, "is")]
    wordings += [Wording(backwards, frame) for frame in ("plain", "is")]
    if places[0]:
        begun = Claims((nouns[0]._replace(place=places[0]), *nouns[1:]), relations)
        wordings += [Wording(begun, frame) for frame in ("front", "front there")]
    if places[-1]:
        ended = Claims((*nouns[:-1], nouns[-1]._replace(place=places[-1])), relations)
        wordings += [Wording(ended, frame) for frame in (*_OPENINGS, "is")]
    if len(nouns) == 4:
        wordings += [Wording(Claims(nouns, (relations[0], None, relations[2])), frame) for frame in _OPENINGS]
    if len(nouns) == 2:
        if relations[0] in ("left", "right"):
            wordings += [way._replace(long=True) for way in wordings[:6]]
        if len({noun.label for noun in nouns}) == sum(noun.count for noun in nouns):
            wordings += [Wording(claims, "is", "the digit", long=True) for claims in (onwards, backwards)]
    return wordings


def _nouns(groups: list[list[Digit]], canvas: tuple[int, int]) -> tuple[tuple[Noun, ...], list[Cell | None]]:
    """The noun of each group, and the place that all its digits share, if they do."""
    cells = [{_cell(digit, canvas) for digit in group} for group in groups]
    nouns = tuple(Noun(group[0].label, len(group)) for group in groups)
    return nouns, [shared.pop() if len(shared) == 1 else None for shared in cells]
