"""Tolerances of Adam's step: the parameter update and the second moment (T11e, T11k, T11l, T11m)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from theory.rounding.arguments import amount, correction, count, pair, share
from theory.rounding.formats import (
    Complement,
    Floats,
    coefficient_error,
    compose,
    correction_error,
    gamma,
    infinite_where_beyond,
    magnitude,
    outward,
    scalar_error,
    smallest_subnormal,
    unit_roundoff,
    where_nonzero,
)
from theory.rounding.messages import momentum_tolerance


def root_error(second: Floats, second_error: float, second_slip: Floats, taking_error: float) -> Floats:
    """Bound on abs(root used - sqrt(second)) for a second moment off by relative and absolute errors (T11m)."""
    root, least = np.sqrt(second), np.sqrt(second_slip)
    larger = np.maximum(root, least)
    moved = second_slip / np.maximum(larger, smallest_subnormal("float64"))  # 0 where both are 0
    return compose(second_error, taking_error) * root + (1 + taking_error) * moved


def least_denominator(root: Floats, root_tolerance: Floats, eps: float, eps_error: float, dtype: str) -> Floats:
    """What a computed root + eps is at least (T11l): less by its errors, and never below the stored eps."""
    left = root + eps - _missing(root, root_tolerance, eps, eps_error, dtype)
    return np.maximum(np.maximum(left, (1 - eps_error) * eps), 0.0)  # where it is 0 there is no bound


def _missing(root: Floats, root_tolerance: Floats, eps: float, eps_error: float, dtype: str) -> Floats:
    once = unit_roundoff(dtype) * (root + root_tolerance + eps * (1 + eps_error))
    return root_tolerance + eps_error * eps + once


def rate_error(
    step: float,
    root: Floats,
    eps: float,
    dtype: str,
    *,
    root_tolerance: Floats,
    eps_error: float,
    relative: float,
    slip: Floats | float,
) -> Floats:
    """Bound on abs(lr P as it is stored - step/(root + eps)); ``relative`` and ``slip`` of the quotient (T11l)."""
    missing = _missing(root, root_tolerance, eps, eps_error, dtype)
    least = least_denominator(root, root_tolerance, eps, eps_error, dtype)
    with np.errstate(divide="ignore"):
        return compose(relative, missing / least) * step / (root + eps) + slip


class Order(NamedTuple):
    """A family of orders of the update: its stored coefficients of x, and the roundings and spills of its terms."""

    keep: float
    shrink: float
    decay_error: float
    point_steps: int
    moment_steps: int
    decay_steps: int
    point_spill: float
    decay_spill: float


def update_error(
    x: Floats,
    m: Floats,
    rate: Floats,
    dtype: str,
    order: Order,
    *,
    momentum_tolerance: Floats,
    rate_error: Floats,
    moment_spill: Floats,
) -> Floats:
    """Bound on abs(fl(x - rate m - shrink x) - exact) for the orders of one family; x and m by their sizes (T11e)."""
    reach = m + momentum_tolerance
    kept = gamma(order.point_steps, dtype) * order.keep + gamma(order.decay_steps, dtype) * order.shrink
    moved = (gamma(order.moment_steps, dtype) * (rate + rate_error) + rate_error) * reach + (
        rate * momentum_tolerance + smallest_subnormal(dtype) * moment_spill
    )
    underflow = where_nonzero(x, smallest_subnormal(dtype) * (order.point_spill + order.decay_spill))
    return (kept + order.decay_error) * x + np.where(reach > 0, moved, 0.0) + underflow


def divided_by(error: float) -> float:
    """Relative error of a quotient whose divisor is off by ``error``: 1/(1 - r) - 1."""
    return error / (1 - error) if error < 1 else np.inf


def orders_of(lr: float, weight_decay: float, dtype: str, *, corrected: bool) -> tuple[Order, ...]:
    """The families of usual orders: decay inside the bracket, as a second subtraction, as a factor of x."""
    extra = 1 if corrected else 0  # m is divided by its bias correction
    if not weight_decay:
        return (Order(1.0, 0.0, 0.0, 1, 3 + extra, 0, 0.0, 0.0),)
    lr_error, decay, eta = scalar_error(lr, dtype), lr * weight_decay, smallest_subnormal(dtype)
    both = compose(lr_error, scalar_error(weight_decay, dtype))
    product = compose(both, gamma(1, dtype))
    factor_error = unit_roundoff(dtype) * abs(1 - decay) + 4 * unit_roundoff("float64") * (1 + decay) + eta
    spill_inside = (1 + compose(lr_error, gamma(3, dtype))) * (1 + lr)
    spill_once = 1 + gamma(1, dtype)
    return (
        Order(1.0, decay * (1 + both), decay * both, 1, 4 + extra, 4, 0.0, spill_inside),
        Order(1.0, decay * (1 + product) + eta, decay * product + eta, 2, 4 + extra, 2, 0.0, spill_once),
        Order(abs(1 - decay) + factor_error, 0.0, factor_error, 2, 3 + extra, 0, spill_once, 0.0),
    )


@infinite_where_beyond
def apply_tolerance(
    params: ArrayLike,
    momentum: ArrayLike,
    variance: ArrayLike,
    *,
    lr: float,
    eps: float,
    weight_decay: float = 0.0,
    dtype: str = "float32",
    momentum_tolerance: ArrayLike = 0.0,
    variance_tolerance: ArrayLike = 0.0,
    corrections: tuple[float, float] = (1.0, 1.0),
    corrections_error: tuple[float, float] = (0.0, 0.0),
    division_roundings: int = 1,
    sqrt_roundings: int = 1,
) -> Floats:
    """Bound on abs(fl(x') - x'), x' = x - lr (m/b1/(sqrt(v/b2) + eps) + weight_decay x), all usual orders (T11e).

    Covers division by the denominator or multiplication by its reciprocal, lr applied first or last, and decay inside
    the bracket, as a second subtraction or as x (1 - lr weight_decay): the largest of T11e's bounds for them, with the
    error of lr P by T11l and that of the root by T11m. ``corrections`` = (b1, b2) are the bias corrections,
    ``corrections_error`` their relative errors; ``momentum_tolerance`` and ``variance_tolerance`` are the errors of
    the implementation's m and v. Hardware whose division or square root is not correctly rounded raises
    ``division_roundings``, ``sqrt_roundings`` (in units of u: 2 ulp is 4). Where v = eps = 0, or v/b2 is beyond
    float64, the bound is infinite.
    """
    lr, eps, weight_decay = amount("lr", lr), amount("eps", eps), amount("weight_decay", weight_decay)
    b1, b2 = (correction("corrections", one) for one in pair("corrections", corrections))
    errors = (amount("corrections_error", one) for one in pair("corrections_error", corrections_error))
    b1_error, b2_error = map(divided_by, errors)
    corrected, eta = (b1, b2) != (1.0, 1.0) or max(b1_error, b2_error) > 0, smallest_subnormal(dtype)
    second, slack = np.broadcast_arrays(np.asarray(variance, dtype=np.float64) / b2, magnitude(variance_tolerance) / b2)
    relative = gamma(division_roundings, dtype)  # of 1 over the denominator, or of a division by it
    lr_error, eps_error = scalar_error(lr, dtype), scalar_error(eps, dtype)
    second_error, taking, step_error = 0.0, gamma(sqrt_roundings, dtype), lr_error
    if corrected:  # each correction is stored and divided by; v may be divided before the root or after it
        second_error = compose(b2_error, gamma(1 + division_roundings, dtype))
        taking = gamma(sqrt_roundings + 1 + division_roundings, dtype)
        step_error = compose(lr_error, b1_error, gamma(1 + division_roundings, dtype))
        slack = slack * (1 + second_error) + where_nonzero(second + slack, eta)
    root, root_off = np.sqrt(second), root_error(second, second_error, slack, taking)
    step, total = lr / b1, compose(step_error, relative)
    with np.errstate(divide="ignore"):
        largest = 1 / least_denominator(root, root_off, eps, eps_error, dtype)  # possible P
    later = (
        1 / b1 + step
    )  # what a product that underflows may be multiplied by: 1, 1/b1, lr, or lr/b1, and by P besides
    rate_off = rate_error(
        step,
        root,
        eps,
        dtype,
        root_tolerance=root_off,
        eps_error=eps_error,
        relative=total,
        slip=eta * (later + (largest if corrected else 0.0)) * (1 + step_error),
    )
    with np.errstate(divide="ignore"):
        rate = step / (root + eps)
    moment_spill = (1 + compose(total, gamma(6, dtype))) * later * (1 + largest)
    x, m, m_off = (magnitude(values) for values in (params, momentum, momentum_tolerance))
    bounds = [
        update_error(
            x,
            m,
            rate,
            dtype,
            order,
            momentum_tolerance=m_off,
            rate_error=rate_off,
            moment_spill=moment_spill,
        )
        for order in orders_of(lr, weight_decay, dtype, corrected=corrected)
    ]
    return np.where(np.isfinite(largest), outward(np.maximum.reduce(bounds)), np.inf)[()]


class AdamTolerance(NamedTuple):
    """Absolute tolerances of one Adam step, each (D,)."""

    params: Floats
    momentum: Floats
    variance: Floats


@infinite_where_beyond
def variance_tolerance(
    variance: ArrayLike,
    grads: ArrayLike,
    beta2: float,
    dtype: str,
    *,
    complement: Complement = "rounded",
    grads_tolerance: ArrayLike = 0.0,
) -> Floats:
    """Bound on abs(fl(beta2 v + (1-beta2) g^2) - exact), for (1-beta2) (g g) and for ((1-beta2) g) g (T11k).

    Products may be fused with the addition. Not covered: the root of 1 - beta2 applied to g before it is squared, whose
    error counts twice, and v + (1-beta2) (g^2 - v).
    """
    beta2 = share("beta2", beta2)
    v, g, wobble = magnitude(variance), magnitude(grads), magnitude(grads_tolerance)
    rho_beta, rho_complement = coefficient_error(beta2, dtype, complement)
    kept, added = compose(rho_beta, gamma(2, dtype)), compose(rho_complement, gamma(3, dtype))
    c = 1 - beta2
    underflow = (
        smallest_subnormal(dtype) * (1 + added) * ((v > 0) + (1 + np.maximum(1.0, g + wobble)) * (g + wobble > 0))
    )
    shifted = (2 * g + wobble) * wobble
    return outward(kept * (beta2 * v) + c * (added * (g * g + shifted) + shifted) + underflow)


@infinite_where_beyond
def adam_step_tolerance(
    params: ArrayLike,
    momentum: ArrayLike,
    variance: ArrayLike,
    grads: ArrayLike,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float = 0.0,
    step: int | None = None,
    dtype: str = "float32",
    complement: Complement = "rounded",
    correction_dtype: str = "float64",
    grads_tolerance: ArrayLike = 0.0,
    division_roundings: int = 1,
    sqrt_roundings: int = 1,
) -> AdamTolerance:
    """Bounds for one (decoupled-decay) Adam step from a known state; ``step`` = t turns bias correction on.

    ``correction_dtype``: in which 1 - beta^t is formed (:func:`correction_error`); Python's own numbers are float64.
    The tolerances of its moments (T11b, T11f, T11k) enter that of its update (T11e, T11l, T11m).
    """
    beta1, beta2 = share("beta1", beta1), share("beta2", beta2)
    m, v, g = (np.asarray(array, dtype=np.float64) for array in (momentum, variance, grads))
    shared: dict[str, Any] = {"complement": complement, "grads_tolerance": grads_tolerance}
    momentum_bound = momentum_tolerance(m, g, 0.0, beta1, dtype, **shared)
    variance_bound = variance_tolerance(v, g, beta2, dtype, **shared)
    new_m, new_v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    variance_slack = variance_bound + variance_tolerance(v, g, beta2, "float64")
    biased: dict[str, Any] = {}
    unit_roundoff(correction_dtype)  # of a known format
    if step is not None:
        step = count("step", step, 1)
        biased["corrections"] = (1 - beta1**step, 1 - beta2**step)
        of_beta1, of_beta2 = (correction_error(beta, step, correction_dtype) for beta in (beta1, beta2))
        biased["corrections_error"] = (of_beta1, of_beta2)
    params_bound = apply_tolerance(
        params,
        new_m,
        new_v,
        lr=lr,
        eps=eps,
        weight_decay=weight_decay,
        dtype=dtype,
        momentum_tolerance=momentum_bound + momentum_tolerance(m, g, 0.0, beta1, "float64"),
        variance_tolerance=variance_slack,
        **biased,
        division_roundings=division_roundings,
        sqrt_roundings=sqrt_roundings,
    )
    return AdamTolerance(params_bound, momentum_bound, variance_bound)
