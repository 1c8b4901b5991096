"""Nonconvex: a multilayer perceptron on the digits, training loss against steps, the whole comparison."""

from __future__ import annotations

from paper_figures.algorithms import DIGITS
from paper_figures.convergence import convergence_figure

FIGURE = convergence_figure(
    name="convergence_digits_mlp",
    title="Digits MLP (64-128-64-10, D = 17,226, N = 8): all algorithms compared",
    beside="Tang et al. 2021, figures 1 and 4 (there: BERT), and the comparison on CIFAR-10",
    caption=(
        "A stress test: 178 passes over 1,438 digits, which the network learns by heart, at 1e-2 for Adam, 1-bit Adam "
        "and v frozen. Above: Adam with v frozen and nothing compressed ends {v frozen, 32 bits}, and 1-bit Adam "
        "{1-bit Adam}. That is the price of a v that no longer follows gradients that vanish. As published, without a "
        "variance floor (κ = 0), {1-bit Adam, κ = 0, diverge} seeds diverge at the best step size: coordinates behind "
        "units that rarely fire have a tiny v and are thrown far. Without error feedback {1-bit, no feedback, "
        "diverge} do. Naive compressed Adam ends {naive compressed Adam}. Below: beside 1-bit Adam, momentum SGD ends "
        "{beside 1-bit Adam: momentum SGD}. At step sizes tuned on other seeds {SGD, diverge} seeds of SGD diverge, "
        "and {local SGD, H = 5, diverge} of local SGD."
    ),
    experiment=DIGITS,
    column="loss",
    ylabel="training loss (nats)",
)
