"""The commands of evaluate.py, each a function of its options."""

from glimpse.commands.captions import caption
from glimpse.commands.pictures import animate, coverage, glimpses, report
from glimpse.commands.results import results
from glimpse.commands.scores import compare, score_runs, variance
from glimpse.commands.translations import translate

__all__ = [
    "animate",
    "caption",
    "compare",
    "coverage",
    "glimpses",
    "report",
    "results",
    "score_runs",
    "translate",
    "variance",
]
