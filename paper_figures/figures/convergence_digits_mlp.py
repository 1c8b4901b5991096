"""Nonconvex: a multilayer perceptron on the digits, training loss against steps, the whole comparison."""

from __future__ import annotations

from paper_figures.algorithms import DIGITS
from paper_figures.convergence import convergence_figure

FIGURE = convergence_figure(
    name="convergence_digits_mlp",
    title="Digits MLP (64-128-64-10, D = 17,226, N = 8): all algorithms compared",
    beside="Tang et al. 2021, figures 1 and 4 (there: BERT), and the comparison on CIFAR-10",
    caption=(
        "A stress test: 178 passes over 1,438 digits, which the network learns by heart, at 1e-2 for Adam, 1-bit "
        "Adam and v frozen. Above: 1-bit Adam lies on Adam with v frozen and nothing compressed, so compression "
        "costs nothing; both end half as high again as Adam, which is the price of a v that no longer follows "
        "gradients that vanish. As published, without a variance floor (κ = 0), there is no step size at which "
        "every seed survives the freeze for long: coordinates behind units that rarely fire have a tiny v and are "
        "thrown far. Without error feedback it fails too. Naive compressed Adam is forty times above Adam. Below: "
        "momentum SGD does as well as 1-bit Adam; SGD and local SGD, at step sizes tuned on other seeds, fail on "
        "some of these."
    ),
    experiment=DIGITS,
    column="loss",
    ylabel="training loss (nats)",
)
