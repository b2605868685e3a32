"""Parametrize a test over several axes, so that every pair of values occurs; the rest of the product is slow."""

from itertools import combinations, product
from typing import Any

import pytest


def cover(sizes: list[int]) -> set[tuple[int, ...]]:
    """Rows of indices, one per axis, in which every pair of values of two axes occurs; chosen greedily."""
    rows = list(product(*map(range, sizes)))
    pairs_of = {row: {(i, row[i], j, row[j]) for i, j in combinations(range(len(sizes)), 2)} for row in rows}
    missing = set().union(*pairs_of.values())
    chosen = set()
    while missing:
        best = max(rows, key=lambda row: len(pairs_of[row] & missing))
        chosen.add(best)
        missing -= pairs_of[best]
    return chosen


def pairs(*axes: tuple[str, Any], **named: Any) -> pytest.MarkDecorator:
    """Like stacked `pytest.mark.parametrize`, with the rows that add no new pair of values marked slow.

    Args:
        axes: Axes of several arguments that change together, such as ("mode, sample", [("soft", False), ...]).
        named: Axes of one argument each.
    """
    names = [name for name, _ in axes] + list(named)
    values = [list(rows) for _, rows in axes] + [[(value,) for value in rows] for rows in named.values()]
    chosen = cover([len(rows) for rows in values])
    parameters = []
    for row in product(*(range(len(rows)) for rows in values)):
        arguments = [value for rows, index in zip(values, row, strict=True) for value in rows[index]]
        parameters.append(pytest.param(*arguments, marks=() if row in chosen else pytest.mark.slow))
    return pytest.mark.parametrize(",".join(names), parameters)
