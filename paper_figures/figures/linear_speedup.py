"""Linear speed-up in the number of workers: the squared gradient norm against T, with the bound of theorem T6a."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Canvas
from numpy.typing import NDArray

from paper_figures.algorithms import BLACK, BLUE, GREY, ORANGE, VERMILION, seeds
from paper_figures.claims.claim import number
from paper_figures.drawing import legend_below, log_x, log_y, note, stacked
from paper_figures.figure import PaperFigure, Scale
from reference.experiments import RunConfig
from theory.evaluate import bound
from theory.theorems.convergence_corollary import step_size as corollary_step
from theory.theorems.convergence_nonconvex import THEOREM as T6A

DIM, CONDITION, NOISE = 32, 10.0, 30.0
BETA1, BETA2, FREEZE_STEP = 0.9, 0.999, 20
LOOKS = {1: (BLACK, "o"), 4: (ORANGE, "s"), 16: (VERMILION, "^"), 64: (BLUE, "D")}
HORIZONS = (100, 300, 1000)


def step_size(n_workers: int, horizon: int) -> float:
    """The step size of T6b at the expected f(x_0) - f* and the expected P.

    It is the step that uncompressed descent would take: whether compression costs anything then shows.
    """
    spectrum_D = np.geomspace(1 / CONDITION, 1.0, DIM)
    gap = float(spectrum_D.sum())  # E of 1/2 <x - x*, A (x - x*)>, with x and x* standard normal
    square = (2 * float((spectrum_D**2).sum()) + NOISE**2 / n_workers) / DIM  # E of g-bar^2, a coordinate
    p = 1 / math.sqrt((1 - BETA2**FREEZE_STEP) * square)
    return float(
        corollary_step(
            beta1=BETA1, n_workers=n_workers, n_steps=horizon, smoothness=1.0, noise=NOISE, start_gap=gap, p_max=p
        )
    )


def runs(scale: Scale) -> list[RunConfig]:
    """N x T, each with its own step size; the warm-up is short, so that most of the gap is left at the freeze."""
    return [
        RunConfig(
            problem="quadratic", problem_args={"dim": DIM, "condition_number": CONDITION, "noise": NOISE},
            optimizer="one_bit_adam", n_workers=n_workers, seed=seed, probe="stationarity",
            steps=FREEZE_STEP + horizon, record_every=FREEZE_STEP + horizon, tags={"horizon": horizon, "lr": lr},
            hyper={
                "lr": lr, "beta1": BETA1, "beta2": BETA2, "freeze_step": FREEZE_STEP, "server_chunks": 1,
                "variance_floor": 0.5,
            },
        )
        for n_workers in LOOKS
        for horizon in HORIZONS
        for lr in [step_size(n_workers, horizon)]
        for seed in seeds(scale)
    ]  # fmt: skip


def points(table: pd.DataFrame) -> pd.DataFrame:
    """The last row of each run with ``grad_norm_sq_mean`` and ``bound``, both over p_max, so that N compare.

    grad_norm_sq_mean: (1/T) sum ||grad f(x_t)||_P^2 / p_max, in which every weight is at most 1. ``bound`` is that of
    T6a at the run's own step size, p_max, f(y_1) - f* and start momentum, with the largest ||Delta|| of all seeds for
    E_Delta. It bounds an expectation: compare it with the mean over seeds.
    """
    rows = table.loc[table["step"] > 0].copy()
    rows["error_bound"] = rows.groupby(["n_workers", "horizon"])["total_error_max"].transform("max")
    names = ["lr", "n_workers", "error_bound", "start_gap", "p_max", "start_momentum"]
    given = {name: rows[name].to_numpy(float) for name in names} | {"n_steps": rows["horizon"].to_numpy(int)}
    rows["bound"] = bound(T6A, beta1=BETA1, smoothness=1.0, noise=NOISE, **given) / rows["p_max"]
    return rows.assign(grad_norm_sq_mean=rows["mean_grad_norm_sq_p"] / rows["p_max"])


def numbers(table: pd.DataFrame) -> dict[str, str]:
    """Slopes of the mean over seeds: in T for the fewest and the most workers, in N at the longest T; the bound."""
    rows = points(table)
    mean_NT, bound_NT = (
        rows.pivot_table(index="n_workers", columns="horizon", values=name).to_numpy(float)
        for name in ("grad_norm_sq_mean", "bound")
    )

    def slope(x: Iterable[int], mean: NDArray[np.float64]) -> str:
        return f"{np.polyfit(np.log(np.array(list(x), float)), np.log(mean), 1)[0]:.2f}".replace("-", "−")

    found = {f"N = {min(LOOKS)}": slope(HORIZONS, mean_NT[0]), f"N = {max(LOOKS)}": slope(HORIZONS, mean_NT[-1])}
    return found | {"in N": slope(LOOKS, mean_NT[:, -1]), "bound": number(float((bound_NT / mean_NT).max()))}


def draw(table: pd.DataFrame) -> Canvas:
    """Against T for each N, with the bounds; and all of it against N T, where linear speed-up is one line."""
    canvas, (against_t, against_nt) = stacked(3.8, 3.2)
    rows = points(table)
    for n_workers, (color, marker) in LOOKS.items():
        here = rows.loc[rows["n_workers"] == n_workers].sort_values(["horizon", "seed"])
        mean = here.groupby("horizon")[["grad_norm_sq_mean", "bound"]].mean()
        label = f"N = {n_workers}"
        against_t.plot(mean.index, mean["grad_norm_sq_mean"], marker=marker, color=color, label=label)
        against_t.plot(mean.index, mean["bound"], color=color, linestyle=(0, (4, 2)), linewidth=1.0)
        against_t.plot(here["horizon"], here["grad_norm_sq_mean"], marker, color=color, markersize=3, alpha=0.4)
        against_nt.plot(n_workers * mean.index, mean["grad_norm_sq_mean"], marker=marker, color=color, label=label)
    one = rows.loc[(rows["n_workers"] == 1) & (rows["horizon"] == HORIZONS[0]), "grad_norm_sq_mean"].mean()
    nt = np.array([HORIZONS[0], 64 * HORIZONS[-1]], float)
    against_nt.plot(nt, one * np.sqrt(nt[0] / nt), color=GREY, linestyle=":", label="slope −1/2")
    against_t.set(xlabel="T, steps after the freeze", title="thick: measured, dashed: bound T6a")
    against_nt.set(xlabel="N T, gradients after the freeze", title="Linear speed-up is one line here")
    for axes in (against_t, against_nt):
        axes.set(ylabel="mean of ‖∇f‖² (P-weighted)")
        log_x(axes)
        log_y(axes)
    legend_below(against_nt, ncols=3)
    note(canvas, f"line: mean, points: {table['seed'].nunique()} seeds")
    return canvas


FIGURE = PaperFigure(
    name="linear_speedup",
    title="More workers help, less than linearly (quadratic, D = 32)",
    beside="Tang et al. 2021, corollary 1: σ/√(NT), linear speed-up",
    caption=(
        "Top: the mean of the squared gradient norm over T compressed steps, against T, each point at the step size "
        "that is best for uncompressed descent. More workers are better at every T, and below the bound of theorem "
        "T6a (dashed) throughout. The bound is up to {bound} times the mean, and its order in N turns round at large "
        "T: it charges the step size of many workers with the whole compression error, a term that the measurements "
        "hardly show. Bottom: against the number of gradients N T. Linear speed-up would put all points on one line "
        "of slope −1/2. They are not there yet: for one worker the slope in T is {N = 1}, for 64 it is {N = 64}, and "
        "at T = 1,000 the gradient falls like N to the power of {in N}. With 64 workers T is too short for noise to "
        "dominate, as theorem T6g says (T of order N³); the longer the runs, the steeper it falls in N."
    ),
    draw=draw,
    numbers=numbers,
    runs=runs,
)
