"""Tolerances that the step relation needs beyond ``theory.rounding``; each with its proof, in the same model.

u is the unit roundoff, gamma_k = k u/(1 - k u), and hats are exact values; see ``theory.rounding`` for the model.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory import rounding
from verification.protocol import Scale, Traits

Floats = NDArray[np.float64]

LONGEST_SEQUENCE = 2**15
"""A requirement, not a tolerance: a sum may add at most this many terms one after another in float32.

Longer sums must be cut into blocks (or use a wider accumulator), so that a scale keeps nine good bits at any size:
gamma_{2^15} = 2^-9. Otherwise float32 may stop growing, and no bound holds at all from 2^24 terms on.
"""


def fits(dtype: str, *factors: Any, beside: Any = 0.0) -> Any:
    """Where no product of some of these numbers, in any order, overflows ``dtype``, nor with ``beside`` added to it.

    The bounds of a rounding hold there alone. 2^-7 is more than what roundings add.
    """
    reach = 1.0 + 2.0**-7
    for factor in factors:
        reach = reach * np.maximum(np.abs(factor), 1.0)
    return reach + np.abs(beside) <= float(np.finfo(dtype).max)


def reduction_depth(length: int) -> int:
    """The most additions that one term of a sum of ``length`` terms may go through."""
    return rounding.tree_depth(length, LONGEST_SEQUENCE)


def sum_tolerance(a: Any, b: Any, sum_64: Floats, dtype: str) -> Floats:
    """Bound on abs(u - (a + b)) for a u formed by one addition in ``dtype`` or wider; ``sum_64`` is a + b in float64.

    Proof. Addition is correctly rounded, so u is either round(a + b) or closer. The error of ``sum_64`` itself is known
    exactly (Knuth's TwoSum), and rounding is monotone: where ``sum_64`` is exact, u differs from it by at most
    abs(round(sum_64) - sum_64), which is 0 where the sum needs no rounding. Elsewhere u_dtype + u_64 covers both.
    """
    a64, b64 = np.asarray(a, np.float64), np.asarray(b, np.float64)
    virtual = sum_64 - a64
    inexact = (a64 - (sum_64 - virtual)) + (b64 - virtual) != 0
    rounded_off = np.abs(rounding.round_to(sum_64, dtype) - sum_64)
    either = (rounding.unit_roundoff(dtype) + rounding.unit_roundoff("float64")) * np.abs(sum_64)
    return np.where(inexact, either, rounded_off)


def message_tolerance(u_tolerance: Floats, new_errors: Any, dtype: str) -> Floats:
    """Bound on abs((u_hat - delta') - s q): what the new error says about the message that was sent.

    Proof. The implementation holds u with abs(u - u_hat) <= T and stores delta' = (u - s q)(1 + d), abs(d) <= u (s q is
    exact, and a subtraction does not underflow). So abs(u - s q) <= abs(delta')/(1 - u), and
    abs(u_hat - delta' - s q) <= T + abs(d) abs(u - s q) <= T + gamma_1 abs(delta'). Our own subtraction in float64 adds
    u_64 abs(u_hat - delta') <= u_64 (abs(u_hat - delta')), charged by the caller's :func:`wide_slack`.
    """
    return u_tolerance + rounding.gamma(1, dtype) * np.abs(np.asarray(new_errors, np.float64))


def wide_slack(*terms: Any, operations: int = 4) -> Floats:
    """Error of ``operations`` additions, in float64, of numbers with these magnitudes: gamma_k (sum of magnitudes)."""
    total = np.sum(np.broadcast_arrays(*[np.abs(np.asarray(term, np.float64)) for term in terms]), axis=0)
    return rounding.gamma(operations, "float64") * total


def conservation_tolerance(
    message_tolerances_ND: Floats, messages_ND: Floats, server_error_D: Any, new_server_error_D: Any, dtype: str
) -> Floats:
    """Bound on the defect of L1: output + new server error - (mean of messages + server error), (D,).

    ``messages_ND`` are u_hat_i - delta_i', each within ``message_tolerances_ND`` of the s_i q_i that worker i sent.
    Proof. The server's w lies within T11d's bound of the exact average of what the workers sent and delta_bar, where
    s_i <= abs(message) + tolerance. It stores delta_bar' = (w - output)(1 + d), so output + delta_bar' differs from
    w by at most gamma_1 abs(delta_bar') (T11g).
    """
    sizes_ND = np.abs(messages_ND) + message_tolerances_ND
    averaging = rounding.mean_tolerance(sizes_ND, server_error_D, dtype)
    stored = rounding.gamma(1, dtype) * np.abs(np.asarray(new_server_error_D, np.float64))
    return message_tolerances_ND.mean(axis=0) + averaging + stored


def floor_bounds(variance_D: Floats, tolerance_D: Floats, kappa: float, dtype: str) -> tuple[float, float]:
    """Interval of kappa * mean of live v that a correct implementation may use at the freeze [C7].

    Proof. Its v lies within ``tolerance_D`` of ``variance_D``. A coordinate with v_hat > tolerance is surely live, one
    with v_hat = tolerance = 0 surely dead, between the two either. The sum of n terms has relative error gamma_n, the
    division and the product by the rounded kappa three roundings more, and each may underflow by eta.
    """
    sure = variance_D > tolerance_D
    unsure = int(np.count_nonzero((variance_D + tolerance_D > 0) & ~sure))
    count = int(np.count_nonzero(sure))
    if count + unsure == 0:
        return 0.0, 0.0
    relative = rounding.gamma(reduction_depth(variance_D.size) + 4, dtype)
    eta = 4 * rounding.smallest_subnormal(dtype)
    low = float((variance_D - tolerance_D)[sure].sum()) / (count + unsure)
    high = float((variance_D + tolerance_D).sum()) / max(count, 1)
    return kappa * low * (1 - relative) - eta, kappa * high * (1 + relative) + eta


def combined(tolerances: Iterable[Floats]) -> Floats:
    """The tolerance of a comparison: that of the implementation plus that of our own float64 oracle."""
    return sum(tolerances, start=np.zeros(()))


def scale_of(u: Floats, u_tolerance: Floats, kind: Scale, traits: Traits) -> tuple[Floats, Floats]:
    """The scale over the last axis and its tolerance, that of our own float64 arithmetic included.

    Where m terms are not 0, none goes through more than m - 1 additions that round. Proof. fl(a + 0) = a in every
    format, so an order of summation gives the very number that it gives without the terms that are 0: an order of m
    terms. T11c, T11n and T11h count additions because each multiplies its operands by 1 + d with abs(d) <= u; where one
    operand is 0, d = 0. A term is 0 in the implementation too where u and its tolerance are.
    """
    largest = np.abs(u).max(axis=-1, keepdims=True)
    unit = np.where(largest > 0, largest, 1.0)  # so that our own squares neither overflow nor vanish
    ratio = np.abs(u / unit)
    scale = (ratio.mean(axis=-1) if kind == "l1" else np.sqrt((ratio**2).mean(axis=-1))) * unit[..., 0]
    terms = ((u != 0) | (u_tolerance > 0)).sum(axis=-1).max(initial=1)
    dtype, depth = traits.dtype, min(reduction_depth(u.shape[-1]), max(int(terms), 1) - 1)
    tolerance = rounding.scale_tolerance(u, kind, dtype, depth, accumulator=dtype, u_tolerance=u_tolerance)
    # four roundings more of our own: the division by the unit and the product with it, per element and in the mean
    own = rounding.gamma(u.shape[-1] + 8, "float64") * scale + rounding.smallest_subnormal("float64")
    lost = traits.lost(4)  # by the mean of magnitudes or of squares, whose root it reaches as in T11c
    if kind == "l2":
        with np.errstate(divide="ignore", invalid="ignore"):
            lost = np.fmin(lost**0.5, lost / scale)
    is_some = (largest[..., 0] > 0) | np.any(u_tolerance > 0, axis=-1)  # of zeros alone nothing is lost
    return scale, tolerance + own + lost * is_some


def is_power_of_two(values: Floats) -> NDArray[np.bool_]:
    """Which numbers one may divide by without rounding; 0 counts."""
    return np.frexp(values)[0] % 0.5 == 0


def exact_scale_of(u: Floats, kind: Scale, traits: Traits) -> tuple[Floats, Floats]:
    """The scale over the last axis of numbers on which nothing rounds, and its tolerance.

    That is 0 for an l1 scale, but where the largest number is no power of two, for a division by it rounds. An l2 scale
    has its usual tolerance: it may be formed from roots that round, as a norm of norms is.
    """
    size = np.abs(u)
    scale = size.mean(axis=-1) if kind == "l1" else np.sqrt((u**2).mean(axis=-1))
    exact = is_power_of_two(size.max(axis=-1)) & (kind == "l1")
    return scale, ~exact * scale_of(u, np.zeros_like(u), kind, traits)[1]
