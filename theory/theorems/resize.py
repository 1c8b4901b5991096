"""T9: changing the number of workers conserves Delta (C11); resetting the errors instead moves the run for good.

Resize N -> N': every new worker starts with the mean of the old worker errors, the server error is cut into new
chunks. Reset: all errors become 0, as earlier implementations did on resume.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import sympy as sp

from theory.notation import N, beta1, lr, mean_grad, momentum, params, preconditioner, server_error, total_error
from theory.theorem import Example, Link, Status, Theorem, WrongVariant

new_N = sp.Symbol("N'", integer=True, positive=True)
worker, other = sp.symbols("i j", integer=True, positive=True)
errors = sp.IndexedBase("delta", real=True)
mean_error = sp.Symbol("delta_mean", real=True)  # (1/N) sum_i delta_i
step_ratio = lr / (1 - beta1) * preconditioner


def pending(worker_errors: Sequence[sp.Expr]) -> sp.Expr:
    """Delta of a state: mean of the worker errors plus the server error."""
    return sp.Add(*worker_errors) / len(worker_errors) + server_error


def resized(worker_errors: Sequence[sp.Expr], workers: int, rule: str = "mean") -> list[sp.Expr]:
    """The worker errors after a resize; ``rule`` other than "mean" names a wrong variant."""
    total = sp.Add(*worker_errors)
    if rule == "keep own":
        return [worker_errors[index] if index < len(worker_errors) else sp.S.Zero for index in range(workers)]
    divisor = {"mean": len(worker_errors), "sum": 1, "divided by the new size": workers}[rule]
    return [total / divisor] * workers


def conservation_links(rule: str = "mean") -> tuple[Link, ...]:
    """Delta before and after, for any error values and several pairs of sizes, growing and shrinking."""
    links: list[Link] = []
    for old, new in ((1, 4), (3, 5), (5, 2), (8, 3)):
        values = sp.symbols(f"delta1:{old + 1}", real=True)
        after = pending(resized(values, new, rule))
        links.append(Link(f"{old} workers become {new}: Delta is the same", after, pending(values)))
    return tuple(links)


def displacement_link(factor: sp.Expr = step_ratio) -> Link:
    """y with Delta = 0 minus y with Delta, at the same x and mbar."""
    y_before = params - step_ratio * (beta1 * momentum + total_error)
    y_after = params - step_ratio * (beta1 * momentum)
    return Link(
        "a reset moves the virtual iterate by gamma/(1-beta1) P Delta", y_after - y_before, factor * total_error
    )


def proof_resize() -> tuple[Link, ...]:
    """T9a."""
    old_sum = cast(sp.Expr, sp.Sum(sp.Indexed(errors, worker), (worker, 1, N)))
    copies = cast(sp.Expr, sp.Sum(old_sum / N / new_N, (other, 1, new_N)).doit())
    values = sp.symbols("delta1:4", real=True)
    before, after = pending(values), pending(resized(values, 5))
    return (
        Link("any N and N': the mean of N' copies of the old mean is the old mean", copies, old_sum / N),
        *conservation_links(),
        Link(
            "so the virtual iterate of L2 does not move (3 workers become 5)",
            params - step_ratio * (beta1 * momentum + after),
            params - step_ratio * (beta1 * momentum + before),
        ),
    )


def proof_reset() -> tuple[Link, ...]:
    """T9b: the jump of y, its permanence, and the way x reaches it."""
    shift = sp.Symbol("h", real=True)
    steps = sp.Symbol("k", integer=True, positive=True)
    seen = total_error * (1 - beta1**steps) / (1 - beta1)
    return (
        displacement_link(),
        Link(
            "permanent: with the same gradients both runs move y by the same -gamma P gbar (L2)",
            (params + shift - lr * preconditioner * mean_grad) - (params - lr * preconditioner * mean_grad),
            shift,
        ),
        Link(
            "without compression from then on: after k steps x lacks gamma P Delta (1-beta1^k)/(1-beta1); one more step"
            " adds gamma P beta1^k Delta, the decayed momentum that Delta would have become",
            lr * preconditioner * (seen + beta1**steps * total_error),
            lr * preconditioner * total_error * (1 - beta1 ** (steps + 1)) / (1 - beta1),
        ),
        Link(
            "keeping the old workers' own errors and giving N'-N newcomers zero loses the share 1 - N/N'",
            step_ratio * (mean_error - N * mean_error / new_N),
            step_ratio * (1 - N / new_N) * mean_error,
        ),
    )


def displacement(lr: float, beta1: float, preconditioner: float, total_error: float) -> float:
    """How far a reset of Delta moves a coordinate for good: lr/(1-beta1) P |Delta|.

    Args:
        lr: step size.
        beta1: momentum constant.
        preconditioner: P of that coordinate (or p_max, with a norm of Delta).
        total_error: Delta of that coordinate (or its norm).

    Raises:
        ValueError: beta1 outside [0, 1).

    """
    if not 0 <= beta1 < 1:
        raise ValueError(f"beta1 must be in [0, 1), got {beta1:g}")
    return lr / (1 - beta1) * preconditioner * abs(total_error)


def pending_after_resize(n_workers: float, new_workers: float, mean_worker_error: float, server_error: float) -> float:
    """Delta of a coordinate after a resize, by summing the new workers' errors: what it was before.

    Args:
        n_workers: N before (enters through the mean only).
        new_workers: N' after.
        mean_worker_error: (1/N) sum of the old worker errors.
        server_error: the coordinate's server error.

    """
    total_of_old = n_workers * mean_worker_error
    return new_workers * (total_of_old / n_workers) / new_workers + server_error


def chunks(vector: np.ndarray, n_workers: int) -> list[np.ndarray]:
    """C3: chunk length 8 ceil(D/(8N)), trailing chunks may be short or empty."""
    length = 8 * -(-vector.size // (8 * n_workers))
    return [vector[index * length : (index + 1) * length] for index in range(n_workers)]


def rechunking_is_lossless() -> bool:
    """Cutting for N, joining, cutting for N' and joining returns the same vector, for ragged sizes too."""
    for dim in (1, 7, 8, 37, 129):
        vector = np.arange(1.0, dim + 1)
        for old, new in ((1, 8), (8, 3), (5, 64), (64, 1)):
            joined = np.concatenate(chunks(np.concatenate(chunks(vector, old)), new))
            if not np.array_equal(joined, vector):
                return False
    return True


def example_reset(steps: int = 60) -> Example:
    """Identity compressor after a reset: x falls short by gamma P Delta (1 - beta1^k)/(1-beta1)."""
    lr_, beta1_, delta = 0.01, 0.9, 1.0
    x_reset, x_kept, m = 0.0, 0.0, 0.0
    pending_ = delta
    for _ in range(steps):
        m, pending_ = beta1_ * m + pending_, 0.0  # gradient 0: the pending error is sent in full at the first step
        x_kept -= lr_ * m
    bound = displacement(lr_, beta1_, 1.0, delta)
    return Example("60 uncompressed steps after a reset of Δ = 1, γ = 0.01, β1 = 0.9", x_reset - x_kept, bound)


def example_resize() -> Example:
    """8 workers to 3 with exact dyadic errors: Delta before against Delta after."""
    before = float(np.arange(8.0).mean()) + 0.25
    return Example(
        "8 workers with errors 0 ... 7 become 3: Δ after and before", pending_after_resize(8, 3, 3.5, 0.25), before
    )


THEOREM_RESIZE = Theorem(
    id="T9a",
    title="Resize conserves the pending error",
    words=(
        "If every new worker starts with the mean of the old worker errors and the server error is re-chunked, Δ and"
        " the virtual iterate are unchanged for any N and N'."
    ),
    statement=(sp.Eq(sp.Symbol("Delta_after"), total_error, evaluate=False),),
    hypotheses=(
        "C11: each new δ_i is the mean of the old ones; δ̄ is one vector, only its cutting changes (C3)",
        "exact arithmetic; in floating point the mean of N errors rounds",
    ),
    source="ours",
    status=Status.PROVED,
    proof=proof_resize,
    bound=pending_after_resize,
    example=example_resize,
    numeric_checks={"re-chunking is lossless for ragged sizes": rechunking_is_lossless},
    wrong_variants=(
        WrongVariant(
            "each new worker gets the sum of the old errors", lambda: not conservation_links("sum")[1].holds()
        ),
        WrongVariant(
            "old workers keep their own errors, newcomers get 0", lambda: not conservation_links("keep own")[1].holds()
        ),
        WrongVariant(
            "surviving workers keep their own errors, the others' are dropped",
            lambda: not conservation_links("keep own")[2].holds(),
        ),
        WrongVariant(
            "the sum is divided by N' instead of N",
            lambda: not conservation_links("divided by the new size")[1].holds(),
        ),
    ),
    laws=("L9", "C11"),
    remarks=(
        "The shared momentum needs care: after a resize its magnitude is constant on the OLD chunks, so the implicit"
        " form (D bits and N' scales, T8a) can't hold it until the next compressed step: a checkpoint must carry it"
        " per element or per old chunk. The same holds for the lazy server error."
    ),
)
THEOREM_RESET = Theorem(
    id="T9b",
    title="Resetting the errors displaces the run for good",
    words=(
        "Setting every error to zero moves the virtual iterate by γ/(1-β1)·PΔ. Later steps never undo it: with the"
        " same gradients the two runs stay that far apart."
    ),
    statement=(sp.Eq(sp.Symbol("y_reset") - sp.Symbol("y"), step_ratio * total_error, evaluate=False),),
    hypotheses=("L2: constant γ, λ = 0, no bias correction", "permanence compares runs that see the same gradients"),
    source="ours; the behaviour is DeepSpeed's on resume (run)",
    status=Status.PROVED,
    proof=proof_reset,
    bound=displacement,
    example=example_reset,
    wrong_variants=(
        WrongVariant(
            "a displacement of γPΔ, without 1/(1-β1)", lambda: not displacement_link(lr * preconditioner).holds()
        ),
        WrongVariant("the other sign", lambda: not displacement_link(-step_ratio).holds()),
        WrongVariant(
            "momentum makes up for it: the gap closes with β1^k",
            lambda: example_reset(60).attained > example_reset(5).attained,
        ),
    ),
    laws=("L2", "L9"),
    remarks="In units of steps: the displacement is as large as 1/(1-β1) = 10 updates by Δ at β1 = 0.9.",
)
THEOREMS = (THEOREM_RESIZE, THEOREM_RESET)
