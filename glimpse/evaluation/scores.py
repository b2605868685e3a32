"""The interface of all scores: plain values for JSON, and a display name for each."""

from typing import Any, ClassVar, Protocol


class Scores(Protocol):
    """Scores of a model on the examples of a split; each task has its own class."""

    names: ClassVar[dict[str, str]]
    """The name of each key of `as_dict` in tables and in results.csv."""

    def as_dict(self) -> dict[str, Any]:
        """The scores as JSON values; the keys and their order never change."""
