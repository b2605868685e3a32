"""Declare, load, check and upgrade settings; this package knows none of them by name.

Imports only `glimpse.errors` and `glimpse.files`; no torch, NumPy or matplotlib.
Start with `schema.py`.
"""

from glimpse.files import moved_names

# Names that were here in version 0.1; supported until 0.3.
__getattr__ = moved_names(
    __name__,
    {
        "AttentionConfig": "glimpse.attention.settings.PlaneSettings",
        "Config": "glimpse.tasks.settings.Config",
        "NetworkConfig": "glimpse.models.settings.NetworkSettings",
    },
)
