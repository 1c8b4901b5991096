"""The whole family on one problem: the denoising autoencoder."""

from __future__ import annotations

from paper_figures.algorithms import PATCHES
from paper_figures.family import family_figure

FIGURE = family_figure(
    "family_patches",
    PATCHES,
    "The family on patches (D = 24,928, N = 8): loss against steps, bytes and rounds",
    (
        "Held-out loss, one pass. LAMB ends {LAMB}, 1-bit LAMB {1-bit LAMB} with {1-bit LAMB, bytes} of the bytes. "
        "1-bit Adam with a warm-up of 30 steps ends {1-bit Adam, T_w = 30} with {1-bit Adam, T_w = 30, bytes} of the "
        "bytes, 0/1 Adam {0/1 Adam} with {0/1 Adam, bytes}. DiLoCo and SparseLoCo meet every 50 steps; they end "
        "{DiLoCo, H = 50}, and {SparseLoCo, H = 50}. Black: all numbers in every step; blue: one bit a number; green: "
        "few of the numbers; red: rarely."
    ),
)
