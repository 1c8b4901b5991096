"""Nonconvex, attention: a character transformer on Python source, training loss against steps, the whole comparison."""

from __future__ import annotations

from paper_figures.algorithms import TEXT
from paper_figures.convergence import convergence_figure

FIGURE = convergence_figure(
    name="convergence_char_transformer",
    title="Character transformer (D = 19,040, N = 8): all algorithms compared",
    beside="Tang et al. 2021, figure 4 (there: BERT), and the comparison on CIFAR-10",
    caption=(
        "Held-out loss; half a pass over 63,360 windows of Python's manual and standard library, so that no window is "
        "seen twice on average; every algorithm at its own best step size. Above: Adam with v frozen at step 150 ends "
        "{v frozen, 32 bits}. 1-bit Adam ends {1-bit Adam}, and without a variance floor {1-bit Adam, κ = 0}. Without "
        "error feedback the loss rises after the freeze and ends {1-bit, no feedback}. Naive compressed Adam ends "
        "{naive compressed Adam}. Below: the SGD family. SGD ends {SGD}, momentum SGD {momentum SGD}, local SGD "
        "{local SGD, H = 5}, two-sided error-compensated SGD {two-sided EF-SGD}."
    ),
    experiment=TEXT,
    column="held_out_loss",
    ylabel="held-out loss (nats a character)",
)
