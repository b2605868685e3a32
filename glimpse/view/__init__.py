"""Tables, figures, animations and HTML reports.

Imports `evaluation` and the packages before it.
Start with `drawing.py`.
"""
