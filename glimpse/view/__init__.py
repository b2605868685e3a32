"""Tables, figures, animations and pages.

Imports `evaluation` and the packages before it.
Start with `drawing.py`.
"""
