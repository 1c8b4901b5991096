"""Nonconvex: a multilayer perceptron on the digits, training loss against steps, the whole line-up."""

from __future__ import annotations

from paper_figures.algorithms import DIGITS
from paper_figures.convergence import convergence_figure

FIGURE = convergence_figure(
    name="convergence_digits_mlp",
    title="Digits MLP (64-128-64-10, D = 17,226, N = 8): the line-up",
    beside="Tang et al. 2021, figures 1 and 4 (there: BERT), and the comparison on CIFAR-10",
    caption=(
        "Above: 1-bit Adam lies on Adam with v frozen and nothing compressed: compression costs nothing, and what is "
        "lost against Adam at the end is the price of freezing v at step 200. As published, without a variance floor "
        "(κ = 0), most seeds diverge within steps of the freeze: coordinates behind units that rarely fire have a "
        "tiny v and are thrown far. Without error feedback every seed diverges. Naive compressed Adam is more than "
        "ten times behind. Below: on this small, well-scaled problem a tuned SGD does as well as Adam, and tuned "
        "momentum SGD ten times better, so nothing here speaks for Adam as such; Adam's own step size, 1e-3, is not "
        "tuned. Two-sided error feedback costs SGD nothing either. Local SGD is behind, for it needs a smaller step "
        "size than SGD."
    ),
    experiment=DIGITS,
    column="loss",
    ylabel="training loss (nats)",
)
