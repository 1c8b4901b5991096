"""Convex: logistic regression on the breast cancer data, f(x) - f* against steps, the whole comparison."""

from __future__ import annotations

from paper_figures.algorithms import LOGISTIC
from paper_figures.convergence import convergence_figure

FIGURE = convergence_figure(
    name="convergence_logistic_regression",
    title="Logistic regression (D = 31, N = 8): all algorithms compared",
    beside="Tang et al. 2021, figure 4 (there: BERT), and the comparison on CIFAR-10",
    caption=(
        "Distance to the optimum; every algorithm at its own best step size. Above: 1-bit Adam, with or without a "
        "variance floor, lies on Adam and on Adam with v frozen; five seeds can't tell a difference of 5 % here. "
        "Without error feedback it stops improving at the freeze. Naive compressed Adam ends a quarter below "
        "Adam, against what the paper shows for deep networks: the problem is convex and its 31 gradients are of "
        "similar size, so one step size serves all of them; the other problems show where it does not. Below: the "
        "SGD family starts slower and ends about a quarter lower."
    ),
    experiment=LOGISTIC,
    column="excess_loss",
    ylabel="loss above the optimum, f(x) − f*",
)
