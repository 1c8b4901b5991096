"""The l2 and the l1 scale [C1] as gradients get sparser: contraction by phi [L10], and what training makes of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Canvas

from paper_figures.algorithms import BLUE, GREEN, GREY, NO_FEEDBACK, ORANGE, seeds
from paper_figures.drawing import last_by, legend_below, log_x, log_y, mark, note, stacked, sweep_points
from paper_figures.figure import PaperFigure, Scale
from reference.experiments import RunConfig
from theory.evaluate import bound
from theory.theorems.scaled_sign_contraction import L1, L2

ROWS, BATCHES, STEPS = 64, (1, 4, 16, 64), 600
LOOKS = {
    "l2": ("1-bit Adam, l2 scale", BLUE, "solid", "o"),
    "l1": ("1-bit Adam, l1 scale", ORANGE, (0, (5, 2)), "s"),
    "none": ("v frozen, 32 bits", GREEN, (0, (6, 1.5, 1, 1.5)), "^"),
}


def density(batch_size: int) -> float:
    """Expected share of non-zeros in one worker's gradient: a sample touches one of ROWS rows of U and one of V."""
    return 1 - (1 - 1 / ROWS) ** batch_size


def runs(scale: Scale) -> list[RunConfig]:
    """Matrix factorisation, whose gradients have a row only where a sample fell: the batch sets the sparsity.

    Without error feedback too, where gradients are sparsest: for the claims, it is not drawn.
    """
    drawn = [
        run(optimizer_of(kind), label, kind, batch_size, seed)
        for kind, (label, *_) in LOOKS.items()
        for batch_size in BATCHES
        for seed in seeds(scale)
    ]
    undrawn = [run(NO_FEEDBACK.optimizer, NO_FEEDBACK.label, "l2, no feedback", BATCHES[0], s) for s in seeds(scale)]
    return drawn + undrawn


def run(optimizer: str, label: str, kind: str, batch_size: int, seed: int) -> RunConfig:
    """One run; ``kind`` is a key of ``LOOKS``, or no scale at all."""
    return RunConfig(
        problem="matrix_factorization",
        problem_args={"rows": ROWS, "columns": ROWS, "rank": 4, "batch_size": batch_size},
        optimizer=optimizer,
        hyper={"lr": 3e-3, "freeze_step": 120} | ({"scale": kind} if kind in ("l1", "l2") else {}),
        label=label, seed=seed, steps=STEPS, record_every=STEPS // 4, probe="compression",
        tags={"batch_size": batch_size, "density": density(batch_size), "scale": kind},
    )  # fmt: skip


def optimizer_of(kind: str) -> str:
    """Key of ``OPTIMIZERS``."""
    return "frozen_adam" if kind == "none" else "one_bit_adam"


def draw(table: pd.DataFrame) -> Canvas:
    """L10's two curves with the phi that training met; phi against density; loss against density."""
    canvas, (law, seen, loss) = stacked(3.2, 2.8, 3.4)
    phi = np.linspace(0.01, 1, 200)
    for name, theorem in (("l2", L2), ("l1", L1)):
        _, color, dashes, _ = LOOKS[name]
        law.plot(phi, bound(theorem, alignment=phi), color=color, linestyle=dashes, label=f"{name} scale")
    law.axhline(1, color=GREY, linewidth=1.0)
    mark(law, 0.25, "φ = 1/4: below it l2 adds error")
    law.set(xlabel="φ = ‖u‖₁² / (d ‖u‖₂²)", ylabel="lost share of ‖u‖²", title="The law L10", xlim=(0, 1))
    legend_below(law)

    top = 3 * float(table.loc[table["step"] == 0, "loss"].mean())
    for kind, (label, color, dashes, marker) in LOOKS.items():
        rows = table.loc[table["scale"] == kind]
        look = {"color": color, "linestyle": dashes, "marker": marker, "label": label}
        sweep_points(loss, *last_by(rows, "density", "loss"), ceiling=top, **look)
        if kind != "none":
            sweep_points(seen, *last_by(rows, "density", "worker_phi"), ceiling=1.0, **look)
    seen.axhline(0.25, color=GREY, linewidth=1.0)
    seen.set(ylabel="φ of u, last step", title="What training compresses", ylim=(0, 0.8))
    loss.set(
        xlabel="share of non-zeros in a worker's gradient", ylabel=f"loss at step {STEPS:,}", title="What comes of it"
    )
    for axes in (seen, loss):
        log_x(axes)
        shares = sorted(set(table["density"]))
        axes.set_xticks(shares, [f"{share:.2g}" for share in shares])
        axes.set_xticks([], minor=True)
    log_y(loss)
    legend_below(loss)
    note(canvas, f"line: median, points: {table['seed'].nunique()} seeds, crosses: diverged")
    return canvas


FIGURE = PaperFigure(
    name="scale_and_sparsity",
    title="l2 or l1 scale, with sparse gradients (factorisation)",
    beside="ours; the paper uses the l2 scale",
    caption=(
        "Top: by law L10 the l2 scale, the published one, loses more than the l1 scale on every input, and below φ "
        "= 1/4 it adds more error than it removes; sparse inputs have a small φ. Middle: but training decides what "
        "φ is. With the l2 scale φ stays above 1/4, even where a worker's gradient is 1.6 % dense, for what is "
        "compressed is a dense momentum plus old errors. With the l1 scale, which is never larger, the errors of "
        "the largest coordinates pile up, and φ is far smaller. Bottom: so l2 ends lower than l1, "
        "but where gradients are sparsest, where few seeds cannot tell; against what a "
        "single compression suggests. Neither diverges. Both lose against v frozen with 32 bits where the noise is "
        "small."
    ),
    draw=draw,
    runs=runs,
)
