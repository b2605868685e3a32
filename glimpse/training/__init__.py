"""The training loop, run folders and checkpoints.

Imports `tasks` and the packages before it.
Start with `train.py`.
"""
