"""What all scores have in common: a plain form for files, and a name to print for each value."""

from typing import Any, ClassVar, Protocol


class Scores(Protocol):
    """Scores of a model on the examples of a split. The classes are beside what makes them."""

    names: ClassVar[dict[str, str]]
    """By the key of a value in the plain form, what to call it in tables and in results.csv."""

    def as_dict(self) -> dict[str, Any]:
        """The plain form, for JSON: the same keys in the same order in every version."""
