"""Convex: logistic regression on the breast cancer data, f(x) - f* against steps, the whole comparison."""

from __future__ import annotations

from paper_figures.algorithms import LOGISTIC
from paper_figures.convergence import convergence_figure

FIGURE = convergence_figure(
    name="convergence_logistic_regression",
    title="Logistic regression (D = 31, N = 8): all algorithms compared",
    beside="Tang et al. 2021, figure 4 (there: BERT), and the comparison on CIFAR-10",
    caption=(
        "Distance to the optimum; every algorithm at its own best step size. Above: Adam with v frozen ends {v "
        "frozen, 32 bits}. 1-bit Adam ends {1-bit Adam}, and without a variance floor {1-bit Adam, κ = 0}. Without "
        "error feedback it stops improving at the freeze. Naive compressed Adam ends {naive compressed Adam}, against "
        "what the paper shows for deep networks: the problem is convex and its 31 gradients are of similar size, so "
        "one step size serves all of them; the other problems show where it does not. Below: the SGD family starts "
        "slower. SGD ends {SGD}, momentum SGD {momentum SGD}, two-sided error-compensated SGD {two-sided EF-SGD}."
    ),
    experiment=LOGISTIC,
    column="excess_loss",
    ylabel="loss above the optimum, f(x) − f*",
)
