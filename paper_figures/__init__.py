"""The paper's plots, redone: one figure a file, each a pure function from a tidy table of runs to a picture.

``onebit figures --list`` names them. ``algorithms.py`` is the line-up that they compare, ``render.py`` runs and draws.
"""
