"""Gradient estimators for the locations that a hard read samples, one module each.

An estimator is a settings class, the group `estimator` of a config. All modules of this folder are imported with the
settings, so that adding a file registers an estimator; none of them imports torch.
Start with `base.py`, then `reinforce.py`.
"""

from importlib import import_module
from pkgutil import iter_modules

from glimpse.losses.estimators.base import ESTIMATORS, Context, Episode, Estimator, Terms

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["ESTIMATORS", "Context", "Episode", "Estimator", "Terms"]
