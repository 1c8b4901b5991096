"""Nonconvex: a multilayer perceptron on the digits, training loss against steps and bytes."""

from __future__ import annotations

from paper_figures.convergence import convergence_figure

FIGURE = convergence_figure(
    name="convergence_digits_mlp",
    title="Digits MLP (64-128-64-10, D = 17,226, N = 8): Adam's steps for a fraction of the bytes",
    beside="Tang et al. 2021, figures 1 and 4 (there: BERT), with the ablations of its CIFAR-10 comparison",
    caption=(
        "Training loss. 1-bit Adam lies on Adam with v frozen and nothing compressed: compression costs nothing, and "
        "what is lost against Adam at the end is the price of freezing v early, at step 200. After the freeze a step "
        "costs a thirtieth of the bytes. As published, without a variance floor (κ = 0), most seeds diverge within a "
        "few steps of the freeze: coordinates behind units that rarely fire have a tiny v and are thrown far. Without "
        "error feedback every seed diverges. Naive error-compensated Adam is more than ten times behind."
    ),
    problem="mlp",
    lr=1e-3,
    steps=2000,
    freeze_step=200,
    record_every=20,
    column="loss",
    ylabel="training loss (cross-entropy, nats)",
)
