"""T7d, T7e: Adam's own worst step, and the variance floor kappa (C7) that keeps compressed steps within it.

Adam cannot move a coordinate by more than gamma C, C = (1-beta1)/sqrt((1-beta2)(1-beta1^2/beta2)): its m and v come
from the same gradients. After the freeze that tie is cut: every live coordinate moves by gamma S/(sqrt(v_k) + eps)
with ONE S per chunk, whatever its own gradient. A floor v_k >= kappa mean(v) restores the bound.
"""

from __future__ import annotations

import math

import numpy as np
import sympy as sp

from theory.algebra import factored
from theory.notation import beta1, beta2, eps, in_odds, lr, mean_grad, momentum, server_scale, variance
from theory.notation import variance_floor as kappa
from theory.theorem import Example, Link, Status, Theorem, WrongVariant

K = sp.Symbol("K", positive=True)
spare = sp.Symbol("s", nonnegative=True)
relative = sp.Symbol("R", positive=True)  # rms of the server input over root of the mean variance
mean_v = sp.Symbol("v_mean", positive=True)
WORST_SQUARED = (1 - beta1) ** 2 / ((1 - beta2) * (1 - beta1**2 / beta2))


def worst_adam_step(beta1: float, beta2: float) -> float:
    """C: Adam (without bias correction) never moves a coordinate by more than lr * C.

    Args:
        beta1: momentum constant.
        beta2: second-moment constant, beta1^2 < beta2 < 1.

    Raises:
        ValueError: beta1^2 >= beta2, where no bound exists.

    """
    if not beta1**2 < beta2 < 1:
        raise ValueError(f"need beta1^2 < beta2 < 1, got beta1 = {beta1:g}, beta2 = {beta2:g}")
    return (1 - beta1) / math.sqrt((1 - beta2) * (1 - beta1**2 / beta2))


def white_noise_scale(beta1: float) -> float:
    """rms(m)/sqrt(mean v) when gradients are independent with mean zero: sqrt((1-beta1)/(1+beta1)), 0.23 at 0.9."""
    return math.sqrt((1 - beta1) / (1 + beta1))


def variance_floor(beta1: float, beta2: float, relative_scale: float | None = None) -> float:
    """The kappa at which a compressed step cannot exceed Adam's own worst step: (R/C)^2.

    With the default R, that of gradients that are mostly noise, kappa = (1-beta2)(1-beta1^2/beta2)/(1-beta1^2), which
    is 1-beta2 up to a factor near one: about 1e-3 for (0.9, 0.999). Read: every coordinate is treated as if it had
    seen at least one gradient of average size. R = 1 (a server input as large as the gradients themselves, the case
    without averaging) gives 1.9e-2.

    Args:
        beta1: momentum constant.
        beta2: second-moment constant, beta1^2 < beta2 < 1.
        relative_scale: R, bound of rms(w)/sqrt(mean v); default :func:`white_noise_scale`.

    Raises:
        ValueError: beta1^2 >= beta2, or relative_scale not positive.

    """
    scale = white_noise_scale(beta1) if relative_scale is None else relative_scale
    if scale <= 0:
        raise ValueError(f"relative_scale must be positive, got {scale}")
    return (scale / worst_adam_step(beta1, beta2)) ** 2


def compressed_step_bound(lr: float, variance_floor: float, relative_scale: float) -> float:
    """Largest move of a coordinate in one compressed step: lr R/sqrt(kappa).

    Args:
        lr: step size.
        variance_floor: kappa > 0.
        relative_scale: R, bound of rms(w)/sqrt(mean v) over the live coordinates.

    """
    return lr * relative_scale / math.sqrt(variance_floor)


def one_step_links(sign: int = 1, with_beta2: bool = True) -> tuple[Link, ...]:
    """T7d: m^2 <= K v survives a step with K' = beta1^2 K/beta2 + (1-beta1)^2/(1-beta2), whose fixed point is C^2."""
    v_before = momentum**2 / K + spare
    forgetting = beta2 if with_beta2 else sp.S.One
    k_next = beta1**2 * K / forgetting + (1 - beta1) ** 2 / (1 - beta2)
    square = (beta1 * K * (1 - beta2) * mean_grad - (1 - beta1) * beta2 * momentum) ** 2 / (beta2 * (1 - beta2) * K)
    return (
        Link(
            "Cauchy-Schwarz: if v = m^2/K + s then (beta1 m + (1-beta1) g)^2 <= K' (beta2 v + (1-beta2) g^2)",
            in_odds((beta1 * momentum + sign * (1 - beta1) * mean_grad) ** 2),
            in_odds(k_next * (beta2 * v_before + (1 - beta2) * mean_grad**2)),
            slack=(factored(in_odds(square)), factored(in_odds(k_next * beta2)) * spare),
        ),
        Link(
            "C^2 = (1-beta1)^2/((1-beta2)(1-beta1^2/beta2)) is the fixed point of K -> K'",
            beta1**2 * WORST_SQUARED / beta2 + (1 - beta1) ** 2 / (1 - beta2),
            WORST_SQUARED,
        ),
        Link(
            "and K <= C^2 stays: K' grows with K, by beta1^2/beta2 < 1 a unit",
            beta1**2 * (WORST_SQUARED - spare) / beta2 + (1 - beta1) ** 2 / (1 - beta2),
            WORST_SQUARED,
            slack=(beta1**2 * spare / beta2,),
        ),
        Link(
            "attained: g_j = (beta1/beta2)^j backwards in time gives m^2/v = C^2 (1 - (beta1^2/beta2)^n)",
            ((1 - beta1) * geometric(beta1**2 / beta2)) ** 2 / ((1 - beta2) * geometric(beta1**2 / beta2)),
            WORST_SQUARED * (1 - (beta1**2 / beta2) ** sp.Symbol("n")),
        ),
    )


def geometric(ratio: sp.Expr) -> sp.Expr:
    """1 + ratio + ... + ratio^(n-1)."""
    return (1 - ratio ** sp.Symbol("n")) / (1 - ratio)


def floor_links(power: int = 2) -> tuple[Link, ...]:
    """T7e: scale <= rms, P <= 1/sqrt(kappa mean v), and the kappa at which the two worst steps meet."""
    a, b, c = sp.symbols("a_1 a_2 a_3", nonnegative=True)
    extra = sp.Symbol("r_e", nonnegative=True)  # sqrt(v_k) = sqrt(kappa mean v) + extra
    worst = sp.Symbol("C", positive=True)
    floor = sp.Symbol("kappa", positive=True)
    step = lr * relative * sp.sqrt(mean_v) / sp.sqrt(floor * mean_v)
    white = sp.sqrt((1 - beta1) / (1 + beta1))
    positive_root = sp.Symbol("r_f", positive=True)
    return (
        Link(
            "either scale is at most the rms: mean^2 <= mean of squares (three coordinates; the slack is the variance)",
            ((a + b + c) / 3) ** 2,
            (a**2 + b**2 + c**2) / 3,
            slack=(((a - b) ** 2 + (b - c) ** 2 + (c - a) ** 2) / 9,),
        ),
        Link(
            "P S <= S/sqrt(kappa mean v) when v_k >= kappa mean v",
            server_scale / (positive_root + extra + eps),
            server_scale / positive_root,
            slack=(server_scale * (extra + eps) / (positive_root * (positive_root + extra + eps)),),
        ),
        Link("so a coordinate moves by at most gamma R/sqrt(kappa)", step, lr * relative / sp.sqrt(floor)),
        Link(
            "at kappa = (R/C)^2 that is Adam's worst step gamma C",
            (lr * relative / sp.sqrt(floor)).subs(floor, (relative / worst) ** power),
            lr * worst,
        ),
        Link(
            "white noise: the variance of m is (1-beta1)^2/(1-beta1^2) = (1-beta1)/(1+beta1) times that of g",
            (1 - beta1) ** 2 / (1 - beta1**2),
            white**2,
        ),
        Link(
            "then kappa = (1-beta2)(1-beta1^2/beta2)/(1-beta1^2)",
            white**2 / WORST_SQUARED,
            (1 - beta2) * (1 - beta1**2 / beta2) / (1 - beta1**2),
        ),
        Link(
            "which is at most 1-beta2: one gradient of average size in the memory of v",
            in_odds((1 - beta2) * (1 - beta1**2 / beta2) / (1 - beta1**2)),
            in_odds(1 - beta2),
            slack=(factored(in_odds((1 - beta2) ** 2 * beta1**2 / (beta2 * (1 - beta1**2)))),),
        ),
    )


def example_worst() -> Example:
    """300 gradients growing like (beta2/beta1)^t: m/sqrt(v) at the end."""
    m = v = 0.0
    for step in range(300):
        gradient = (0.999 / 0.9) ** (step - 300)
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
    return Example("300 gradients growing by β2/β1 a step", m / math.sqrt(v), worst_adam_step(0.9, 0.999))


def example_floor() -> Example:
    """One compressed step of 8 coordinates, one of them at the floor, all of the same |w|."""
    v = np.array([1e-12, *[1.0] * 7])
    w = np.full(8, 0.3)
    floor = 1e-3
    frozen = np.maximum(v, floor * v.mean())
    move = 0.01 * np.sqrt(np.mean(w**2)) / np.sqrt(frozen)
    bound = compressed_step_bound(0.01, floor, float(np.sqrt(np.mean(w**2)) / np.sqrt(v.mean())))
    return Example("eight coordinates, one at κ = 1e-3: its move", float(move.max()), bound)


def unfloored_step_exceeds() -> bool:
    """Without a floor the same coordinate at v = 1e-16 moves a million times Adam's worst step."""
    return 0.01 * 0.3 / (math.sqrt(1e-16) + 1e-8) > 1e5 * 0.01 * worst_adam_step(0.9, 0.999)


THEOREM_WORST = Theorem(
    id="T7d",
    title="Adam's worst step",
    words=(
        "Adam moves a coordinate by at most γC, C = (1-β1)/√((1-β2)(1-β1²/β2)): 7.27γ at (0.9, 0.999). Gradients that"
        " grow by β2/β1 a step attain it."
    ),
    statement=(sp.Le(momentum**2, WORST_SQUARED * variance, evaluate=False),),
    hypotheses=("β1² < β2 < 1", "m = v = 0 at the start, no bias correction; ε only makes the step smaller"),
    source="ours; the bound of Kingma and Ba 2015, section 2.1, with the exact constant",
    status=Status.PROVED,
    proof=one_step_links,
    bound=worst_adam_step,
    example=example_worst,
    wrong_variants=(
        WrongVariant("the sign of the gradient flipped in the square", lambda: not one_step_links(sign=-1)[0].holds()),
        WrongVariant("v without forgetting", lambda: not one_step_links(with_beta2=False)[0].holds()),
        WrongVariant(
            "Kingma and Ba's (1-β1)/√(1-β2) = 3.2 as the worst case",
            lambda: example_worst().attained > 0.1 / math.sqrt(0.001),
        ),
    ),
    laws=("L3",),
    remarks=(
        "Kingma and Ba print (1-β1)/√(1-β2) as the bound for the sparsest case, one single gradient; spread gradients"
        " exceed it by 1/√(1-β1²/β2)."
    ),
)
THEOREM_FLOOR = Theorem(
    id="T7e",
    title="Variance floor from the size of the steps",
    words=(
        "With v_k ≥ κ·mean(v) a compressed step moves no coordinate by more than γR/√κ, R = rms(w)/√mean(v). κ ="
        " (R/C)² makes that Adam's own worst step; for noise-dominated gradients it is (1-β2)(1-β1²/β2)/(1-β1²), which"
        " is 1-β2 up to a factor near 1: 1.0e-3 at (0.9, 0.999)."
    ),
    statement=(
        sp.Le(sp.Symbol("x_move"), lr * relative / sp.sqrt(kappa), evaluate=False),
        sp.Eq(kappa, (1 - beta2) * (1 - beta1**2 / beta2) / (1 - beta1**2), evaluate=False),
    ),
    hypotheses=(
        "C7: live v_k ≥ κ times the mean of live v; either scale (C1); one chunk, or R taken per chunk",
        (
            "R is a bound of rms(w)/√mean(v): assumed, and reported by a run; √((1-β1)/(1+β1)) for independent"
            " gradients of mean zero, up to 1 for a persistent gradient"
        ),
    ),
    source="ours",
    status=Status.PROVED,
    proof=floor_links,
    bound=compressed_step_bound,
    example=example_floor,
    numeric_checks={"without a floor the move is 1e5 times Adam's worst": unfloored_step_exceeds},
    wrong_variants=(
        WrongVariant("κ = R/C without the square", lambda: not floor_links(power=1)[3].holds()),
        WrongVariant("ε = 1e-8 alone bounds the step (κ = 0)", unfloored_step_exceeds),
        WrongVariant("a step bound of half the size", lambda: example_floor().attained > example_floor().bound / 2),
    ),
    laws=("C7",),
    remarks=(
        "What κ guarantees is the size of a step, not convergence. Measured on the digits MLP (γ = 1e-3, freeze at"
        " 200, 300 compressed steps, one seed): R = 0.21 at the freeze and at most 0.26 later for l2, 0.12 for l1, near"
        " the white-noise value 0.23. Steps γR/√κ of 0.2 (κ = 1e-6) and less converge up to κ = 1.9e-2, steps of 2"
        " (1e-8), 20 (1e-10) and 40 (κ = 0, where ε rules) diverge with l2; smaller κ at times survive by luck, and l1"
        " diverges for some. A weight of that network is about 0.1. A larger κ costs adaptivity: a coordinate below the"
        " floor slows down by √(v_k/(κ·mean v)). A freeze long before 1/(1-β2) steps, without bias correction, finds v"
        " low by the factor 1-β2^T_w, and R larger by its root."
    ),
)
THEOREMS = (THEOREM_WORST, THEOREM_FLOOR)
