"""Residual errors against the bounds that T5e-T5g prove, from the gradients and contractions of the same run."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure as Canvas

from paper_figures.algorithms import BLUE, GREEN, VERMILION, seeds
from paper_figures.drawing import band, by_seed, legend_below, log_y, mark, note, seeds_note, stacked
from paper_figures.figure import PaperFigure, Scale
from reference.experiments import RunConfig
from theory.evaluate import bound
from theory.theorems.error_bounds import SERVER_ERROR, TOTAL_ERROR, WORKER_ERRORS

BETA1, FREEZE_STEP = 0.9, 50
PANELS = (("quadratic", {"dim": 20}, "Quadratic, D = 20"), ("mlp", {"hidden_sizes": [32]}, "Digits MLP 64-32-10"))
LINES = (
    ("worker_error_norm", WORKER_ERRORS, "worker errors, rms of ‖δᵢ‖", BLUE, "solid"),
    ("server_error_norm", SERVER_ERROR, "server error ‖δ̄‖", GREEN, (0, (5, 2))),
    ("total_error_norm", TOTAL_ERROR, "the whole residual, ‖Δ‖", VERMILION, (0, (1, 1))),
)


def runs(scale: Scale) -> list[RunConfig]:
    """1-bit Adam with the l1 scale, which always contracts."""
    return [
        RunConfig(
            problem=problem, problem_args=arguments, optimizer="one_bit_adam", seed=seed, steps=300, record_every=5,
            hyper={"lr": 1e-3, "beta1": BETA1, "freeze_step": FREEZE_STEP, "scale": "l1"}, probe="compression",
        )
        for problem, arguments, _ in PANELS
        for seed in seeds(scale)
    ]  # fmt: skip


def bounds(table: pd.DataFrame) -> pd.DataFrame:
    """Rows after the freeze with ``worker_bound``, ``server_bound`` and ``total_bound`` of T5e, T5f and T5g.

    Each is that of the row's own run up to its step: G, H and q are the largest so far, as the theorem wants.
    """
    rows = table.loc[table["contraction_max"] > 0]
    numbers = {
        "gradient_bound": rows["grad_norm_max"].to_numpy(float),
        "contraction": rows["contraction_max"].to_numpy(float),
        "heterogeneity": rows["heterogeneity_max"].to_numpy(float),
    }
    columns = {
        column.replace("error_norm", "bound"): bound(theorem, beta1=BETA1, **numbers) for column, theorem, *_ in LINES
    }
    return rows.assign(**columns)


def draw(table: pd.DataFrame) -> Canvas:
    """Measured norms thick, their bounds thin, in the same colour and dashes."""
    canvas, panels = stacked(3.3, 3.3)
    rows = bounds(table)
    for axes, (problem, _, title) in zip(panels, PANELS, strict=True):
        here = rows.loc[rows["problem"] == problem]
        for column, _, label, color, dashes in LINES:
            band(axes, *by_seed(here, column), label=label, color=color, linestyle=dashes)
            step_T, bound_TS = by_seed(here, column.replace("error_norm", "bound"))
            axes.plot(step_T, bound_TS.mean(axis=1), color=color, linestyle=dashes, linewidth=0.9)
        axes.set(ylabel="norm", title=title, xlim=(0, None))
        log_y(axes)
        mark(axes, FREEZE_STEP, "v frozen, compression begins", top=0.42)
    panels[-1].set_xlabel("steps")
    legend_below(panels[-1], ncols=1)
    note(canvas, "thick: measured, thin: bounds of T5e-T5g; " + seeds_note(table))
    return canvas


FIGURE = PaperFigure(
    name="error_bounds",
    title="Residual errors and the bounds T5e-T5g (l1 scale)",
    beside="ours; the paper assumes that the errors are bounded",
    caption=(
        "The paper assumes that compression errors are bounded; T5e-T5g prove it, from three numbers of the run "
        "itself: the largest gradient G, the largest disagreement of workers H, the worst contraction factor q so "
        "far. Thick: measured norms of the residual errors, which level off. Thin, in the same dashes: the bounds, "
        "which no run exceeds at any step. By the end they are orders "
        "of magnitude above: they pay for the worst step so far as if every step were like it, and the l1 scale's "
        "q comes close to 1. For compressors that do shrink slowly they are nearly attained, as the example of T5a "
        "shows. The bounds of the workers and of the server nearly coincide."
    ),
    draw=draw,
    runs=runs,
)
