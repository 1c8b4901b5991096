"""One run: problem x optimizer x seed -> a tidy table, a row for each recorded step."""

from __future__ import annotations

import math
from time import perf_counter

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from reference.arithmetic import Array, norm, sum_of_magnitudes
from reference.experiments.config import RunConfig
from reference.optimizers import Optimizer
from reference.problems import Problem
from reference.state import State

COLUMNS = {
    "step": "gradients taken",
    "loss": "f(x)",
    "excess_loss": "f(x) - f*, NaN where f* is not known",
    "held_out_loss": "the loss on data that no worker draws, NaN where there are none",
    "worker_error_norm": "root mean square over workers of ||delta_i||",
    "server_error_norm": "||delta-bar||",
    "total_error_norm": "||Delta||, Delta = mean_i delta_i + delta-bar",
    "variance_l1": "||v||_1",
    "bytes_per_worker": "bytes sent so far by a worker, the mean over workers",
    "rounds": "exchanges so far, in each of which all workers wait",
    "kept_per_parameter": "numbers that a worker keeps beside x, over D: of each array that was not 0 in a step of the "
    "table so far or in the one before it, for local methods keep less at a meeting",
    "frozen": "1 once v is frozen",
    "skipped_steps": "steps skipped so far because a gradient was not finite [C8]",
    "seconds": "wall-clock seconds spent in gradients and steps so far, without the recording",
}
"""What the columns hold. Before them stand problem, optimizer, label, n_workers, seed and the run's tags; after them
the columns of its probe."""


def run(config: RunConfig) -> pd.DataFrame:
    """Run ``config`` and return its table. A run that diverges goes on to the end, with inf or NaN in its rows.

    Linear algebra is held to one thread: the result then doesn't depend on how many runs share the machine.

    Raises:
        ValueError: the configuration names something that does not exist or is out of range.
    """
    problem, optimizer = config.build()
    probe = config.build_probe(problem, optimizer)
    kept: dict[str, float] = {}

    def is_recorded(t: int) -> bool:
        return t % config.record_every == 0 or t == config.steps

    def row(state: State, t: int, seconds: float) -> dict[str, float]:
        kept.update(kept_numbers(state))
        return measure(problem, state, t, seconds, sum(kept.values())) | (probe.row(state) if probe else {})

    with threadpool_limits(limits=1), np.errstate(over="ignore", invalid="ignore"):
        state = optimizer.init(problem.initial_params(config.seed), config.n_workers)
        rows, seconds = [row(state, 0, 0.0)], 0.0
        for t in range(1, config.steps + 1):
            before, start = state, perf_counter()
            grads_ND = gradients(problem, optimizer, state, config.seed, t)
            state = optimizer.step(state, grads_ND)
            seconds += perf_counter() - start
            if probe and state.step > before.step:
                probe.observe(before, grads_ND, state)
            if is_recorded(t):
                rows.append(row(state, t, seconds))
            elif is_recorded(t + 1):
                kept.update(kept_numbers(state))
    return identify(pd.DataFrame(rows), config)


def gradients(problem: Problem, optimizer: Optimizer, state: State, seed: int, t: int) -> Array:
    """One gradient a worker (N, D), at the common parameters or, for local methods, at the worker's own."""
    local_ND = optimizer.local_params(state)
    if local_ND is None:
        return problem.worker_gradients(state.params, seed, t)
    return problem.local_gradients(local_ND, seed, t)


def identify(table: pd.DataFrame, config: RunConfig) -> pd.DataFrame:
    """``table`` with the columns that say which run it is in front."""
    run_is = {
        "problem": config.problem,
        "optimizer": config.optimizer,
        "label": config.label,
        "n_workers": config.n_workers,
        "seed": config.seed,
        **config.tags,
    }
    return pd.concat([pd.DataFrame([run_is] * len(table)), table], axis="columns")


def kept_numbers(state: State) -> dict[str, float]:
    """Numbers that a worker keeps of each array that is not 0, but x: of what has a row for every worker, its own.

    The mean over workers, where one has more than another.
    """
    rows = {"worker_errors": state.worker_errors, "server_error": state.server_error}
    rows |= {name: array for name, array in state.slots.items() if name.endswith("_ND")}
    shared = {name: array for name, array in state.slots.items() if not name.endswith("_ND")}
    shared |= {"momentum": state.momentum, "variance": state.variance}
    kept = {name: array.size / state.n_workers for name, array in rows.items() if array.any()}
    return kept | {name: array.size for name, array in shared.items() if array.any()}


def measure(problem: Problem, state: State, t: int, seconds: float, kept: float) -> dict[str, float]:
    """One row of the table; ``kept`` numbers were kept by a worker so far."""
    loss = float(problem.loss(state.params))
    return {
        "step": t,
        "loss": loss,
        "excess_loss": math.nan if problem.optimal_loss is None else loss - problem.optimal_loss,
        "held_out_loss": problem.held_out_loss(state.params),
        "worker_error_norm": norm(state.worker_errors) / state.n_workers**0.5,
        "server_error_norm": norm(state.server_error),
        "total_error_norm": norm(state.total_error),
        "variance_l1": float(sum_of_magnitudes(state.variance)),
        "bytes_per_worker": state.bytes_on_wire / state.n_workers,
        "rounds": state.rounds,
        "kept_per_parameter": kept / state.params.size,
        "frozen": int(state.frozen_at is not None),
        "skipped_steps": state.skipped_steps,
        "seconds": seconds,
    }
