"""Keywords of version 0.1 that have another name; to be removed in 0.3."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def renamed_keywords(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function whose keywords have changed: an old one is a TypeError that names the new one."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def checked(*args: P.args, **options: P.kwargs) -> R:
            if old := next((name for name in names if name in options), None):
                raise TypeError(f"the keyword {old} is now {names[old]}")
            return function(*args, **options)

        return checked

    return decorate
