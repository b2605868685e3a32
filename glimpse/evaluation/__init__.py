"""Scores, traces, comparisons, early exit and cost of trained models.

Imports `losses` and the packages before it; plots nothing and trains nothing.
Start with `classify.py`.
"""
