"""Convex: logistic regression on the breast cancer data, f(x) - f* against steps and bytes."""

from __future__ import annotations

from paper_figures.convergence import convergence_figure

FIGURE = convergence_figure(
    name="convergence_logistic_regression",
    title="Logistic regression (breast cancer, D = 31, N = 8): error feedback is what matters",
    beside="Tang et al. 2021, figure 4 (there: BERT), with the ablations of its CIFAR-10 comparison",
    caption=(
        "Loss above the optimum. 1-bit Adam, with or without a variance floor, lies on Adam and on Adam with v frozen: "
        "neither freezing nor compressing costs a step. Without error feedback it stops improving at the freeze. The "
        "naive variant keeps up here, for the problem is convex and small; the digits MLP shows where it does not. "
        "With 31 parameters the scales that ride with the bits are half of the traffic, so the saving is small."
    ),
    problem="logistic_regression",
    lr=3e-3,
    steps=1500,
    freeze_step=200,
    record_every=10,
    column="excess_loss",
    ylabel="loss above the optimum, f(x) − f*",
)
