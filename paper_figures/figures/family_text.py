"""The whole family on one problem: the character transformer."""

from __future__ import annotations

from paper_figures.algorithms import TEXT
from paper_figures.family import family_figure

FIGURE = family_figure(
    "family_text",
    TEXT,
    "The family on text (D = 19,040, N = 8): loss against steps, bytes and rounds",
    (
        "Held-out loss. Local Adam, CADA, 1-bit Adam, 1-bit LAMB and 0/1 Adam end within 3 % of Adam: the first with "
        "a quarter of the rounds, the last three with 18 % and 7 % of the bytes, 1-bit Adam with a warm-up of 30 "
        "steps with 6 %. Two-sided error-compensated SGD needs 3 % of the bytes and ends 3.5 % above Adam. DiLoCo "
        "meets 20 times and ends 12 % above. EF21 diverges on one seed: its step size was tuned on others. Black: "
        "all numbers in every step; blue: one bit a number; green: few of the numbers; red: rarely."
    ),
)
