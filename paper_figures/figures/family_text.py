"""The whole family on one problem: the character transformer."""

from __future__ import annotations

from paper_figures.algorithms import TEXT
from paper_figures.family import family_figure

FIGURE = family_figure(
    "family_text",
    TEXT,
    "The family on text (D = 19,040, N = 8): loss against steps, bytes and rounds",
    (
        "Held-out loss. 1-bit Adam ends {1-bit Adam} with {1-bit Adam, bytes} of the bytes; with a warm-up of 30 "
        "steps {1-bit Adam, T_w = 30} with {1-bit Adam, T_w = 30, bytes}; 1-bit LAMB {1-bit LAMB} with {1-bit LAMB, "
        "bytes}; 0/1 Adam {0/1 Adam} with {0/1 Adam, bytes}. Two-sided error-compensated SGD sends {two-sided EF-SGD, "
        "bytes} of the bytes and ends {two-sided EF-SGD}. DiLoCo meets every 50 steps and ends {DiLoCo, H = 50}. "
        "Black: all numbers in every step; blue: one bit a number; green: few of the numbers; red: rarely."
    ),
)
