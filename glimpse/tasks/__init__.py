"""What is learned from what: a task joins data, model, losses and scores.

Imports `view` and the packages before it; never `training`.
Start with `base.py`.
"""
