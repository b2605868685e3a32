"""What a trained model did, measured: scores, traces, comparison, early exit, cost.

Imports `losses` and the packages before it; plots nothing and trains nothing.
Start with `classify.py`.
"""
