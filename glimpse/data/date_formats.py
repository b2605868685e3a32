"""Dates in natural language, with the words that express the year, the month and the day.

A date from 1900 to 2099 is written in one of 16 formats, each with its own options (padding, separators, abbreviations,
ordinals, weekday). Every text is unambiguous, by these rules:

* In a date of numbers only, a first number of four digits is the year, followed by the month; eight digits in a row are
  year, month and day. Otherwise the text states the order ("day first", "y/m/d"; "day first" and "month first" put the
  year last), unless the day is over 12 and the year is last and has four digits.
* A year of two digits is in 1950 to 2049.
* A weekday is always the correct one.

Tokens are lower-case words, single digits and single punctuation marks: "Sept. 3rd, 1998" is the nine tokens
sept . 3 rd , 1 9 9 8. So a source has 4 to 21 tokens, each with a meaning, and alignments are easy to read. Sources of
characters would be several times as long, and with whole numbers as tokens, years not seen in training would be unknown
words. The ISO 8601 translation is a sequence of ten characters: 1 9 9 8 - 0 9 - 0 3.
"""

import re
from collections.abc import Callable, Sequence
from datetime import date
from functools import lru_cache
from typing import Literal, NamedTuple, TypeVar

from glimpse.data.sentence_pairs import SentencePair, Span
from glimpse.data.vocabulary import Tokens

FIRST, LAST = date(1900, 1, 1), date(2099, 12, 31)
SHORT_FROM = 1950  # first of the 100 years that may be written with two digits

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii")
_UNITS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ORDINALS = (
    *("", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh"),
    *("twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth"),
    *("twentieth", *(f"twenty-{unit}" for unit in ("first", "second", "third", "fourth", "fifth", "sixth", "seventh"))),
    *("twenty-eighth", "twenty-ninth", "thirtieth", "thirty-first"),
)
_WORD = re.compile(r"\d|[^\W\d_]+|\S")

Field = Literal["year", "month", "day"]
Option = TypeVar("Option")


class Piece(NamedTuple):
    """A part of a text that expresses a field of the date."""

    text: str
    field: Field


Pieces = Sequence[str | Piece]


class Pick:
    """Chooses among options by the digits of a large random number."""

    def __init__(self, bits: int):
        self._left = bits

    def __call__(self, *options: Option) -> Option:
        """One of the options."""
        self._left, index = divmod(self._left, len(options))
        return options[index]


@lru_cache(maxsize=4096)  # there are few different texts
def split_date(text: str) -> Tokens:
    """Tokenize a date: lower-case words, single digits, single punctuation marks."""
    return tuple(_WORD.findall(text.lower()))


def iso(day: date) -> Tokens:
    """A date as the ten characters of ISO 8601."""
    return tuple(day.isoformat())


def write(day: date, bits: int) -> SentencePair:
    """Write a date in a random format.

    Args:
        day: A date from FIRST to LAST.
        bits: Random 64-bit integer; the format depends on it and on the date alone.

    Returns:
        The text, its ISO 8601 translation, and the alignment: the digits of the year are aligned with the words that
        express the year, even if these only imply the century; likewise month and day. Hyphens have no alignment.
    """
    if not FIRST <= day <= LAST:
        raise ValueError(f"day must be in {FIRST}..{LAST}, got {day}")
    pick = Pick(bits)
    pieces = pick(*(FORMATS if day.day > 12 else _FORMATS_OF_ANY_DAY))(day, pick)
    words: list[str] = []
    spans: dict[Field, Span] = {}
    for piece in pieces:
        text = piece if isinstance(piece, str) else piece.text
        start = len(words)
        words += split_date(text)
        if isinstance(piece, Piece):
            spans[piece.field] = (start, len(words))
    year, month, day_span, none = spans["year"], spans["month"], spans["day"], (0, 0)
    return SentencePair(tuple(words), (iso(day),), (*[year] * 4, none, *[month] * 2, none, *[day_span] * 2))


# Parts of the formats


def _digits(number: int, pick: Pick) -> str:
    """A number with or without a leading zero."""
    return pick(str(number), f"{number:02d}")


def _day(day: date, pick: Pick) -> Piece:
    return Piece(_digits(day.day, pick), "day")


def _ordinal(day: date, pick: Pick) -> Piece:
    """3rd."""
    unit = 0 if 10 < day.day < 14 else day.day % 10
    return Piece(f"{day.day}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(unit, 'th') }", "day")


def _spelled_day(day: date, pick: Pick) -> Piece:
    """Third, twenty-third, twenty third."""
    return Piece(_ORDINALS[day.day].replace("-", pick("-", " ")), "day")


def _month(day: date, pick: Pick) -> Piece:
    return Piece(_digits(day.month, pick), "month")


def _named_month(day: date, pick: Pick) -> Piece:
    """September, Sep, Sept."""
    name = MONTHS[day.month - 1]
    short = "sept" if day.month == 9 and pick("sep", "sept") == "sept" else name[:3]
    return Piece(pick(name, name, short, f"{short}."), "month")


def _year(day: date, pick: Pick) -> Piece:
    return Piece(str(day.year), "year")


def _year_or_short(day: date, pick: Pick, mark: str) -> Piece:
    """1998, or 98 after a mark such as an apostrophe if two digits are unambiguous."""
    if not SHORT_FROM <= day.year < SHORT_FROM + 100:
        return _year(day, pick)
    return Piece(pick(str(day.year), f"{mark}{day.year % 100:02d}"), "year")


def _spelled_year(day: date, pick: Pick) -> Piece:
    """Nineteen ninety-eight, nineteen oh five, nineteen hundred and five, two thousand and five, twenty twenty-four."""
    century, rest = divmod(day.year, 100)
    rest_words = _spelled_number(rest, pick)
    if rest == 0:
        return Piece("nineteen hundred" if century == 19 else "two thousand", "year")
    after = f"oh {rest_words}" if rest < 10 else rest_words
    if century == 19:
        return Piece(pick(f"nineteen {after}", f"nineteen hundred and {rest_words}"), "year")
    return Piece(pick(f"twenty {after}", f"two thousand and {rest_words}", f"two thousand {rest_words}"), "year")


def _spelled_number(number: int, pick: Pick) -> str:
    """A number below 100 in words."""
    if number < 20:
        return _UNITS[number]
    tens, units = divmod(number, 10)
    return _TENS[tens] + (pick("-", " ") + _UNITS[units] if units else "")


def _weekday(day: date, pick: Pick) -> str:
    """Sunday, Sun, or in two of three texts nothing."""
    name = WEEKDAYS[day.weekday()]
    short = {"tuesday": "tues", "thursday": "thurs"}.get(name, name[:3])
    return pick("", pick(name, name[:3], short) + pick("", ",", "."), "")


# The formats


def _day_month_year(day: date, pick: Pick) -> Pieces:
    """Sun, 3rd May 1998."""
    first = _ordinal(day, pick) if pick("plain", "ordinal") == "ordinal" else _day(day, pick)
    return [_weekday(day, pick), first, _named_month(day, pick), pick("", ","), _year_or_short(day, pick, "'")]


def _month_day_year(day: date, pick: Pick) -> Pieces:
    """Sunday, May 3, 1998."""
    second = _ordinal(day, pick) if pick("plain", "ordinal") == "ordinal" else _day(day, pick)
    return [_weekday(day, pick), _named_month(day, pick), second, ",", _year_or_short(day, pick, "'")]


def _the_day_of_month(day: date, pick: Pick) -> Pieces:
    """On the 3rd of May, 1998."""
    month, year = _named_month(day, pick), _year_or_short(day, pick, "'")
    return [_weekday(day, pick), pick("", "on"), "the", _ordinal(day, pick), "of", month, pick("", ","), year]


def _all_spelled(day: date, pick: Pick) -> Pieces:
    """The third of may nineteen ninety-eight."""
    month = Piece(MONTHS[day.month - 1], "month")
    return [_weekday(day, pick), "the", _spelled_day(day, pick), "of", month, pick("", ","), _spelled_year(day, pick)]


def _all_spelled_month_first(day: date, pick: Pick) -> Pieces:
    """May the third, nineteen ninety-eight."""
    month = Piece(MONTHS[day.month - 1], "month")
    return [
        _weekday(day, pick),
        month,
        pick("", "the"),
        _spelled_day(day, pick),
        pick("", ","),
        _spelled_year(day, pick),
    ]


def _spelled_day_only(day: date, pick: Pick) -> Pieces:
    """The third of May, 1998."""
    month, year = _named_month(day, pick), _year(day, pick)
    return [pick("", "on"), "the", _spelled_day(day, pick), "of", month, pick("", ","), year]


def _year_first_named(day: date, pick: Pick) -> Pieces:
    """1998, May 3rd."""
    last = _ordinal(day, pick) if pick("plain", "ordinal") == "ordinal" else _day(day, pick)
    return [_year(day, pick), pick("", ","), _named_month(day, pick), last]


def _month_year_day(day: date, pick: Pick) -> Pieces:
    """In May 1998, on the 3rd."""
    end = _ordinal(day, pick) if pick("3rd", "third") == "3rd" else _spelled_day(day, pick)
    return [pick("", "in"), _named_month(day, pick), _year(day, pick), ",", pick("", "on"), "the", end]


def _long(day: date, pick: Pick) -> Pieces:
    """Sunday, the 3rd day of the month of May in the year 1998."""
    which = _ordinal(day, pick) if pick("3rd", "third") == "3rd" else _spelled_day(day, pick)
    year = _year(day, pick) if pick("1998", "spelled") == "1998" else _spelled_year(day, pick)
    month: Pieces = [pick("", "the month of"), Piece(MONTHS[day.month - 1], "month")]
    return [_weekday(day, pick), "the", which, "day of", *month, "in the year", year]


def _marked_numbers(day: date, pick: Pick) -> Pieces:
    """3/5/98 (day first)."""
    sign = pick("/", ".", "-")
    order = pick("day", "month")
    first, second = (_day(day, pick), _month(day, pick)) if order == "day" else (_month(day, pick), _day(day, pick))
    numbers: Pieces = [first, sign, second, sign, _year_or_short(day, pick, "")]
    letters = "d/m/y" if order == "day" else "m/d/y"
    mark = pick(f"{order} first", letters)
    return [*numbers, "(", mark, ")"] if pick("after", "before") == "after" else [mark, ":", *numbers]


def _marked_year_first(day: date, pick: Pick) -> Pieces:
    """98/5/3 (y/m/d)."""
    sign = pick("/", ".", "-")
    return [_year_or_short(day, pick, ""), sign, _month(day, pick), sign, _day(day, pick), "( y/m/d )"]


def _numbers_with_large_day(day: date, pick: Pick) -> Pieces:
    """23/5/1998, 5/23/1998; only for days over 12, which cannot be months."""
    sign = pick("/", ".", "-")
    numbers = [_day(day, pick), sign, _month(day, pick)]
    return [*(numbers if pick("day", "month") == "day" else reversed(numbers)), sign, _year(day, pick)]


def _year_first_numbers(day: date, pick: Pick) -> Pieces:
    """1998/05/03."""
    sign = pick("/", ".")
    return [_year(day, pick), sign, _month(day, pick), sign, _day(day, pick)]


def _compact(day: date, pick: Pick) -> Pieces:
    """19980503."""
    return [_year(day, pick), Piece(f"{day.month:02d}", "month"), Piece(f"{day.day:02d}", "day")]


def _between_signs(day: date, pick: Pick) -> Pieces:
    """3-May-98, 3.V.1998."""
    if pick("name", "roman") == "roman":
        sign, month = pick(".", "/"), Piece(ROMAN[day.month - 1], "month")
    else:
        sign, month = pick("-", "/"), Piece(MONTHS[day.month - 1][:3], "month")
    return [_day(day, pick), sign, month, sign, _year_or_short(day, pick, "")]


def _labeled(day: date, pick: Pick) -> Pieces:
    """Month 5, day 3, year 1998; in any order."""
    fields: dict[str, Pieces] = {
        "d": ["day", _day(day, pick)],
        "m": ["month", _month(day, pick)],
        "y": ["year", _year(day, pick)],
    }
    first, second, third = (fields[letter] for letter in pick("dmy", "dym", "mdy", "myd", "ydm", "ymd"))
    return [*first, ",", *second, ",", *third]


FORMATS: tuple[Callable[[date, Pick], Pieces], ...] = (
    _day_month_year,
    _month_day_year,
    _the_day_of_month,
    _all_spelled,
    _all_spelled_month_first,
    _spelled_day_only,
    _year_first_named,
    _month_year_day,
    _long,
    _marked_numbers,
    _marked_year_first,
    _numbers_with_large_day,
    _year_first_numbers,
    _compact,
    _between_signs,
    _labeled,
)
_FORMATS_OF_ANY_DAY = tuple(form for form in FORMATS if form is not _numbers_with_large_day)
