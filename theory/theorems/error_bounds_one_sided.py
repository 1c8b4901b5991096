"""T5c, T5d: one-sided error feedback under momentum, for contractions in any norm and for the scaled sign without one.

With one worker, or equal workers and one server chunk, the server's input is already one-bit and its error is 0, so the
one-sided recursion is the whole algorithm: m' = C(u'), u' = beta1 m + n g + delta = u - n C(u) + n g, n = 1 - beta1.
"""

from __future__ import annotations

import math

import numpy as np
import sympy as sp

from theory.notation import beta1, contraction, in_odds
from theory.symbolic import inequality
from theory.theorem import Example, Link, Status, Theorem, WrongVariant

u, error, grad = sp.symbols("u delta g", real=True)


def proof_contraction() -> tuple[Link, ...]:
    """u' = beta1 u + n (delta + g): a convex combination, so beta1 drops out of the bound."""
    q, share, size = in_odds(contraction), in_odds(1 - beta1), sp.Symbol("G", positive=True)
    reach = size / (1 - q)
    short, less = sp.symbols("p r", nonnegative=True)
    return (
        Link("m = u - delta, so u' = beta1 u + n (delta + g)", beta1 * (u - error) + (1 - beta1) * grad + error,
             beta1 * u + (1 - beta1) * (error + grad)),
        Link("||u|| = G/(1-q) - p reproduces itself, gradients G - r",
             (1 - share) * (reach - short) + share * (q * (reach - short) + size - less), reach,
             ((1 - share) * short, share * q * short, share * less)),
        inequality("and it is above the first u, n G", share * size, reach),
        Link("errors: q G/(1-q)", q * reach, q * size / (1 - q)),
    )  # fmt: skip


def proof_max_norm() -> tuple[Link, ...]:
    """n <= 1/2: every magnitude loses n s or lands below n s, and s is at least a share 1/k of the largest."""
    extra = sp.Symbol("k", nonnegative=True)
    share = 1 / (2 + extra)  # n = 1 - beta1 in (0, 1/2]
    low, below, gap = sp.symbols("l p r", nonnegative=True)  # magnitude v = l, U = l + p, and s = U - r
    largest, scale = low + below, sp.Symbol("s", nonnegative=True)
    root, size, short = (
        1 + sp.Symbol("K_1", nonnegative=True),
        sp.Symbol("G", positive=True),
        sp.Symbol("h", nonnegative=True),
    )
    magnitudes = sp.symbols("a_1:4", nonnegative=True)
    top, others = magnitudes[0], magnitudes[1:]
    q = sp.Symbol("q", real=True)
    n = sp.Symbol("n", positive=True)
    return (
        Link("one worker: the l2 scale of +-s is s, so the server's error is 0 (d = 3)",
             sp.sqrt((scale**2 + (-scale) ** 2 + scale**2) / 3), scale),
        Link("u' = u - n s q + n g", (1 - n) * scale * q + n * grad + (u - scale * q), u - n * scale * q + n * grad),
        Link("magnitudes above n s lose n s", low - n * scale, largest - n * scale, (below,)),
        Link("magnitudes below n s end below U - n s, as s = U - r", share * (largest - gap) - low,
             largest - share * (largest - gap),
             (sp.factor(1 - 2 * share) * largest, 2 * share * gap, low)),
        Link("l2: d s^2 >= U^2 (d = 3)", top**2, sp.Add(*(x**2 for x in magnitudes)), tuple(x**2 for x in others)),
        Link("l1: d s >= U (d = 3)", top, sp.Add(*magnitudes), others),
        Link("U = K G - h reproduces itself under U' <= U (1 - n/K) + n G, K >= 1",
             (root * size - short) * (1 - share / root) + share * size, root * size,
             (short * sp.factor(1 - share / root),)),
        Link("errors, v - s <= U", low - scale, largest, (below, scale)),
        Link("errors, s - v <= U, as s = U - r", (largest - gap) - low, largest, (gap, low)),
    )  # fmt: skip


def one_sided_error_bound(grad_norm: float = 1.0, contraction: float = 0.5) -> float:
    """Bound of ||delta|| in the norm in which the compressor contracts by ``contraction`` = q: q G/(1-q), any beta1."""
    if not 0 <= contraction < 1:
        raise ValueError(f"no bound for a contraction factor of {contraction}: it must lie in [0, 1)")
    return contraction * grad_norm / (1 - contraction)


def max_norm_error_bound(grad_max: float = 1.0, dim: float = 64, scale: str = "l2", beta1: float = 0.9) -> float:
    """Bound of max abs(u) and max abs(delta): sqrt(d) G for l2, d G for l1, gradients bounded by G = ``grad_max``."""
    if beta1 < 0.5:
        raise ValueError(f"the bound needs beta1 >= 1/2, got {beta1}")
    return grad_max * (dim if scale == "l1" else math.sqrt(dim))


def one_hot_run(dim: int, scale: str, steps: int, beta1: float = 0.9) -> tuple[float, float]:
    """Suprema of (max abs(u), max abs(delta)) for the constant gradient (1, 0, ..., 0), one worker."""
    momentum, error, grad = np.zeros(dim), np.zeros(dim), np.eye(dim)[0]
    best_u = best_error = 0.0
    for _ in range(steps):
        u = beta1 * momentum + (1 - beta1) * grad + error
        magnitude = np.abs(u).mean() if scale == "l1" else math.sqrt(float((u * u).mean()))
        momentum = magnitude * np.where(u >= 0, 1.0, -1.0)
        error = u - momentum
        best_u, best_error = max(best_u, float(np.abs(u).max())), max(best_error, float(np.abs(error).max()))
    return best_u, best_error


def _slowest(q: float, steps: int = 2000, beta1: float = 0.9) -> float:
    """sup abs(delta) for C(u) = (1 - q) u and g = 1."""
    u = error = best = 0.0
    for _ in range(steps):
        u = beta1 * (u - error) + (1 - beta1) + error
        error = q * u
        best = max(best, abs(error))
    return best


def _wrong_fixed_point(claimed: sp.Expr) -> bool:
    share, q = in_odds(1 - beta1), in_odds(contraction)
    return not inequality("wrong", (1 - share) * claimed + share * (q * claimed + 1), claimed).holds()


def _magnitude_step_needs_a_small_share() -> bool:
    """n s - v <= U - n s fails for v = 0, s = U and n in (1/2, 1)."""
    largest, share = sp.Symbol("U", positive=True), in_odds(beta1)  # any number in (0, 1)
    return not inequality("wrong", share * largest, largest - share * largest).holds()


_delta = sp.Symbol(r"\|\delta\|", nonnegative=True)
_delta_max = sp.Symbol(r"\|\delta\|_\infty", nonnegative=True)
_size = sp.Symbol("G", positive=True)

CONTRACTION = Theorem(
    id="T5c",
    title="One-sided error feedback under momentum, contractive compressor",
    words="With one compression per step, ||u|| <= G/(1-q) and ||delta|| <= q G/(1-q) for every step, whatever "
    "beta1: momentum does not amplify the error. Sharp: C(u) = (1-q) u with a constant gradient attains it.",
    statement=(sp.Le(_delta, contraction * _size / (1 - contraction)),),
    hypotheses=(
        "||u - C(u)|| <= q ||u|| with q < 1, in any norm",
        "||g_t|| <= G, delta = 0 and ||m|| <= G at the start",
        "one worker, or equal workers and one server chunk",
    ),
    source="ours; the same constant as for SGD without momentum (Karimireddy et al. 2019), where it is not noticed",
    status=Status.PROVED,
    proof=proof_contraction,
    bound=one_sided_error_bound,
    example=lambda: Example("C(u) = u/10, constant gradient", _slowest(0.9), one_sided_error_bound(1.0, 0.9)),
    wrong_variants=(
        WrongVariant("half the bound", lambda: _slowest(0.9) > one_sided_error_bound(1.0, 0.9) / 2),
        WrongVariant("q G, no accumulation", lambda: _slowest(0.9) > 0.9),
        WrongVariant("G/(1+q), a sign", lambda: _wrong_fixed_point(1 / (1 + in_odds(contraction)))),
        WrongVariant(
            "momentum averages errors away: n G/(1-q)", lambda: _slowest(0.9) > 0.1 * one_sided_error_bound(1.0, 0.9)
        ),
    ),
    laws=("L1",),
    remarks="Second moments: Minkowski's inequality in L2 gives the same constants for root mean squares.",
)

MAX_NORM = Theorem(
    id="T5d",
    title="The l2 scale has bounded errors although it is no contraction",
    words="For beta1 >= 1/2 and abs(g) <= G in every coordinate, max abs(u) and max abs(delta) never exceed "
    "sqrt(d) G with the l2 scale and d G with the l1 scale, for every sequence of gradients: no condition "
    "on phi. So the published scale has the better worst case of the two, although only l1 contracts in the "
    "Euclidean norm.",
    statement=(sp.Le(_delta_max, sp.sqrt(sp.Symbol("d", positive=True)) * _size),),
    hypotheses=(
        "beta1 >= 1/2",
        "abs(g_t) <= G in every coordinate, delta = 0 and abs(m) <= G at the start",
        "one worker, or equal workers and one server chunk",
    ),
    source="ours",
    status=Status.PROVED,
    proof=proof_max_norm,
    bound=max_norm_error_bound,
    example=lambda: Example("constant one-hot gradient, d = 64, l2: max abs(u)", one_hot_run(64, "l2", 600)[0], 8.0),
    numeric_checks={
        "l1, one-hot, d = 64: below d and above 0.9 d": lambda: 0.9 * 64 < one_hot_run(64, "l1", 12_000)[0] <= 64,
    },
    wrong_variants=(
        WrongVariant("half the bound", lambda: one_hot_run(64, "l2", 600)[0] > 4.0),
        WrongVariant("sqrt(d) for l1 too", lambda: one_hot_run(64, "l1", 12_000)[0] > 8.0),
        WrongVariant(
            "a bound free of d", lambda: one_hot_run(256, "l2", 3000)[0] > 1.9 * one_hot_run(64, "l2", 600)[0]
        ),
        WrongVariant("errors alone stay below G", lambda: one_hot_run(64, "l2", 600)[1] > 6.0),
        WrongVariant(
            "the magnitude step without n <= 1/2",
            _magnitude_step_needs_a_small_share,
        ),
    ),
    laws=("L1", "L10"),
    remarks="In the Euclidean norm this is sqrt(d) times larger at most. With N different workers and l2, T5a "
    "applies where phi > 1/4 in every compression; below that no proof is known to us: random and "
    "adversarial runs (tests/theory/test_error_bounds_on_runs.py) show no growth, which is evidence, not "
    "proof.",
)

THEOREMS = (CONTRACTION, MAX_NORM)
