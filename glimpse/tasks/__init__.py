"""Tasks: each joins data, model, losses, scores and commands in one class.

Imports `view` and the packages before it; never `training`.
Start with `base.py`.
"""
