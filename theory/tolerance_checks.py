"""Every tolerance of ``theory.rounding`` is the number that a theorem T11 gives, rounded outward and no more.

A comparison calls a tolerance on some inputs and has the right-hand side of the theorem there, as
:mod:`theory.evaluate` computes it from the statement. What is no tolerance (formats, coefficients as they are stored)
is compared with rational arithmetic. :mod:`theory.tolerance_mutants` runs the comparisons on changed functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from theory import orders
from theory.evaluate import bound
from theory.registry import select

FORMATS = {
    name: {"precision": np.finfo(kind).nmant + 1, "least": np.finfo(kind).nmant - int(np.finfo(kind).minexp)}
    for name, kind in (("float64", np.float64), ("float32", np.float32), ("float16", np.float16))
} | {"bfloat16": {"precision": 8, "least": 133}}
"""Bits of the significand, and of the smallest positive number; bfloat16 has the exponents of float32."""
OUTWARD = 4096
"""A tolerance may be rounded outward by gamma of so many roundings in float64, and by its smallest number."""
NEAR = 2.0**-46
"""Both sides are evaluated in float64, in other orders."""
VALUES = tuple(
    float(np.float32(value))
    for value in (1.0, -0.75, 1e-3, 3e5, -7.25, 1e-20, 2.0**-126, -(2.0**-149), 3e-42, 0.0, 1 + 2.0**-23)
)


@dataclass(frozen=True)
class Comparison:
    """What one call of a function must give.

    Attributes:
        function: its name in ``theory.rounding``.
        where: the inputs, in words.
        call: the value, from a namespace with the functions.
        expected: what a theorem, or rational arithmetic, says; None where the inputs must be refused.
        outward: whether the value is rounded outward; if not it must be equal to 2^-50.
        says: what a refusal must say.
    """

    function: str
    where: str
    call: Callable[[Any], Any]
    expected: Any
    outward: bool = True
    says: str = ""

    def fault(self, functions: Any) -> str | None:
        """One sentence on what is wrong, None if nothing is."""
        try:
            value = np.asarray(self.call(functions), float)
        except ValueError as refusal:
            known = self.expected is None and self.says in str(refusal)
            return None if known else f"{self.function} refuses {self.where}: {refusal}"
        if self.expected is None:
            return f"{self.function} does not refuse {self.where}"
        target = np.asarray(self.expected, float)
        if value.shape != target.shape:
            return f"{self.function} has the shape {value.shape}, not {target.shape}, {self.where}"
        if self.outward:
            target = outward(target)
        with np.errstate(invalid="ignore"):
            allowed = NEAR * np.abs(target) + 16 * 2.0**-1074 if self.outward else 2.0**-50 * np.abs(target)
            near = (value == target) | (np.isfinite(target) & (np.abs(value - target) <= allowed))
        if near.all():
            return None
        worst = int(np.flatnonzero(~near.ravel())[0])
        return f"{self.function} gives {value.flat[worst]:.17g}, not {target.flat[worst]:.17g}, {self.where}"


@cache
def theorem(name: str) -> Any:
    """The theorem with this id."""
    return select([name])[0]


def gamma(k: int, dtype: str) -> float:
    """gamma of k roundings (T11a)."""
    return float(bound(theorem("T11a"), n_factors=k, unit_roundoff=2.0 ** -FORMATS[dtype]["precision"]))


def compose(*errors: float) -> float:
    """prod(1 + r) - 1, exactly and then rounded."""
    product = Fraction(1)
    for error in errors:
        product *= 1 + Fraction(error)
    return float(product - 1)


def nearest(value: float | Fraction, dtype: str) -> Fraction:
    """The number of the format next to ``value``."""
    return orders.nearest(value, FORMATS[dtype]["precision"], FORMATS[dtype]["least"])


def coefficients(beta: float, dtype: str, complement: str) -> tuple[float, float]:
    """Relative errors of the stored beta and of the stored 1 - beta."""
    exact, stored = Fraction(beta), nearest(beta, dtype)
    rests = [nearest(Fraction(1 - beta), dtype), nearest(1 - stored, dtype)][: 1 if complement == "rounded" else 2]
    of_rest = max(abs(rest - (1 - exact)) / (1 - exact) for rest in rests)
    return float(abs(stored - exact) / exact) if exact else 0.0, float(of_rest)


def exact_errors(beta: float) -> tuple[Fraction, Fraction]:
    """Relative errors of beta and of 1 - beta in float16, exactly."""
    exact = Fraction(beta)
    rest = 1 - exact
    return abs(nearest(beta, "float16") - exact) / exact, abs(nearest(Fraction(1 - beta), "float16") - rest) / rest


def is_above(value: float, exact: Fraction) -> bool:
    """Whether a number is a float above a fraction, and near it."""
    return isinstance(value, float) and exact <= Fraction(value) <= exact * (1 + Fraction(1, 2**50))


def scalar_error(value: float, dtype: str) -> float:
    """Relative error of a scalar after a few operations in float64 and one rounding."""
    if not value:
        return 0.0
    stored = float(abs(nearest(value, dtype) - Fraction(value)) / Fraction(value))
    return compose(max(stored, 2.0 ** -FORMATS[dtype]["precision"]), gamma(4, "float64"))


def correction_error(beta: float, step: int, dtype: str = "float64") -> float:
    """Relative error of 1 - beta^step in a format: a stored beta to that power, by products or a ``pow`` of 4 ulp."""
    power, (of_beta, _) = Fraction(beta) ** step, coefficients(beta, dtype, "rounded")
    u = Fraction(1, 2 ** FORMATS[dtype]["precision"])
    off = ((1 + Fraction(of_beta)) ** step * (1 + u) ** max(step - 1, 8) - 1) * power
    off = min(off, 1 + 8 * u) + step * Fraction(1, 2 ** FORMATS[dtype]["least"])
    return compose(float(off / (1 - Fraction(float(power)))), float(u), gamma(4, "float64"))


def helpers() -> Iterator[Comparison]:
    """Formats, counts and stored coefficients, against exact arithmetic."""
    values = np.array([*VALUES, 1 / 3, 70000.1, 2.0**-24 * 1.5, 2.0**-25, 5e-45, 1e-39])
    for dtype, form in FORMATS.items():
        yield Comparison(
            "unit_roundoff", dtype, lambda r, t=dtype: r.unit_roundoff(t), 2.0 ** -form["precision"], False
        )
        yield Comparison("smallest_subnormal", dtype, lambda r, t=dtype: r.smallest_subnormal(t), 2.0 ** -form["least"],
                         False)  # fmt: skip
        rounded = [float(nearest(value, dtype)) for value in values]
        yield Comparison("round_to", dtype, lambda r, t=dtype: r.round_to(values, t), rounded, False)
        for k in (0, 1, 3, 100):
            yield Comparison("gamma", f"{k} roundings in {dtype}", lambda r, t=dtype, k=k: r.gamma(k, t),
                             gamma(k, dtype), False)  # fmt: skip
        for value in (0.0, 1e-3, 10.0, 0.7, 8e-8, 2e-7, 2e-44):
            yield Comparison("scalar_error", f"of {value} in {dtype}", lambda r, t=dtype, v=value: r.scalar_error(v, t),
                             scalar_error(value, dtype), False)  # fmt: skip
        for beta in (0.0, 1e-9, 1e-7, 0.031, 0.037, 0.05, 0.058, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.999):
            for complement in ("rounded", "subtracted"):
                yield Comparison("coefficient_error", f"{beta} in {dtype}, {complement}",
                                 lambda r, b=beta, t=dtype, c=complement: r.coefficient_error(b, t, c),
                                 coefficients(beta, dtype, complement), False)  # fmt: skip
    numbers = np.array([0.0, 1.0, 2.0**-1074, 3e-310])
    yield Comparison("outward", "of numbers", lambda r: r.outward(numbers), outward(numbers), False)
    yield Comparison("outward", "of what float64 can't hold", lambda r: r.outward([np.nan, np.inf]), [np.inf] * 2,
                     False)  # fmt: skip
    for beta in (0.1, 0.3, 0.7, 0.9):
        yield Comparison("coefficient_error", f"{beta}, from above",
                         lambda r, b=beta: [is_above(error, exact) for error, exact in
                                            zip(r.coefficient_error(b, "float16"), exact_errors(b), strict=True)],
                         [1, 1], False)  # fmt: skip
    for value in (8e-8, 2e-7, 1.1e-7, 3.3e-7, 5.7e-7):
        stored = abs(nearest(value, "float16") - Fraction(value)) / Fraction(value)
        exact = (1 + stored) * (1 + Fraction(gamma(4, "float64"))) - 1
        yield Comparison("scalar_error", f"of {value}, from above",
                         lambda r, v=value, e=exact: is_above(r.scalar_error(v, "float16"), e), 1, False)  # fmt: skip
    for huge in ((1e308, -1e308), (np.inf, np.inf)):
        yield Comparison("momentum_tolerance", f"of {huge}",
                         lambda r, h=huge: r.momentum_tolerance(*h, 0.0, 0.9, "float32"), np.inf, False)  # fmt: skip
    yield Comparison("OPERATIONS", "at most, of a tolerance", lambda r: r.OPERATIONS, OUTWARD, False)
    yield Comparison("compose", "0.1, 0.2 and 0.3", lambda r: r.compose(0.1, 0.2, 0.3), compose(0.1, 0.2, 0.3), False)
    yield Comparison(
        "outward", "of numbers", lambda r: r.outward([0.0, 1.0, 2.0**-1074, 3e-310]), [0, 1, 2.0**-1074, 3e-310]
    )
    yield Comparison("sign_is_determined", "beside a tolerance",
                     lambda r: r.sign_is_determined([2.0, 1.0, -2.0, 0.5, 0.0, 0.0, np.nan],
                                                    [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0]),
                     [1, 0, 1, 0, 1, 0, 0], False)  # fmt: skip
    thirds = [Fraction(1, 3), Fraction(2, 3), Fraction(1, 10), Fraction(7, 10), Fraction(0)]
    least = 1 + Fraction(1, 2**51)
    yield Comparison("_up_scalar", "of fractions: from above, and near",
                     lambda r: [f <= Fraction(r._up_scalar(f)) <= f * least for f in thirds],
                     [1] * 5, False)  # fmt: skip
    yield Comparison("_rms", "of tiny and of large numbers",
                     lambda r: r._rms(np.array([[3e-200, 4e-200], [1e200, 1e-200], [0.0, 0.0], [1e-310, 1e-310]])),
                     [5e-200 / 2**0.5, 1e200 / 2**0.5, 0.0, 1e-310], False)  # fmt: skip
    for beta, step in ((0.0, 1), (0.9, 1), (0.999, 3), (0.9, 50), (0.5, 2), (0.9, 300), (0.999, 300)):
        for dtype in FORMATS:
            yield Comparison("correction_error", f"{beta}^{step} in {dtype}",
                             lambda r, b=beta, t=step, d=dtype: r.correction_error(b, t, d),
                             correction_error(beta, step, dtype), False)  # fmt: skip
    yield Comparison("error_tolerance", "by default", lambda r: r.error_tolerance(1.0, 0.25, "float32"),
                     bound(theorem("T11g"), precision=24, value=1.0, size=0.25, sent_sign=1.0))  # fmt: skip
    for length in (0, 1, 2, 3, 5, 8, 9, 100):
        for block in (1, 4, 16):
            yield Comparison("tree_depth", f"{length} terms in blocks of {block}",
                             lambda r, n=length, b=block: r.tree_depth(n, b),
                             tree_depth(max(length, 1), block), False)  # fmt: skip


def tree_depth(length: int, block: int) -> int:
    """Additions on the longest path of such a tree, counted on the tree."""
    sums = list[orders.Order]()
    for start in range(0, length, block):
        total: orders.Order = orders.Read(start)
        for place in range(start + 1, min(start + block, length)):
            total = orders.Plus(total, orders.Read(place))
        sums.append(total)
    while len(sums) > 1:
        sums = [orders.Plus(*sums[k : k + 2]) if k + 1 < len(sums) else sums[k] for k in range(0, len(sums), 2)]
    return max(orders.longest_path(sums[0], place) or 0 for place in range(length))


def grid(*lists: tuple[float, ...]) -> list[Any]:
    """All combinations, one array for each list."""
    return [axis.ravel() for axis in np.meshgrid(*map(np.array, lists), indexing="ij")]


def outward(value: Any) -> Any:
    """A bound as it is rounded outward."""
    return value * (1 + gamma(OUTWARD, "float64")) + 2.0**-1074 * (value > 0)


def moment_bounds(m: Any, g: Any, delta: Any, beta: float, dtype: str, complement: str, tau: float) -> dict[str, Any]:
    """T11b, T11f from either end, and the largest of them, by the name of the form."""
    of_beta, of_rest = coefficients(beta, dtype, complement)
    u, c = 2.0 ** -FORMATS[dtype]["precision"], 1 - beta
    shared = {**FORMATS[dtype], "delta": delta}
    product = bound(theorem("T11b"), **shared, m=m, g=g, beta1=beta, beta1_error=of_beta, rest_error=of_rest,
                    grads_tolerance=tau)  # fmt: skip
    stored = max(of_beta * beta, c * of_rest + u * (beta + c * of_rest))  # beta1, or 1 less the stored 1 - beta1
    from_m = bound(theorem("T11f"), **shared, anchor=m, far=g, anchor_tolerance=0, far_tolerance=tau, weight=c,
                   weight_error=c * of_rest)  # fmt: skip
    from_g = bound(theorem("T11f"), **shared, anchor=g, far=m, anchor_tolerance=tau, far_tolerance=0, weight=beta,
                   weight_error=stored)  # fmt: skip
    lerp = np.maximum(from_m, from_g)
    return {"product": product, "lerp": lerp, "any": np.maximum(product, lerp)}


def second_bound(v: Any, g: Any, beta: float, dtype: str, complement: str, tau: float) -> Any:
    """T11k."""
    of_beta, of_rest = coefficients(beta, dtype, complement)
    return bound(theorem("T11k"), **FORMATS[dtype], second=v, gradient=g, grads_tolerance=tau, beta2=beta,
                 beta2_error=of_beta, rest_error=of_rest)  # fmt: skip


def momentum() -> Iterator[Comparison]:
    """T11b, and T11f from either end."""
    single = [axis.astype(np.float32) for axis in grid((0.0, *VALUES[::2]), VALUES[1::2], (0.0, 1.0, -(2.0**-147)))]
    m, g, delta = (axis.astype(float) for axis in single)
    settings = ((1e-7, "rounded", 0.0), (0.1, "rounded", 0.0), (0.5, "rounded", 1e-3), (0.9, "subtracted", 0.0),
                (0.999, "subtracted", 1e-9))  # fmt: skip
    for dtype in FORMATS:
        for beta, complement, tau in settings:
            for form, target in moment_bounds(m, g, delta, beta, dtype, complement, tau).items():
                yield Comparison(
                    "momentum_tolerance", f"in {dtype}, {form}, beta1 = {beta}, {complement}",
                    lambda r, f=form, b=beta, t=dtype, k=complement, w=tau: r.momentum_tolerance(
                        m, g, delta, b, t, form=f, complement=k, grads_tolerance=-w),
                    target,
                )  # fmt: skip
        yield Comparison("momentum_tolerance", f"in {dtype} from single precision, lerp",
                         lambda r, t=dtype: r.momentum_tolerance(*single, 0.999, t, form="lerp"),
                         moment_bounds(m, g, delta, 0.999, dtype, "rounded", 0.0)["lerp"])  # fmt: skip
        yield Comparison("momentum_tolerance", f"in {dtype} by default",
                         lambda r, t=dtype: r.momentum_tolerance(*single, 0.999, t),
                         moment_bounds(m, g, delta, 0.999, dtype, "rounded", 0.0)["any"])  # fmt: skip


def messages() -> Iterator[Comparison]:
    """T11d, T11g and the scales."""
    sizes = np.array([VALUES, VALUES[::-1], (1.0, 0.0) * 5 + (1.0,)], np.float32)  # (workers, places)
    for dtype in FORMATS:
        for wobble in (0.0, 1e-5):
            for depth in (None, 2):
                steps = len(sizes) if depth is None else depth
                slack = wobble * np.arange(sizes.size).reshape(sizes.shape)
                target = [
                    bound(theorem("T11d"), **FORMATS[dtype], n_workers=len(sizes), sent=sizes[:, place], depth=steps,
                          tolerances=slack[:, place], server_entry=VALUES[place])
                    for place in range(len(VALUES))
                ]  # fmt: skip
                yield Comparison(
                    "mean_tolerance", f"in {dtype}, depth {depth}",
                    lambda r, t=dtype, w=slack, h=depth: r.mean_tolerance(
                        sizes, np.array(VALUES, np.float32), t, h, scale_tolerances_N=-w),
                    target,
                )  # fmt: skip
        for depth, steps in ((None, len(sizes) - 1), (1, 1)):
            target = [
                bound(theorem("T11d"), **FORMATS[dtype], n_workers=len(sizes), sent=sizes[:, place], depth=steps,
                      tolerances=[0.0] * len(sizes), server_entry=0.0)
                for place in range(len(VALUES))
            ]  # fmt: skip
            yield Comparison("average_tolerance", f"in {dtype}, depth {depth}",
                             lambda r, t=dtype, h=depth: r.average_tolerance(sizes, t, h), target)  # fmt: skip
        one = bound(theorem("T11d"), **FORMATS[dtype], n_workers=1, sent=[3.0], depth=0, tolerances=[0.0],
                    server_entry=0.0)  # fmt: skip
        yield Comparison("mean_tolerance", f"of one worker in {dtype}",
                         lambda r, t=dtype: r.mean_tolerance([3.0], 0.0, t, 0), one)  # fmt: skip
        yield Comparison("average_tolerance", f"of one worker in {dtype}",
                         lambda r, t=dtype: r.average_tolerance([3.0], t), one)  # fmt: skip
        u, s = (axis.astype(np.float32) for axis in grid(VALUES, tuple(map(abs, VALUES[:4]))))
        for tau, sigma in ((0.0, 0.0), (1e-3, 1e-6)):
            for signs in (None, -np.ones(u.size, np.float32)):
                q = np.where(u >= 0, 1.0, -1.0) if signs is None else signs
                target = bound(theorem("T11g"), precision=FORMATS[dtype]["precision"], value=u, size=s,
                               sent_sign=1.0 * q, value_tolerance=tau, size_tolerance=sigma)  # fmt: skip
                yield Comparison(
                    "error_tolerance", f"in {dtype}, signs {'given' if signs is not None else 'of u'}",
                    lambda r, t=dtype, q=signs, a=tau, b=sigma, u=u, s=s: r.error_tolerance(
                        u, s, t, signs=q, u_tolerance=-a, scale_tolerance=-b),
                    target,
                )  # fmt: skip


def scales() -> Iterator[Comparison]:
    """T11n, whose bound is above T11c's, and T11h, which is T11i."""
    rows = np.array(
        [VALUES, [value * 1e-19 for value in VALUES], [1e-30] * len(VALUES), [0.0] * len(VALUES)], np.float32
    )
    count = len(VALUES)
    formats = (("float32", "float32"), ("bfloat16", "float32"), ("float16", "float16"), ("float32", "float16"),
               ("float64", "float64"))  # fmt: skip
    for dtype, accumulator in formats:
        form = {**FORMATS[accumulator], "stored_precision": FORMATS[dtype]["precision"],
                "stored_least": FORMATS[dtype]["least"], "live": count}  # fmt: skip
        for kind, name in (("l1", "T11n"), ("l2", "T11h")):
            for depth, wobble in ((None, 0.0), (4, 1e-6), (0, 0.0)):
                slack = wobble * np.arange(rows.size).reshape(rows.shape)
                target = [
                    bound(theorem(name), **form, depth=count - 1 if depth is None else depth, vector=row,
                          tolerances=tolerances)
                    for row, tolerances in zip(rows.astype(float), slack, strict=True)
                ]  # fmt: skip
                yield Comparison(
                    "scale_tolerance", f"{kind} in {dtype}, summed in {accumulator}, depth {depth}",
                    lambda r, k=kind, t=dtype, a=accumulator, h=depth, w=slack: r.scale_tolerance(
                        rows.reshape(2, 2, count), k, t, h, accumulator=a, u_tolerance=-w.reshape(2, 2, count)),
                    np.reshape(target, (2, 2)),
                )  # fmt: skip
        if accumulator == "float32":
            yield Comparison(
                "scale_tolerance", f"in {dtype} by default",
                lambda r, t=dtype: r.scale_tolerance(VALUES, "l1", t),
                bound(theorem("T11n"), **form, depth=count - 1, vector=VALUES, tolerances=[0.0] * count),
            )  # fmt: skip
    yield Comparison("scale_tolerance", "of no coordinates",
                     lambda r: r.scale_tolerance(np.zeros((2, 3, 0)), "l1", "float32"), np.zeros((2, 3)))  # fmt: skip


def second_moment() -> Iterator[Comparison]:
    """T11k."""
    v, g = grid(tuple(map(abs, VALUES)), VALUES)
    for dtype in FORMATS:
        for beta, complement, tau in ((0.1, "rounded", 0.0), (0.99, "subtracted", 1e-3), (0.999, "rounded", 1e-20)):
            target = second_bound(v, g, beta, dtype, complement, tau)
            yield Comparison(
                "variance_tolerance", f"in {dtype}, beta2 = {beta}, {complement}",
                lambda r, t=dtype, b=beta, c=complement, w=tau: r.variance_tolerance(
                    -v, g, b, t, complement=c, grads_tolerance=-w),
                target,
            )  # fmt: skip
