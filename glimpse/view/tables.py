"""Tables of text, and the tables of scores."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from glimpse.evaluation.caption import CaptionScores
from glimpse.metrics.translations import TranslationScores


class Table(NamedTuple):
    """A table of text; the first column has names, the others numbers."""

    title: str
    header: list[str]
    rows: list[list[str]]
    notes: list[str] = []  # how to read the numbers

    def text(self) -> str:
        """Format as plain text, with numbers aligned to the right, without title and notes."""
        lines = [self.header, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.header))]
        padded = []
        for name, *cells in lines:
            cells = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
            padded.append("  ".join([name.ljust(widths[0]), *cells]).rstrip())
        padded.insert(1, "-" * (sum(widths) + 2 * (len(widths) - 1)))
        return "\n".join(padded)

    def markdown(self) -> str:
        """Format as Markdown, with title and notes."""

        def line(cells: list[str]) -> str:
            return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

        rule = line(["---", *["--:"] * (len(self.header) - 1)])
        parts = [f"**{self.title}**", "\n".join([line(self.header), rule, *map(line, self.rows)]), *self.notes]
        return "\n\n".join(parts) + "\n"


def score_table(scores: dict[str, dict[str, Any]]) -> Table:
    """Make a table of the scores of a classifier.

    Args:
        scores: By rollout mode: "error" and "interval" after each glimpse, and "hit" (share on the digit) if known.

    Returns:
        A table with a row for each rollout mode and quantity and a column for each glimpse, in percent.
    """
    steps = len(next(iter(scores.values()))["error"])
    rows = []
    for name, score in scores.items():
        rows.append([f"{name}: error %", *(f"{100 * error:.2f}" for error in score["error"])])
        rows.append(["  95% interval", *(f"{100 * low:.2f}-{100 * high:.2f}" for low, high in score["interval"])])
        if "hit" in score:
            rows.append(["  on the digit %", *(f"{100 * hit:.1f}" for hit in score["hit"])])
    return Table("", ["glimpse", *(str(step + 1) for step in range(steps))], rows)


def caption_table(scores: dict[str, dict[str, Any]], notes: Sequence[str] = ()) -> Table:
    """Make a table of the scores of captioners.

    Args:
        scores: By name of the model, the scores that `evaluation.caption.score_captions` returns.
        notes: Notes of the table.

    Returns:
        A table with a row for each score and a column for each model, in percent.
    """
    return Table("Captions", ["", *scores], _score_rows(scores, CaptionScores.names), list(notes))


def translation_table(scores: dict[str, dict[str, Any]]) -> Table:
    """Make a table of the scores of translators, which `metrics.translations.score_translations` returns."""
    names = dict(TranslationScores.names)
    for key in next(iter(scores.values())):
        score, by_length, lengths = key.partition("_words_")
        if by_length:
            names[key] = f"  {names.get(score, score)}, {lengths} source words"
    return Table("Translations", ["", *scores], _score_rows(scores, names))


def _score_rows(scores: dict[str, dict[str, Any]], names: dict[str, str]) -> list[list[str]]:
    """A row for each score that is a share, with a column for each model, in percent."""
    rows = []
    for key in next(iter(scores.values())):
        values = [score[key] for score in scores.values()]
        if any(isinstance(value, float) for value in values):
            rows.append([names.get(key, key), *("-" if value is None else f"{100 * value:.2f}" for value in values)])
    return rows


def duration(seconds: float) -> str:
    """Format a duration, such as "3 min"."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
