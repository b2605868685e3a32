"""Declare, load, check and upgrade settings; this package knows none of them by name.

Imports only `glimpse.errors`, `glimpse.files` and `glimpse.moved`; no torch, NumPy or matplotlib.
Start with `schema.py`.
"""

from functools import partial

from glimpse.moved import moved_name

__getattr__ = partial(moved_name, __name__)
