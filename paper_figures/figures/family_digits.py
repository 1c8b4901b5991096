"""The whole family on one problem: the digits MLP."""

from __future__ import annotations

from paper_figures.algorithms import DIGITS
from paper_figures.family import family_figure

FIGURE = family_figure(
    "family_digits",
    DIGITS,
    "The family on the digits (D = 17,226, N = 8): loss against steps, bytes and rounds",
    (
        "Training loss, a stress test: the network learns the digits by heart. DiLoCo, whose workers walk alone, ends "
        "at {DiLoCo, H = 50, within} times Adam's loss. Of those that compress messages, 1-bit Adam ends at {1-bit "
        "Adam, within} times, 0/1 Adam at {0/1 Adam, within}, 1-bit LAMB at {1-bit LAMB, within}. Black: all numbers "
        "in every step; blue: one bit a number; green: few of the numbers; red: rarely."
    ),
)
