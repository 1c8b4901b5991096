"""The paper's plots, redone: one figure a file, each a pure function from a tidy table to a picture.

``onebit figures --list`` names the modules of ``paper_figures.figures``. ``algorithms.py`` is the comparison
that they compare, ``render.py`` computes the tables and draws.
"""
