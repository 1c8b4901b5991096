"""Nonconvex, one pass: a denoising autoencoder on patches of photographs, held-out loss against steps."""

from __future__ import annotations

from paper_figures.algorithms import PATCHES
from paper_figures.convergence import convergence_figure

FIGURE = convergence_figure(
    name="convergence_denoising",
    title="Denoising autoencoder (D = 24,928, N = 8): all algorithms compared",
    beside="Tang et al. 2021, figure 4 (there: BERT), and the comparison on CIFAR-10",
    caption=(
        "Held-out loss; one pass over 29,190 patches of two photographs, every algorithm at its own best step size. "
        "Above: Adam with v frozen ends {v frozen, 32 bits}. 1-bit Adam ends {1-bit Adam}, and without a variance "
        "floor {1-bit Adam, κ = 0}. Naive compressed Adam ends {naive compressed Adam}. Without error feedback "
        "{1-bit, no feedback, diverge} seeds diverge, and the mean ends {1-bit, no feedback}. Below: the SGD family, "
        "which varies more from seed to seed. SGD ends {SGD}, momentum SGD {momentum SGD}, local SGD {local SGD, H = "
        "5}, two-sided error-compensated SGD {two-sided EF-SGD}."
    ),
    experiment=PATCHES,
    column="held_out_loss",
    ylabel="held-out loss (1/2: the noise itself)",
)
