"""What all tolerances share: formats, roundings counted, coefficients as they are stored, outward rounding."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.rounding.arguments import amount, count, share

Floats = NDArray[np.float64]
Complement = Literal["rounded", "subtracted"]

# precision in bits (with the hidden one), exponent of the smallest normal number
FORMATS: dict[str, tuple[int, int]] = {
    "float64": (53, -1022),
    "float32": (24, -126),
    "bfloat16": (8, -126),
    "float16": (11, -14),
}


OPERATIONS = 4096
"""More than the roundings in the evaluation of any tolerance."""


def _format(dtype: str) -> tuple[int, int]:
    if not isinstance(dtype, str) or dtype not in FORMATS:
        raise ValueError(f"unknown dtype {dtype!r}: expected one of {', '.join(FORMATS)}")
    return FORMATS[dtype]


def unit_roundoff(dtype: str) -> float:
    """u: the largest relative error of one rounding to nearest, 2^-precision."""
    return 2.0 ** -_format(dtype)[0]


def smallest_subnormal(dtype: str) -> float:
    """eta: the spacing of the numbers next to zero."""
    precision, min_exponent = _format(dtype)
    return 2.0 ** (min_exponent - precision + 1)


@cache
def gamma(k: float, dtype: str) -> float:
    """gamma_k = k u/(1 - k u), which bounds abs(prod (1+d_i)^(+-1) - 1) over k factors (T11a; Higham, Lemma 3.1)."""
    product = amount("k, a number of roundings,", k) * unit_roundoff(dtype)
    if product >= 1:
        raise ValueError(f"no bound for {k} roundings in {dtype}: give the true depth or use a wider accumulator")
    return product / (1 - product)


def round_to(values: ArrayLike, dtype: str) -> Floats:
    """float64 ``values`` rounded to nearest-even in ``dtype`` (kept in float64), subnormals included, overflow not."""
    exact = np.asarray(values, dtype=np.float64)
    precision, min_exponent = _format(dtype)
    _, exponent = np.frexp(exact)
    spacing_exponent = np.maximum(exponent - precision, min_exponent - precision + 1)
    return np.ldexp(np.rint(np.ldexp(exact, -spacing_exponent)), spacing_exponent)


def compose(*relative_errors: Any) -> Any:
    """prod(1 + r_i) - 1: relative errors that act one after another, numbers or arrays."""
    total: Any = 0.0
    for error in relative_errors:
        total = total + error + total * error
    return total


def coefficient_error(beta: float, dtype: str, complement: Complement = "rounded") -> tuple[float, float]:
    """Exact relative errors of the stored beta and 1 - beta, for beta in [0, 1) given as a float64."""
    if complement not in get_args(Complement):
        raise ValueError(f"unknown complement {complement!r}: expected one of {', '.join(get_args(Complement))}")
    return _coefficient_error(share("beta", beta), dtype, complement)


@cache
def _coefficient_error(beta: float, dtype: str, complement: Complement) -> tuple[float, float]:
    exact, rounded = Fraction(beta), Fraction(float(round_to(beta, dtype)))
    candidates = [Fraction(float(round_to(1.0 - beta, dtype)))]
    if complement == "subtracted":
        candidates.append(Fraction(float(round_to(float(1 - rounded), dtype))))
    of_complement = max(abs(candidate - (1 - exact)) / (1 - exact) for candidate in candidates)
    of_beta = abs(rounded - exact) / exact if exact else Fraction(0)
    return _up_scalar(of_beta), _up_scalar(of_complement)


def magnitude(values: ArrayLike) -> Floats:
    """abs(values), float64."""
    try:
        return np.abs(np.asarray(values, dtype=np.float64))
    except (TypeError, OverflowError) as reason:
        raise ValueError(f"arrays of float64 numbers are asked for: {reason}") from None


def nonzero(values: Floats) -> Floats:
    """1 where a magnitude is not 0, else 0."""
    return (values > 0).astype(np.float64)


def where_nonzero(values: Floats, amount: float) -> Floats:
    """``amount`` where a magnitude is not 0, else 0: a product with a subnormal number takes many times as long."""
    return np.where(values > 0, amount, 0.0)


def outward(bound: ArrayLike) -> Floats:
    """Outward rounding: a bound is itself evaluated in float64, in fewer than OPERATIONS operations (T11a).

    Where float64 can't hold it, or what it is made of, it is infinite.
    """
    value = np.asarray(bound, dtype=np.float64)
    outer = value * (1 + gamma(OPERATIONS, "float64")) + where_nonzero(value, smallest_subnormal("float64"))
    return np.fmin(outer, np.inf)  # NaN becomes infinite


def _up_scalar(value: Fraction) -> float:
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


infinite_where_beyond = np.errstate(over="ignore", invalid="ignore")
"""Of a tolerance: where float64 can't hold it, it is infinite (:func:`outward`)."""


@cache
def scalar_error(value: float, dtype: str) -> float:
    """Relative error of a Python scalar that passes through a few float64 operations and is then rounded to dtype."""
    if value == 0:
        return 0.0
    stored = abs(Fraction(float(round_to(value, dtype))) - Fraction(value)) / Fraction(value)
    # a scalar that reaches the kernel only inside a product (lr/b1, lr*weight_decay) is rounded there, not here
    return compose(max(_up_scalar(stored), unit_roundoff(dtype)), gamma(4, "float64"))


POWER_ROUNDINGS = 8
"""Roundings that ``pow`` may be off by: 4 ulp, what CUDA states for powf."""


def correction_error(beta: float, step: int, dtype: str = "float64") -> float:
    """Relative error of 1 - beta^step formed in ``dtype``, the power by multiplications in any order or by ``pow``.

    Proof. The stored beta is beta (1 + r), r by :func:`coefficient_error`. A product of ``step`` of them passes
    k = step - 1 roundings in all, whatever the order, each a factor 1 + d with abs(d) <= u. So the power is off by
    (1 + r)^step (1 + u)^k - 1, also where k u >= 1 and T11a has no gamma_k, and by less than one eta for each product
    that underflows. The stored beta is at most 1, so both powers lie between 0 and 1, which ``pow`` may exceed by its
    own error. The subtraction rounds once more. Our own float64 is charged 4.
    """
    return _correction_error(share("beta", beta), count("step", step, 1), dtype)


@cache
@infinite_where_beyond
def _correction_error(beta: float, step: int, dtype: str) -> float:
    power, u, (of_beta, _) = beta**step, unit_roundoff(dtype), coefficient_error(beta, dtype)
    growth = step * math.log1p(of_beta) + max(step - 1, POWER_ROUNDINGS) * math.log1p(u)
    # (e^growth - 1) beta^step, without overflow
    off = float(np.exp(growth + step * math.log(beta))) * -math.expm1(-growth) if beta else 0.0
    absolute = min(off, 1 + POWER_ROUNDINGS * u) + step * smallest_subnormal(dtype)
    return compose(absolute / (1 - power), u, gamma(4, "float64"))
