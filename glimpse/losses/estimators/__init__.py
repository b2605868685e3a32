"""Estimators: how the places that a hard read samples are learned, one module each.

Each estimator is its own settings class, the group `estimator` of a config. All modules of this folder are imported
with the settings, so that an estimator is added by adding its module; none of them imports torch.
Start with `base.py`, then `reinforce.py`.
"""

from importlib import import_module
from pkgutil import iter_modules

from glimpse.losses.estimators.base import ESTIMATORS, Context, Episode, Estimator, Terms

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["ESTIMATORS", "Context", "Episode", "Estimator", "Terms"]
