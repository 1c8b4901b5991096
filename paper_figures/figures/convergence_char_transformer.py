"""Nonconvex, attention: a character transformer on Python source, training loss against steps, the whole comparison."""

from __future__ import annotations

from paper_figures.algorithms import TEXT
from paper_figures.convergence import convergence_figure

FIGURE = convergence_figure(
    name="convergence_char_transformer",
    title="Character transformer (D = 19,040, N = 8): all algorithms compared",
    beside="Tang et al. 2021, figure 4 (there: BERT), and the comparison on CIFAR-10",
    caption=(
        "Held-out loss; half a pass over 63,360 windows of Python's manual and standard library, so that no "
        "window is seen twice on average; every algorithm at its own best step size. Above: Adam, Adam with v "
        "frozen at step 150, and 1-bit Adam with and without a variance floor end within 1 % of each other. 1-bit "
        "Adam is measurably above Adam, by half a percent. Without error feedback the loss rises after the freeze "
        "and ends half as high again. Naive compressed Adam is a fifth above Adam. Below: every member of the SGD "
        "family is behind; two-sided error feedback does not slow SGD down."
    ),
    experiment=TEXT,
    column="held_out_loss",
    ylabel="held-out loss (nats a character)",
)
