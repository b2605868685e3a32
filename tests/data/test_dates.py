"""Dates: literal texts and alignments, an independent parser that parses every text, and fixed splits."""

import re
from collections import Counter
from datetime import date
from itertools import pairwise

import pytest

from glimpse.data.base import Splits
from glimpse.data.date_formats import FIRST, FORMATS, LAST, Pick, iso, split_date, write
from glimpse.data.dates import Dates, dates
from glimpse.data.vocabulary import Vocabulary
from glimpse.errors import DataError

# A date parser that shares no code with the generator.

CARDINALS = {
    word: number
    for number, word in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
        ]
    )
} | {
    word: 10 * number
    for number, word in enumerate(["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], 2)
}
ORDINALS = {
    word: number
    for number, word in enumerate(
        [
            "first",
            "second",
            "third",
            "fourth",
            "fifth",
            "sixth",
            "seventh",
            "eighth",
            "ninth",
            "tenth",
            "eleventh",
            "twelfth",
            "thirteenth",
            "fourteenth",
            "fifteenth",
            "sixteenth",
            "seventeenth",
            "eighteenth",
            "nineteenth",
            "twentieth",
        ],
        1,
    )
} | {"thirtieth": 30}
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
ROMAN = ["i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii"]


def full_year(digits):
    number = int(digits)
    return number if len(digits) == 4 else number + (1900 if number >= 50 else 2000)


def spelled_year(words):
    values = [CARDINALS[word] for word in words if word not in ("hundred", "thousand", "and", "oh", "-")]
    return (2000 if values[0] in (2, 20) else 1900) + sum(values[1:])


def parse_text(words):
    """Parse a text; fails unless it has exactly one meaning."""
    text = re.sub(r"(?<=\d) (?=\d)", "", " ".join(words))  # join digits to numbers
    weekday = None
    if re.match(r"(mon|tues?|wed|thu|thurs|fri|sat|sun|[a-z]+day)\b(?<!^day)", text):
        first, text = text.split(" ", 1)
        weekday = WEEKDAYS.index(first[:3])
        text = re.sub(r"^[,.] ", "", text)
    found = parse_fields(text)
    if weekday is not None:
        assert found.weekday() == weekday, text
    return found


def parse_fields(text):
    numbers = re.findall(r"\d+", text)
    labels = dict(re.findall(r"(day|month|year) (\d+)", text))
    if len(labels) == 3:
        return date(int(labels["year"]), int(labels["month"]), int(labels["day"]))
    if re.fullmatch(r"\d{8}", text):
        return date(int(text[:4]), int(text[4:6]), int(text[6:]))
    if roman := re.fullmatch(r"(\d+) ([./]) ([ivx]+) \2 (\d+)", text):
        return date(full_year(roman[4]), ROMAN.index(roman[3]) + 1, int(roman[1]))
    if len(numbers) == 3:
        return parse_numbers(text, numbers)
    words = [word for word in re.findall(r"\d+|[a-z]+", text) if word not in ("the", "of", "on", "in", "day", "year")]
    words = [word for word in words if word != "month"]
    [month] = [word for word in words if word[:3] in MONTHS and word not in ORDINALS]
    place = words.index(month)
    assert month[:3] == month or month == "sept" or len(month) > 3
    day = next(
        (
            int(word)
            for word, after in pairwise([*words, ""])
            if word.isdigit() and (after in ("st", "nd", "rd", "th") or len(word) < 3)
        ),
        None,
    )
    ordinals = [index for index, word in enumerate(words) if word in ORDINALS]
    taken = {place}
    if ordinals:
        [last] = ordinals
        day = ORDINALS[words[last]]
        taken.add(last)
        if last and words[last - 1] in ("twenty", "thirty") and day < 10:
            day += CARDINALS[words[last - 1]]
            taken.add(last - 1)
    spelled = [word for index, word in enumerate(words) if index not in taken and word.isalpha() and len(word) > 2]
    if spelled:
        year = spelled_year([word for word in spelled if word not in ("st", "nd", "rd", "th")])
    else:
        year = full_year(next((number for number in numbers if len(number) == 4), numbers[-1]))
    return date(year, MONTHS.index(month[:3]) + 1, day)


def parse_numbers(text, numbers):
    one, two, three = map(int, numbers)
    if "y / m / d" in text or len(numbers[0]) == 4:
        return date(full_year(numbers[0]), two, three)
    year = full_year(numbers[2])
    if "day first" in text or "d / m / y" in text:
        return date(year, two, one)
    if "month first" in text or "m / d / y" in text:
        return date(year, one, two)
    assert len(numbers[2]) == 4 and (one > 12) != (two > 12), text
    return date(year, two, one) if one > 12 else date(year, one, two)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sunday, May 3, 1998", "1998-05-03"),
        ("the 3rd of May, '98", "1998-05-03"),
        ("3/5/98 (day first)", "1998-05-03"),
        ("month first: 5-3-49", "2049-05-03"),
        ("50.5.3 (y/m/d)", "1950-05-03"),
        ("the twenty third of may nineteen ninety-eight", "1998-05-23"),
        ("May the thirty-first, two thousand and five", "2005-05-31"),
        ("june first twenty oh one", "2001-06-01"),
        ("Saturday the 31st day of the month of december in the year twenty ten", None),  # it was a Friday
        ("3.V.1998", "1998-05-03"),
        ("23/5/1998", "1998-05-23"),
        ("5.23.1998", "1998-05-23"),
        ("19980503", "1998-05-03"),
        ("year 1998, day 3, month 5", "1998-05-03"),
        ("Sept. 1998, on the third", "1998-09-03"),
    ],
)
def test_parser(text, expected):
    if expected is None:
        with pytest.raises(AssertionError):
            parse_text(split_date(text))
    else:
        assert parse_text(split_date(text)).isoformat() == expected


# Texts


def test_words_are_literal():
    words = ("sept", ".", "3", "rd", ",", "1", "9", "9", "8", "(", "day", "first", ")", "'", "-")
    assert split_date("Sept. 3rd, 1998 (Day first)'-") == words
    assert split_date("  ") == ()
    assert iso(date(1998, 5, 3)) == tuple("1998-05-03")


def find(text, day):
    """The pair of a date with this text, found by trying random bits."""
    for bits in range(200_000):
        pair = write(day, bits)
        if pair.source == split_date(text):
            return pair
    raise AssertionError(f"no bits give {text}")


@pytest.mark.parametrize(
    ("text", "year", "month", "day"),
    [
        ("sunday , may 3 , 1998", (5, 9), (2, 3), (3, 4)),
        ("on the 3rd of may '98", (6, 9), (5, 6), (2, 4)),
        ("03/5/98 (day first)", (5, 7), (3, 4), (0, 2)),
        ("m/d/y: 5-3-98", (10, 12), (6, 7), (8, 9)),
        ("the third of may nineteen ninety-eight", (4, 8), (3, 4), (1, 2)),
        ("19980503", (0, 4), (4, 6), (6, 8)),
        ("year 1998, day 3, month 05", (1, 5), (10, 12), (7, 8)),
        ("98/5/3 (y/m/d)", (0, 2), (3, 4), (5, 6)),
        ("3.v.1998", (4, 8), (2, 3), (0, 1)),
        ("in may. 1998, on the 3rd", (3, 7), (1, 3), (10, 12)),
    ],
)
def test_alignments_are_literal(text, year, month, day):
    pair = find(text, date(1998, 5, 3))
    assert pair.references == (tuple("1998-05-03"),)
    assert pair.alignment_spans == (year, year, year, year, (0, 0), month, month, (0, 0), day, day)


def test_every_text_is_parsed_and_has_one_meaning():
    meanings, lengths, seen = {}, Counter(), Counter()
    for split in dates():
        pairs = split._sample(6000, 0, 3, 1, 4)
        for pair in pairs:
            expected = "".join(pair.references[0])
            assert parse_text(pair.source).isoformat() == expected, pair
            assert meanings.setdefault(pair.source, expected) == expected
            lengths[len(pair.source)] += 1
            seen[re.sub(r"(?:\d ?)+", "0", " ".join(pair.source))] += 1
    assert min(lengths) == 4 and 18 <= max(lengths) <= 21
    assert len(seen) > 1500  # wordings, ignoring their numbers


def test_alignment_spans_contain_their_field():
    """The words of each span express the year, the month or the day."""
    for pair in Dates("train")._sample(3000, 0, 1, 2, 3):
        day = date.fromisoformat("".join(pair.references[0]))
        assert len(pair.alignment_spans) == 10 and pair.alignment_spans[4] == pair.alignment_spans[7] == (0, 0)
        assert (
            len(set(pair.alignment_spans[:4]))
            == len(set(pair.alignment_spans[5:7]))
            == len(set(pair.alignment_spans[8:]))
            == 1
        )
        year, month, number = ([*pair.source[slice(*pair.alignment_spans[position])]] for position in (0, 5, 8))
        digits = "".join(word for word in year if word.isdigit())
        assert (full_year(digits) if digits else spelled_year(year)) == day.year
        name = month[0]
        if "".join(month).isdigit():
            assert int("".join(month)) == day.month
        elif name in ROMAN:
            assert ROMAN.index(name) + 1 == day.month
        else:
            assert MONTHS.index(name[:3]) + 1 == day.month
        digits = "".join(word for word in number if word.isdigit())
        spelled = sum(ORDINALS.get(word, CARDINALS.get(word, 0)) for word in number)
        assert int(digits or spelled) == day.day
        spans = sorted({pair.alignment_spans[0], pair.alignment_spans[5], pair.alignment_spans[8]})
        assert all(stop <= start for (_, stop), (start, _) in pairwise(spans))


def test_all_formats_are_used():
    assert len(FORMATS) == 16
    for day in (date(1998, 5, 23), date(2098, 5, 3)):
        texts = {tuple(re.sub(r"\d+", "0", " ".join(write(day, bits).source)).split()) for bits in range(2000)}
        possible = [form for form in FORMATS if day.day > 12 or "large_day" not in form.__name__]
        for form in possible:
            own = {format_of(form, day, bits) for bits in range(50)}
            assert own & texts, form.__name__


def format_of(form, day, bits):
    pieces = form(day, Pick(bits))
    text = " ".join(" ".join(split_date(piece if isinstance(piece, str) else piece.text)) for piece in pieces)
    return tuple(re.sub(r"\d+", "0", text).split())


def test_years_of_two_digits_are_those_of_the_window():
    for year, short in ((1949, False), (1950, True), (2049, True), (2050, False)):
        sources = [write(date(year, 5, 3), bits) for bits in range(3000)]
        lengths = {
            pair.alignment_spans[0][1] - pair.alignment_spans[0][0]
            for pair in sources
            if pair.source[pair.alignment_spans[0][0]].isdigit()
        }
        assert lengths == ({2, 4} if short else {4})


def test_days_out_of_range():
    for day in (date(1899, 12, 31), date(2100, 1, 1)):
        with pytest.raises(ValueError, match=f"day must be in 1900-01-01..2099-12-31, got {day}"):
            write(day, 0)
    assert write(FIRST, 0).references == (tuple("1900-01-01"),)
    assert write(LAST, 0).references == (tuple("2099-12-31"),)


# Splits


@pytest.fixture(scope="module")
def splits():
    return dates()


def test_no_day_is_in_two_splits(splits):
    assert isinstance(splits, Splits)
    train, valid, test = (set(split.days.tolist()) for split in splits)
    assert not train & valid and not train & test and not valid & test
    assert len(train | valid | test) == 73_049 == LAST.toordinal() - FIRST.toordinal() + 1
    assert (len(train), len(valid), len(test)) == (62_066, 3_581, 7_402)
    days = [
        date.fromisoformat("".join(pair.references[0])).toordinal() for pair in splits.test.fixed_pairs(slice(None))
    ]
    assert len(set(days)) == len(days) == len(splits.test) == 5_000 and set(days) <= test
    sampled = next(splits.train.epoch(seed=0, epoch=0, batch_size=500)).pairs
    assert {date.fromisoformat("".join(pair.references[0])).toordinal() for pair in sampled} <= train


def test_fixed_sets_never_change(splits):
    assert len(splits.train) == 20_000 and len(splits.valid) == 2_000
    assert splits.valid.digest() == VALID and splits.test.digest() == TEST


VALID = "adcaf310b94134f3828c8d81f0dbd25b3d2193e8902a1757bef22ae07e9a4db9"
TEST = "14ba07202985d64058e3ab235a54cb298f844e1ad7b8fead32f9713576c18c2d"


def test_an_epoch_is_a_function_of_seed_and_number(splits):
    def sources(**which):
        batches = splits.train.epoch(**{"seed": 0, "epoch": 0, "batch_size": 400, **which})
        return [pair.source for batch in batches for pair in batch.pairs]

    first = sources()
    assert sources() == first and len(first) == 20_000
    for other in (sources(epoch=1), sources(seed=1)):
        assert len(set(other) & set(first)) < 0.1 * len(set(first))  # some short texts may recur


def test_batches_have_similar_lengths(splits):
    spreads = []
    for batch in splits.train.epoch(seed=0, epoch=0, batch_size=100):
        lengths = [len(pair.source) for pair in batch.pairs]
        assert batch.width == max(lengths) and len(batch.pairs) == 100
        spreads.append(max(lengths) - min(lengths))
    assert sum(spreads) / len(spreads) < 1.5 and len(spreads) == 200


def test_shares_make_up_the_batch(splits):
    whole = list(splits.train.epoch(seed=2, epoch=1, batch_size=1000))
    shares = [list(splits.train.epoch(seed=2, epoch=1, batch_size=1000, rank=rank, world_size=2)) for rank in range(2)]
    for batch, first, second in zip(whole, *shares, strict=True):
        assert first.pairs + second.pairs == batch.pairs and first.width == second.width == batch.width
    with pytest.raises(DataError, match="batch_size must be at most the 20000 examples"):
        splits.train.epoch(seed=0, epoch=0, batch_size=20_001)


def test_in_order(splits):
    batches = list(splits.valid.in_order(batch_size=300, limit=700))
    assert [len(batch.pairs) for batch in batches] == [300, 300, 100]
    assert [pair for batch in batches for pair in batch.pairs] == splits.valid.fixed_pairs(slice(700))
    assert batches[0].width == max(len(pair.source) for pair in batches[0].pairs)


def test_vocabulary_of_the_training_split_is_complete(splits):
    vocabulary = Vocabulary.of(pair.source for pair in splits.train.vocabulary_pairs())
    for split in splits:
        for pair in split._sample(5000, 0, 9, 9, 9):
            assert set(pair.source) <= set(vocabulary.words)
    with pytest.raises(ValueError, match='the vocabulary must be built from the "train" split, got "test"'):
        splits.test.vocabulary_pairs()


def test_tokenizer():
    assert Dates.tokenizer.detokenize(Dates.tokenizer.split("1998-05-03")) == "1998-05-03"
