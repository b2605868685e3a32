"""Scores as text."""

from typing import Any


def score_table(scores: dict[str, dict[str, Any]]) -> str:
    """Lay out the scores of `classification.score`, by the name of each way of rolling out.

    Args:
        scores: For each name, "error" and "interval" after each glimpse, and "hit" if it is known.

    Returns:
        A table with a row per name and quantity and a column per glimpse, in percent.
    """
    steps = len(next(iter(scores.values()))["error"])
    rows = [["glimpse", *(str(step + 1) for step in range(steps))]]
    for name, score in scores.items():
        rows.append([f"{name}: error %", *(f"{100 * error:.2f}" for error in score["error"])])
        rows.append(["  95% interval", *(f"{100 * low:.2f}-{100 * high:.2f}" for low, high in score["interval"])])
        if "hit" in score:
            rows.append(["  on the digit %", *(f"{100 * hit:.1f}" for hit in score["hit"])])
    widths = [max(len(row[column]) for row in rows) for column in range(steps + 1)]
    lines = []
    for label, *cells in rows:
        padded = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        lines.append("  ".join([label.ljust(widths[0]), *padded]))
    lines.insert(1, "-" * len(lines[0]))
    return "\n".join(lines)
