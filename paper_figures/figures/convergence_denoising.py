"""Nonconvex, one pass: a denoising autoencoder on patches of photographs, held-out loss against steps."""

from __future__ import annotations

from paper_figures.algorithms import PATCHES
from paper_figures.convergence import convergence_figure

FIGURE = convergence_figure(
    name="convergence_denoising",
    title="Denoising autoencoder (D = 24,928, N = 8): all algorithms compared",
    beside="Tang et al. 2021, figure 4 (there: BERT), and the comparison on CIFAR-10",
    caption=(
        "Held-out loss; one pass over 29,190 patches of two photographs, every algorithm at its own best step "
        "size. Above: 1-bit Adam, with or without a variance floor, lies on Adam with v frozen, and both end 1 to "
        "2 % below Adam. Naive compressed Adam is a quarter above. Without error feedback the run is far behind, "
        "or diverges. Below: the SGD family is a few percent behind, and varies more from seed to seed."
    ),
    experiment=PATCHES,
    column="held_out_loss",
    ylabel="held-out loss (1/2: the noise itself)",
)
