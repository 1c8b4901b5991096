"""The whole family on one problem: the denoising autoencoder."""

from __future__ import annotations

from paper_figures.algorithms import PATCHES
from paper_figures.family import family_figure

FIGURE = family_figure(
    "family_patches",
    PATCHES,
    "The family on patches (D = 24,928, N = 8): loss against steps, bytes and rounds",
    (
        "Held-out loss, one pass. LAMB and 1-bit LAMB end 1 % above Adam, 1-bit LAMB with 18 % of the bytes; local "
        "Adam ends 4 % above, 1-bit Adam with a warm-up of 30 steps 8 % above with 6 % of the bytes, 0/1 Adam 14 % "
        "above with 7 %. DiLoCo and SparseLoCo, with 18 meetings, end 32 % and 21 % above. Black: all numbers in "
        "every step; blue: one bit a number; green: few of the numbers; red: rarely."
    ),
)
