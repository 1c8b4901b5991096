"""ResNet-18 on CIFAR-10, from runs on real hardware."""

from __future__ import annotations

from paper_figures.full_scale.figure import full_scale_figure

FIGURE = full_scale_figure(
    "cifar10",
    title="ResNet-18 on CIFAR-10",
    beside="Tang et al. 2021, the CIFAR-10 comparison",
    caption=(
        "Training loss and test accuracy of Adam, of 1-bit Adam with and without a variance floor, and of the SGD "
        "family, from runs of paper_figures.full_scale. The paper's finding would be 1-bit Adam on Adam's curve; each "
        "family has the step size that is recalled from the paper."
    ),
)
