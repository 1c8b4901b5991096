"""Tolerances of what is sent: corrected momentum, scale, new error, mean (T11b, T11c, T11d, T11f, T11g, T11h, T11n)."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.rounding.arguments import count, length, plus_or_minus, share, workers
from theory.rounding.formats import (
    Complement,
    Floats,
    coefficient_error,
    compose,
    gamma,
    infinite_where_beyond,
    magnitude,
    nonzero,
    outward,
    smallest_subnormal,
    unit_roundoff,
    where_nonzero,
)

Form = Literal["product", "lerp", "any"]


@infinite_where_beyond
def momentum_tolerance(
    momentum: ArrayLike,
    grads: ArrayLike,
    errors: ArrayLike,
    beta1: float,
    dtype: str,
    *,
    form: Form = "any",
    complement: Complement = "rounded",
    grads_tolerance: ArrayLike = 0.0,
) -> Floats:
    """Bound on abs(fl(beta1 m + (1-beta1) g + delta) - exact) (T11b, T11f). Arrays broadcast.

    The three terms may be added in any order, each product rounded or fused with an addition. ``form``: ``"product"``
    is beta1 m + (1-beta1) g + delta; ``"lerp"`` is m + (1-beta1)(g - m) + delta or g + beta1 (m - g) + delta, whichever
    end it starts from; ``"any"`` covers all. ``grads_tolerance`` is the uncertainty of g itself. With ``errors`` = 0 it
    bounds Adam's first moment.
    """
    if form not in get_args(Form):
        raise ValueError(f"unknown form {form!r}: expected one of {', '.join(get_args(Form))}")
    beta1 = share("beta1", beta1)
    m, g, delta, wobble = (magnitude(array) for array in (momentum, grads, errors, grads_tolerance))
    rho_beta, rho_complement = coefficient_error(beta1, dtype, complement)
    c, eta, u = 1 - beta1, smallest_subnormal(dtype), unit_roundoff(dtype)
    two, three, four = (gamma(k, dtype) for k in (2, 3, 4))
    bounds: list[Floats] = []
    reach = g + wobble
    if form in ("product", "any"):
        kept, added = compose(rho_beta, three), compose(rho_complement, three) * c
        # beta1 m first: a relative error times a tiny beta1 would underflow here
        bounds.append(kept * (beta1 * m) + added * reach + where_nonzero(m, eta) + where_nonzero(reach, eta))
    if form in ("lerp", "any"):
        gap = np.abs(np.asarray(grads, dtype=np.float64) - np.asarray(momentum, dtype=np.float64)) + wobble
        stored_beta = max(
            rho_beta * beta1, c * rho_complement + u * (beta1 + c * rho_complement)
        )  # also 1 - fl(1-beta)
        for anchor, weight, stored in ((m, c, c * rho_complement), (reach, beta1, stored_beta)):
            moved = four * (weight * gap) + (1 + four) * (stored * gap)
            bounds.append(two * anchor + moved + where_nonzero(gap, eta))
    return outward(np.maximum.reduce(np.broadcast_arrays(*bounds)) + two * delta + c * wobble)


def sign_is_determined(u_exact: ArrayLike, tolerance: ArrayLike) -> NDArray[np.bool_]:
    """Where every correct implementation must send the bit (u_exact >= 0); elsewhere either sign is right (T11b)."""
    u_exact, tolerance = magnitude(u_exact), magnitude(tolerance)
    return (u_exact > tolerance) | ((tolerance == 0) & ~np.isnan(u_exact))


def tree_depth(length: int, block: int) -> int:
    """Additions that any one term goes through: ``block`` terms in sequence, the partial sums by a balanced tree."""
    length, block = count("length", length), count("block", block, 1)
    blocks = -(-length // block)
    return min(block, length) - 1 + (blocks - 1).bit_length()


def additions_of(depth: int | None, every: int) -> int:
    """The most additions that a term goes through: ``depth``, or ``every`` one where any order is allowed (None)."""
    return every if depth is None else count("depth, a number of additions,", depth)


@infinite_where_beyond
def scale_tolerance(
    u: ArrayLike,
    kind: Literal["l1", "l2"],
    dtype: str,
    depth: int | None = None,
    *,
    accumulator: str = "float32",
    u_tolerance: ArrayLike = 0.0,
) -> Floats:
    """Bound on abs(computed scale - exact scale of u) over the last axis, of d live coordinates (T11n, T11h).

    ``depth``: the most additions any one term goes through in the ``accumulator`` format; None allows every order of
    summation, d - 1. The sum is divided, or multiplied by a rounded 1/d; with l1 perhaps each term before it (T11n).
    The final rounding to ``dtype`` is included. ``u_tolerance``: how far the implementation's u may be from the ``u``
    given here (a norm moves by at most the norm of the difference).
    """
    if kind not in ("l1", "l2"):
        raise ValueError(f"unknown scale {kind!r}: expected 'l1' or 'l2'")
    live = length("u", u, -1)
    if live == 0:
        return np.zeros(np.shape(u)[:-1])
    size, wobble = np.broadcast_arrays(magnitude(u), magnitude(u_tolerance))
    reached = nonzero(size + wobble)  # asked of the terms: their mean may underflow here
    additions = additions_of(depth, live - 1)
    last, eta_sum, eta = unit_roundoff(dtype), smallest_subnormal(accumulator), smallest_subnormal(dtype)
    if kind == "l1":
        exact, moved = size.mean(axis=-1), wobble.mean(axis=-1)
        relative = compose(gamma(additions + 3, accumulator), last)
        some = reached.sum(axis=-1)
        underflow = eta_sum * (1 + gamma(additions + 3, accumulator)) * some + eta
    else:
        exact, moved = _rms(size), _rms(wobble)
        summed = gamma(additions + 1, accumulator)
        if summed >= 1:
            raise ValueError(f"no bound for {additions} additions in {accumulator}: give the depth or use a wider one")
        relative = compose(summed / (1 + (1 - summed) ** 0.5), gamma(5, accumulator), last)
        # squares and the division may underflow: abs(sqrt(x^2 + e) - x) <= 2 e/(x + sqrt(e)), also for -e
        spill = 2 * eta_sum * (1 + summed) / (1 - summed)
        off = 2 * spill / (np.maximum(exact - moved, 0.0) + spill**0.5)
        underflow = (1 + relative) * off + 2 * eta_sum + eta
    return outward((relative * (exact + moved) + moved) + underflow * reached.max(axis=-1))


@infinite_where_beyond
def error_tolerance(
    u: ArrayLike,
    scale: ArrayLike,
    dtype: str,
    *,
    signs: ArrayLike | None = None,
    u_tolerance: ArrayLike = 0.0,
    scale_tolerance: ArrayLike = 0.0,
) -> Floats:
    """Bound on abs(new error - (u - s q)) with the reported scale s and signs q: one rounding, no underflow (T11g).

    ``signs`` None means bit = (u >= 0). ``u_tolerance`` and ``scale_tolerance``: how far the implementation's own u
    and s may be from those given here, where it does not report them.
    """
    along = magnitude(u) if signs is None else np.multiply(u, plus_or_minus("signs", signs), dtype=np.float64)  # u q
    wobble = magnitude(u_tolerance) + magnitude(scale_tolerance)
    left = np.abs(along - np.asarray(scale, dtype=np.float64))
    return outward(unit_roundoff(dtype) * (left + wobble) + wobble)


@infinite_where_beyond
def mean_tolerance(
    scales_N: ArrayLike,
    server_error: ArrayLike,
    dtype: str,
    depth: int | None = None,
    *,
    scale_tolerances_N: ArrayLike = 0.0,
) -> Floats:
    """Bound on abs(fl(w) - w), w = (1/N) sum_i s_i q_i + server_error, for any signs q_i = +1 or -1 (T11d).

    The terms may be added in any order, from the server error on or to it at last, each divided before or the sum
    after, by N or by a rounded 1/N. ``depth``: the most additions that one of the N + 1 terms goes through; None
    allows every order, N. ``scales_N`` has the workers on its first axis; further axes broadcast with the server error.
    """
    scales, wobble = np.broadcast_arrays(magnitude(scales_N), magnitude(scale_tolerances_N))
    additions = additions_of(depth, workers("scales_N", scales_N))
    relative, reach = gamma(additions + 3, dtype), scales + wobble
    underflow = smallest_subnormal(dtype) * (1 + relative) * nonzero(reach).sum(axis=0)
    spread = relative * reach.mean(axis=0) + wobble.mean(axis=0)
    return outward(spread + gamma(additions, dtype) * magnitude(server_error) + underflow)


@infinite_where_beyond
def average_tolerance(values_ND: ArrayLike, dtype: str, depth: int | None = None) -> Floats:
    """Bound on abs(fl(mean over axis 0) - mean): T11d without a server error, so ``depth`` None means N - 1."""
    return mean_tolerance(values_ND, 0.0, dtype, additions_of(depth, workers("values_ND", values_ND) - 1))


def _rms(magnitude: Floats) -> Floats:
    largest = magnitude.max(axis=-1)  # float64's own squares must not underflow here
    shares = magnitude / np.maximum(largest, smallest_subnormal("float64"))[..., None]
    return np.sqrt((shares**2).mean(axis=-1)) * largest
