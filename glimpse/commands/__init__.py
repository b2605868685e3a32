"""The commands of evaluate.py, each a function of its options."""

from glimpse.commands.pictures import animate, coverage, glimpses, report
from glimpse.commands.scores import compare, score_runs, variance

__all__ = ["animate", "compare", "coverage", "glimpses", "report", "score_runs", "variance"]
