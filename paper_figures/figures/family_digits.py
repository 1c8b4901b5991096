"""The whole family on one problem: the digits MLP."""

from __future__ import annotations

from paper_figures.algorithms import DIGITS
from paper_figures.family import family_figure

FIGURE = family_figure(
    "family_digits",
    DIGITS,
    "The family on the digits (D = 17,226, N = 8): loss against steps, bytes and rounds",
    (
        "Training loss, a stress test: the network learns the digits by heart. MT-DAO and DiLoCo, whose workers walk "
        "alone, end below Adam; everything that compresses messages ends above it, 1-bit Adam eight times, 0/1 Adam "
        "28 times, signSGD, which feeds no error back, 20,000 times. MERIT diverges on four of five seeds, at the "
        "best of its step sizes. Black: all numbers in every step; blue: one bit a number; green: "
        "few of the numbers; red: rarely."
    ),
)
