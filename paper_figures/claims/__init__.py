"""The paper's claims, each with a measurement and a verdict that follows from it.

A claim is one file in ``paper_figures.claims.statements``; ``registry.py`` finds and decides them, ``claim.py`` says
how a verdict follows from checks, ``statistics.py`` has the tests, ``facts.py`` collects what they read.
"""
