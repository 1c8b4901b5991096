"""BERT-Base, masked-language pre-training, from runs on real hardware."""

from __future__ import annotations

from paper_figures.full_scale.figure import full_scale_figure

FIGURE = full_scale_figure(
    "bert-base",
    title="BERT-Base, masked-language pre-training",
    beside="Tang et al. 2021, figure 4",
    caption=(
        "Training loss and held-out accuracy on hidden tokens, sequences of 128, from runs of paper_figures.full_scale "
        "with the published batch, step size, decay, clipping and warm-up. The paper's finding would be 1-bit Adam on "
        "Adam's curve."
    ),
)
