"""Injected faults: each is a small change to one correct implementation, written apart from our reference.

A mutant is a class with a docstring that says what is wrong; the module is its family. ``kill_matrix`` runs every
property on every mutant.
"""
